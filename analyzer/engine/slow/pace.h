// How each rank spends a training step: in operations, waiting or transferring, and in none, at its own work. Own work
// needs no clock but the rank's, and what a rank waits for is not in it: a rank that is late only because it waited
// elsewhere has the same own time as its siblings. Siblings are ranks with the same role: the same kinds of
// communicators, the same place in the pipeline.
#ifndef LOCKSTEP_ANALYZER_ENGINE_SLOW_PACE_H_
#define LOCKSTEP_ANALYZER_ENGINE_SLOW_PACE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/timing.h"

namespace lockstep {

// Longer than any operation of a job that moves: not summed.
inline constexpr int64_t kLongestOperationNs = int64_t{1} << 40;
// What costs this share of a step, and of a rank's own work, is worth saying.
inline constexpr double kWorthSaying = 0.02, kWorthOwn = 0.04;
// From so many collectives with others on, how often a rank came last tells chance from habit.
inline constexpr int64_t kFewMeetings = 8;

struct RankPace {
  uint32_t role = kNoIndex;  // kNoIndex: nothing was measured
  // Own time of each whole step, newest first. Empty where the record holds less than three steps.
  std::vector<int64_t> own_ns;
  std::vector<uint32_t> first_op;  // of each of these steps, into Rank::ops
  // A step's own time as it usually is, put together from what usually lies ahead of each operation: what hits a rank
  // now and then is not in it.
  int64_t usual_own_ns = 0;
  // The same of whole steps, without work beside the rank's own waiting.
  int64_t least_own_ns = 0;
  // Time of each step's operations by place in the step, newest step first: own time ahead of them (-1 not known), or,
  // where only durations are known, the time in them. Empty where there are less than kEnoughSteps.
  std::vector<int64_t> by_place;
  uint32_t places = 0;
  bool durations_only = false;
  int64_t step_ns = 0;  // how long a step usually takes; where own_ns is empty, the whole record
  // Time in operations a step, by class of communicator, ascending by class.
  std::vector<std::pair<uint32_t, int64_t>> in_operations;
  uint32_t operations = 0;  // timed, a step
};

// From as many steps on, each place in a step is judged by itself; a delay in one place of every step then counts.
constexpr size_t kEnoughSteps = 6;

// usual_own_ns over steps [first, last) alone, of a pace that has places.
int64_t OwnOver(const RankPace& pace, size_t first, size_t last);

class Paces {
 public:
  explicit Paces(const Timing& timing);

  // Own time ahead of each timed operation, by its place in TimedRank::ops; -1 where it cannot be told. Work of the CPU
  // thread counts where it runs beside the rank's own waiting, as far as others of the role work as long there.
  std::vector<int64_t> Gaps(uint32_t rank) const;
  // Places in TimedRank::ops in the order in which the rank called them.
  std::vector<uint32_t> ProgramOrder(uint32_t rank) const;

  std::vector<RankPace> ranks;               // as Bundle::ranks
  std::vector<std::vector<uint32_t>> roles;  // ranks measured, by role
  std::vector<uint32_t> class_of_comm;
  int64_t step_ns = 0;       // the job's; 0 not known
  bool whole_steps = false;  // some rank's record holds at least three

 private:
  // What lies between two operations of a rank.
  struct Between {
    int64_t gap_ns = -1;   // from the end of the one to the start of the other; -1: it cannot be told
    int64_t host_ns = -1;  // of its CPU thread, from the call before the other
    bool ahead = false;    // the thread came to the other before the one had ended: it was not held up
    uint64_t place = 0;    // kinds of the other and of the call before it
  };
  // A place in the program of a role.
  struct Beside {
    bool works = false;      // the CPU threads work while their own operation waits
    int64_t longest_ns = 0;  // of the rank whose gaps are longest, nine in ten do not exceed it
  };

  void Classify();
  void FindOverlap();
  void GiveRoles();
  std::vector<Between> Betweens(uint32_t rank) const;
  std::map<uint64_t, Beside> WorkBesideWaiting(const std::vector<uint32_t>& role) const;
  void Measure(uint32_t rank);
  std::vector<uint32_t> StepStarts(uint32_t rank, const std::vector<uint32_t>& program) const;
  // Kind of communicator and call: what of it has durations at all (members of a framework's batch have none of their
  // own).
  uint64_t SortOf(const Op& op, uint32_t comm) const;

  const Timing& timing_;
  std::vector<std::map<uint64_t, Beside>> beside_;  // by role and place
  absl::flat_hash_set<uint64_t> measured_;          // sorts of operations of which some framework's durations are known
  std::vector<bool> overlapped_;                    // by 2 * class + point-to-point: runs beside the rank's own work
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_SLOW_PACE_H_
