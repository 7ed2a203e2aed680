// Brings the hosts' clocks together without trusting any of them. Two facts carry it: nobody leaves a collective before
// its last member has entered (a hard bound for every pair of members), and members leave it at about the same moment
// (the estimate inside the bounds). The same bounds hold for the making of a communicator. A clock that was set while
// the job ran is seen as bounds that contradict each other, and aligned apart on both sides.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_CLOCK_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_CLOCK_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// A stretch of one clock's time in which nobody set it.
struct ClockEpoch {
  int64_t first_ns = 0, last_ns = 0;  // on its own clock, as far as operations show
  int64_t offset_ns = 0;              // to add to its times at `middle_ns` to have the job's time
  int64_t middle_ns = 0;
  double drift = 0;  // nanoseconds it loses a nanosecond against the job's time; 0 where too little is known
  int64_t uncertainty_ns = 0;
};

struct HostClock {
  std::vector<ClockEpoch> epochs;  // in the order in which they were; empty: shares no operation with the first host's
  bool aligned() const { return !epochs.empty(); }
};

class Clocks {
 public:
  explicit Clocks(const Timing& timing);

  // By TimedRank::clock. The job's time is that of the first aligned host's clock.
  std::vector<HostClock> clocks;

  bool Aligned(size_t rank_index) const { return clocks[timing_.ranks[rank_index].clock].aligned(); }
  // The job's time of a rank's own time; the same number where the rank's clock is not aligned. Inside the overlap that
  // a clock set back leaves, the later stretch is taken.
  int64_t ToJob(size_t rank_index, int64_t own_ns) const;
  // By how much ToJob may be off; -1 where the clock is not aligned.
  int64_t Uncertainty(size_t rank_index, int64_t own_ns) const;
  bool Stepped(size_t rank_index) const { return clocks[timing_.ranks[rank_index].clock].epochs.size() > 1; }

  // Verdict::clocks: the hosts of the bundle, only where more than one clock is at hand.
  void Fill(Verdict* verdict) const;

 private:
  struct Sample {       // what one shared operation says of one clock against an aligned one
    int64_t at_ns = 0;  // the job's time
    int64_t low = 0, high = 0;
    int64_t estimate = 0;
    int64_t own_ns = 0;
    bool estimated = false;
  };
  struct Shared {  // one operation, members folded by clock
    uint32_t comm = kNoIndex;
    uint32_t first = 0, count = 0;  // into seen_
    bool estimated = true;          // its ends are near-simultaneous
  };
  struct Seen {
    uint32_t clock = 0;
    int64_t entered_ns = 0, left_ns = 0;  // last to enter, first to leave, of the clock's ranks
  };

  void Fold();
  void FoldCreations();
  void Add(uint32_t comm, bool estimated, std::vector<Seen>* members);
  void AlignAll(uint32_t root);
  int Stepped() const;
  static std::vector<ClockEpoch> Fit(std::vector<Sample> samples, int64_t parent_uncertainty_ns);
  static bool FitOne(const std::vector<Sample>& samples, ClockEpoch* epoch);
  static const ClockEpoch& EpochAt(const HostClock& clock, int64_t own_ns);

  const Timing& timing_;
  // Empty once the clocks are aligned.
  std::vector<Shared> shared_;  // by communicator
  std::vector<Seen> seen_;
  std::vector<std::vector<uint32_t>> comms_of_clock_;  // first shared_ of each communicator the clock is in
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_CLOCK_H_
