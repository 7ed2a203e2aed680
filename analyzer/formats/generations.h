// Removes records of other runs: several runs of one job name may have left their files in one folder.
#pragma once

#include <vector>

#include "analyzer/formats/held_ranks.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Keeps only the newest run in `held->ranks`, with a note for each removed run. Every run creates its own communicators
// with new unique ids. Ranks that share no communicator, directly or through others, and claim the same place in the
// job therefore belong to different runs. Parts that share nothing and claim nothing twice are one job of several
// programs and stay. The newest run is the one whose first communicator was created last, by the hosts' wall clocks.
void KeepNewestRun(HeldRanks* held, std::vector<Problem>* problems);

// Flight Recorder dumps do not contain the identity of a run. Removes ranks whose records contradict those of most
// others. That means that the others completed operations with them that they never issued, or completed them long
// before they were issued, or the reverse. Also, their last entries must be more than a minute apart by the wall
// clocks, or five seconds if the others still ran. For dumps of active operations only, two groups and an hour are
// required. If half of the ranks or more contradict the others, the newest stay, if there are several.
void LeaveOutForeignDumps(Bundle* bundle);

}  // namespace lockstep
