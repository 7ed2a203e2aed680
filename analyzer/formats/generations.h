// Removes records of other runs, because several runs of a job may leave their files in one folder.
#pragma once

#include <vector>

#include "analyzer/formats/held_ranks.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Keeps only the newest run in `held->ranks`, and adds a note for each removed run. Every run creates communicators
// with new unique ids. Groups of ranks that share no communicator, directly or through others, are therefore different
// runs if they have a rank number in common, or if each has a communicator of the whole job with the same size.
// Otherwise they are programs of one job, and stay. The newest run created its first communicator last, by the hosts'
// wall clocks. Runs without creation times stay.
void KeepNewestRun(HeldRanks* held, std::vector<Problem>* problems);

// Flight Recorder dumps do not identify their run. Corrects wrong wall clocks, then removes ranks with records that
// contradict most others', with a note for each. In a contradiction, one side completed operations that the other never
// issued, or issued much later. The last entries must also be a minute apart by the wall clocks, or five seconds if no
// abort can have ended the operations. Dumps of only active operations must contradict in two groups, or in their only
// one, and be an hour apart. If at least half of the ranks contradict the others, or some of the newest do, only the
// newest ranks stay, if there are at least two.
void LeaveOutForeignDumps(Bundle* bundle);

}  // namespace lockstep
