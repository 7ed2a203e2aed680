// The members of communicators, if the rings of some are out of reach. A ring knows the numbers of its own process
// alone; heartbeats told the collector those of all.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_KNOWN_MEMBERS_H_
#define LOCKSTEP_COLLECTOR_SERVICE_KNOWN_MEMBERS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/common/rank_set.h"
#include "collector/detect/progress.h"

namespace lockstep {

struct KnownMembers {
  uint64_t comm = 0;
  std::vector<int32_t> ranks;  // all of its members, ascending
};
// Of communicators that one of `missing` is in, as far as all their members have been heard of.
std::vector<KnownMembers> MembersWith(const MergedProgress& progress, const Ranks& missing);
// Assigns member places without data to the remaining ranks. Frameworks number members by ascending ranks. If the known
// members do not ascend, the places of several missing ranks stay a guess.
void FillMembers(const std::vector<KnownMembers>& known, Bundle* bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_KNOWN_MEMBERS_H_
