// How each rank spends a training step: in operations (waiting or transferring), and outside them, on its own work. Own
// work is measured on the rank's clock alone and excludes waiting. So a rank that is late only because it waited
// elsewhere has the same own time as ranks with the same role. Ranks have the same role if they have the same kinds of
// communicators and the same place in the pipeline.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/timing.h"
#include "analyzer/util/numbers.h"

namespace lockstep {

// Longer than any operation of a job that makes progress; longer times are not added up.
inline constexpr int64_t kLongestOperationNs = int64_t{1} << 40;
// Shares of a step, and of a rank's own work, above which a cost is reported.
inline constexpr double kWorthSaying = 0.02, kWorthOwn = 0.04;
// With at least this many shared collectives, how often a rank was last distinguishes habit from chance.
inline constexpr int64_t kFewMeetings = 8;

// Returns the error of a sum of times. Errors of single times are symmetric, so the error of the sum grows with the
// square root of their number.
inline int64_t ErrorOfSum(int64_t noise_ns, double times) {
  return static_cast<int64_t>(2.0 * static_cast<double>(noise_ns) * std::sqrt(times));
}

// Returns the middle value, or the smaller of two middle ones, so that a single delay in two steps does not count as
// usual.
inline int64_t Usual(std::vector<int64_t> values) { return Quantile(&values, 0.5); }

struct RankPace {
  uint32_t role = kNoIndex;  // kNoIndex if nothing was measured
  // Own time in each complete step that at least half of the role's ranks with steps recorded, newest first. Empty if
  // there are too few.
  std::vector<int64_t> own_ns;
  std::vector<uint32_t> first_op;  // first operation of each of these steps, as an index into Rank::ops
  // Numbers of these steps, descending. A step of the job has the same number on all ranks of a role.
  std::vector<int64_t> numbers;
  // How much longer each of these steps is than the same step of the role's fastest ranks. Excludes extra time that all
  // ranks have in a step, because it contains more work or because all wait.
  std::vector<int64_t> beyond_ns;
  // The usual own time of a step, excluding work that runs while the rank waits.
  int64_t least_own_ns = 0;
  bool durations_only = false;
  int64_t step_ns = 0;  // usual length of a step; if own_ns is empty, of the whole record
  // For each class of communicator: the extra time that each step spends in its operations, compared with the same step
  // on most ranks of the role.
  std::vector<std::pair<uint32_t, std::vector<int64_t>>> waits_ns;
  uint32_t operations = 0;  // timed operations per step
};

class Paces {
 public:
  explicit Paces(const Timing& timing);

  // Own time before each timed operation, indexed like TimedRank::ops; -1 if unknown. Work that the CPU thread does
  // while the rank waits counts as well, if other ranks of the role work equally long there.
  std::vector<int64_t> Gaps(uint32_t rank) const;
  std::vector<RankPace> ranks;                  // indexed like Bundle::ranks
  std::vector<std::vector<uint32_t>> roles;     // measured ranks of each role
  std::vector<std::vector<uint32_t>> programs;  // for each rank: indexes into TimedRank::ops, in order of the calls
  int64_t step_ns = 0;                          // length of the job's steps; 0 if unknown
  bool whole_steps = false;                     // steps of some rank were measured

 private:
  // The time between two operations of a rank.
  struct Between {
    int64_t gap_ns = -1;   // from the end of the first operation to the start of the second; -1 if unknown
    int64_t host_ns = -1;  // from the return of the thread's previous call to the second call; -1 if unknown
    bool ahead = false;    // the thread reached the second before the first had ended, so the first did not block it
    uint64_t place = 0;    // kinds of the second operation and of the call before it
  };
  // What the ranks of a role do while they wait at one place of their program.
  struct Beside {
    bool works = false;      // the CPU threads work while their own operation waits
    int64_t longest_ns = 0;  // the 90th percentile for the rank with the longest gaps
  };

  // The pattern of calls that repeats at the end of a rank's record, as indexes into its program.
  struct Repeat {
    uint32_t begin = 0, period = 0;  // period: 0 if nothing repeats
    uint32_t end = 0;                // end of the newest step that is compared with other ranks'; 0 if there is none
    int64_t number = 0;              // number of that step
  };

  void FindOverlap();
  void GiveRoles();
  std::vector<Between> Betweens(uint32_t rank) const;
  std::map<uint64_t, Beside> WorkBesideWaiting(const std::vector<uint32_t>& role) const;
  void Measure(uint32_t rank);
  void CompareSteps(const std::vector<uint32_t>& role);
  void OrderProgram(uint32_t rank);
  Repeat FindRepeat(uint32_t rank) const;
  // Numbers the steps of a role's ranks by the operations that the ranks share, because each record ends at a different
  // place.
  void NumberSteps(const std::vector<uint32_t>& role);
  // Combines the kinds of communicator and call, because only some calls have durations (members of a framework's
  // batch do not).
  uint64_t SortOf(const Op& op, uint32_t comm) const;
  uint32_t KindOf(uint32_t comm) const { return timing_.model.comms[comm].kind; }
  // Returns the operation's place in `overlapped_`.
  size_t OverlapOf(const Op& op, uint32_t comm) const { return 2 * KindOf(comm) + ring::IsPointToPoint(op.kind); }

  const Timing& timing_;
  std::vector<Repeat> repeats_;                     // indexed as Bundle::ranks
  std::vector<std::map<uint64_t, Beside>> beside_;  // indexed by role and place
  absl::flat_hash_set<uint64_t> measured_;          // combinations (SortOf) with known framework durations
  std::vector<bool> overlapped_;                    // indexed by OverlapOf: overlaps own work
};

}  // namespace lockstep
