// Merges causes that are the same fault, and drops those that another cause explains.
#include <algorithm>

#include "analyzer/engine/rules/rules.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

constexpr Grade kProven = GRADE_GOOD;

void DropDoubtful(std::vector<Cause>* causes) {
  const bool proven = std::ranges::any_of(*causes, [](const Cause& c) { return !c.doubtful && c.grade >= kProven; });
  if (proven) std::erase_if(*causes, &Cause::doubtful);
}

void JoinStorage(std::vector<Cause>* causes) {
  const auto files = [](const Cause& c) {
    return c.kind == HOST_STALL && c.missing.empty() && (c.stall == Stall::kCheckpoint || c.stall == Stall::kStorage);
  };
  const auto first = std::ranges::find_if(*causes, [&](const Cause& c) { return files(c) && !c.beside; });
  if (first == causes->end()) return;
  for (Cause& c : *causes) {
    if (!files(c) || !c.beside) continue;
    Append(c.ranks, &first->ranks);
    first->Absorb(&c);
  }
  std::ranges::sort(first->ranks);
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
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
