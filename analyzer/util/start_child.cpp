#include "analyzer/util/start_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"

extern char** environ;

namespace lockstep {

namespace {

UniqueFd MemoryFile(std::string_view content) {
  UniqueFd fd(memfd_create("lockstep", MFD_CLOEXEC));
  if (!fd.ok() || !WriteAll(fd.get(), content, "memory").ok() || lseek(fd.get(), 0, SEEK_SET) < 0) fd.reset();
  return fd;
}

// Reads once from `*from`, and closes the descriptor at the end of its data. Drops bytes beyond `most`.
void ReadOnce(UniqueFd* from, size_t most, std::string* text) {
  char bytes[4096];
  const ssize_t got = read(from->get(), bytes, sizeof bytes);
  if (got > 0) text->append(bytes, std::min(static_cast<size_t>(got), most - text->size()));
  if (got == 0 || (got < 0 && errno != EINTR)) from->reset();
}

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  void Stream(int number, ChildStream kind, int fd) {
    if (kind == ChildStream::kKeep) posix_spawn_file_actions_adddup2(&actions_, fd, number);
    if (kind == ChildStream::kDiscard) posix_spawn_file_actions_addopen(&actions_, number, "/dev/null", O_WRONLY, 0);
  }
  const posix_spawn_file_actions_t& get() const { return actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

std::vector<char*> ExecPointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> StartCompanion(const std::vector<std::string>& argv, int output,
                                     const std::vector<std::string>* environment) {
  const auto failed = [&](int error) {
    return absl::UnavailableError(absl::StrCat("cannot start ", argv[0], ": ", strerror(error)));
  };
  std::vector<char*> words = ExecPointers(argv);
  std::vector<char*> variables;
  if (environment != nullptr) variables = ExecPointers(*environment);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd report, report_end;
  if (!null.ok() || !MakePipe(&report, &report_end)) return failed(errno);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return failed(errno);
  if (pid == 0) {
    // Uses only system calls, because the parent may have threads.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    if (output >= 0) {
      dup2(null.get(), STDIN_FILENO);
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
    }
    execve(words[0], words.data(), environment == nullptr ? environ : variables.data());
    const int why = errno;
    (void)!write(report_end.get(), &why, sizeof why);
    _exit(127);
  }
  report_end.reset();
  int error = 0;
  if (read(report.get(), &error, sizeof error) != sizeof error) return pid;
  waitpid(pid, nullptr, 0);
  return failed(error);
}

void EndCompanion(pid_t pid, int64_t limit_ns) {
  kill(pid, SIGTERM);
  for (const int64_t end = MonotonicNs() + limit_ns; waitpid(pid, nullptr, WNOHANG) == 0; poll(nullptr, 0, 10)) {
    if (MonotonicNs() > end) kill(pid, SIGKILL);
  }
}

absl::Status ChildResult::Ended() const {
  if (WIFSIGNALED(status)) return absl::InternalError(absl::StrCat("it was killed by signal ", WTERMSIG(status)));
  if (WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("it exited with status ", WEXITSTATUS(status)));
}

absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& argv, const ChildRun& run) {
  const int64_t until = MonotonicNs() + run.limit_ns;
  const UniqueFd input = MemoryFile(run.input);
  UniqueFd output, output_end, errors, errors_end;
  if (!input.ok() || !MakePipe(&output, &output_end) || !MakePipe(&errors, &errors_end))
    return absl::UnavailableError(absl::StrCat("cannot create a pipe: ", strerror(errno)));
  Actions actions;
  actions.Stream(STDIN_FILENO, ChildStream::kKeep, input.get());
  actions.Stream(STDOUT_FILENO, run.output, output_end.get());
  actions.Stream(STDERR_FILENO, run.errors, errors_end.get());
  const absl::StatusOr<pid_t> pid = StartChild(argv, actions.get(), run.environment);
  if (!pid.ok()) return pid.status();
  output_end.reset();
  errors_end.reset();
  if (run.output != ChildStream::kKeep) output.reset();
  if (run.errors != ChildStream::kKeep) errors.reset();
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  ChildResult result;
  bool ended = false, late = false;
  while (!ended || output.ok()) {
    const int64_t left = until - MonotonicNs();
    if (left <= 0 && !late) {
      late = true;
      kill(-*pid, SIGKILL);
      output.reset();
    }
    pollfd polled[] = {{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}, {ended ? -1 : pidfd.get(), POLLIN, 0}};
    // Without a pidfd (before Linux 5.3), polls for the end.
    const int64_t most_ms = pidfd.ok() ? 1000 : 20;
    poll(polled, 3, late ? 20 : static_cast<int>(std::clamp<int64_t>(left / kMs + 1, 1, most_ms)));
    if (output.ok() && polled[0].revents != 0) ReadOnce(&output, run.most_output, &result.output);
    if (errors.ok() && polled[1].revents != 0) ReadOnce(&errors, run.most_output, &result.errors);
    const pid_t waited = ended ? 0 : waitpid(*pid, &result.status, WNOHANG);
    ended |= waited == *pid || (waited < 0 && errno != EINTR);
  }
  if (late)
    return absl::DeadlineExceededError(
        absl::StrCat("it took longer than ", DurationText(run.limit_ns), " and was ended"));
  // Reads what is left in the pipe. This does not wait for the pipe's end, because a process that the program started
  // may still hold the pipe open.
  for (int i = 0; i < 256 && errors.ok(); ++i) {
    pollfd polled{errors.get(), POLLIN, 0};
    if (poll(&polled, 1, 0) <= 0) break;
    ReadOnce(&errors, run.most_output, &result.errors);
  }
  return result;
}

absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& argv, const posix_spawn_file_actions_t& actions,
                                 const std::vector<std::string>* environment) {
  std::vector<char*> words = ExecPointers(argv);
  std::vector<char*> variables;
  if (environment != nullptr) variables = ExecPointers(*environment);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &actions, &attributes, words.data(),
                                environment == nullptr ? environ : variables.data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot start ", argv[0], ": ", strerror(error)));
  return pid;
}

}  // namespace lockstep
