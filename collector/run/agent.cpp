#include "collector/run/agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/small_file.h"
#include "collector/detect/ends.h"
#include "collector/evidence/evidence.h"
#include "collector/rings/memory_ring.h"
#include "collector/rings/owner.h"
#include "collector/rings/snapshot_merge.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

constexpr size_t kMostRings = 4096;
constexpr int kMostDepth = 2;

UniqueFd OpenRingInMemory(const std::string& path) {
  const size_t slash = path.rfind('/');
  const UniqueFd folder(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd ring = OpenMemoryRing(folder.get(), path.substr(slash + 1));
  return ring.ok() ? OpenToRead(absl::StrCat("/proc/self/fd/", ring.get())) : UniqueFd();
}

}  // namespace

Agent::~Agent() = default;

absl::Status Agent::Watch(const std::string& folder) {
  root_ = folder;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  inotify_.reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!epoll_.ok() || !inotify_.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot watch ", folder, ": ", strerror(errno)));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = UINT64_MAX;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, inotify_.get(), &event);
  Scan(root_, 0);
  return absl::OkStatus();
}

void Agent::Scan(const std::string& folder, int depth) {
  // The watch is set before the folder is listed, so nothing that is created in between is missed.
  if (watched_.count(folder) == 0) {
    const int watch =
        inotify_add_watch(inotify_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW);
    if (watch >= 0) watched_[folder] = watch;
  }
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (absl::EndsWith(name, ".ring")) {
      Open(absl::StrCat(folder, "/", name));
    } else if (entry->d_type == DT_DIR && depth < kMostDepth) {
      Scan(absl::StrCat(folder, "/", name), depth + 1);
    }
  }
  closedir(dir);
}

void Agent::Open(const std::string& path) {
  if (slots_.count(path) != 0 || rings_.size() >= kMostRings) return;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok() && errno == ELOOP) fd = OpenRingInMemory(path);
  if (!fd.ok()) return;
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    return;
  }
  auto ring = std::make_unique<Ring>();
  ring->slot = static_cast<int32_t>(rings_.size());
  ring->path = path;
  ring->fd = std::move(fd);
  slots_[path] = ring->slot;
  rings_.push_back(std::move(ring));
  ReadDigest(rings_.back().get());
}

void Agent::ReadDigest(Ring* ring) {
  ring::ReadOptions options;
  options.digest_only = true;
  ring::Snapshot digest;
  if (!ring::ReadRing(ring->fd.get(), options, &digest, &ring->error))
    return;  // the recorder may still be creating the ring; Sample() tries again
  ring->digest = std::move(digest);
  ring->readable = true;
  if (!ring->followed) Follow(ring);
  if (!ring->alive) return;
  if (ring->marks == nullptr && HasMarks(ring->digest)) ring->marks = marks_.Add(ring->fd.get(), geteuid());
  if (ring->marks != nullptr) ring->marks->Know(ring->digest);
}

void Agent::Follow(Ring* ring) {
  ring->followed = true;
  const ring::ProcessInfo& info = ring->digest.process;
  static const uint64_t own_namespace = PidNamespace("/proc/self");
  if (info.pid <= 0 || (info.pid_namespace_inode != 0 && info.pid_namespace_inode != own_namespace)) return;
  const auto end = ends_.find(info.pid);
  ring->pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, info.pid, 0)));
  const std::optional<ProcStat> stat = ReadProcStat(info.pid);
  // PIDs are reused: a known exit may be that of an earlier process, and a living process may be a later one.
  const bool same = stat && (info.start_ticks == 0 ? end == ends_.end() : stat->start_ticks == info.start_ticks);
  if (!same) {
    ring->pidfd.reset();
    MarkEnded(ring, end != ends_.end() ? end->second : ProcessEnd{-1, MonotonicNs()});
    return;
  }
  ring->process.life = Life::kRunning;
  ring->process.state = std::string(1, stat->state);
  if (ring->pidfd.ok()) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = static_cast<uint64_t>(ring->slot);
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ring->pidfd.get(), &event);
  }
}

void Agent::MarkEnded(Ring* ring, const ProcessEnd& end) {
  Process& process = ring->process;
  const bool known = process.life == Life::kExited || process.life == Life::kKilled;
  if (!known) {
    SetEnd(end.wait_status, &process);
    process.ended_mono_ns = end.mono_ns;
    process.state.clear();
  }
  if (ring->pidfd.ok()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ring->pidfd.get(), nullptr);
    ring->pidfd.reset();
  }
  if (!ring->alive) return;
  ring->alive = false;
  // The process writes no more records, so the final ring is copied at once.
  ring::Snapshot whole;
  if (ring::ReadRing(ring->fd.get(), {}, &whole, &ring->error)) {
    ring->digest = whole;
    ring->last = std::move(whole);
  }
  if (ring->marks != nullptr) {
    marks_.Remove(ring->marks);
    ring->marks->SeeLast(ring->digest);
  }
}

void Agent::Ended(pid_t pid, const ProcessEnd& end) {
  ends_[pid] = end;
  for (const auto& ring : rings_) {
    if (ring->readable && ring->followed && ring->digest.process.pid == pid && ring->process.life != Life::kUnknown) {
      MarkEnded(ring.get(), end);
    }
  }
}

void Agent::Handle() {
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, 64, 0);
  bool appeared = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == UINT64_MAX) {
      appeared = true;
      char buffer[16384] __attribute__((aligned(8)));
      while (read(inotify_.get(), buffer, sizeof buffer) > 0) {
      }
      continue;
    }
    Ring* ring = rings_[events[i].data.u64].get();
    const int64_t now = MonotonicNs();
    MarkEnded(ring, {ReadWaitStatus(ring->digest.process.pid, ring->pidfd.get()).value_or(-1), now});
  }
  if (appeared) Scan(root_, 0);
}

int64_t Agent::Sample() {
  const int64_t start = ThreadCpuNs();
  for (const auto& ring : rings_) {
    if (ring->alive) ReadDigest(ring.get());
  }
  return ThreadCpuNs() - start;
}

void Agent::SampleStill(const std::vector<int32_t>& still, const ProcessTree& tree) {
  for (const auto& ring : rings_) {
    if (!ring->alive || ring->process.life != Life::kRunning) continue;
    const pid_t pid = ring->digest.process.pid;
    const std::optional<ProcStat> stat = ReadProcStat(pid);
    if (!stat) continue;
    Process& process = ring->process;
    const std::string before = process.state;
    process.state = std::string(1, stat->state);
    if (std::binary_search(still.begin(), still.end(), ring->slot)) {
      ring->sampler.Sample(pid, tree, &process);
    } else {
      ring->sampler.Forget(&process);
      ring->look.Forget(&process);
    }
    // Reading stacks stops the process for a moment.
    if (process.state == "t" && ring->look.busy()) process.state = before;
  }
}

void Agent::Inspect(int32_t slot, const LookPlan& plan) {
  Ring* ring = rings_[static_cast<size_t>(slot)].get();
  if (!ring->alive || ring->process.life != Life::kRunning) return;
  ring->look.Continue(ring->digest.process.pid, BusiestThread(ring->digest), &ring->process, ring->fd.get(), plan);
}

void Agent::Inspect(const std::vector<int32_t>& slots) {
  for (int32_t slot : slots) Inspect(slot, LookPlan{});
}

void Agent::Inspect(const std::vector<WantedLook>& looks) {
  for (const WantedLook& look : looks) {
    Inspect(look.slot, {QuietRanks::kMostLooks, QuietRanks::kLookEvery, look.since_ns, false});
  }
}

void Agent::FinishInspection(const std::vector<int32_t>& slots, int64_t limit_ns) {
  const int64_t end = MonotonicNs() + limit_ns;
  for (int32_t slot : slots) {
    if (slot < 0 || static_cast<size_t>(slot) >= rings_.size()) continue;
    Ring* ring = rings_[static_cast<size_t>(slot)].get();
    ring->look.Finish(std::max<int64_t>(end - MonotonicNs(), 0), BusiestThread(ring->digest), &ring->process);
  }
}

size_t Agent::readable() const {
  return static_cast<size_t>(std::count_if(rings_.begin(), rings_.end(), [](const auto& r) { return r->readable; }));
}

std::vector<DigestView> Agent::Views() const {
  std::vector<DigestView> views;
  for (const auto& ring : rings_) {
    if (!ring->readable) continue;
    DigestView view = ViewOf(ring->digest);
    view.slot = ring->slot;
    view.alive = ring->alive;
    const Process& process = ring->process;
    view.ended_badly = !ring->alive && (process.life != Life::kExited || process.exit_code != 0);
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<const ring::Snapshot*> Agent::Digests() const {
  std::vector<const ring::Snapshot*> digests;
  for (const auto& ring : rings_) digests.push_back(&ring->digest);
  return digests;
}

int32_t Agent::SlotOf(const std::string& path) const {
  const auto found = slots_.find(path);
  return found == slots_.end() ? -1 : found->second;
}

std::vector<RingInput> Agent::Collect(bool whole) {
  std::vector<RingInput> inputs;
  std::optional<ProcessEvidence> log;
  for (const auto& ring : rings_) {
    if (!ring->readable) continue;
    RingInput input;
    input.path = ring->path;
    input.process = ring->process;
    if (!whole) {
      ring::ReadOptions options;
      options.digest_only = options.in_flight = true;
      std::string error;
      if (!ring->alive || !ring::ReadRing(ring->fd.get(), options, &input.snapshot, &error))
        input.snapshot = ring->digest;
    } else if (ring->last) {
      // The process has exited, but the GPU may have written something since.
      ring::ReadOptions marks;
      marks.digest_only = true;
      ring::Snapshot later;
      std::string error;
      if (ring::ReadRing(ring->fd.get(), marks, &later, &error)) AddLateMarks(later, &*ring->last);
      input.snapshot = *ring->last;
    } else if (!ring::ReadRing(ring->fd.get(), {}, &input.snapshot, &ring->error)) {
      input.snapshot = ring->digest;
      input.snapshot.problems.push_back(absl::StrCat("only its digest could be read: ", ring->error));
    }
    if (whole && !ring->alive && EndedBadly(input.process)) {
      if (!log) log = ReadLogAfterEnd();
      AddLogAfterEnd(*log, &input.process);
    }
    if (whole && ring->kept) MergeEarlierOps(*ring->kept, &input.snapshot);
    if (ring->marks != nullptr) ring->marks->Fill(&input.snapshot);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

void Agent::Keep(const std::vector<int32_t>& slots) {
  for (int32_t slot : slots) {
    Ring* ring = rings_[static_cast<size_t>(slot)].get();
    ring::Snapshot whole;
    if (!ring->readable || !ring::ReadRing(ring->fd.get(), {}, &whole, &ring->error)) continue;
    if (ring->marks != nullptr) ring->marks->Fill(&whole);
    if (ring->kept) MergeEarlierOps(*ring->kept, &whole);
    ring->kept = std::move(whole);
  }
}

}  // namespace lockstep
