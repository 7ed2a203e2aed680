// What every rule may use: the model, the calls that disagree, the programs that differ, and the wait graph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/waits.h"

namespace lockstep {

// Refers to its arguments, which must outlive it. Used by one thread at a time.
class Facts {
 public:
  // `graph` is null if nothing is stuck.
  Facts(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
        const WaitGraph* graph);

  // Where the rank's program differs from that of its role; null if it does not differ.
  const Divergence* DivergenceOf(int32_t rank_index) const;
  // The edge to a node that is closest to the place in the program where that node stopped. `edge` is null if nothing
  // waits.
  struct Waiter {
    const Edge* edge = nullptr;  // leads out of the queue or process `from`
    uint32_t from = 0;
  };
  Waiter FirstWaiter(uint32_t node) const;
  // Calls `look` with each edge to the node, except kOwnGpu and kOutside, and with the queue or process that the edge
  // leaves. For each collective that waits for the node, this is only FirstIn().
  template <typename Look>
  void EachWaiter(uint32_t node, Look look) const {
    for (uint32_t w : graph->back[node]) {
      if (graph->Kind(w) == WaitGraph::NodeKind::kCollective) {
        if (const Waiter& in = FirstIn(w); in.edge != nullptr) look(*in.edge, in.from);
        continue;
      }
      for (const Edge& e : graph->edges[w]) {
        if (e.to == node && e.why != Why::kOwnGpu && e.why != Why::kOutside) look(e, w);
      }
    }
  }
  // FirstWaiter of a collective's node, cached.
  const Waiter& FirstIn(uint32_t collective) const;

  const Model& model;
  const Bundle& bundle;
  const std::vector<Mismatch>& mismatches;
  const std::vector<Divergence>& divergences;
  const WaitGraph* const graph;

 private:
  std::vector<int32_t> divergence_of_rank_;                 // index into divergences; -1 if there is none
  mutable absl::flat_hash_map<uint32_t, Waiter> first_in_;  // indexed by the node of a collective
};

// Returns whether the rank's process ended at an unknown time, so that the duration of everything in its ring is
// unknown.
inline bool EndUnseen(const Rank& rank) {
  return rank.source == Source::kRing && rank.process.life == Life::kGone && rank.process.ended_mono_ns == 0;
}

// Returns the time from `since_ns` until the rank's data was taken, or nullopt if unknown.
std::optional<int64_t> Lasted(const Rank& rank, int64_t since_ns);
// Returns evidence of how long the rank has been in the operation.
EvidenceItem InOperation(const Facts& facts, int32_t rank_index, const Op& op);
// Adds evidence of which ranks wait for the node, and in which operation.
void AddWaiterEvidence(const Facts& facts, uint32_t node, Cause* cause);
// Adds evidence of the state of the rank's process, and its stack.
void AddHostEvidence(const Facts& facts, int32_t rank_index, Cause* cause);

}  // namespace lockstep
