// Finds what slows down a job that makes progress. A slow rank's own work takes longer than that of ranks with the same
// role, and others wait for it. A slow communicator's transfers take longer than those of similar communicators,
// although all members have arrived. No rank is blamed for differences that are below the uncertainty of the times, or
// that affect a different rank each time.
#pragma once

#include <cstdint>
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

// How often, and by how much, a rank arrived after the others in the compared collectives.
struct LateArrivals {
  int64_t compared = 0, last = 0;
  int64_t later_ns = 0;  // in the collectives where it was last: total time between the second-last arrival and its own
  int64_t much = 0;      // number of arrivals in `last` that are late enough to matter in a step
  double by_chance = 0;  // expected value of `last` by chance alone
};

class Slowness {
 public:
  Slowness(const Timing& timing, const Clocks& clocks);

  // Returns stragglers and slow links, the most expensive first. Kinds: STRAGGLER, SLOW_HOST, SLOW_LINK.
  std::vector<Cause> Find();
  // Fills Verdict::arrivals, bandwidths, speeds and unmeasured. If different ranks are late in turns and none is to
  // blame, also rules out a persistent straggler, with the cost of all delays.
  void Fill(Verdict* verdict) const;

  // Returns the accuracy of a rank's times in ns, estimated from other ranks' times of the same moments.
  int64_t Noise(uint32_t rank) const { return noise_ns_[rank]; }

 private:
  struct Straggler {
    uint32_t rank = 0;
    int64_t own_ns = 0, excess_ns = 0, cost_ns = 0, uncertainty_ns = 0;  // per step; of the record without steps
    double slowdown = 1;
    int64_t since_op = -1;     // index into Rank::ops: where the first slow step begins; -1 if all are slow
    uint32_t comm = kNoIndex;  // communicator on which others wait for it most
    bool doubtful = false;     // its own work cannot be separated from an equally long wait
    bool brief = false;        // only one of its steps was measured
    bool habit = false;        // found by how late it usually arrives, not by steps
  };

  void MeasureNoise();
  void CountArrivals();
  std::vector<Straggler> FindStragglers() const;
  // Finds ranks whose own work usually takes longer than that of others in the role.
  void FindSlowInRole(const std::vector<uint32_t>& role, std::vector<Straggler>* found) const;
  // Finds ranks whose last steps take longer than their earlier ones, while the record as a whole is still usual.
  void FindSlowLately(std::vector<Straggler>* found) const;
  void DropDoubtful(std::vector<Straggler>* found) const;
  std::vector<Straggler> Costly(std::vector<Straggler> found) const;
  bool WaitersUnseen(uint32_t rank) const;
  void AddUnseen(const std::vector<Straggler>& unseen, std::vector<Straggler>* kept) const;
  void FindLongPlaces(std::vector<Straggler>* found) const;
  bool FewSteps(uint32_t rank) const;
  // Returns whether a rank is judged by its habit, because only the durations of a few steps are known.
  bool ByHabit(uint32_t rank) const;
  void FindLateByHabit(std::vector<Straggler>* found) const;
  Cause ToCause(const std::vector<Straggler>& group) const;
  // Returns at most one cause: the host, switch, rack or rail whose ranks are late now and then, a different one each
  // time, while other ranks almost never are. `named` says for each rank whether its lateness is already reported.
  std::vector<Cause> FindRandomlyLate(const Things& things, const std::vector<bool>& named) const;
  void TakeWholeGroups(const std::vector<Straggler>& stragglers, std::vector<bool>* told,
                       std::vector<Cause>* causes) const;

  const Timing& timing_;
  const Clocks& clocks_;
  Paces paces_;
  std::vector<Habit> habits_;  // for each rank; empty if FewSteps is false for all of them
  std::vector<int64_t> noise_ns_;
  std::vector<LateArrivals> lateness_;
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> later_by_comm_;  // for each rank: communicator and time
  std::vector<Bandwidth> bandwidths_;
  std::vector<Speed> speeds_;
  bool found_ = false;
};

// A communicator's transfers, from the arrival of its last member to the end.
struct LinkUse {
  uint32_t comm = kNoIndex;
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t bytes = 0;                  // payload, as nccl-tests counts it
  std::vector<uint32_t> ranks;        // participating ranks, as indexes into Bundle::ranks
  std::vector<int64_t> transfers_ns;  // parallel to `seqs`, which is ascending
  std::vector<int64_t> seqs;
  int64_t usual_ns = 0;
  int64_t noise_ns = 0;  // uncertainty of one transfer
  bool crosses_hosts = false;
  uint32_t hosts = 0;
};

// Returns one use for each communicator, kind and number of bytes with at least four complete operations. Pairs of a
// pipeline are separate uses.
std::vector<LinkUse> FindLinkUses(const Timing& timing, const std::vector<int64_t>& noise_ns);
// Returns the number of members that take part: two for a send or receive.
int32_t MembersOf(const Bundle& bundle, const LinkUse& use);
// Returns bytes per second over the bus, by nccl-tests' factors; 0 if unknown.
double BusBandwidth(const LinkUse& use, int32_t size, int64_t transfer_ns);
// Returns at most one cause, for the slow links among these uses, and fills the table of bandwidths.
std::vector<Cause> FindSlowLinks(const Timing& timing, const Paces& paces, const std::vector<LinkUse>& uses,
                                 std::vector<Bandwidth>* bandwidths);
// Returns the speed of each kind and size of operation, starting with those that took the most time. Omits what is
// below the clock's precision.
std::vector<Speed> FindSpeeds(const Timing& timing, const std::vector<LinkUse>& uses);

}  // namespace lockstep
