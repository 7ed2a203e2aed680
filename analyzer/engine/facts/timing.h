// Finds when operations ran, if that was measured: the newest timed operations of each rank, and the collectives in
// which timed ranks met. All times are on the ranks' own clocks. The sample is bounded, so later stages take time
// linear in the number of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// One operation with a known end. Times that TimedRank::Shows rejects count as not recorded.
struct TimedOp {
  uint32_t op = 0;  // index into Rank::ops
  uint32_t comm = kNoIndex;
  int64_t start_ns = 0;  // when the operation was reached (see Arrivals); 0 if unknown
  int64_t end_ns = 0;
  int64_t Duration() const { return end_ns - start_ns; }
};

// A rank that took part in a meeting: TimedRank::ops[timed] of ranks[rank].
struct Attendance {
  uint32_t rank = 0, timed = 0;
};

// One collective that needs every member, if at least two members recorded its end: entries [first, first + count) of
// Timing::attendance.
struct Meeting {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  uint32_t first = 0, count = 0;
};

// A send and the receive that matched it.
struct Handover {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  Attendance sender, receiver;
};

// What shows when a rank's GPU reached its operations.
enum class Arrivals : uint8_t {
  kNone,  // nothing: no start times are recorded, and the CPU thread runs ahead of the GPU, or its steps are unknown
  kGpu,   // start times
  kHost,  // the CPU thread enters each operation only after the previous one has ended, so the entry is the arrival
};

struct TimedRank {
  std::vector<TimedOp> ops;   // sorted by end time on the rank's clock; empty if nothing is timed
  uint32_t clock = kNoIndex;  // ranks with the same number share a clock
  Arrivals arrivals = Arrivals::kNone;
  int64_t late_by_ns = 0;  // at least 95 % of starts and ends are late by at most this, and none is early
  // Median of the end times. Only a damaged or hostile record contains a time that is days away from it.
  int64_t middle_ns = 0;
  bool Shows(int64_t ns) const { return ns > 0 && ns > middle_ns - kReach && ns < middle_ns + kReach; }
  // About three days, so that the sum over all operations of a rank fits into 64 bits.
  static constexpr int64_t kReach = int64_t{1} << 48;
};

class Timing {
 public:
  explicit Timing(const Model& model);

  const Model& model;
  std::vector<TimedRank> ranks;  // indexed as Bundle::ranks
  std::vector<Attendance> attendance;
  std::vector<Meeting> meetings;              // sorted by communicator, then sequence
  std::vector<Handover> handovers;            // sorted by communicator
  std::vector<std::string> clock_names;       // host name, or "rank 5" if the host is unknown
  std::vector<uint32_t> first_rank_of_clock;  // index into Bundle::ranks

  std::span<const Attendance> Of(const Meeting& meeting) const {
    return {attendance.data() + meeting.first, meeting.count};
  }
  const TimedOp& At(const Attendance& a) const { return ranks[a.rank].ops[a.timed]; }
  const Op& OpOf(const Attendance& a) const { return model.bundle.ranks[a.rank].ops[At(a).op]; }

 private:
  void NameClocks();
  void TakeRank(size_t rank_index, size_t limit);
  void FindMeetings();
  void FindHandovers();
};

// Returns "gpu marks", "events", "profiler" or "framework"; "host" if arrivals are entries of the CPU thread; empty if
// there are none.
std::string ClockText(const Rank& rank, const TimedRank& timed);

// False for times that no clock reports: 0 (not recorded), negative, or so large that sums would overflow.
inline bool IsTime(int64_t ns) { return ns > 0 && ns < (int64_t{1} << 61); }

}  // namespace lockstep
