#include "collector/rings/mark_sampler.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>
#include <utility>

#include "analyzer/util/unique_fd.h"
#include "collector/host/proc.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

constexpr size_t kFirstSteps = 32, kMostSteps = 2048;
constexpr size_t kMostMarkBytes = 64 << 20, kMostMarkBytesOfUser = 16 << 20;
constexpr int64_t kSampleEveryNs = 10'000'000;
constexpr int64_t kSampleCostShare = 100;
// CPU time is measured once in this many reads, because measuring it is expensive.
constexpr uint64_t kCostEvery = 16;
constexpr int64_t kLongestPause = 1'000'000'000;
// A read takes microseconds. If it takes this long, it may never return.
constexpr int64_t kSamplerStuck = 1'000'000'000;
constexpr auto kSamplerEndWait = std::chrono::milliseconds(500);

}  // namespace

void TicketTimes::See(uint64_t ticket, int64_t before_ns, int64_t ns, const std::function<bool(size_t bytes)>& grow) {
  if (!seen_ || ticket < last_) {
    // The times of earlier tickets are unknown. Tickets never decrease, but files are untrusted.
    seen_ = true;
    begin_ = count_ = 0;
    floor_ = last_ = ticket;
    return;
  }
  if (ticket == last_) return;
  last_ = ticket;
  if (count_ == steps_.size() && count_ < kMostSteps) {
    const size_t more = std::max(kFirstSteps, steps_.size());
    if (grow(more * sizeof(Step))) {
      std::rotate(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(begin_), steps_.end());
      begin_ = 0;
      steps_.resize(steps_.size() + more);
    }
  }
  if (steps_.empty()) {
    floor_ = ticket;
    return;
  }
  if (count_ == steps_.size()) {
    floor_ = At(0).ticket;
    begin_ = (begin_ + 1) % steps_.size();
    --count_;
  }
  steps_[(begin_ + count_) % steps_.size()] = {ticket, {ns, ns - before_ns}};
  ++count_;
}

bool TicketTimes::Find(uint64_t ticket, Time* out) const {
  if (!seen_ || ticket <= floor_ || ticket > last_) return false;
  size_t low = 0, high = count_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (At(middle).ticket < ticket) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count_) return false;
  *out = At(low).time;
  return true;
}

bool MarkBudget::Take(size_t more) {
  if (bytes.fetch_add(more) + more > most || (all != nullptr && !all->Take(more))) {
    bytes.fetch_sub(more);
    return false;
  }
  return true;
}

void MarkBudget::Give(size_t back) {
  bytes.fetch_sub(back);
  if (all != nullptr) all->Give(back);
}

MarkTimes::~MarkTimes() { budget_->Give(taken_); }

void MarkTimes::See(const std::vector<ring::Mark>& marks, int64_t begin_ns, int64_t end_ns) {
  const auto grow = [this](size_t bytes) {
    if (!budget_->Take(bytes)) return false;
    taken_ += bytes;
    return true;
  };
  std::lock_guard lock(mutex_);
  if (begin_ns <= begin_ns_) return;
  if (marks.size() > streams_.size() && grow((marks.size() - streams_.size()) * sizeof(Stream)))
    streams_.resize(marks.size());
  for (size_t i = 0; i < std::min(marks.size(), streams_.size()); ++i) {
    streams_[i].started.See(marks[i].started, begin_ns_, end_ns, grow);
    streams_[i].completed.See(marks[i].completed, begin_ns_, end_ns, grow);
  }
  begin_ns_ = begin_ns;
}

void MarkTimes::SeeLast(const ring::Snapshot& digest) {
  std::vector<ring::Mark> marks;
  for (const ring::StreamSnapshot& stream : digest.streams) {
    if (stream.index >= ring::kMaxStreams) continue;
    if (marks.size() <= stream.index) marks.resize(stream.index + 1);
    marks[stream.index] = {stream.started, stream.completed};
  }
  const int64_t now = MonotonicNs();
  See(marks, now, now);
}

void MarkTimes::Fill(ring::Snapshot* snapshot) const {
  std::lock_guard lock(mutex_);
  for (std::vector<ring::OpSnapshot>* ops : {&snapshot->ops, &snapshot->recent}) {
    for (ring::OpSnapshot& op : *ops) {
      if (op.ticket == 0 || op.stream >= streams_.size() || op.replay != 0 || op.completed_ns != 0 ||
          op.started_ns != 0)
        continue;
      TicketTimes::Time started, completed;
      if (streams_[op.stream].started.Find(op.ticket, &started) && started.ns >= op.enter_ns) {
        op.started_ns = started.ns;
        op.time_uncertainty_ns = started.uncertainty_ns;
      }
      if (streams_[op.stream].completed.Find(op.ticket, &completed) &&
          completed.ns >= std::max(op.enter_ns, op.started_ns)) {
        op.completed_ns = completed.ns;
        op.time_uncertainty_ns = std::max(op.time_uncertainty_ns, completed.uncertainty_ns);
      }
    }
  }
}

void MarkTimes::Know(const ring::Snapshot& digest) {
  lines_ = digest.streams.empty() ? 0 : std::min<size_t>(digest.streams.back().index + 1, ring::kMaxStreams);
}

struct MarkSampler::Shared {
  struct Ring {
    std::shared_ptr<MarkTimes> times;
    UniqueFd fd;
    uid_t owner = 0;
    ring::MarksPlace place;
  };
  struct Share {
    int64_t next_ns = 0, pause_ns = 0;
    uint64_t looks = 0;
  };

  std::shared_ptr<MarkBudget> budget = std::make_shared<MarkBudget>();
  std::map<uid_t, std::weak_ptr<MarkBudget>> of_user;  // only the owner's thread uses this map
  std::atomic<int64_t> looking_since_ns = 0;           // 0 while the thread accesses no file
  std::atomic<uint64_t> looks = 0;
  std::atomic<int64_t> cpu_ns = 0;
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Ring>> rings;  // sorted by owner
  uint64_t change = 0;
  bool stop = false, running = false, ended = false;

  void Work() {
    std::vector<std::shared_ptr<Ring>> mine;
    std::map<uid_t, Share> shares;
    std::vector<ring::Mark> marks;
    uint64_t seen = UINT64_MAX;
    int64_t next = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        const auto now = std::chrono::steady_clock::now();
        const auto until = now + std::chrono::nanoseconds(std::max<int64_t>(next - MonotonicNs(), 0));
        if (!stop && rings.empty()) {
          mine.clear();  // release the descriptors
          wake.wait(lock, [this] { return stop || !rings.empty(); });
        } else {
          wake.wait_until(lock, until, [&] { return stop || seen != change; });
        }
        if (stop) return;
        if (seen != change) {
          seen = change;
          mine = rings;
          // Users without rings need no share of the time.
          std::map<uid_t, Share> kept;
          for (const auto& ring : mine) kept[ring->owner] = shares[ring->owner];
          shares.swap(kept);
        }
      }
      const int64_t start = MonotonicNs();
      next = start + kLongestPause;
      for (size_t i = 0; i < mine.size();) {
        Share& share = shares[mine[i]->owner];
        const size_t first = i;
        while (i < mine.size() && mine[i]->owner == mine[first]->owner) ++i;
        if (start >= share.next_ns) {
          const bool measured = share.looks++ % kCostEvery == 0;
          const int64_t cpu = measured ? ThreadCpuNs() : 0;
          for (size_t at = first; at < i; ++at) LookAt(*mine[at], &marks);
          ++looks;
          if (measured) {
            cpu_ns = ThreadCpuNs();
            share.pause_ns = std::clamp(kSampleCostShare * (cpu_ns - cpu), kSampleEveryNs, kLongestPause);
          }
          // Aligned to the clock, so that a late read does not delay the next one.
          const bool in_step = share.pause_ns == kSampleEveryNs;
          share.next_ns =
              in_step ? std::max(share.next_ns + share.pause_ns, start + share.pause_ns / 2) : start + share.pause_ns;
        }
        next = std::min(next, share.next_ns);
      }
    }
  }

  void LookAt(const Ring& ring, std::vector<ring::Mark>* marks) {
    const size_t lines = ring.times->lines();
    if (lines == 0) return;
    const int64_t begin = MonotonicNs();
    looking_since_ns = begin;
    const bool read = ring::ReadMarks(ring.fd.get(), ring.place, lines, marks);
    looking_since_ns = 0;
    if (read) ring.times->See(*marks, begin, MonotonicNs());
  }
};

MarkSampler::MarkSampler() : shared_(std::make_shared<Shared>()) { shared_->budget->most = kMostMarkBytes; }

MarkSampler::~MarkSampler() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->wake.notify_all();
  if (shared_->running) shared_->wake.wait_for(lock, kSamplerEndWait, [this] { return shared_->ended; });
}

std::shared_ptr<MarkTimes> MarkSampler::Add(int fd, uid_t owner) {
  auto ring = std::make_shared<Shared::Ring>();
  if (!ring::FindMarks(fd, &ring->place)) return nullptr;
  ring->fd.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!ring->fd.ok()) return nullptr;
  ring->owner = owner;
  std::shared_ptr<MarkBudget> budget = shared_->of_user[owner].lock();
  if (budget == nullptr) {
    std::erase_if(shared_->of_user, [](const auto& user) { return user.second.expired(); });
    budget = std::make_shared<MarkBudget>();
    budget->all = shared_->budget;
    budget->most = kMostMarkBytesOfUser;
    shared_->of_user[owner] = budget;
  }
  ring->times = std::make_shared<MarkTimes>(budget);
  std::shared_ptr<MarkTimes> times = ring->times;
  std::lock_guard lock(shared_->mutex);
  if (!shared_->running) {
    // The thread must not receive signals that are meant for other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([shared = shared_] {
      shared->Work();
      std::lock_guard end(shared->mutex);
      shared->ended = true;
      shared->wake.notify_all();
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    shared_->running = true;
  }
  const auto place =
      std::find_if(shared_->rings.begin(), shared_->rings.end(), [owner](const auto& r) { return r->owner >= owner; });
  shared_->rings.insert(place, std::move(ring));
  ++shared_->change;
  shared_->wake.notify_all();
  return times;
}

void MarkSampler::Remove(const std::shared_ptr<MarkTimes>& times) {
  std::lock_guard lock(shared_->mutex);
  if (std::erase_if(shared_->rings, [&](const auto& ring) { return ring->times == times; }) > 0) ++shared_->change;
}

MarkSamplerCounters MarkSampler::counters() const {
  MarkSamplerCounters counters;
  counters.looks = shared_->looks;
  counters.cpu_ns = shared_->cpu_ns;
  counters.bytes = static_cast<int64_t>(shared_->budget->bytes);
  const int64_t since = shared_->looking_since_ns;
  const int64_t for_ns = since == 0 ? 0 : MonotonicNs() - since;
  if (for_ns > kSamplerStuck) counters.stuck_ns = for_ns;
  std::lock_guard lock(shared_->mutex);
  counters.rings = shared_->rings.size();
  return counters;
}

bool HasMarks(const ring::Snapshot& digest) {
  if (digest.process.gpu_marks != ring::GpuMarks::kDone && digest.process.gpu_marks != ring::GpuMarks::kFull)
    return false;
  return std::any_of(digest.streams.begin(), digest.streams.end(),
                     [](const ring::StreamSnapshot& stream) { return stream.marked; });
}

}  // namespace lockstep
