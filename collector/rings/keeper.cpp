#include "collector/rings/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "collector/host/proc.h"
#include "collector/rings/folder.h"

namespace lockstep {
namespace {

class KeeperProcess {
 public:
  KeeperProcess(const LaunchPlan& plan, int fd) : plan_(plan), fd_(fd) {}

  [[noreturn]] void Run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "lockstep-keeper");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal(SIGCHLD, SIG_DFL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    StartAll();
    KeeperEvent done;
    done.kind = KeeperEvent::kAllStarted;
    Send(done);
    // The keeper must not hold the standard streams open: a reader of a pipe waits until all writers have closed it.
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
      for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
    }
    pollfd fds[2] = {{fd_, POLLIN, 0}, {signals, POLLIN, 0}};
    bool orderly = false;
    for (;;) {
      Reap();
      SendWaiting();
      fds[0].events = waiting_.empty() ? POLLIN : POLLIN | POLLOUT;
      if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        while (read(signals, &info, sizeof info) > 0) {
        }
      }
      if ((fds[0].revents & ~POLLOUT) != 0) {
        char word = 0;
        orderly = recv(fd_, &word, 1, 0) > 0;
        break;
      }
    }
    EndDescendants(orderly ? 2 * kSecond : 0, 15 * kSecond);
    RemoveRingFolder(plan_.ring_folder);
    _exit(0);
  }

 private:
  // Never waits, because a stopped `lockstep run` reads nothing, and the job's processes must still be reaped.
  void Send(const KeeperEvent& event) {
    waiting_.push_back(event);
    SendWaiting();
  }

  // The socket takes a few hundred unread events. If the watcher has exited, Run() notices.
  void SendWaiting() {
    while (!waiting_.empty()) {
      if (send(fd_, &waiting_.front(), sizeof(KeeperEvent), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
        waiting_.pop_front();
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  struct Child {
    pid_t pid = -1;
    int report = -1;  // a pipe that returns the error of exec, or ends without one
    int error = 0;
  };

  // The keeper leaves the job's process group, because it must clean up after a terminal's Ctrl-C or a kill of the
  // group. It leaves the session, too. Otherwise, when a child exits, the kernel may send SIGHUP to the child's group
  // if that contains a stopped process. The children stay, and run nothing before the keeper has left.
  void StartAll() {
    int go[2] = {-1, -1};
    if (pipe2(go, O_CLOEXEC) != 0) go[0] = go[1] = -1;
    std::vector<Child> children;
    for (size_t i = 0; i < plan_.environments.size(); ++i) children.push_back(Fork(i, go));
    setsid();
    for (const int end : go) close(end);
    for (size_t i = 0; i < children.size(); ++i) Report(i, children[i]);
  }

  Child Fork(size_t index, const int (&go)[2]) {
    Child child;
    int report[2];
    const pid_t keeper = getpid();
    if (pipe2(report, O_CLOEXEC) != 0) {
      child.error = errno;
      return child;
    }
    child.pid = fork();
    if (child.pid < 0) child.error = errno;
    if (child.pid == 0) Exec(index, report[1], keeper, go);
    close(report[1]);
    child.report = report[0];
    return child;
  }

  void Report(size_t index, const Child& child) {
    int error = child.error;
    if (child.pid > 0 && read(child.report, &error, sizeof error) != sizeof error) error = 0;
    if (child.report >= 0) close(child.report);
    KeeperEvent event;
    event.child = static_cast<int32_t>(index);
    event.kind = error == 0 ? KeeperEvent::kStarted : KeeperEvent::kStartFailed;
    event.pid = child.pid;
    event.error = error;
    event.mono_ns = MonotonicNs();
    pids_.push_back(error == 0 ? child.pid : -1);
    Send(event);
  }

  [[noreturn]] void Exec(size_t index, int report, pid_t keeper, const int (&go)[2]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(1);
    close(go[1]);
    char word = 0;
    (void)!read(go[0], &word, 1);
    // Under Yama, only ancestors may trace a process. This lets a child of `lockstep run`, which is no ancestor, trace
    // the rank.
    prctl(PR_SET_PTRACER, watcher_, 0, 0, 0);
    for (const int number : kOwnActions) signal(number, plan_.ignored.count(number) != 0 ? SIG_IGN : SIG_DFL);
    sigprocmask(SIG_SETMASK, &plan_.signal_mask, nullptr);
    std::vector<char*> arguments = ExecPointers(plan_.command);
    std::vector<char*> environment = ExecPointers(plan_.environments[index]);
    execvpe(arguments[0], arguments.data(), environment.data());
    const int error = errno;
    if (write(report, &error, sizeof error) != sizeof error) _exit(126);
    _exit(127);
  }

  void Reap() {
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
      KeeperEvent event;
      event.kind = KeeperEvent::kEnded;
      event.pid = info.si_pid;
      event.code = info.si_code;
      event.status = info.si_status;
      event.mono_ns = MonotonicNs();
      for (size_t i = 0; i < pids_.size(); ++i) {
        if (pids_[i] == info.si_pid) {
          event.child = static_cast<int32_t>(i);
          pids_[i] = -1;
        }
      }
      Send(event);
    }
  }

  const LaunchPlan& plan_;
  const int fd_;
  const pid_t watcher_ = getppid();
  std::vector<pid_t> pids_;
  std::deque<KeeperEvent> waiting_;  // events that the socket did not take yet
};

}  // namespace

int EndDescendants(int64_t grace_ns, int64_t limit_ns) {
  const int64_t start = MonotonicNs();
  bool asked = false;
  for (;;) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::vector<pid_t> left;
    for (pid_t pid : Descendants(getpid())) {
      const std::optional<ProcStat> stat = ReadProcStat(pid);
      if (stat && stat->state != 'Z' && stat->state != 'X') left.push_back(pid);
    }
    if (left.empty()) return 0;
    const int64_t spent = MonotonicNs() - start;
    if (spent > limit_ns) return static_cast<int>(left.size());
    const bool force = spent >= grace_ns;
    for (pid_t pid : left) {
      if (force) {
        kill(pid, SIGKILL);
      } else if (!asked) {
        kill(pid, SIGTERM);
        kill(pid, SIGCONT);
      }
    }
    asked = true;
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
}

absl::StatusOr<Keeper> Keeper::Start(const LaunchPlan& plan, int lock_fd) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot create a socket pair: ", strerror(errno)));
  }
  UniqueFd ours(sockets[0]), theirs(sockets[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::UnavailableError(absl::StrCat("cannot start the keeper process: ", strerror(errno)));
  if (pid == 0) {
    ours.reset();
    (void)lock_fd;  // the child inherits the descriptor, and the lock with it
    KeeperProcess(plan, theirs.get()).Run();
  }
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return Keeper(pid, std::move(ours));
}

Keeper::Keeper(Keeper&& other) noexcept : pid_(std::exchange(other.pid_, -1)), fd_(std::move(other.fd_)) {}

Keeper::~Keeper() { Finish(); }

std::optional<KeeperEvent> Keeper::Next(bool* gone) {
  *gone = false;
  if (!fd_.ok()) return std::nullopt;
  KeeperEvent event;
  for (;;) {
    const ssize_t got = recv(fd_.get(), &event, sizeof event, 0);
    if (got == static_cast<ssize_t>(sizeof event)) return event;
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got < 0 && errno != EAGAIN)) *gone = true;
    return std::nullopt;
  }
}

void Keeper::Finish() {
  if (fd_.ok()) {
    const char word = 'e';
    while (send(fd_.get(), &word, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    // Reads the keeper's last events from the socket, so that the two do not wait for each other.
    for (bool gone = false; !gone;) {
      pollfd wait = {fd_.get(), POLLIN, 0};
      poll(&wait, 1, -1);
      while (Next(&gone)) {
      }
    }
  }
  if (pid_ > 0) {
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  fd_.reset();
}

}  // namespace lockstep
