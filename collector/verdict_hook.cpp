#include "collector/verdict_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collector/proc.h"
#include "collector/say.h"

extern char** environ;

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 64;
constexpr int64_t kMs = 1'000'000;

}  // namespace

absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    return absl::UnavailableError(absl::StrCat("cannot start ", argv[0], ": ", strerror(error)));
  }
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const int64_t until = MonotonicNs() + limit_ns;
  size_t written = 0;
  int in = ends[1];
  bool late = false;
  int status = 0;
  // SIGPIPE is ignored by this process's owner: a command that does not read its input is none of our business.
  for (;;) {
    if (in >= 0 && written == input.size()) {
      close(in);
      in = -1;
    }
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) break;
    const int64_t left = until - MonotonicNs();
    if (left <= 0 && !late) {
      late = true;
      kill(-pid, SIGKILL);
      continue;
    }
    pollfd polled[2] = {{pidfd, POLLIN, 0}, {in, POLLOUT, 0}};
    poll(polled, 2, late ? 100 : static_cast<int>(std::clamp<int64_t>(left / kMs + 1, 1, pidfd >= 0 ? 1000 : 20)));
    if (in >= 0 && polled[1].revents != 0) {
      const ssize_t n = write(in, input.data() + written, std::min<size_t>(input.size() - written, 65536));
      if (n > 0) written += static_cast<size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) written = input.size();
    }
  }
  if (in >= 0) close(in);
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
  for (auto& [job, json] : next_) json.clear();
  idle_.wait(lock, [this] { return next_.empty(); });
}

void VerdictHook::Run(const std::string& job, const std::string& json) {
  std::unique_lock lock(mutex_);
  const auto [at, fresh] = next_.try_emplace(job);
  at->second = json;
  if (!fresh) return;
  if (next_.size() > kMostJobs) {
    next_.erase(at);
    lock.unlock();
    say_(absl::StrCat("the command of --on-verdict was not started for job ", job, ": it runs for ", kMostJobs, " others"));
    return;
  }
  std::thread([this, job] { Work(job); }).detach();
}

void VerdictHook::Work(std::string job) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::string json = std::exchange(next_[job], "");
    if (json.empty()) break;
    lock.unlock();
    const absl::Status status = RunWithInput({"/bin/sh", "-c", command_}, json, limit_ns_);
    say_(status.ok() ? absl::StrCat("the command of --on-verdict has taken the verdict of job ", job)
                     : absl::StrCat("the command of --on-verdict failed for job ", job, ": ", status.message()));
    lock.lock();
  }
  next_.erase(job);
  idle_.notify_all();
}

}  // namespace lockstep
