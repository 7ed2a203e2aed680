// Ranks without data that others wait for: determines which of them are most likely victims too.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "analyzer/engine/rules/causes.h"

namespace lockstep {

namespace {

// Communicators in which a rank waits for this node.
std::set<uint32_t> WaitedIn(const Facts& facts, uint32_t node) {
  std::set<uint32_t> comms;
  for (uint32_t w : facts.graph->back[node]) {
    if (facts.graph->Kind(w) == WaitGraph::NodeKind::kCollective) {
      if (const Edge* in = facts.FirstIn(w).edge; in != nullptr && in->comm != kNoIndex) comms.insert(in->comm);
      continue;
    }
    for (const Edge& e : facts.graph->edges[w]) {
      if (e.to == node && e.comm != kNoIndex) comms.insert(e.comm);
    }
  }
  return comms;
}

}  // namespace

// Ranks of the most used communicators (tensor parallelism) exchange data several times in each layer. So the peers of
// a stopped rank wait for it there. If peers wait like that for some ranks without data, the other ranks without data
// are most likely where their own peers are. These peers must have completed all operations with them, and wait
// elsewhere.
std::set<uint32_t> SilentVictims(const Facts& facts) {
  std::map<uint32_t, std::set<uint32_t>> waited;  // node -> communicators
  for (const auto& sink : facts.graph->sinks) {
    if (sink.size() == 1 && facts.graph->Kind(sink[0]) == WaitGraph::NodeKind::kMissing)
      waited[sink[0]] = WaitedIn(facts, sink[0]);
  }
  std::set<uint32_t> victims;
  if (waited.size() < 2) return victims;
  // A rank that only damaged records wait for, and whose peers wait for the lost parts of these: they may be in another
  // operation.
  std::set<int32_t> lost;
  for (const auto& [node, comms] : waited) lost.insert(facts.graph->MissingRank(node));
  const auto in_vain = [&](uint32_t from) {
    const int32_t r = facts.graph->RankOf(from);
    return r < 0 || (facts.bundle.ranks[static_cast<size_t>(r)].damaged &&
                     lost.contains(facts.bundle.ranks[static_cast<size_t>(r)].rank));
  };
  const auto& back = facts.graph->back;
  for (const auto& [node, comms] : waited) {
    if (facts.damaged.contains(facts.graph->MissingRank(node))) continue;
    const bool all = std::all_of(back[node].begin(), back[node].end(), [&](uint32_t from) {
      return in_vain(from) && (facts.graph->Kind(from) != WaitGraph::NodeKind::kCollective ||
                               std::all_of(back[from].begin(), back[from].end(), in_vain));
    });
    if (all) victims.insert(node);
  }
  std::map<std::string, int64_t> used;
  for (const CommView& view : facts.model.comms) {
    int64_t& most = used[view.klass];
    for (const Member& m : view.members) {
      if (m.rank_index >= 0) most = std::max(most, m.arrived);
    }
  }
  const auto busiest =
      std::max_element(used.begin(), used.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  const std::string* inner = nullptr;
  for (const auto& [node, comms] : waited) {
    for (uint32_t c : comms) {
      if (facts.model.comms[c].klass == busiest->first) inner = &busiest->first;
    }
  }
  if (inner == nullptr) return victims;
  for (uint32_t c = 0; c < facts.model.comms.size(); ++c) {
    const CommView& view = facts.model.comms[c];
    if (view.klass != *inner) continue;
    for (const auto& [node, comms] : waited) {
      const int32_t rank = facts.graph->MissingRank(node);
      const bool member =
          std::any_of(view.members.begin(), view.members.end(), [&](const Member& m) { return m.global_rank == rank; });
      if (member && !comms.contains(c)) victims.insert(node);
    }
  }
  return victims;
}

}  // namespace lockstep
