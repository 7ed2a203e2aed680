// Aligns the hosts' clocks without trusting any of them, from two facts. No rank leaves a collective before the last
// member has entered, which bounds the offset of every pair of clocks. Members leave at about the same moment, which
// gives the estimate within the bounds. The creation of a communicator gives the same bounds; if they are the only
// ones, the wall clocks give the estimate. If a clock was set while the job ran, the bounds contradict each other. The
// periods before and after are aligned separately.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// A period in which the clock was not set.
struct ClockEpoch {
  int64_t first_ns = 0, last_ns = 0;  // on its own clock; the first and last operation seen
  int64_t offset_ns = 0;              // add this to a time at `middle_ns` on this clock to get the job's time
  int64_t middle_ns = 0;
  double drift = 0;  // nanoseconds that the clock loses per nanosecond of the job's time; 0 if too little is known
  int64_t uncertainty_ns = 0;  // maximum error of ToJob
  int64_t ToJob(int64_t own_ns) const {
    return own_ns + offset_ns + static_cast<int64_t>(drift * static_cast<double>(own_ns - middle_ns));
  }
};

struct HostClock {
  // In chronological order; empty if no chain of shared operations leads to the reference clock.
  std::vector<ClockEpoch> epochs;
  bool aligned() const { return !epochs.empty(); }
};

class Clocks {
 public:
  explicit Clocks(const Timing& timing);

  // Indexed by TimedRank::clock. The job's time is that of the reference clock: the first, or the second if the first
  // was set.
  std::vector<HostClock> clocks;

  bool Aligned(size_t rank_index) const { return clocks[timing_.ranks[rank_index].clock].aligned(); }
  // Converts a rank's own time to the job's time; returns it unchanged if the rank's clock is not aligned. If a clock
  // was set back, a time that occurred twice counts as its second occurrence.
  int64_t ToJob(size_t rank_index, int64_t own_ns) const;
  // Returns the maximum error of ToJob; -1 if the clock is not aligned.
  int64_t Uncertainty(size_t rank_index, int64_t own_ns) const;

  // Fills Verdict::clocks if at least two clocks are aligned.
  void Fill(Verdict* verdict) const;

 private:
  struct Sample {       // what one shared operation shows about a clock, relative to an aligned one
    int64_t at_ns = 0;  // the job's time
    int64_t low = 0, high = 0;
    int64_t estimate = 0;
    int64_t own_ns = 0;
    bool estimated = false;
  };
  struct Shared {  // one operation, with its members combined by clock
    uint32_t comm = kNoIndex;
    uint32_t first = 0, count = 0;  // range in seen_
    bool estimated = true;          // the members leave the operation at nearly the same time
  };
  struct Seen {
    uint32_t clock = 0;
    int64_t entered_ns = 0, left_ns = 0;  // last entry and first exit among the ranks of the clock
  };

  void Fold();
  void FoldCreations();
  void Add(uint32_t comm, bool estimated, std::vector<Seen>* members);
  void AlignAll(uint32_t root);
  int Stepped() const;
  // `wall_ns`: the offset according to the wall clocks.
  static std::vector<ClockEpoch> Fit(std::vector<Sample> samples, int64_t parent_uncertainty_ns, int64_t wall_ns);
  static void FitOne(const std::vector<Sample>& samples, int64_t wall_ns, ClockEpoch* epoch);
  static const ClockEpoch& EpochAt(const HostClock& clock, int64_t own_ns);

  const Timing& timing_;
  // Sorted by communicator. Empty once the clocks are aligned.
  std::vector<Shared> shared_;
  std::vector<Seen> seen_;
  std::vector<std::vector<uint32_t>> comms_of_clock_;  // first shared_ entry of each communicator that the clock is in
};

}  // namespace lockstep
