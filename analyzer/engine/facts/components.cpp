#include "analyzer/engine/facts/components.h"

#include <algorithm>
#include <utility>

#include "analyzer/engine/facts/waits.h"

namespace lockstep {

Components FindComponents(uint32_t nodes, const std::function<size_t(uint32_t)>& degree,
                          const std::function<uint32_t(uint32_t, size_t)>& target) {
  // Uses Tarjan's algorithm.
  Components found;
  found.of.assign(nodes, kNoIndex);
  std::vector<uint32_t> order(nodes, kNoIndex), low(nodes, 0), stack;
  std::vector<std::pair<uint32_t, size_t>> frames;
  uint32_t next = 0;
  for (uint32_t root = 0; root < nodes; ++root) {
    if (order[root] != kNoIndex) continue;
    frames.push_back({root, 0});
    order[root] = low[root] = next++;
    stack.push_back(root);
    while (!frames.empty()) {
      auto& [v, at] = frames.back();
      if (at < degree(v)) {
        const uint32_t w = target(v, at++);
        if (order[w] == kNoIndex) {
          order[w] = low[w] = next++;
          stack.push_back(w);
          frames.push_back({w, 0});
        } else if (found.of[w] == kNoIndex) {
          low[v] = std::min(low[v], order[w]);
        }
        continue;
      }
      const uint32_t done = v;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().first] = std::min(low[frames.back().first], low[done]);
      if (low[done] != order[done]) continue;
      uint32_t w;
      do {
        w = stack.back();
        stack.pop_back();
        found.of[w] = found.count;
      } while (w != done);
      ++found.count;
    }
  }
  return found;
}

void WaitGraph::FindSinks() {
  const Components found = FindComponents(
      static_cast<uint32_t>(edges.size()), [&](uint32_t v) { return edges[v].size(); },
      [&](uint32_t v, size_t k) { return edges[v][k].to; });
  std::vector<std::vector<uint32_t>> components(found.count);
  for (uint32_t v = 0; v < edges.size(); ++v) components[found.of[v]].push_back(v);
  for (auto& members : components) {
    bool leaves = false, waited = members.size() > 1;
    for (uint32_t v : members) {
      for (const Edge& e : edges[v]) leaves |= found.of[e.to] != found.of[v];
      waited |= !back[v].empty();
      if (IsHost(v)) waited |= stopped[v].witness >= 0;
      // A GPU that hangs in an operation is a cause even if no process is known to wait for it.
      if (Kind(v) == NodeKind::kQueue) waited |= QueueOf(v).front.front != Front::kIdle;
    }
    if (!leaves && waited) sinks.push_back(std::move(members));
  }
  // Sorted by rank, a process before its GPU, because the order of nodes must not affect the result.
  auto key = [&](const std::vector<uint32_t>& sink) {
    const auto rank = static_cast<uint32_t>(RankOf(sink[0]));  // a node without a rank (-1) is sorted last
    return std::pair(rank, sink[0]);
  };
  std::ranges::sort(sinks, [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

}  // namespace lockstep
