#include "analyzer/engine/facts/lost.h"

namespace lockstep {

LostFront LostFrontOf(const Rank& rank, const RankView& view, uint32_t index) {
  LostFront front;
  const ring::StreamSnapshot& stream = rank.streams[index];
  if (!stream.marked || stream.completed >= stream.issued) return front;
  // Tickets count the work put on a stream, from 1.
  const Op* oldest = nullptr;
  bool recorded = false, one_lane = true;
  for (const Unit& unit : view.in_flight) {
    for (uint32_t i : unit.ops) {
      const Op& op = rank.ops[i];
      if (op.stream != index) continue;
      recorded |= static_cast<uint64_t>(op.ticket) == stream.completed + 1 || (op.recent_only && op.ticket <= 0);
      if (op.ticket <= 0) continue;
      one_lane &= ring::IsCollective(op.kind) &&
                  (oldest == nullptr ||
                   (oldest->membership == op.membership && op.ticket - op.seq == oldest->ticket - oldest->seq));
      if (oldest == nullptr || op.ticket < oldest->ticket) oldest = &op;
    }
  }
  if (recorded || oldest == nullptr) return front;
  front.lost = true;
  front.started = stream.started > stream.completed;
  front.membership = oldest->membership;
  front.exchange = ring::IsPointToPoint(oldest->kind);
  const int64_t seq = oldest->seq - (oldest->ticket - static_cast<int64_t>(stream.completed + 1));
  if (one_lane && seq >= 1) front.seq = seq;
  return front;
}

}  // namespace lockstep
