// Circles in which few ranks went on without an operation that many are in: ranks that left the loop for its end, or skipped a
// step, and wait for the others at a later place.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine_causes.h"

namespace lockstep {

std::vector<Cause> Causes::LeftInCircle(const std::vector<uint32_t>& sink, bool beside) const {
  constexpr size_t kManyAgainstOne = 3;
  auto inside = [&](uint32_t v) { return std::binary_search(sink.begin(), sink.end(), v); };
  std::set<int32_t> all, odd, never;
  for (uint32_t v : sink) {
    if (graph_->RankOf(v) >= 0) all.insert(graph_->RankOf(v));
    for (const Edge& e : graph_->edges[v]) {
      if (e.why == Why::kNotIssued && graph_->IsHost(e.to) && inside(e.to)) never.insert(graph_->RankOf(e.to));
    }
    if (graph_->Kind(v) != WaitGraph::NodeKind::kCollective) continue;
    // Few that did not issue what many did, or few that issued what many did not.
    std::set<int32_t> lacking, issuers;
    for (const Edge& e : graph_->edges[v]) {
      if (e.why == Why::kNotIssued && graph_->IsHost(e.to) && inside(e.to)) lacking.insert(graph_->RankOf(e.to));
    }
    for (uint32_t from : graph_->back[v]) {
      if (!lacking.empty() && graph_->RankOf(from) >= 0) issuers.insert(graph_->RankOf(from));
    }
    if (beside) all.insert(issuers.begin(), issuers.end());
    if (kManyAgainstOne * lacking.size() <= issuers.size()) odd.insert(lacking.begin(), lacking.end());
    if (kManyAgainstOne * issuers.size() <= lacking.size()) odd.insert(issuers.begin(), issuers.end());
  }
  // All others have issued whatever is waited for.
  if ((kManyAgainstOne + 1) * never.size() <= all.size()) odd = never;
  if (odd.empty() || (kManyAgainstOne + 1) * odd.size() > all.size()) return {};
  for (int32_t r : odd) {
    // Sends and receives that lack their other side are another matter.
    for (uint32_t q = graph_->FirstQueue(r); q < graph_->FirstQueue(r + 1); ++q) {
      const GpuFront& front = graph_->QueueOf(graph_->QueueNode(q)).front;
      if (front.op != nullptr && ring::IsPointToPoint(front.op->kind)) return {};
    }
  }
  // What the others lack of them: the place that was left first is in the smallest communicator.
  const Edge* missed = nullptr;
  int32_t waiter = -1;
  auto consider = [&](const Edge& e, uint32_t from) {
    if (e.op == nullptr || graph_->RankOf(from) < 0 || odd.contains(graph_->RankOf(from))) return;
    if (missed == nullptr || bundle_.comms[e.comm].size < bundle_.comms[missed->comm].size) missed = &e, waiter = graph_->RankOf(from);
  };
  for (int32_t r : odd) {
    for (uint32_t w : graph_->back[WaitGraph::HostNode(r)]) {
      const bool collective = graph_->Kind(w) == WaitGraph::NodeKind::kCollective;
      for (uint32_t from : collective ? graph_->back[w] : std::vector<uint32_t>{w}) {
        for (const Edge& e : graph_->edges[from]) {
          if (e.to == (collective ? w : WaitGraph::HostNode(r))) consider(e, from);
        }
      }
    }
  }
  if (missed == nullptr) return {};
  Cause c;
  c.kind = RANK_NOT_ARRIVED;
  c.cause = "code mismatch";
  c.nodes = sink;
  c.ranks.assign(odd.begin(), odd.end());
  c.comm = missed->comm;
  c.op = missed->op;
  c.op_rank = waiter;
  c.confidence = 0.9;
  const std::string place = absl::StrCat(OpText(bundle_, bundle_.ranks[waiter], *missed->op), " on ", CommText(bundle_.comms[missed->comm]));
  const int32_t first = c.ranks[0];
  std::string later = "what comes later";
  for (uint32_t q = graph_->FirstQueue(first); q < graph_->FirstQueue(first + 1); ++q) {
    const GpuFront& front = graph_->QueueOf(graph_->QueueNode(q)).front;
    if (front.op != nullptr) later = absl::StrCat(OpText(bundle_, bundle_.ranks[first], *front.op), " on ", CommText(bundle_.comms[front.comm]));
  }
  c.what = absl::StrCat("left out ", place, " and what follows it, and waits in ", later);
  c.evidence.push_back({absl::StrCat(Who(waiter), " waits in ", place, ", which the named ranks never issued; ", all.size() - odd.size(),
                                     " ranks wait for them, directly or through others"),
                        {waiter}});
  c.evidence.push_back({absl::StrCat(Who(first), " waits in ", later), {first}});
  c.advice = "1. Find out why the named ranks came to that call: they ended the step or the loop early (uneven data, a condition that depends on local "
             "data), or nobody should make it there.\n"
             "2. Make every rank run the same number of steps, or agree on the end by a collective.";
  c.alternatives = {absl::StrCat("they left out nothing, but added ", later, ", which the others never call"),
                    "they issue these operations in another order than the others"};
  c.tells_apart = "the named ranks' program after the operation that they wait in";
  c.refuted_by = "records of the named ranks' calls";
  return {c};
}

}  // namespace lockstep
