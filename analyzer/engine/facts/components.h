// Strongly connected components of a directed graph.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_COMPONENTS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_COMPONENTS_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

struct Components {
  std::vector<uint32_t> of;  // component of each node; one that is led to from another has the smaller number
  uint32_t count = 0;
};

// `degree(v)` edges lead out of node v, the k-th to `target(v, k)`. Linear, and without recursion: chains are as long
// as the job is wide.
Components FindComponents(uint32_t nodes, const std::function<size_t(uint32_t)>& degree,
                          const std::function<uint32_t(uint32_t, size_t)>& target);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_COMPONENTS_H_
