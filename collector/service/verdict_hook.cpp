#include "collector/service/verdict_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 64;
// Leaves the mark, unless it is there: then the command has been started. Where no mark can be left at all, a full disk
// for one, people are told all the same.
constexpr char kOnce[] = R"((set -C; : > "$1") 2> /dev/null || { [ -e "$1" ] && exit 0; }; exec /bin/sh -c "$0")";

// Whole before the command begins: it gets all of it even where this process is killed meanwhile.
absl::StatusOr<int> InputFile(const std::string& input) {
  const int fd = memfd_create("verdict", MFD_CLOEXEC);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("no memory for its input: ", strerror(errno)));
  for (size_t written = 0; written < input.size();) {
    const ssize_t n = write(fd, input.data() + written, input.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(fd);
      return absl::UnavailableError(absl::StrCat("no memory for its input: ", strerror(errno)));
    }
    written += static_cast<size_t>(n);
  }
  lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace

absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns) {
  const absl::StatusOr<int> in = InputFile(input);
  if (!in.ok()) return in.status();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, *in, STDIN_FILENO);
  const absl::StatusOr<pid_t> pid = StartChild(argv, actions);
  posix_spawn_file_actions_destroy(&actions);
  close(*in);
  if (!pid.ok()) return pid.status();
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  const int64_t until = MonotonicNs() + limit_ns;
  bool late = false;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(*pid, &status, WNOHANG);
    if (ended == *pid || (ended < 0 && errno != EINTR)) break;
    const int64_t left = until - MonotonicNs();
    if (left <= 0 && !late) {
      late = true;
      kill(-*pid, SIGKILL);
      continue;
    }
    pollfd polled = {pidfd, POLLIN, 0};
    poll(&polled, 1, late ? 100 : static_cast<int>(std::clamp<int64_t>(left / kMs + 1, 1, pidfd >= 0 ? 1000 : 20)));
  }
  if (pidfd >= 0) close(pidfd);
  if (late) {
    return absl::DeadlineExceededError(absl::StrCat("it took longer than ", DurationText(limit_ns), " and was ended"));
  }
  // What it left running in its group is its own.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (WIFEXITED(status)) return absl::InternalError(absl::StrCat("it exited with status ", WEXITSTATUS(status)));
  return absl::InternalError(absl::StrCat("it was killed by signal ", WTERMSIG(status)));
}

VerdictHook::VerdictHook(std::string command, int64_t limit_ns, std::function<void(const std::string&)> say)
    : command_(std::move(command)), limit_ns_(limit_ns), say_(std::move(say)) {}

VerdictHook::~VerdictHook() {
  std::unique_lock lock(mutex_);
  for (auto& [job, told] : next_) told.json.clear();
  idle_.wait(lock, [this] { return next_.empty(); });
}

void VerdictHook::Run(const std::string& job, const std::string& json, const std::string& mark) {
  std::unique_lock lock(mutex_);
  const auto [at, fresh] = next_.try_emplace(job);
  // What a newer one takes the place of is not told later either.
  if (!at->second.mark.empty()) close(open(at->second.mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  at->second = {json, mark};
  if (!fresh) return;
  if (next_.size() > kMostJobs) {
    next_.erase(at);
    lock.unlock();
    say_(absl::StrCat("the command of --on-verdict was not started for job ", job, ": it runs for ", kMostJobs,
                      " others"));
    return;
  }
  std::thread([this, job] { Work(job); }).detach();
}

void VerdictHook::Work(std::string job) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Told told = std::exchange(next_[job], {});
    if (told.json.empty()) break;
    lock.unlock();
    std::vector<std::string> words = {"/bin/sh", "-c", command_};
    if (!told.mark.empty()) words = {"/bin/sh", "-c", kOnce, command_, told.mark};
    const absl::Status status = RunWithInput(words, told.json, limit_ns_);
    say_(status.ok() ? absl::StrCat("the command of --on-verdict has taken the verdict of job ", job)
                     : absl::StrCat("the command of --on-verdict failed for job ", job, ": ", status.message()));
    lock.lock();
  }
  next_.erase(job);
  idle_.notify_all();
}

}  // namespace lockstep
