// The order in which the streams of one GPU run.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/waits.h"

namespace lockstep {
namespace {

// Ranks checked for one pair of operations, spread over all.
constexpr size_t kMostWitnesses = 1024;

}  // namespace

// What a queue that did not start its oldest operation waits for on its own GPU: streams that it was made to wait for.
// If that goes through unrecorded streams, what was issued earlier on another one.
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
    if (!RunBesideEachOther(index, q, true)) add(q);
  }
  return any;
}

// Whether the queue's oldest operation was issued on its stream after that stream was made to wait for `other`, and so
// waits too.
bool WaitGraph::WasMadeToWaitBefore(const Queue& queue, const Queue& other,
                                    const ring::StreamSnapshot::Dependency& d) const {
  const Rank& rank = model_.bundle.ranks[queue.rank];
  const auto& in_flight = model_.ranks[queue.rank].in_flight;
  const Op& waiting = rank.ops[in_flight[queue.units[0]].ops[0]];
  if (d.after != ring::StreamSnapshot::kAfterUnknown && waiting.ticket > 0)
    return static_cast<uint64_t>(waiting.ticket) > d.after;
  // Not recorded: a wait for a later operation was made later.
  for (const uint32_t unit : other.units) {
    const Op& op = rank.ops[in_flight[unit].ops[0]];
    if (op.ticket > 0 && static_cast<uint64_t>(op.ticket) <= d.ticket && op.enter_ns > waiting.enter_ns) return false;
  }
  return true;
}

// An operation that a queue did not start, and one that another queue of the same GPU is in. If a rank with the same
// role is in both at once, neither waits for the end of the other: no stream order, and no lack of room on the GPU. If
// that rank is past the first, which may have run before the other started, there is still no stream order.
bool WaitGraph::RunBesideEachOther(uint32_t waiting, uint32_t other, bool or_before) {
  if (queues[other].overwritten) return false;
  const auto r = static_cast<size_t>(queues[waiting].rank);
  const Rank& rank = model_.bundle.ranks[r];
  const auto& in_flight = model_.ranks[r].in_flight;
  const Op& later = rank.ops[in_flight[queues[waiting].units[0]].ops[0]];
  const Op& ahead = rank.ops[in_flight[queues[other].units[0]].ops[0]];
  if (ahead.state != OpState::kStarted || !ring::IsCollective(later.kind) || !ring::IsCollective(ahead.kind) ||
      later.membership == ahead.membership)
    return false;
  const uint32_t later_comm = model_.CommOf(rank, later), ahead_comm = model_.CommOf(rank, ahead);
  const std::string &later_class = model_.comms[later_comm].klass, &ahead_class = model_.comms[ahead_comm].klass;
  // Its place in the pipeline: in all its communicators whose ranks send to each other.
  std::string role;
  for (const Membership& ms : rank.memberships) {
    if (model_.comms[ms.comm].used_for_p2p)
      absl::StrAppend(&role, model_.comms[ms.comm].klass, "@", ms.member_rank, ";");
  }
  const auto [known, fresh] =
      beside_.try_emplace({later_class, later.seq, ahead_class, ahead.seq, absl::StrCat(role, or_before)}, false);
  if (!fresh) return known->second;
  const std::vector<Rank>& ranks = model_.bundle.ranks;
  const size_t stride = 1 + ranks.size() / kMostWitnesses;
  const auto state_of = [&](size_t w, const std::string& klass, int64_t seq) {
    for (const Membership& ms : ranks[w].memberships) {
      if (ms.member_rank < 0 || model_.comms[ms.comm].klass != klass) continue;
      const Op* op = model_.FindCollective(model_.comms[ms.comm].members[static_cast<size_t>(ms.member_rank)], seq);
      if (op == nullptr) return ms.completed >= seq ? OpState::kCompleted : OpState::kUnknown;
      return op->state;
    }
    return OpState::kUnknown;
  };
  const auto same_role = [&](size_t w) {
    for (const Membership& ms : rank.memberships) {
      if (!model_.comms[ms.comm].used_for_p2p) continue;
      if (std::none_of(ranks[w].memberships.begin(), ranks[w].memberships.end(), [&](const Membership& theirs) {
            return theirs.member_rank == ms.member_rank &&
                   model_.comms[theirs.comm].klass == model_.comms[ms.comm].klass;
          }))
        return false;
    }
    return true;
  };
  for (size_t w = r % stride; w < ranks.size(); w += stride) {
    if (w == r || state_of(w, ahead_class, ahead.seq) != OpState::kStarted) continue;
    const OpState state = state_of(w, later_class, later.seq);
    if (state != OpState::kStarted && (!or_before || state != OpState::kCompleted)) continue;
    if (!same_role(w)) continue;
    known->second = true;
    break;
  }
  return known->second;
}

// A stream that does not reach an operation although the peers' streams did, while another stream of the same GPU runs
// a later one: the GPU may run the two in the opposite order.
void WaitGraph::AddLaunchOrder(uint32_t index) {
  Queue& queue = queues[index];
  if (queue.front.front != Front::kNotReached ||
      queue.front.op != &model_.bundle.ranks[queue.rank].ops[model_.ranks[queue.rank].in_flight[queue.units[0]].ops[0]])
    return;
  for (uint32_t q = first_queue_[queue.rank]; q < first_queue_[queue.rank + 1]; ++q) {
    if (q == index || queues[q].units.empty() || !Started(queue.rank, queues[q].units[0]) ||
        RunBesideEachOther(index, q, false))
      continue;
    edges[QueueNode(index)].push_back({QueueNode(q), Why::kLaunchOrder, queue.front.op, queue.front.comm});
    queue.front.front = Front::kWaits;
  }
}

}  // namespace lockstep
