#include "collector/service/core/flying.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "analyzer/formats/lsd/history.h"

namespace lockstep {

absl::flat_hash_map<uint64_t, Flying> FlyingOf(const Bundle& bundle) {
  std::vector<Flying> found(bundle.comms.size());
  for (const Rank& rank : bundle.ranks) {
    for (const Op& op : rank.ops) {
      if (op.membership >= rank.memberships.size() || op.recent_only || !IsUnfinished(op.state)) continue;
      const uint32_t comm = rank.memberships[op.membership].comm;
      if (comm >= found.size()) continue;
      Flying& flying = found[comm];
      const bool pair = op.kind == ring::CallKind::kSend || op.kind == ring::CallKind::kRecv;
      const int64_t sequence = pair ? -1 : op.seq;
      // Prefers collectives to sends and receives, which are numbered separately for each peer.
      if (flying.kind != ring::CallKind::kNone && sequence < flying.sequence) continue;
      if (flying.kind == ring::CallKind::kNone || sequence > flying.sequence) flying = {op.kind, sequence, 0, false};
      if (op.state == OpState::kStarted) ++flying.started;
      flying.start_recorded |= op.state == OpState::kStarted || op.state == OpState::kEnqueued;
    }
  }
  absl::flat_hash_map<uint64_t, Flying> by_id;
  for (size_t i = 0; i < found.size(); ++i) {
    uint64_t id = 0;
    if (found[i].kind != ring::CallKind::kNone && absl::SimpleHexAtoi(bundle.comms[i].id, &id)) by_id[id] = found[i];
  }
  return by_id;
}

}  // namespace lockstep
