// Strongly connected components of a directed graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

struct Components {
  // Component of each node. If an edge leads from one component to another, the second has the smaller number.
  std::vector<uint32_t> of;
  uint32_t count = 0;
};

// `degree(v)` edges lead out of node v, and the k-th leads to `target(v, k)`. Takes linear time and does not recurse,
// because a chain may contain every rank of the job.
Components FindComponents(uint32_t nodes, const std::function<size_t(uint32_t)>& degree,
                          const std::function<uint32_t(uint32_t, size_t)>& target);

}  // namespace lockstep
