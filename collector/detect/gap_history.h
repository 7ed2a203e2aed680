// The last 256 times between steps of one communicator, and the longest normal wait that they imply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// A communicator is warm once its most advanced member has issued this many operations.
constexpr uint64_t kWarmTotal = 3;

class GapHistory {
 public:
  static constexpr size_t kMost = 256;

  // Gaps are stored in whole microseconds; those longer than 71 minutes count as 71 minutes.
  void Add(int64_t gap_ns);
  // Returns the 99th percentile, rounded down, so that a single pause does not determine the limit; 0 without data.
  int64_t P99() const;
  size_t size() const { return gaps_us_.size(); }

 private:
  std::vector<uint32_t> gaps_us_;
  uint8_t next_ = 0;
};

// Returns max(floor, 8 x p99); see docs/detection.md.
int64_t LearnedLimit(int64_t floor_ns, int64_t p99_ns);

// Feeds a GapHistory from reads of a counter. A gap is the longer of two times: how long earlier reads saw no step, and
// the mean time between the operations issued since then. The time between the reads themselves is ignored, because the
// watcher may have been slow.
class GapMeter {
 public:
  // `total` is the number of operations issued so far by the most advanced member. `issued_ns` is the time when the
  // last of these was issued, on the same clock; 0 if unknown. Ignores everything before `rebased_ns`, and the first
  // kWarmTotal operations, because warm-up differs from later work. Returns true if `total` is new.
  bool Look(int64_t now, uint64_t total, int64_t issued_ns, int64_t rebased_ns);
  const GapHistory& gaps() const { return gaps_; }

 private:
  GapHistory gaps_;
  uint64_t total_ = 0;
  int64_t issued_ns_ = 0, advanced_ns_ = 0, quiet_ns_ = 0;
};

}  // namespace lockstep
