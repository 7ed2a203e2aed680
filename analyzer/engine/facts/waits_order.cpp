// Determines the order in which the streams of one GPU run.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/waits.h"

namespace lockstep {

// For a queue that did not start its oldest operation: adds edges to the streams of the same GPU that the queue was
// made to wait for. If there are none, adds streams with older operations, because the wait may lead through unrecorded
// streams. Returns whether there are any; `out` may be null.
bool WaitGraph::AheadOnOtherStreams(uint32_t index, std::vector<Edge>* out) {
  const Queue& queue = queues[index];
  const Rank& rank = model_.bundle.ranks[queue.rank];
  if (queue.units.empty() || queue.overwritten || queue.stream == kNoIndex || !NotStarted(queue.rank, queue.units[0]))
    return false;
  bool any = false;
  auto add = [&](const Queue& other) {
    any = true;
    if (out == nullptr) return;
    const Op* op = OldestIn(queue);
    out->push_back({NodeOf(other), Why::kStreamOrder, op, rank.memberships[op->membership].comm});
  };
  for (const Queue& other : QueuesOf(queue.rank)) {
    const Op* oldest = OldestIn(other);
    if (&other == &queue || oldest == nullptr || other.stream == kNoIndex || oldest->ticket <= 0) continue;
    const auto& dependencies = rank.streams[queue.stream].depends_on;
    if (std::ranges::any_of(dependencies, [&](const auto& d) {
          return d.stream == other.stream && static_cast<uint64_t>(oldest->ticket) <= d.ticket &&
                 WasMadeToWaitBefore(queue, other, d);
        }))
      add(other);
  }
  if (any) return true;
  for (const Queue& other : QueuesOf(queue.rank)) {
    if (&other != &queue && !other.units.empty() && (other.overwritten || other.units[0] < queue.units[0])) add(other);
  }
  return any;
}

// Returns whether the queue's oldest operation was issued after its stream was made to wait for `other`, and therefore
// waits, too.
bool WaitGraph::WasMadeToWaitBefore(const Queue& queue, const Queue& other,
                                    const ring::StreamSnapshot::Dependency& d) const {
  const Rank& rank = model_.bundle.ranks[queue.rank];
  const auto& in_flight = model_.ranks[queue.rank].in_flight;
  const Op& waiting = *OldestIn(queue);
  if (d.after != ring::StreamSnapshot::kAfterUnknown && waiting.ticket > 0)
    return static_cast<uint64_t>(waiting.ticket) > d.after;
  // It is not recorded when the wait was added. But if it is for an operation that was issued after the queue's oldest
  // one, it was added after that one, too.
  for (const uint32_t unit : other.units) {
    const Op& op = rank.ops[in_flight[unit].ops[0]];
    if (op.ticket > 0 && static_cast<uint64_t>(op.ticket) <= d.ticket && op.enter_ns > waiting.enter_ns) return false;
  }
  return true;
}

// For a stream that did not reach an operation although the peers' streams did: adds edges to streams of the same GPU
// that run a later operation, because the GPU may run the two in the opposite order.
void WaitGraph::AddLaunchOrder(uint32_t index) {
  Queue& queue = queues[index];
  if (queue.front.front != Front::kNotReached || queue.front.op == nullptr || queue.front.op != OldestIn(queue)) return;
  for (const Queue& other : QueuesOf(queue.rank)) {
    if (&other == &queue || other.units.empty() || !Started(queue.rank, other.units[0])) continue;
    edges[QueueNode(index)].push_back({NodeOf(other), Why::kLaunchOrder, queue.front.op, queue.front.comm});
    queue.front.front = Front::kWaits;
  }
}

}  // namespace lockstep
