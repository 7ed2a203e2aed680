#include "collector/rings/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/proc.h"
#include "collector/rings/owner.h"

namespace lockstep {
namespace {

bool IsIt(pid_t pid, const ring::ProcessInfo& info, const FoundRing& ring) {
  const std::string process = absl::StrCat("/proc/", pid);
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat || stat->ended()) return false;
  if (info.start_ticks != 0 && stat->start_ticks != info.start_ticks) return false;
  const std::vector<int64_t> uids = ProcNumbers(ReadSmallFile(process + "/status", 16384), "Uid");
  // All user IDs must match, because a program that runs with another user's rights must reveal nothing to its caller.
  if (uids.empty() ||
      std::any_of(uids.begin(), uids.end(), [&](int64_t uid) { return uid != static_cast<int64_t>(ring.uid); }))
    return false;
  const std::optional<bool> maps = MapsRing(process, {ring.device, ring.inode, ring.name});
  return !maps || *maps;
}

class Watcher final : public EndWatcher {
 public:
  ~Watcher() override {
    stop_ = true;
    stop_event_.Signal();
    if (thread_.joinable()) thread_.join();
    for (const auto& [key, watched] : watched_) close(watched.pidfd);
  }

  absl::Status Begin() {
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = UINT64_MAX;
    if (!epoll_.ok() || !event_.ok() || !stop_event_.ok() ||
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_event_.get(), &event) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot watch processes: ", strerror(errno)));
    }
    thread_ = std::thread([this] { Work(); });
    return absl::OkStatus();
  }

  bool Add(pid_t pid, int pidfd, uint64_t key) override {
    std::lock_guard lock(mutex_);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    watched_[key] = {pid, pidfd};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd, &event) == 0) return true;
    watched_.erase(key);
    close(pidfd);
    return false;
  }

  int fd() const override { return event_.get(); }

  bool Next(SeenEnd* out) override {
    std::lock_guard lock(mutex_);
    if (ends_.empty()) {
      event_.Drain();
      return false;
    }
    *out = ends_.front();
    ends_.pop_front();
    return true;
  }

 private:
  struct Watched {
    pid_t pid = 0;
    int pidfd = -1;
  };

  void Work() {
    int64_t last = 0;
    while (!stop_) {
      // The kernel lists exited processes in the order in which they became ready.
      epoll_event events[64];
      const int count = epoll_wait(epoll_.get(), events, 64, -1);
      if (count < 0 && errno != EINTR) return;
      const int64_t mono = MonotonicNs(), real = RealtimeNs();
      for (int i = 0; i < count; ++i) {
        const uint64_t key = events[i].data.u64;
        Watched watched;
        {
          std::lock_guard lock(mutex_);
          const auto found = watched_.find(key);
          if (found == watched_.end()) continue;
          watched = found->second;
        }
        SeenEnd end;
        end.key = key;
        end.wait_status = ReadWaitStatus(watched.pid, watched.pidfd);
        end.mono_ns = last = std::max(mono, last + 1);
        end.real_ns = real;
        std::lock_guard lock(mutex_);
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched.pidfd, nullptr);
        close(watched.pidfd);
        watched_.erase(key);
        ends_.push_back(end);
        event_.Signal();
      }
    }
  }

  std::atomic<bool> stop_ = false;
  UniqueFd epoll_;
  EventFd event_, stop_event_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<uint64_t, Watched> watched_;
  std::deque<SeenEnd> ends_;
};

}  // namespace

std::optional<pid_t> FindRingProcess(const ring::ProcessInfo& info, const FoundRing& ring) {
  if (info.pid <= 0) return std::nullopt;
  static const uint64_t own_namespace = PidNamespace("/proc/self");
  if (info.pid_namespace_inode == 0 || info.pid_namespace_inode == own_namespace) {
    if (IsIt(info.pid, info, ring)) return info.pid;
    return std::nullopt;
  }
  for (const pid_t pid : NumbersIn("/proc")) {
    const std::string process = absl::StrCat("/proc/", pid);
    if (PidNamespace(process) == info.pid_namespace_inode && InnerPid(process) == info.pid && IsIt(pid, info, ring))
      return pid;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<EndWatcher>> EndWatcher::Start() {
  auto watcher = std::make_unique<Watcher>();
  if (absl::Status status = watcher->Begin(); !status.ok()) return status;
  return watcher;
}

}  // namespace lockstep
