// Adds times to GPU progress markers. Reads the marker lines of live rings every 10 ms. If a ticket was passed between
// two reads, it gets the time of the second read, which is late by at most the interval. A separate thread does only
// this, so neither slow work nor a file that does not respond delays the callers.
//
// Bounded: keeps the newest 2,048 changes of each stream, at most 16 MiB per user and 64 MiB in total. Reads a user's
// rings less often if reading them would take more than a hundredth of a core.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "recorder/ring/marks.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// Times for one kind of ticket on one stream. Not thread-safe.
class TicketTimes {
 public:
  struct Time {
    int64_t ns = 0;              // CLOCK_MONOTONIC
    int64_t uncertainty_ns = 0;  // the time is late by at most this
  };
  // `ticket` was reached by `ns`, but not by `before_ns`. Asks `grow` before it allocates more bytes. If `grow`
  // refuses, the oldest times are dropped.
  void See(uint64_t ticket, int64_t before_ns, int64_t ns, const std::function<bool(size_t bytes)>& grow);
  // Returns false if the ticket was not reached yet, was reached before the first read, or was forgotten.
  bool Find(uint64_t ticket, Time* out) const;
  size_t bytes() const { return steps_.size() * sizeof(Step); }

 private:
  struct Step {
    uint64_t ticket = 0;
    Time time;
  };
  const Step& At(size_t i) const { return steps_[(begin_ + i) % steps_.size()]; }

  std::vector<Step> steps_;  // a ring buffer, ascending by ticket
  size_t begin_ = 0, count_ = 0;
  uint64_t floor_ = 0;  // times of tickets up to this one are unknown
  uint64_t last_ = 0;
  bool seen_ = false;
};

// Limits the bytes in use by one user, or by all. Take returns false, and takes nothing, beyond a limit.
struct MarkBudget {
  std::atomic<size_t> bytes = 0;
  std::shared_ptr<MarkBudget> all;  // null if this is the budget for all
  size_t most = 0;
  bool Take(size_t more);
  void Give(size_t back);
};

// The observations of one ring. Thread-safe.
class MarkTimes {
 public:
  explicit MarkTimes(std::shared_ptr<MarkBudget> budget) : budget_(std::move(budget)) {}
  ~MarkTimes();

  // Takes the last digest of a process that exited.
  void SeeLast(const ring::Snapshot& digest);
  // Takes marks that were read between `begin_ns` and `end_ns`. Ignores a read that started before the last one.
  void See(const std::vector<ring::Mark>& marks, int64_t begin_ns, int64_t end_ns);
  // Sets the times of operations that have none. Operations of a launched graph share one ticket and get none. Skips
  // times that contradict the operation's own times.
  void Fill(ring::Snapshot* snapshot) const;
  // Takes a digest of the ring, which determines how many lines to read: one per stream.
  void Know(const ring::Snapshot& digest);
  size_t lines() const { return lines_; }

 private:
  struct Stream {
    TicketTimes started, completed;
  };
  const std::shared_ptr<MarkBudget> budget_;
  std::atomic<size_t> lines_ = 0;
  mutable std::mutex mutex_;
  std::vector<Stream> streams_;
  size_t taken_ = 0;
  int64_t begin_ns_ = 0;  // when the last read began
};

struct MarkSamplerCounters {
  uint64_t rings = 0;  // current number
  uint64_t looks = 0;  // number of reads of all rings of a user
  int64_t cpu_ns = 0;
  int64_t bytes = 0;
  int64_t stuck_ns = 0;  // how long a file has not responded; 0 if all respond
};

class MarkSampler {
 public:
  MarkSampler();
  ~MarkSampler();
  MarkSampler(const MarkSampler&) = delete;
  MarkSampler& operator=(const MarkSampler&) = delete;

  // Adds the ring, with its own descriptor. Returns null if the ring has no GPU progress markers. The first call starts
  // the thread.
  std::shared_ptr<MarkTimes> Add(int fd, uid_t owner);
  // Stops reading the ring; its results stay.
  void Remove(const std::shared_ptr<MarkTimes>& times);
  MarkSamplerCounters counters() const;

 private:
  struct Shared;
  // Shared with the thread. If a file never responds, the thread is abandoned and keeps this alive.
  std::shared_ptr<Shared> shared_;
};

// Returns whether this process's marks are useful: they record tickets, and nothing else measured times.
bool HasMarks(const ring::Snapshot& digest);

}  // namespace lockstep
