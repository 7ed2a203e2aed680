// Handles ranks without data in jobs whose backends record no sends, receives, barriers or failures.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"

namespace lockstep {

// With such a backend, an idle rank may be waiting for the rank without data, or may have failed together with it. One
// faulty rank whose file is missing for that reason is more likely than a fault elsewhere plus a lost file.
void BlameTheSilent(const Facts& facts, std::vector<Cause>* causes) {
  auto silent = UnseenMembers(facts.model);
  // Sends and receives leave no entries, so a rank without data may have exchanged with any other rank of the job.
  constexpr size_t kFew = 64;  // if there are more, they cannot be distinguished
  for (const int32_t rank : RanksWithoutData(facts.bundle, kFew + 1)) silent.try_emplace(rank);
  if (silent.empty() || silent.size() > kFew) return;
  const auto idle = [&](const Cause& c) {
    // A rank whose own record differs from those of ranks with the same role is not merely idle.
    const bool stands = (c.kind == RANK_NOT_ARRIVED && c.reason != REASON_SKIPPED) || c.kind == HOST_STALL;
    const bool untold = std::all_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
      return facts.bundle.ranks[r].ends_untold && facts.model.ranks[r].Idle();
    });
    return stands && untold && !c.ranks.empty() && c.ranks.size() <= kFew;
  };
  // In such a backend, a rank whose call differs makes its peer's process fail. That explains the missing file and the
  // idle ranks.
  const auto differs = [&](const Cause& c) {
    return c.beside && c.missing.empty() && !c.ranks.empty() &&
           std::all_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) { return facts.DivergenceOf(r) != nullptr; });
  };
  if (std::any_of(causes->begin(), causes->end(), differs)) {
    std::erase_if(*causes, idle);
    for (Cause& c : *causes) c.beside &= !differs(c);
    return;
  }
  for (Cause& c : *causes) {
    if (!idle(c)) continue;
    // The ranks without data that share the smallest communicator with all idle ranks.
    std::vector<int32_t> nearest;
    int32_t size = INT32_MAX;
    for (const auto& [rank, places] : silent) {
      int32_t least = INT32_MAX;
      for (const auto& [comm, number] : places) {
        const auto& members = facts.model.comms[comm].members;
        const bool holds_all = std::all_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
          return std::any_of(members.begin(), members.end(), [r](const Member& m) { return m.rank_index == r; });
        });
        if (holds_all) least = std::min(least, facts.bundle.comms[comm].size);
      }
      if (least < size) nearest.clear();
      if (least <= size && least != INT32_MAX) nearest.push_back(rank);
      size = std::min(size, least);
    }
    if (nearest.empty()) {
      for (const auto& [rank, places] : silent) nearest.push_back(rank);
    }
    Cause blamed = NoDataCause(facts, nearest[0]);
    blamed.missing = nearest;
    blamed.grade = kWaitedForWithoutData;
    blamed.nodes = std::move(c.nodes);
    blamed.In(c.comm, c.op, c.op_rank);
    blamed.evidence = std::move(c.evidence);
    const EvidenceItem& unrecorded = blamed.Add(Evidence::IDLE_UNRECORDED, c.ranks).Naming(facts.bundle);
    *blamed.AddRival(Rival::LOST_FILE)->mutable_ranks() = unrecorded.fields.detail().ranks();
    c = std::move(blamed);
  }
}

}  // namespace lockstep
