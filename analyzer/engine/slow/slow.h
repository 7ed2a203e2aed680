// What makes a job slow that moves: ranks whose own work takes longer than their siblings' and for which others wait,
// and communicators whose transfers take longer than their siblings' although everybody is there. Nothing below the
// uncertainty of the times is blamed, and nothing that is another rank each time.
#ifndef LOCKSTEP_ANALYZER_ENGINE_SLOW_SLOW_H_
#define LOCKSTEP_ANALYZER_ENGINE_SLOW_SLOW_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/clock.h"
#include "analyzer/engine/facts/factor.h"
#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/habit.h"
#include "analyzer/engine/slow/pace.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// By how much a rank came later than others, over the collectives that were compared.
struct Lateness {
  int64_t compared = 0, last = 0;
  int64_t later_ns = 0;  // where it was last: later than the one before it, together
  int64_t much = 0;      // of `last`, by so much that a step shows it
  double by_chance = 0;  // how often it would be last if all came last equally often
};

class Slowness {
 public:
  Slowness(const Timing& timing, const Clocks& clocks);

  // Stragglers and slow links, the costliest first. Kinds STRAGGLER, SLOW_HOST, SLOW_LINK.
  std::vector<Cause> Find();
  // Verdict::arrivals, bandwidths, not_measured, and what the ranks' waiting comes to where nobody is to blame.
  void Fill(Verdict* verdict) const;

  // How exact a rank's times are, seen from what others say of the same moments.
  int64_t Noise(uint32_t rank) const { return noise_ns_[rank]; }

 private:
  struct Straggler {
    uint32_t rank = 0;
    int64_t own_ns = 0, excess_ns = 0, cost_ns = 0, uncertainty_ns = 0;  // a step
    double slowdown = 1;
    int64_t since_op = -1;     // into Rank::ops, where it was not slow before; -1: all along
    uint32_t comm = kNoIndex;  // where others wait for it most
    bool doubtful = false;  // waits itself for as long, by times that do not tell its own work from waiting beside it
    uint32_t waits_in = kNoIndex;  // the class of operations in which it waits so, where that is one,
    int64_t waits_ns = 0;          // and how much longer than usual it is in these
    bool brief = false;            // one step of it was measured
    bool habit = false;            // told by how late it usually comes, not by steps
  };

  void MeasureNoise();
  void CountArrivals();
  // Who waits in a small group for a slower one of it.
  struct Beside {
    std::map<uint32_t, uint32_t> waits_in;  // rank -> class of the group
    std::set<uint32_t> accounted;           // these slower ones: what the others wait less than that, they work longer
  };
  std::vector<Straggler> FindStragglers() const;
  // Whose own work usually takes longer than that of others in the role.
  void FindSlowInRole(const std::vector<uint32_t>& role, std::vector<Straggler>* found) const;
  // Whose last steps take longer than its steps before, where the whole record is still usual.
  void FindSlowLately(std::vector<Straggler>* found) const;
  Beside DropDoubtful(std::vector<Straggler>* found) const;
  std::vector<Straggler> Costly(std::vector<Straggler> found, const Beside& beside) const;
  bool WaitersUnseen(uint32_t rank) const;
  void AddUnseen(const std::vector<Straggler>& unseen, std::vector<Straggler>* kept) const;
  std::map<uint32_t, int64_t> UsuallyInside(const std::vector<uint32_t>& role) const;
  void FindLongPlaces(std::vector<Straggler>* found) const;
  bool FewSteps(uint32_t rank) const;
  // Whether a rank is judged by its habit: of its steps too few were measured.
  bool ByHabit(uint32_t rank) const;
  void FindLateByHabit(std::vector<Straggler>* found) const;
  // The classes of operations in which it does, and for how much longer than usual.
  std::vector<std::pair<uint32_t, int64_t>> WaitsItself(const RankPace& pace, const std::map<uint32_t, int64_t>& usual,
                                                        int64_t excess) const;
  // The member of its group that it waits for, where that does not explain how long its own work is; else null.
  // `certain_in`, by communicator: how many members are slow without a doubt.
  const Straggler* SlowBesideASlower(const Straggler& s, const std::vector<Straggler>& found,
                                     const std::map<uint32_t, size_t>& certain_in) const;
  Cause ToCause(const std::vector<Straggler>& group) const;
  // Things (hosts, switches, racks, rails) whose ranks are late now and then, another one each time, while others
  // hardly ever are. `named`, by rank: whose lateness is told already.
  std::vector<Cause> FindRandomlyLate(const Things& things, const std::vector<bool>& named) const;
  void TakeWholeGroups(const std::vector<Straggler>& stragglers, std::vector<bool>* told,
                       std::vector<Cause>* causes) const;

  const Timing& timing_;
  const Clocks& clocks_;
  Paces paces_;
  std::vector<Habit> habits_;  // by rank; empty where of every rank enough steps were measured
  std::vector<int64_t> noise_ns_;
  std::vector<Lateness> lateness_;
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> later_by_comm_;  // by rank: communicator, time
  std::vector<Bandwidth> bandwidths_;
  bool found_ = false;
};

// How a communicator's transfers go: from its last member's arrival to the end.
struct LinkUse {
  uint32_t comm = kNoIndex;
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t bytes = 0;                  // payload, as nccl-tests counts it
  std::vector<uint32_t> ranks;        // that take part, into Bundle::ranks
  std::vector<int64_t> transfers_ns;  // by sequence
  std::vector<int64_t> seqs;
  int64_t usual_ns = 0;
  int64_t noise_ns = 0;  // of one transfer
  bool crosses_hosts = false;
  uint32_t hosts = 0;
};

// Every communicator's uses with at least four whole operations, by communicator, kind and bytes; pairs of a pipeline
// one by one.
std::vector<LinkUse> FindLinkUses(const Timing& timing, const std::vector<int64_t>& noise_ns);
// Bytes a second over the bus by nccl-tests' factors; 0 where it is not known.
double BusBandwidth(const LinkUse& use, int32_t size, int64_t transfer_ns);
// Slow links among them, and the table of bandwidths.
std::vector<Cause> FindSlowLinks(const Timing& timing, const Paces& paces, const std::vector<LinkUse>& uses,
                                 std::vector<Bandwidth>* bandwidths);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_SLOW_SLOW_H_
