#include "analyzer/engine/facts/finished.h"

#include <algorithm>

#include "analyzer/model/call_kinds.h"

namespace lockstep {

bool CompletionsAreRecorded(const Rank& rank, const Op* op) {
  if (rank.source != Source::kFlightRecorder) return true;
  if (rank.start_recorded || (op != nullptr && (op->state == OpState::kStarted || op->retired))) return true;
  return std::any_of(rank.memberships.begin(), rank.memberships.end(),
                     [](const Membership& ms) { return ms.completed >= 0; }) ||
         std::any_of(rank.ops.begin(), rank.ops.end(), [](const Op& o) { return o.state == OpState::kCompleted; });
}

int32_t FinishedAlone(const Model& model, uint32_t comm, int64_t seq) {
  constexpr int kOthers = 2;
  int32_t alone = -1;
  int inside = 0;
  for (const Member& m : model.comms[comm].members) {
    if (!m.recorded()) continue;
    const Op* theirs = model.FindCollective(m, seq);
    if (theirs != nullptr && !NeedsEveryMember(theirs->kind)) return -1;
    if (theirs != nullptr ? theirs->state == OpState::kCompleted : m.completed >= seq) {
      if (alone >= 0 || (theirs != nullptr && model.JustCompleted(model.bundle.ranks[m.rank_index], *theirs)))
        return -1;
      alone = m.rank_index;
    } else if (theirs != nullptr) {
      inside += model.InFlight(m.rank_index, *theirs);
    }
  }
  return inside >= kOthers ? alone : -1;
}

}  // namespace lockstep
