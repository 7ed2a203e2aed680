// Removes records of other runs, because several runs with one job name may have left their files in one folder.
#pragma once

#include <vector>

#include "analyzer/formats/held_ranks.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Keeps only the newest run in `held->ranks`, and adds a note for each removed run. Every run creates its own
// communicators with new unique ids. Ranks therefore belong to different runs if they share no communicator, directly
// or through others, and claim the same place in the job. Parts that share nothing and claim nothing twice are one
// job of several programs, and stay. The newest run is the one whose first communicator was created last, by the
// hosts' wall clocks.
void KeepNewestRun(HeldRanks* held, std::vector<Problem>* problems);

// Flight Recorder dumps do not identify their run. Removes ranks whose records contradict most others'. A contradiction
// is that the others completed operations that these ranks never issued, or issued much later. The reverse also counts.
// Their last entries must also be more than a minute apart by the wall clocks, or five seconds if the others were still
// running. Dumps that contain only active operations must contradict in two groups and be an hour apart. If at least
// half of the ranks contradict the others, or the newest do, only the newest ranks stay, if there are several.
void LeaveOutForeignDumps(Bundle* bundle);

}  // namespace lockstep
