// The parts of the wait graph that nothing leads out of.
#include <algorithm>

#include "analyzer/engine_waits.h"

namespace lockstep {

void WaitGraph::FindSinks() {
  // Tarjan's algorithm, iterative: chains are as long as the job is wide.
  const uint32_t n = static_cast<uint32_t>(edges.size());
  std::vector<uint32_t> order(n, kNoIndex), low(n, 0), component(n, kNoIndex), stack;
  std::vector<std::pair<uint32_t, size_t>> frames;
  std::vector<std::vector<uint32_t>> components;
  uint32_t next = 0;
  for (uint32_t root = 0; root < n; ++root) {
    if (order[root] != kNoIndex) continue;
    frames.push_back({root, 0});
    order[root] = low[root] = next++;
    stack.push_back(root);
    while (!frames.empty()) {
      auto& [v, at] = frames.back();
      if (at < edges[v].size()) {
        const uint32_t w = edges[v][at++].to;
        if (order[w] == kNoIndex) {
          order[w] = low[w] = next++;
          stack.push_back(w);
          frames.push_back({w, 0});
        } else if (component[w] == kNoIndex) {
          low[v] = std::min(low[v], order[w]);
        }
        continue;
      }
      const uint32_t done = v;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().first] = std::min(low[frames.back().first], low[done]);
      if (low[done] != order[done]) continue;
      std::vector<uint32_t> members;
      uint32_t w;
      do {
        w = stack.back();
        stack.pop_back();
        component[w] = static_cast<uint32_t>(components.size());
        members.push_back(w);
      } while (w != done);
      components.push_back(std::move(members));
    }
  }
  for (auto& members : components) {
    bool leaves = false, waited = members.size() > 1;
    for (uint32_t v : members) {
      for (const Edge& e : edges[v]) leaves |= component[e.to] != component[v];
      waited |= !back[v].empty();
      if (IsHost(v)) waited |= stopped[v].witness >= 0;
      // A GPU that stands still in an operation is a cause even if no host is seen to wait for it.
      if (Kind(v) == NodeKind::kQueue) waited |= QueueOf(v).front.front != Front::kIdle;
    }
    if (leaves || !waited) continue;
    std::sort(members.begin(), members.end());
    sinks.push_back(std::move(members));
  }
  // By rank, a host before its GPU: the order of nodes must not show.
  auto key = [&](const std::vector<uint32_t>& sink) {
    const auto rank = static_cast<uint32_t>(RankOf(sink[0]));  // of no rank: last
    return std::pair(rank, sink[0]);
  };
  std::sort(sinks.begin(), sinks.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

}  // namespace lockstep
