// Finds the members of communicators if some of their rings are unavailable. A ring contains only the members in its
// own process; the collector knows all members from heartbeats.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/bundle.h"
#include "analyzer/model/rank_set.h"
#include "collector/detect/progress.h"

namespace lockstep {

struct KnownMembers {
  uint64_t comm = 0;
  std::vector<int32_t> ranks;  // all members of the communicator, ascending
};
// Returns the members of communicators that contain one of `missing`, if all their members are known.
std::vector<KnownMembers> MembersWith(const MergedProgress& progress, const Ranks& missing);
// Assigns the remaining ranks to member indexes without data. Frameworks number members by ascending rank. If the known
// members do not ascend, the assignment of several missing ranks is a guess.
void FillMembers(const std::vector<KnownMembers>& known, Bundle* bundle);

}  // namespace lockstep
