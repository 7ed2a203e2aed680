#include "analyzer/engine/facts/network.h"
#include "analyzer/util/sorted.h"

#include <algorithm>

namespace lockstep {

using ring::ProxyState;

std::vector<StuckStep> StuckSteps(const Model& model, uint32_t comm, ring::CallKind kind, int64_t seq) {
  std::vector<StuckStep> steps;
  if (comm == kNoIndex) return steps;
  const std::vector<Member>& members = model.comms[comm].members;
  for (const Member& member : members) {
    if (!member.recorded()) continue;
    for (const NetworkOp& op : model.bundle.ranks[member.rank_index].network) {
      if (op.membership != member.membership || !ring::WaitsForNetwork(op.state)) continue;
      if (IsCollective(kind) && (op.kind != kind || (seq != kUnknown && op.seq != seq))) continue;
      if (!IsCollective(kind) && IsCollective(op.kind)) continue;
      StuckStep step;
      step.rank_index = member.rank_index;
      step.op = &op;
      if (op.peer >= 0 && static_cast<size_t>(op.peer) < members.size()) {
        step.peer_index = members[op.peer].rank_index;
        step.peer_rank = members[op.peer].global_rank;
      }
      steps.push_back(step);
    }
  }
  // Sorts by duration, because times of different hosts are not comparable.
  auto waited = [&](const StuckStep& step) {
    return model.bundle.ranks[step.rank_index].captured_ns - step.op->since_ns;
  };
  std::ranges::stable_sort(steps, [&](const StuckStep& a, const StuckStep& b) { return waited(a) > waited(b); });
  return steps;
}

std::vector<std::pair<int32_t, int32_t>> StuckLinks(const std::vector<StuckStep>& steps) {
  std::vector<std::pair<int32_t, int32_t>> links;
  for (const StuckStep& receive : steps) {
    if (receive.op->send || receive.op->state != ProxyState::kRecvWait || receive.peer_index < 0) continue;
    for (const StuckStep& send : steps) {
      if (!send.op->send || send.rank_index != receive.peer_index || send.peer_index != receive.rank_index) continue;
      // The sender waits in the receiver's step, or in an older step.
      if (send.op->channel != receive.op->channel || send.op->step > receive.op->step) continue;
      const std::pair<int32_t, int32_t> link{send.rank_index, receive.rank_index};
      if (!Contains(links, link)) links.push_back(link);
    }
  }
  return links;
}

EvidenceItem EvidenceOf(const Model& model, const StuckStep& step) {
  const Rank& rank = model.bundle.ranks[step.rank_index];
  EvidenceItem item(Evidence::NETWORK_STEP, {step.rank_index});
  item.Naming(model.bundle).Name(ring::ProxyStateName(step.op->state)).CountOf(step.op->channel, step.op->steps);
  if (step.peer_rank >= 0) {
    item.mutable_detail()->add_ranks(step.peer_rank);
  } else {
    item.mutable_detail()->set_number(step.op->peer);
  }
  item.mutable_detail()->set_other_number(step.op->step + 1);
  if (rank.captured_ns > 0 && step.op->since_ns > 0 && rank.captured_ns >= step.op->since_ns)
    item.fields.set_duration_ns(rank.captured_ns - step.op->since_ns);
  return item;
}

}  // namespace lockstep
