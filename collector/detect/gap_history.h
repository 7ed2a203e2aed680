// Times between steps of one communicator, the last 256, and the longest legal wait that follows from them.
#ifndef LOCKSTEP_COLLECTOR_DETECT_GAP_HISTORY_H_
#define LOCKSTEP_COLLECTOR_DETECT_GAP_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// A communicator is warm after two operations of its members.
constexpr uint64_t kWarmTotal = 3;

class GapHistory {
 public:
  static constexpr size_t kMost = 256;

  // Kept in whole microseconds; longer ones than 71 minutes count as 71 minutes.
  void Add(int64_t gap_ns);
  // 99th percentile, rounded towards the smaller, so that a single pause sets no limit; 0 while there is none.
  int64_t P99() const;
  size_t size() const { return gaps_us_.size(); }

 private:
  std::vector<uint32_t> gaps_us_;  // grows to kMost: a collector holds one of these for every communicator of a cluster
  uint8_t next_ = 0;
};

// max(floor, 8 x p99): see docs/detection.md.
int64_t LearnedLimit(int64_t floor_ns, int64_t p99_ns);

// Feeds a GapHistory from looks at a counter. A communicator may make many steps between two looks: their mean counts,
// or the time without a step. The time between the looks themselves is ignored: the watcher may have been slow.
class GapMeter {
 public:
  // `total`: operations issued so far, of the most advanced member; `issued_ns`: when the last of these was issued, 0
  // unknown. Both clocks are the same. Learns nothing from before `rebased_ns`, nor from the first three operations,
  // because warm-up differs from later work. True if `total` is new.
  bool Look(int64_t now, uint64_t total, int64_t issued_ns, int64_t rebased_ns);
  const GapHistory& gaps() const { return gaps_; }
  uint64_t total() const { return total_; }
  bool warm() const;  // after two operations of its members

 private:
  GapHistory gaps_;
  uint64_t total_ = 0;
  int64_t issued_ns_ = 0, advanced_ns_ = 0, quiet_ns_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_GAP_HISTORY_H_
