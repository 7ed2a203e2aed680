// Gives what GPU marks tell the times at which it happened: the mark lines of live rings are looked at every 10 ms, and
// when a ticket is passed between two looks, that is its time, late by at most the distance of the looks. In a thread
// of its own that does nothing else, so that neither slow work nor a file that does not answer holds up whoever asks
// for times.
//
// Bounded: the newest 2,048 changes of each stream are kept, 16 MiB of one user and 64 MiB in all; the rings of a user
// are looked at less often where looking at them would take more than a hundredth of a core.
#ifndef LOCKSTEP_COLLECTOR_RINGS_MARK_SAMPLER_H_
#define LOCKSTEP_COLLECTOR_RINGS_MARK_SAMPLER_H_

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

// For one kind of tickets of one stream. Not thread-safe.
class TicketTimes {
 public:
  struct Time {
    int64_t ns = 0;              // CLOCK_MONOTONIC
    int64_t uncertainty_ns = 0;  // late by at most this
  };
  // `ticket` was reached at `ns` and not yet at `before_ns`. Asks `grow` whether it may allocate that many more bytes.
  void See(uint64_t ticket, int64_t before_ns, int64_t ns, const std::function<bool(size_t bytes)>& grow);
  // False: not reached yet, reached before the first look, or forgotten.
  bool Find(uint64_t ticket, Time* out) const;
  size_t bytes() const { return steps_.size() * sizeof(Step); }

 private:
  struct Step {
    uint64_t ticket = 0;
    Time time;
  };
  const Step& At(size_t i) const { return steps_[(begin_ + i) % steps_.size()]; }

  std::vector<Step> steps_;  // a ring; ascending by ticket
  size_t begin_ = 0, count_ = 0;
  uint64_t floor_ = 0;  // times of tickets up to it are unknown
  uint64_t last_ = 0;
  bool seen_ = false;
};

// Bytes held for one user, and for all.
struct MarkBudget {
  std::atomic<size_t> bytes = 0;
  std::shared_ptr<MarkBudget> all;  // null: this is it
  size_t most = 0;
  bool Take(size_t more);
  void Give(size_t back);
};

// The observations of one ring. Thread-safe.
class MarkTimes {
 public:
  explicit MarkTimes(std::shared_ptr<MarkBudget> budget) : budget_(std::move(budget)) {}
  ~MarkTimes();

  // The last look at a process that ended.
  void SeeLast(const ring::Snapshot& digest);
  // Read between `begin_ns` and `end_ns`. Ignores a look that began before the last one.
  void See(const std::vector<ring::Mark>& marks, int64_t begin_ns, int64_t end_ns);
  // Sets the times of operations without times; those of a launched graph share one ticket and get none. Leaves out
  // contradictions to the operation's own times.
  void Fill(ring::Snapshot* snapshot) const;
  // A digest of the ring: it determines the number of lines to read, one for each stream.
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
  int64_t begin_ns_ = 0;  // of the last look
};

struct MarkSamplerOptions {
  int64_t every_ns = 10'000'000;
  size_t most_bytes = 64 << 20, most_bytes_of_user = 16 << 20;
};

struct MarkSamplerCounters {
  uint64_t rings = 0;  // now
  uint64_t looks = 0;  // at all rings of a user
  int64_t cpu_ns = 0;
  int64_t bytes = 0;
  int64_t stuck_ns = 0;  // how long a file has not answered; 0: none
};

class MarkSampler {
 public:
  explicit MarkSampler(const MarkSamplerOptions& options = {});
  ~MarkSampler();
  MarkSampler(const MarkSampler&) = delete;
  MarkSampler& operator=(const MarkSampler&) = delete;

  // Adds the ring, by its own descriptor; null if it has no marks. The first one starts the thread.
  std::shared_ptr<MarkTimes> Add(int fd, uid_t owner);
  // Stops the looks; results stay.
  void Remove(const std::shared_ptr<MarkTimes>& times);
  MarkSamplerCounters counters() const;

 private:
  struct Shared;
  // Shared with the thread. If a file never answers, the thread is abandoned and keeps this alive.
  std::shared_ptr<Shared> shared_;
};

// The marks of this process are useful: they record tickets, and nothing else measured times.
bool HasMarks(const ring::Snapshot& digest);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_MARK_SAMPLER_H_
