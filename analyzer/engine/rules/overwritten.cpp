// Handles hangs in which no other rank is known to delay the job: names the ranks whose records of their current
// operation were overwritten.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/causes.h"

namespace lockstep {

std::vector<Cause> FromOverwritten(const Facts& facts) {
  Cause all;
  std::map<uint32_t, Cause> exchanges;
  for (const auto& sink : facts.graph->sinks) {
    const uint32_t v = sink[0];
    if (sink.size() > 1 || facts.graph->Kind(v) != WaitGraph::NodeKind::kQueue ||
        facts.graph->QueueOf(v).front.front != Front::kOverwritten)
      continue;
    const Queue& queue = facts.graph->QueueOf(v);
    for (Cause* c : {&all, queue.lost_exchange != kNoIndex ? &exchanges[queue.lost_exchange] : nullptr}) {
      if (c == nullptr) continue;
      c->ranks.push_back(queue.rank);
      c->nodes.push_back(v);
    }
  }
  std::vector<Cause> causes;
  // Adds a cause for both ends of one exchange.
  for (auto& [comm, c] : exchanges) {
    std::sort(c.ranks.begin(), c.ranks.end());
    c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
    if (facts.bundle.comms[comm].size != 2 || c.ranks.size() != 2) continue;
    c.kind = P2P_UNMATCHED;
    c.comm = comm;
    c.grade = GRADE_OPEN;
    c.reason = REASON_RECORDS_GONE_PAIR;
    c.detail.set_name(CommText(facts.bundle, facts.bundle.comms[comm]));
    causes.push_back(std::move(c));
  }
  // The counters may show the cause where records do not.
  if (!all.ranks.empty()) {
    const std::set<int32_t> standing(all.ranks.begin(), all.ranks.end());
    Cause odd = FromCounts(facts);
    const bool stand = std::all_of(odd.ranks.begin(), odd.ranks.end(), [&](int32_t r) { return standing.contains(r); });
    if (!odd.ranks.empty() && (stand || odd.kind == SILENT_DESYNC)) {
      for (size_t i = 0; i < all.nodes.size(); ++i) {
        if (std::binary_search(odd.ranks.begin(), odd.ranks.end(), facts.graph->RankOf(all.nodes[i])))
          odd.nodes.push_back(all.nodes[i]);
      }
      return {odd};
    }
  }
  // A single rank whose file lost its current operation is a rank without data.
  if (causes.empty() && all.ranks.size() == 1 && facts.bundle.ranks[static_cast<size_t>(all.ranks[0])].damaged) {
    Cause c = NoDataCause(facts, facts.bundle.ranks[static_cast<size_t>(all.ranks[0])].rank);
    c.nodes = all.nodes;
    c.reason = REASON_DATA_LOST_OTHERS_WAIT;
    c.grade = GRADE_OPEN;
    c.first_only = true;
    AddWaiterEvidence(facts, all.nodes[0], &c);
    return {c};
  }
  // Several pairs at once have something in common that is not recorded.
  if (causes.size() > 1) causes.clear();
  if (causes.empty() && !all.ranks.empty()) {
    std::sort(all.ranks.begin(), all.ranks.end());
    all.ranks.erase(std::unique(all.ranks.begin(), all.ranks.end()), all.ranks.end());
    all.kind = COLLECTIVE_STUCK;
    all.grade = GRADE_GUESS;
    all.reason = REASON_RECORDS_GONE;
    // If all ranks that wait for them do so in one operation, the named ranks are most likely in it too.
    const Edge* in = nullptr;
    int32_t waiter = -1;
    bool one = true;
    const auto look = [&](uint32_t from, uint32_t to) {
      for (const Edge& e : facts.graph->edges[from]) {
        if (e.to != to || e.op == nullptr || facts.graph->RankOf(from) < 0) continue;
        if (in == nullptr) in = &e, waiter = facts.graph->RankOf(from);
        one &= in->comm == e.comm && in->op->seq == e.op->seq && in->op->kind == e.op->kind;
      }
    };
    for (uint32_t v : all.nodes) {
      for (uint32_t from : facts.graph->back[v]) {
        if (facts.graph->Kind(from) == WaitGraph::NodeKind::kQueue) look(from, v);
        if (facts.graph->Kind(from) != WaitGraph::NodeKind::kCollective) continue;
        for (uint32_t behind : facts.graph->back[from]) look(behind, from);
      }
    }
    // Alternatively, they may be in the first operation of a communicator in which nothing has completed on any rank.
    std::map<uint32_t, size_t> first;
    for (uint32_t v : all.nodes) {
      for (const auto& [comm, seq] : facts.graph->QueueOf(v).lost) {
        const Rank& rank = facts.bundle.ranks[static_cast<size_t>(facts.graph->RankOf(v))];
        first[comm] +=
            std::any_of(rank.memberships.begin(), rank.memberships.end(), [&, c = comm, s = seq](const Membership& ms) {
              return ms.comm == c && ms.completed == kNone && s == (ms.first_seq >= 0 ? ms.first_seq : 1);
            });
      }
    }
    for (const auto& [comm, count] : first) {
      if (count == all.nodes.size()) all.first_lost = comm, all.op_rank = all.ranks[0];
    }
    if (in != nullptr && one) {
      all.op = in->op, all.op_rank = waiter, all.comm = in->comm;
    }
    causes.push_back(std::move(all));
  }
  for (Cause& c : causes) {
    c.doubtful = true;
    c.Add(Evidence::OLDER_IN_FLIGHT, c.ranks);
  }
  return causes;
}

}  // namespace lockstep
