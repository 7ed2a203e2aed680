// Records that do not belong together although they are of one job by name: runs of it that left their files in one
// folder.
#ifndef LOCKSTEP_ANALYZER_FORMATS_GENERATIONS_H_
#define LOCKSTEP_ANALYZER_FORMATS_GENERATIONS_H_

#include <vector>

#include "analyzer/formats/held_ranks.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Leaves out of `held->ranks` those of other runs than the newest, with a note each run. Every run makes its
// communicators with unique ids of its own, so ranks that share no communicator, directly or through others, and claim
// the same place in the job, cannot be of one run. Parts that share nothing and claim nothing twice are one job of
// several programs and stay. Which run is newest: the one whose first communicator was made last, by the hosts' wall
// clocks.
void KeepNewestRun(HeldRanks* held, std::vector<Problem>* problems);

// Flight Recorder dumps hold no identity of a run. Leaves out of the bundle ranks whose records contradict those of
// most others: the others completed operations with them that they never issued, or the reverse, and their last entries
// are more than a minute apart by the wall clocks. Of dumps that hold only what was active it takes two groups and an
// hour. Only few against many are judged.
void LeaveOutForeignDumps(Bundle* bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_GENERATIONS_H_
