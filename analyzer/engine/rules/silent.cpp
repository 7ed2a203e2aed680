// Determines which ranks without data are most likely victims, although other ranks wait for them.
#include <algorithm>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

namespace {

// Returns the communicators in which a rank waits for this node.
std::set<uint32_t> WaitedIn(const Facts& facts, uint32_t node) {
  std::set<uint32_t> comms;
  facts.EachWaiter(node, [&](const Edge& e, uint32_t) {
    if (e.comm != kNoIndex) comms.insert(e.comm);
  });
  return comms;
}

}  // namespace

// On the most used communicators (tensor parallelism), ranks exchange data several times in each layer, so a stopped
// rank's peers wait for it there. If peers wait in this way for some of the ranks without data, the other ranks without
// data are most likely where their own peers are. These peers must have completed all operations with them and wait
// elsewhere.
std::set<uint32_t> SilentVictims(const Facts& facts) {
  struct Waited {
    uint32_t node;
    std::set<uint32_t> comms;
  };
  absl::flat_hash_map<int32_t, Waited> waited;  // indexed by the rank without data
  for (const auto& sink : facts.graph->sinks) {
    if (sink.size() == 1 && facts.graph->Kind(sink[0]) == WaitGraph::NodeKind::kMissing)
      waited[facts.graph->MissingRank(sink[0])] = {sink[0], WaitedIn(facts, sink[0])};
  }
  std::set<uint32_t> victims;
  if (waited.size() < 2) return victims;
  std::vector<int64_t> used(facts.model.kinds.size());
  for (const CommView& view : facts.model.comms) {
    int64_t& most = used[view.kind];
    for (const Member& m : view.members) {
      if (m.rank_index >= 0) most = std::max(most, m.arrived);
    }
  }
  const auto inner = static_cast<uint32_t>(std::max_element(used.begin(), used.end()) - used.begin());
  const bool waited_there = std::any_of(waited.begin(), waited.end(), [&](const auto& of) {
    return std::any_of(of.second.comms.begin(), of.second.comms.end(),
                       [&](uint32_t c) { return facts.model.comms[c].kind == inner; });
  });
  if (!waited_there) return victims;
  for (const uint32_t c : facts.model.kinds[inner]) {
    for (const Member& m : facts.model.comms[c].members) {
      const auto of = waited.find(m.global_rank);
      if (of != waited.end() && !of->second.comms.contains(c)) victims.insert(of->second.node);
    }
  }
  return victims;
}

}  // namespace lockstep
