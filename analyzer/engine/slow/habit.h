// Finds ranks that usually arrive late at the operations of a group, if a record contains few or no complete steps.
// Members leave a collective at the same moment. If nothing is recorded between two collectives, the member that spends
// the least time in the second arrived last. The differences show how much longer its own work took. This needs no
// clock comparison and no complete step. A rank is late by habit if it is late more often than the other ranks'
// lateness would explain by chance.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/pace.h"

namespace lockstep {

// A rank can be late by habit only if it arrives later than this many times the usual lateness.
constexpr int64_t kClearlyLater = 4;

// A rank's lateness on the communicator on which most of its meetings can be compared. A meeting is one collective that
// all members make together.
struct Habit {
  uint32_t comm = kNoIndex;  // kNoIndex if too little was recorded
  uint32_t meetings = 0;     // number of compared meetings
  int64_t later_ns = 0;      // in at least a quarter of the meetings it arrives this long, or longer, after the first;
                             // minus the same for members at its place in groups of the same class
  int64_t usual_ns = 0;      // the median of this lateness, before the subtraction, over all members of such groups
  int64_t waited_ns =
      0;  // how long the first rank waited for it, over all meetings; no wait counts for more than twice its lateness
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
