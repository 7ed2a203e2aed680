// Merges causes that are the same fault, and drops those that another cause explains.
#include <algorithm>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {

constexpr Grade kProven = GRADE_GOOD;

void DropDoubtful(std::vector<Cause>* causes) {
  const bool proven =
      std::any_of(causes->begin(), causes->end(), [](const Cause& c) { return !c.doubtful && c.grade >= kProven; });
  if (proven) std::erase_if(*causes, [](const Cause& c) { return c.doubtful; });
}

void FoldHostsOfFailedGpus(std::vector<Cause>* causes) {
  for (Cause& gpu : *causes) {
    if (gpu.kind != GPU_STALL || gpu.grade < GRADE_RECORDED) continue;
    for (Cause& host : *causes) {
      if (host.kind == HOST_STALL && host.ranks == gpu.ranks && host.missing.empty()) gpu.Absorb(&host);
    }
  }
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

}  // namespace lockstep
