// Who the members of communicators are, where the rings of some of them are out of reach. A ring knows the numbers of
// its own process alone; heartbeats have told the collector those of all.
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
// Gives places of communicators that nobody's data is at to the ranks that are left. Frameworks number members by
// ascending ranks; where the known ones are not, which of several missing ranks is at which place stays a guess.
void FillMembers(const std::vector<KnownMembers>& known, Bundle* bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_KNOWN_MEMBERS_H_
