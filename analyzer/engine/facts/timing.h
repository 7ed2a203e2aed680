// When operations ran, as far as something measured it: the newest timed operations of each rank, and the collectives
// in which timed ranks met. Everything stays on the ranks' own clocks here. A bounded sample, so that the later stages
// stay linear in the ranks.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_TIMING_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_TIMING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// One operation with known end. Times that TimedRank::Shows refuses are taken for not recorded.
struct TimedOp {
  uint32_t op = 0;  // into Rank::ops
  uint32_t comm = kNoIndex;
  int64_t start_ns = 0;  // when the GPU reached it; 0: nothing says
  int64_t end_ns = 0;
  int64_t Duration() const { return end_ns - start_ns; }
};

// A rank that took part in a meeting: TimedRank::ops[timed] of ranks[rank].
struct Attendance {
  uint32_t rank = 0, timed = 0;
};

// One collective that needs every member, as far as members recorded its end: entries [first, first + count) of
// Timing::attendance.
struct Meeting {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  uint32_t first = 0, count = 0;
};

// A send and the receive that took it.
struct Handover {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  Attendance sender, receiver;
};

// What says when a rank's GPU reached its operations.
enum class Arrivals : uint8_t {
  kNone,  // nothing: no started times, and the host runs ahead of the GPU or its steps are not known
  kGpu,   // started times
  kHost,  // the host enters each operation only after the one before has ended: its entry is the arrival
};

struct TimedRank {
  std::vector<TimedOp> ops;   // by end on the rank's clock; empty when nothing is timed
  uint32_t clock = kNoIndex;  // ranks with one number share one clock
  Arrivals arrivals = Arrivals::kNone;
  int64_t late_by_ns = 0;  // starts and ends may be that much later than the truth, never earlier
  // Half of the ends are before it. Only a damaged or hostile record has a time days away from it.
  int64_t middle_ns = 0;
  bool Shows(int64_t ns) const { return ns > 0 && ns > middle_ns - kReach && ns < middle_ns + kReach; }
  // Three days. The sum over all operations of a rank fits 64 bits.
  static constexpr int64_t kReach = int64_t{1} << 48;
};

class Timing {
 public:
  explicit Timing(const Model& model);

  const Model& model;
  std::vector<TimedRank> ranks;  // as Bundle::ranks
  std::vector<Attendance> attendance;
  std::vector<Meeting> meetings;              // by communicator, then sequence
  std::vector<Handover> handovers;            // by communicator
  std::vector<std::string> clock_names;       // host, or "rank 5" where the host is not known
  std::vector<uint32_t> first_rank_of_clock;  // into Bundle::ranks

  const TimedOp& At(const Attendance& a) const { return ranks[a.rank].ops[a.timed]; }
  const Op& OpOf(const Attendance& a) const { return model.bundle.ranks[a.rank].ops[At(a).op]; }

 private:
  void NameClocks();
  void TakeRank(size_t rank_index, size_t limit);
  void FindMeetings();
  void FindHandovers();
};

// "gpu marks", "events", "profiler", "framework"; "host" where the host's own steps are the arrivals.
std::string ClockText(const Rank& rank, const TimedRank& timed);

// False for times that no clock shows: 0 (not recorded), negative, or so large that sums of them would overflow.
inline bool IsTime(int64_t ns) {
  return ns > 0 && ns < (int64_t{1} << 61);
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_TIMING_H_
