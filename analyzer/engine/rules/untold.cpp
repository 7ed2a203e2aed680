// Ranks without data, next to dumps of backends that record no sends, receives, barriers or failures.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// With such a backend an idle rank may be waiting for the rank without data, or may have failed together with it. One
// rank at fault, whose file is missing for that reason, is more likely than a fault elsewhere plus a lost file.
void Causes::BlameTheSilent(std::vector<Cause>* causes) const {
  std::map<int32_t, std::vector<uint32_t>> silent;  // global rank -> communicators
  for (uint32_t comm = 0; comm < model_.comms.size(); ++comm) {
    for (const Member& m : model_.comms[comm].members) {
      if (m.rank_index < 0 && m.global_rank >= 0) silent[m.global_rank].push_back(comm);
    }
  }
  constexpr size_t kFew = 64;  // with more, nothing tells them apart
  if (silent.empty() || silent.size() > kFew) return;
  for (Cause& c : *causes) {
    const bool stands = c.kind == RANK_NOT_ARRIVED || c.kind == HOST_STALL;
    const bool untold = std::all_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
      return bundle_.ranks[static_cast<size_t>(r)].ends_untold &&
             model_.ranks[static_cast<size_t>(r)].in_flight.empty() &&
             model_.ranks[static_cast<size_t>(r)].host == HostState::kUnknown;
    });
    if (!stands || !untold || c.ranks.empty() || c.ranks.size() > kFew) continue;
    // The ranks without data that share the smallest communicator with all idle ranks.
    std::vector<int32_t> nearest;
    int32_t size = INT32_MAX;
    for (const auto& [rank, comms] : silent) {
      int32_t least = INT32_MAX;
      for (const uint32_t comm : comms) {
        const auto& members = model_.comms[comm].members;
        const bool holds_all = std::all_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
          return std::any_of(members.begin(), members.end(), [r](const Member& m) { return m.rank_index == r; });
        });
        if (holds_all) least = std::min(least, bundle_.comms[comm].size);
      }
      if (least < size) nearest.clear();
      if (least <= size && least != INT32_MAX) nearest.push_back(rank);
      size = std::min(size, least);
    }
    if (nearest.empty()) continue;
    std::vector<int32_t> named;
    for (const int32_t r : c.ranks) named.push_back(bundle_.ranks[static_cast<size_t>(r)].rank);
    const std::string who = absl::StrCat(named.size() == 1 ? "rank " : "ranks ", absl::StrJoin(named, ", "));
    Cause blamed = NoDataCause(nearest[0]);
    blamed.missing = nearest;
    blamed.grade = kWaitedForWithoutData;
    blamed.nodes = std::move(c.nodes);
    blamed.comm = c.comm;
    blamed.op = c.op;
    blamed.op_rank = c.op_rank;
    blamed.evidence = std::move(c.evidence);
    const bool one = named.size() == 1;
    blamed.evidence.push_back({absl::StrCat(who, one ? " is" : " are",
                                            " idle, and may be waiting for a rank that left no data: this backend does "
                                            "not record sends, receives or barriers"),
                               c.ranks});
    Detail* rival = blamed.AddRival(Rival::LOST_FILE);
    for (const int32_t rank : named) rival->add_ranks(rank);
    c = std::move(blamed);
  }
}

}  // namespace lockstep
