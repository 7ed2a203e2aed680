#include "collector/rings/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/time_units.h"
#include "collector/host/proc.h"
#include "collector/rings/memory_ring.h"
#include "recorder/ring/file_systems.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

constexpr int64_t kPause = 20 * kMs;        // between scans of folders that change
constexpr int64_t kListAgain = 2000 * kMs;  // interval for folders without an inotify watch
constexpr int64_t kSweep = 30'000 * kMs;    // interval for every folder, regardless of inotify
constexpr int64_t kCostShare = 200;         // scans of processes take at most 1/kCostShare of a core
// Examining a path takes microseconds. If it takes this long, it may never return.
constexpr int64_t kStuck = 3000 * kMs;
constexpr auto kEndWait = std::chrono::milliseconds(500);
constexpr size_t kMostFolders = 8192, kMostEntries = 16384, kMostSeen = 65536, kMostWanted = 1024;
constexpr size_t kMostFoldersOfUser = 1024, kMostWaiting = 4096;
constexpr size_t kMostEnvironment = 256 << 10;
constexpr uint32_t kWatched = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
// A container without a visible process in more than this many scans is released.
constexpr int kForgetContainer = 3;

bool IsRingName(absl::string_view name) {
  return name.size() > 5 && name.substr(name.size() - 5) == ".ring" && name.size() < 200;
}

// "lockstep-1000", as the recorder names its default folder.
bool IsDefaultName(absl::string_view name) {
  constexpr absl::string_view kPrefix = "lockstep-";
  return name.substr(0, kPrefix.size()) == kPrefix && name.size() > kPrefix.size() && name.size() < 24 &&
         name.find_first_not_of("0123456789", kPrefix.size()) == name.npos;
}

// Opens `path` as a process with this root sees it: follows links, but never out of the root.
int OpenInRoot(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
}

// The owner and the thread share this object; the last of them frees it.
class Finder : public std::enable_shared_from_this<Finder> {
 public:
  explicit Finder(const RingFinderOptions& options) : options_(options) {}

  absl::Status Begin() {
    if (!event_.ok() || !stop_event_.ok())
      return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", strerror(errno)));
    inotify_.reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));  // without inotify, folders are listed repeatedly
    struct stat info {};
    own_mounts_ = stat("/proc/self/ns/mnt", &info) == 0 ? info.st_ino : 0;
    std::thread([self = shared_from_this()] {
      self->Work();
      std::lock_guard lock(self->mutex_);
      self->ended_ = true;
      self->end_.notify_all();
    }).detach();
    return absl::OkStatus();
  }

  void End() {
    stop_ = true;
    stop_event_.Signal();
    std::unique_lock lock(mutex_);
    end_.wait_for(lock, kEndWait, [this] { return ended_; });
  }

  int fd() const { return event_.get(); }

  bool Next(FoundRing* out) {
    std::lock_guard lock(mutex_);
    if (found_.empty()) {
      event_.Drain();
      return false;
    }
    *out = std::move(found_.front());
    found_.pop_front();
    return true;
  }

  RingFinderCounters counters() const {
    std::lock_guard lock(mutex_);
    RingFinderCounters counters = counters_;
    const int64_t for_ns = at_since_ns_ == 0 ? 0 : MonotonicNs() - at_since_ns_;
    if (for_ns > kStuck) {
      counters.stuck_ns = for_ns;
      counters.stuck_at = at_;
    }
    return counters;
  }

  bool settled() const { return settled_; }

 private:
  using Identity = std::pair<dev_t, ino_t>;
  // A mount namespace, and the /dev/shm in it. The namespace alone is not enough: its number may be reused as soon as
  // it is free, and a container's creator enters the namespace before /dev/shm is mounted there. /dev/shm stays open
  // here, so its numbers are unique. All zero means the agent's own environment.
  struct ContainerId {
    ino_t mounts = 0;
    Identity shared;
    auto operator<=>(const ContainerId&) const = default;
  };
  // kShared: contains lockstep-UID folders of several users, and much else.
  enum class Level { kShared = 0, kTop = 1, kJob = 2 };
  struct Folder {
    UniqueFd fd;  // O_PATH
    std::string path;
    Level level = Level::kTop;
    ContainerId container;
    uid_t uid = 0;
    int watch = -1;
    bool dirty = true;
  };
  struct Container {
    UniqueFd root;
    int unseen = 0;
  };
  struct Known {
    ContainerId container;
    std::pair<dev_t, ino_t> program;  // the program of its process; zeros if unknown
    int looks = 0;
  };
  struct Wanted {  // the process has a LOCKSTEP_DIR that did not exist yet
    pid_t pid = 0;
    ContainerId container;
    std::string path;
  };

  // While this object exists, the thread accesses a foreign path, where a dead server may block it.
  class At {
   public:
    At(Finder* finder, const std::string& path) : finder_(finder), outermost_(finder->Enter(path)) {
      if (finder_->options_.before_path) finder_->options_.before_path(path);
    }
    ~At() {
      if (outermost_) finder_->Leave();
    }
    At(const At&) = delete;
    At& operator=(const At&) = delete;

   private:
    Finder* const finder_;
    const bool outermost_;
  };

  bool Enter(const std::string& path) {
    std::lock_guard lock(mutex_);
    const bool outermost = at_since_ns_ == 0;
    at_ = path;
    at_since_ns_ = MonotonicNs();
    return outermost;
  }

  void Leave() {
    std::lock_guard lock(mutex_);
    at_since_ns_ = 0;
  }

  template <typename Change>
  void Count(Change change) {
    std::lock_guard lock(mutex_);
    change(&counters_);
  }

  bool Allowed(uid_t uid) const { return options_.all_users || uid == geteuid(); }

  void AddFolder(UniqueFd fd, std::string path, Level level, const ContainerId& container) {
    struct stat info {};
    if (!fd.ok() || fstat(fd.get(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
    const Identity id(info.st_dev, info.st_ino);
    size_t& of_user = folders_of_[info.st_uid];
    if (folders_.contains(id) || folders_.size() >= kMostFolders ||
        (level == Level::kJob && of_user >= kMostFoldersOfUser))
      return;
    ++of_user;
    Folder folder;
    folder.path = std::move(path);
    folder.level = level;
    folder.container = container;
    folder.uid = info.st_uid;
    // The watch is set before the folder is listed, so nothing that is created in between is missed.
    if (inotify_.ok())
      folder.watch = inotify_add_watch(inotify_.get(), absl::StrCat("/proc/self/fd/", fd.get()).c_str(), kWatched);
    if (folder.watch >= 0) watches_[folder.watch] = id;
    folder.fd = std::move(fd);
    folders_[id] = std::move(folder);
    dirty_ = true;
  }

  void Drop(std::map<Identity, Folder>::iterator at) {
    Folder& folder = at->second;
    if (folder.watch >= 0) {
      inotify_rm_watch(inotify_.get(), folder.watch);
      watches_.erase(folder.watch);
    }
    --folders_of_[folder.uid];
    folders_.erase(at);
  }

  void List(const Identity& id) {
    const auto at = folders_.find(id);
    if (at == folders_.end()) return;
    const int dirfd_of = at->second.fd.get();
    const Level level = at->second.level;
    const ContainerId container = at->second.container;
    const std::string path = at->second.path;
    const At here(this, path);
    struct stat info {};
    if (fstat(dirfd_of, &info) != 0 || info.st_nlink == 0) {
      Drop(at);
      return;
    }
    at->second.dirty = false;
    size_t entries = 0;
    // If a user has too many folders, those of later jobs are kept.
    std::vector<std::string> names = NamesIn(dirfd_of, kMostEntries + 1);
    std::reverse(names.begin(), names.end());
    for (const std::string& name : names) {
      if (++entries > kMostEntries) {
        Count([](RingFinderCounters* c) { ++c->refused_many; });
        break;
      }
      if (level == Level::kShared) {
        if (!IsDefaultName(name) || (!options_.all_users && name != absl::StrCat("lockstep-", geteuid()))) continue;
        Descend(dirfd_of, path, name.c_str(), Level::kTop, container);
      } else if (IsRingName(name)) {
        Examine(dirfd_of, path, name.c_str());
      } else if (level == Level::kTop) {
        Descend(dirfd_of, path, name.c_str(), Level::kJob, container);
      }
    }
  }

  void Descend(int parent, const std::string& path, const char* name, Level level, const ContainerId& container) {
    UniqueFd fd(openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!fd.ok() || fstat(fd.get(), &info) != 0 || folders_.contains(Identity(info.st_dev, info.st_ino)) ||
        !Allowed(info.st_uid))
      return;
    AddFolder(std::move(fd), absl::StrCat(path, "/", name), level, container);
  }

  void Examine(int parent, const std::string& folder, const char* name) {
    // Examined with O_PATH first, because opening a device or a pipe can have side effects.
    UniqueFd place(openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!place.ok() || fstat(place.get(), &info) != 0) return;
    auto key = std::make_tuple(info.st_dev, info.st_ino, std::string(name));
    if (seen_.contains(key)) return;
    if (S_ISLNK(info.st_mode)) {
      // Examines the link only once, because its process existed when the link was created.
      if (seen_.size() >= kMostSeen) ForgetSeen();
      seen_.insert(key);
      place = OpenMemoryRing(parent, name);
      if (!place.ok() || fstat(place.get(), &info) != 0) {
        Count([](RingFinderCounters* c) { ++c->refused_kind; });
        return;
      }
      key = std::make_tuple(info.st_dev, info.st_ino, std::string(name));
    }
    const auto refuse = [&](uint64_t RingFinderCounters::*counter) {
      if (seen_.size() < kMostSeen) seen_.insert(key);
      Count([counter](RingFinderCounters* c) { ++(c->*counter); });
    };
    struct statfs system {};
    if (!S_ISREG(info.st_mode) || fstatfs(place.get(), &system) != 0 ||
        !ring::IsFitFileSystem(static_cast<uint32_t>(system.f_type)))
      return refuse(&RingFinderCounters::refused_kind);
    if (!Allowed(info.st_uid)) return refuse(&RingFinderCounters::refused_owner);
    if ((info.st_mode & 0022) != 0) return refuse(&RingFinderCounters::refused_mode);
    if (info.st_size > static_cast<off_t>(ring::kMaxFileBytes + ring::kPage))
      return refuse(&RingFinderCounters::refused_size);
    if (seen_.size() >= kMostSeen) {
      ForgetSeen();
      if (seen_.size() >= kMostSeen) return refuse(&RingFinderCounters::refused_many);
    }
    FoundRing ring;
    ring.fd.reset(open(absl::StrCat("/proc/self/fd/", place.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!ring.fd.ok()) return;
    ring.path = absl::StrCat(folder, "/", name);
    ring.name = name;
    ring.uid = info.st_uid;
    ring.device = info.st_dev;
    ring.inode = info.st_ino;
    std::lock_guard lock(mutex_);
    if (found_.size() >= kMostWaiting) {  // the agent does not keep up; a later scan finds these files again
      ++counters_.refused_many;
      return;
    }
    seen_.insert(key);
    ++counters_.found;
    found_.push_back(std::move(ring));
    event_.Signal();
  }

  // Inode numbers are reused, and the list only saves work.
  void ForgetSeen() { seen_.clear(); }

  void LookAtProcesses() {
    const std::vector<pid_t> pids = NumbersIn("/proc");
    for (auto& [id, container] : containers_) ++container.unseen;
    absl::flat_hash_map<pid_t, Known> known;
    known.reserve(pids.size());
    for (const pid_t pid : pids) {
      Known& now = known[pid];
      if (const auto before = known_.find(pid); before != known_.end()) now = before->second;
      // Looks twice, because between fork and exec a process still shows its parent's environment. Looks again after an
      // exec: a shell may become the job at any time, with other variables and perhaps in another namespace.
      struct stat program {};
      if (stat(absl::StrCat("/proc/", pid, "/exe").c_str(), &program) == 0 &&
          now.program != std::pair(program.st_dev, program.st_ino)) {
        now.program = {program.st_dev, program.st_ino};
        now.looks = 0;
      }
      if (now.looks < 2) {
        LookAtProcess(pid, &now);
        ++now.looks;
      }
      if (const auto container = containers_.find(now.container); container != containers_.end())
        container->second.unseen = 0;
    }
    known_ = std::move(known);
    std::erase_if(wanted_, [this](const Wanted& wanted) { return !known_.contains(wanted.pid) || TryWanted(wanted); });
    for (auto at = containers_.begin(); at != containers_.end();) {
      const auto next = std::next(at);
      if (at->second.unseen > kForgetContainer) {
        // Found rings stay open in the agent, so keeping their folders would only waste memory.
        for (auto folder = folders_.begin(); folder != folders_.end();) {
          const auto after = std::next(folder);
          if (folder->second.container == at->first) Drop(folder);
          folder = after;
        }
        containers_.erase(at);
      }
      at = next;
    }
  }

  void LookAtProcess(pid_t pid, Known* known) {
    const std::string process = absl::StrCat("/proc/", pid);
    const At here(this, process);
    struct stat info {};
    // This fails if the process is gone, belongs to another user, or is a kernel thread.
    if (stat((process + "/ns/mnt").c_str(), &info) != 0) return;
    known->container = info.st_ino == own_mounts_ ? ContainerId() : LookAtContainer(process, info.st_ino);
    const std::string environment = ReadSmallFile(process + "/environ", kMostEnvironment);
    for (absl::string_view entry : absl::StrSplit(environment, '\0', absl::SkipEmpty())) {
      constexpr absl::string_view kName = "LOCKSTEP_DIR=";
      if (entry.substr(0, kName.size()) != kName) continue;
      const std::string path(entry.substr(kName.size()));
      if (path.empty() || path[0] != '/' || path.size() > 4000) break;
      const Wanted wanted{pid, known->container, path};
      const bool again = std::any_of(wanted_.begin(), wanted_.end(), [&](const Wanted& w) {
        return w.container == wanted.container && w.path == path;
      });
      if (!again && !TryWanted(wanted) && wanted_.size() < kMostWanted) wanted_.push_back(wanted);
      break;
    }
  }

  // Records the process's container, and the shared folder that it sees.
  ContainerId LookAtContainer(const std::string& process, ino_t mounts) {
    ContainerId id{mounts, {}};
    UniqueFd root(open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.ok()) return id;
    UniqueFd shared(OpenInRoot(root.get(), "/dev/shm"));
    struct stat info {};
    if (shared.ok() && fstat(shared.get(), &info) == 0) id.shared = {info.st_dev, info.st_ino};
    containers_[id].root = std::move(root);
    AddFolder(std::move(shared), "/dev/shm", Level::kShared, id);
    return id;
  }

  bool TryWanted(const Wanted& wanted) {
    int root = -1;
    UniqueFd own;
    if (const auto container = containers_.find(wanted.container); container != containers_.end()) {
      root = container->second.root.get();
    } else if (wanted.container == ContainerId()) {
      // Uses that process's root, because it may differ from the agent's (chroot).
      own.reset(open(absl::StrCat("/proc/", wanted.pid, "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      root = own.get();
    }
    if (root < 0) return false;
    const At here(this, wanted.path);
    UniqueFd fd(OpenInRoot(root, wanted.path));
    if (!fd.ok()) return false;
    AddFolder(std::move(fd), wanted.path, Level::kTop, wanted.container);
    return true;
  }

  void ReadEvents() {
    alignas(8) char buffer[16384];
    for (ssize_t got = 0; (got = read(inotify_.get(), buffer, sizeof buffer)) > 0;) {
      for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(inotify_event)) <= got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          for (auto& [id, folder] : folders_) folder.dirty = true;
          dirty_ = true;
          continue;
        }
        const auto watch = watches_.find(event->wd);
        if (watch == watches_.end()) continue;
        if ((event->mask & IN_IGNORED) != 0) {  // unmounted, or removed
          const auto folder = folders_.find(watch->second);
          watches_.erase(watch);
          if (folder != folders_.end()) folder->second.watch = -1;
          continue;
        }
        const auto folder = folders_.find(watch->second);
        if (folder == folders_.end()) continue;
        // Users create files in /dev/shm all the time.
        if (folder->second.level == Level::kShared && !IsDefaultName(event->len > 0 ? event->name : "")) continue;
        folder->second.dirty = dirty_ = true;
      }
    }
  }

  void ListDirty() {
    // Listing one folder may add others.
    while (dirty_ && !stop_) {
      dirty_ = false;
      std::vector<Identity> due;
      for (const auto& [id, folder] : folders_) {
        if (folder.dirty) due.push_back(id);
      }
      for (const Identity& id : due) List(id);
    }
  }

  void Work() {
    for (const std::string& path : options_.folders) wanted_named_.push_back(path);
    if (options_.folders.empty())
      AddFolder(UniqueFd(open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/dev/shm", Level::kShared, {});
    int64_t next_look = 0, next_sweep = MonotonicNs() + kSweep, next_again = 0;
    while (!stop_) {
      const int64_t begin_cpu = ThreadCpuNs();
      int64_t now = MonotonicNs();
      std::erase_if(wanted_named_, [this](const std::string& path) {
        const At here(this, path);
        UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        const bool there = fd.ok();
        AddFolder(std::move(fd), path, Level::kTop, {});
        return there;
      });
      if (inotify_.ok()) ReadEvents();
      if (options_.containers && options_.folders.empty() && now >= next_look) {
        LookAtProcesses();
        {
          std::lock_guard lock(mutex_);
          ++counters_.looks;
        }
        next_look = MonotonicNs() + std::max(options_.look_ns, kCostShare * (ThreadCpuNs() - begin_cpu));
      }
      const bool sweep = now >= next_sweep, again = now >= next_again;
      for (auto& [id, folder] : folders_) {
        if (sweep || (again && folder.watch < 0)) folder.dirty = dirty_ = true;
      }
      if (sweep) next_sweep = now + kSweep;
      if (again) next_again = now + kListAgain;
      ListDirty();
      if (!settled_) {
        settled_ = true;
        event_.Signal();
      }
      Count([&](RingFinderCounters* c) {
        c->folders = folders_.size();
        c->containers = containers_.size();
        c->cpu_ns = ThreadCpuNs();
      });
      now = MonotonicNs();
      int64_t wake = std::min(next_sweep, next_again);
      if (options_.containers && options_.folders.empty()) wake = std::min(wake, next_look);
      if (!wanted_named_.empty()) wake = std::min(wake, now + 200 * kMs);
      pollfd fds[2] = {{stop_event_.get(), POLLIN, 0}, {inotify_.get(), POLLIN, 0}};
      poll(fds, 2, static_cast<int>(std::clamp<int64_t>((wake - now) / kMs + 1, 1, 60'000)));
      // Changes come in bursts, which one scan covers.
      if (fds[1].revents != 0) {
        pollfd stopped{stop_event_.get(), POLLIN, 0};
        poll(&stopped, 1, static_cast<int>(kPause / kMs));
      }
    }
  }

  const RingFinderOptions options_;
  std::atomic<bool> stop_ = false, settled_ = false;
  UniqueFd inotify_;
  EventFd event_, stop_event_;
  ino_t own_mounts_ = 0;

  // Only the thread uses the following members.
  std::map<Identity, Folder> folders_;
  std::map<uid_t, size_t> folders_of_;
  absl::flat_hash_map<int, Identity> watches_;
  std::map<ContainerId, Container> containers_;
  absl::flat_hash_map<pid_t, Known> known_;
  std::vector<Wanted> wanted_;
  std::vector<std::string> wanted_named_;
  std::set<std::tuple<dev_t, ino_t, std::string>> seen_;
  bool dirty_ = false;

  mutable std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::string at_;  // the path that the thread is accessing, and since when (0 for none)
  int64_t at_since_ns_ = 0;
  std::deque<FoundRing> found_;
  RingFinderCounters counters_;
};

class Owner final : public RingFinder {
 public:
  explicit Owner(std::shared_ptr<Finder> finder) : finder_(std::move(finder)) {}
  ~Owner() override { finder_->End(); }
  int fd() const override { return finder_->fd(); }
  bool Next(FoundRing* out) override { return finder_->Next(out); }
  RingFinderCounters counters() const override { return finder_->counters(); }
  bool settled() const override { return finder_->settled(); }

 private:
  const std::shared_ptr<Finder> finder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RingFinder>> RingFinder::Start(const RingFinderOptions& options) {
  auto finder = std::make_shared<Finder>(options);
  if (absl::Status status = finder->Begin(); !status.ok()) return status;
  return std::make_unique<Owner>(std::move(finder));
}

}  // namespace lockstep
