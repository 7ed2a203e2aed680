// Who usually comes late to the operations of a group, where a record holds few steps or none. Members leave a
// collective at one moment; where all of them come to the next one with nothing recorded between, the difference of
// their times in it is the difference of their own work. No clock is compared, no step has to be whole, and what
// happens now and then is told from habit by how often it happens to the others.
#ifndef LOCKSTEP_ANALYZER_ENGINE_SLOW_HABIT_H_
#define LOCKSTEP_ANALYZER_ENGINE_SLOW_HABIT_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/pace.h"

namespace lockstep {

// Who usually comes later than so many times what is usual is late by habit.
constexpr int64_t kClearlyLater = 4;

// A rank in the communicator in which it meets others most often.
struct Habit {
  uint32_t comm = kNoIndex;  // kNoIndex: too little was recorded to tell
  uint32_t meetings = 0;     // that were compared
  int64_t later_ns = 0;  // it comes so long after the first in a quarter of them, or longer; less what members at its
                         // place in sibling groups do
  int64_t usual_ns = 0;  // the same of half of the members of such communicators
  int64_t waited_ns =
      0;  // how long the first waited for it, all meetings together; no wait counts for more than twice later_ns
  double by_chance = 1;  // at most: that any rank of the job would be so late so often if lateness fell on all alike; 1
                         // for whoever is not clearly later
  int64_t span_ns = 0;   // of the rank's time in which these meetings lie, at least
};

// The chance, at most, that of so many meetings so many are late, in so many runs of late ones, where lateness begins
// with one chance at a meeting and stays for the next with another (both above 0 and below 1).
double ChanceOfRuns(double meetings, double late, double runs, double begins, double stays);

// By rank, as Bundle::ranks.
std::vector<Habit> FindHabits(const Timing& timing, const Paces& paces);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_SLOW_HABIT_H_
