// Finds ranks that usually arrive late at the operations of a group, if a record contains few or no complete steps.
// Members leave a collective at the same moment. If nothing is recorded between two collectives, members' times in the
// second differ by how much their own work differs. This needs no clock comparison and no complete step. How often
// others are late distinguishes occasional lateness from a habit.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/pace.h"

namespace lockstep {

// A rank is late by habit if it arrives later than this many times the usual lateness.
constexpr int64_t kClearlyLater = 4;

// A rank's lateness on the communicator on which it makes most collectives. A meeting is one collective that all
// members make together.
struct Habit {
  uint32_t comm = kNoIndex;  // kNoIndex if too little was recorded
  uint32_t meetings = 0;     // number of compared meetings
  int64_t later_ns = 0;      // in at least a quarter of the meetings it arrives this long, or longer, after the first;
                             // minus the same for members at its place in groups of the same class
  int64_t usual_ns = 0;      // the median of this value over the members of such communicators
  int64_t waited_ns =
      0;  // how long the first rank waited for it, over all meetings; no wait counts for more than twice later_ns
  double by_chance = 1;  // upper limit of the probability that any rank of the job is late this often if lateness is
                         // random; 1 for a rank that is not clearly later
  int64_t span_ns = 0;   // lower limit of the time that the rank's record covers
};

// Upper limit of the probability that this many of the meetings are late, in this many runs of consecutive late ones.
// Lateness begins at a meeting with one probability and continues at the next with another (both above 0 and below 1).
double ChanceOfRuns(double meetings, double late, double runs, double begins, double stays);

// Indexed like Bundle::ranks.
std::vector<Habit> FindHabits(const Timing& timing, const Paces& paces);

}  // namespace lockstep
