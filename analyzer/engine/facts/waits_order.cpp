// Determines the order in which the streams of one GPU run.
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/waits.h"

namespace lockstep {

// For a queue that did not start its oldest operation: adds what it waits for on its own GPU, which is the streams that
// it was made to wait for. If such a wait leads through unrecorded streams, adds what was issued earlier on another
// stream instead.
bool WaitGraph::AheadOnOtherStreams(uint32_t index, std::vector<Edge>* out) {
  const Queue& queue = queues[index];
  const Rank& rank = model_.bundle.ranks[queue.rank];
  if (queue.units.empty() || queue.overwritten || queue.stream == kNoIndex || !NotStarted(queue.rank, queue.units[0]))
    return false;
  const auto& in_flight = model_.ranks[queue.rank].in_flight;
  bool any = false;
  auto add = [&](uint32_t other) {
    any = true;
    if (out == nullptr) return;
    const Op& op = rank.ops[in_flight[queue.units[0]].ops[0]];
    out->push_back({QueueNode(other), Why::kStreamOrder, &op, rank.memberships[op.membership].comm});
  };
  for (uint32_t q = first_queue_[queue.rank]; q < first_queue_[queue.rank + 1]; ++q) {
    if (q == index || queues[q].units.empty() || queues[q].stream == kNoIndex) continue;
    const Op& oldest = rank.ops[in_flight[queues[q].units[0]].ops[0]];
    for (const auto& d : rank.streams[queue.stream].depends_on) {
      if (d.stream == queues[q].stream && oldest.ticket > 0 && static_cast<uint64_t>(oldest.ticket) <= d.ticket &&
          WasMadeToWaitBefore(queue, queues[q], d)) {
        add(q);
        break;
      }
    }
  }
  if (any) return true;
  for (uint32_t q = first_queue_[queue.rank]; q < first_queue_[queue.rank + 1]; ++q) {
    if (q == index || queues[q].units.empty() || (!queues[q].overwritten && queues[q].units[0] >= queue.units[0]))
      continue;
    add(q);
  }
  return any;
}

// Returns whether the queue's oldest operation was issued after its stream was made to wait for `other`, and therefore
// waits, too.
bool WaitGraph::WasMadeToWaitBefore(const Queue& queue, const Queue& other,
                                    const ring::StreamSnapshot::Dependency& d) const {
  const Rank& rank = model_.bundle.ranks[queue.rank];
  const auto& in_flight = model_.ranks[queue.rank].in_flight;
  const Op& waiting = rank.ops[in_flight[queue.units[0]].ops[0]];
  if (d.after != ring::StreamSnapshot::kAfterUnknown && waiting.ticket > 0)
    return static_cast<uint64_t>(waiting.ticket) > d.after;
  // The time is not recorded. But a wait for a later operation was itself made later.
  for (const uint32_t unit : other.units) {
    const Op& op = rank.ops[in_flight[unit].ops[0]];
    if (op.ticket > 0 && static_cast<uint64_t>(op.ticket) <= d.ticket && op.enter_ns > waiting.enter_ns) return false;
  }
  return true;
}

// A stream does not reach an operation although the peers' streams did. If another stream of the same GPU runs a later
// operation, the GPU may run the two in the opposite order.
void WaitGraph::AddLaunchOrder(uint32_t index) {
  Queue& queue = queues[index];
  if (queue.front.front != Front::kNotReached ||
      queue.front.op != &model_.bundle.ranks[queue.rank].ops[model_.ranks[queue.rank].in_flight[queue.units[0]].ops[0]])
    return;
  for (uint32_t q = first_queue_[queue.rank]; q < first_queue_[queue.rank + 1]; ++q) {
    if (q == index || queues[q].units.empty() || !Started(queue.rank, queues[q].units[0])) continue;
    edges[QueueNode(index)].push_back({QueueNode(q), Why::kLaunchOrder, queue.front.op, queue.front.comm});
    queue.front.front = Front::kWaits;
  }
}

}  // namespace lockstep
