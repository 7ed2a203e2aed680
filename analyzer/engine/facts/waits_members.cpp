// Determines the state of each member of an operation.
#include <algorithm>

#include "analyzer/engine/facts/waits.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

void WaitGraph::AddUnit(size_t rank_index, uint32_t unit, bool absent_only, std::vector<Edge>* out, GpuFront* front) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  // A group completes as a whole, so an operation that its counterpart has completed does not block it.
  const auto done_there = [&](const Op& op) {
    const Member* peer = IsPointToPoint(op.kind) ? model_.PeerOf(rank, op) : nullptr;
    bool counted = false;
    const Op* theirs =
        peer == nullptr ? nullptr : model_.OtherSide(static_cast<int32_t>(rank_index), op, *peer, &counted);
    return theirs != nullptr && theirs->state == OpState::kCompleted;
  };
  for (uint32_t i : model_.ranks[rank_index].in_flight[unit].ops) {
    const Op& op = rank.ops[i];
    const Membership& ms = rank.memberships[op.membership];
    if (front->op == nullptr || (front->front == Front::kAllArrived && done_there(*front->op)))
      *front = {Front::kAllArrived, &op, ms.comm, -1};
    if (auto it = mismatch_at_.find({ms.comm, op.seq}); it != mismatch_at_.end()) {
      for (int32_t index : it->second) {
        const Mismatch& m = mismatches_[index];
        const bool send = op.kind == CallKind::kSend;
        const std::pair pair(send ? ms.member_rank : op.root_or_peer, send ? op.root_or_peer : ms.member_rank);
        const bool here = IsPointToPoint(op.kind) ? pair == std::pair(m.sender, m.receiver) ||
                                                        std::binary_search(m.pairs.begin(), m.pairs.end(), pair)
                                                  : m.sender < 0;
        if (!here) continue;
        *front = {Front::kMismatched, &op, ms.comm, index};
        return;
      }
    }
    if (IsPointToPoint(op.kind)) {
      AddSendOrReceive(rank_index, op, absent_only, out, front);
      continue;
    }
    const Collective& collective = CollectiveOf(ms.comm, op.seq, absent_only);
    if (collective.node != kNoIndex) out->push_back({collective.node, Why::kIn, &op, ms.comm});
    if (collective.started_node != kNoIndex && op.state != OpState::kEnqueued) {
      out->push_back({collective.started_node, Why::kIn, &op, ms.comm});
    }
    if (collective.peers_finished && NeedsEveryMember(op.kind)) {
      front->front = Front::kPeersFinished;
    } else if (collective.node == kNoIndex && collective.any_started && op.state == OpState::kEnqueued &&
               front->front == Front::kAllArrived) {
      front->front = Front::kNotReached;
    }
  }
}

// A log names only the groups whose operations timed out before the process ended. The rank may be in an operation of
// another group.
bool WaitGraph::LogIsSilent(const Member& member) const {
  const auto r = static_cast<size_t>(member.rank_index);
  return model_.bundle.ranks[r].only_active && member.membership == kNoIndex && !model_.ranks[r].in_flight.empty();
}

// Returns whether the rank was read only in part, without the counters that would show how far it got.
bool WaitGraph::RecordEnds(const Member& member) const {
  const Rank& rank = model_.bundle.ranks[member.rank_index];
  return rank.damaged && (member.membership == kNoIndex || rank.memberships[member.membership].issued == kUnknown);
}

int WaitGraph::PlaceOfLost(int32_t rank_index, uint32_t comm, int64_t seq, uint32_t* queue) const {
  for (uint32_t q = first_queue_[rank_index]; q < first_queue_[rank_index + 1]; ++q) {
    for (const auto& [c, number] : queues[q].lost) {
      if (c != comm || number > seq) continue;
      *queue = q;
      return number == seq ? 1 : 2;
    }
  }
  return 0;
}

bool WaitGraph::LostStarted(const Queue& queue, uint32_t comm, int64_t seq) const {
  const Rank& rank = model_.bundle.ranks[queue.rank];
  if (rank.source != Source::kFlightRecorder) return queue.lost_started;
  return std::any_of(rank.memberships.begin(), rank.memberships.end(),
                     [&](const Membership& ms) { return ms.comm == comm && ms.started >= seq; });
}

bool WaitGraph::NothingRuns(size_t rank_index) const {
  const Rank& rank = model_.bundle.ranks[rank_index];
  if (!rank.start_recorded) return false;
  if (rank.source != Source::kFlightRecorder) {
    return !rank.damaged && rank.gpu_marks == ring::GpuMarks::kFull &&
           std::all_of(rank.streams.begin(), rank.streams.end(), [](const ring::StreamSnapshot& s) {
             return s.completed >= s.issued || (s.marked && s.started <= s.completed && s.given >= s.issued);
           });
  }
  // In a framework's file, the group status precedes the entries, so a truncated file may contain all of it.
  return std::all_of(rank.memberships.begin(), rank.memberships.end(), [](const Membership& ms) {
    const auto none = [](int64_t issued, int64_t started, int64_t completed) {
      return issued == kUnknown || completed >= issued ||
             (started != kUnknown && completed != kUnknown && started <= completed);
    };
    return (ms.issued != kUnknown || ms.p2p_issued != kUnknown) && none(ms.issued, ms.started, ms.completed) &&
           none(ms.p2p_issued, ms.p2p_started, ms.p2p_completed);
  });
}

bool WaitGraph::RunsUnrecorded(size_t rank_index) const {
  const Rank& rank = model_.bundle.ranks[rank_index];
  return std::any_of(rank.memberships.begin(), rank.memberships.end(), [&](const Membership& ms) {
    const auto membership = static_cast<uint32_t>(&ms - rank.memberships.data());
    // Batches of sends and receives have ascending numbers.
    if (ms.p2p_started != kUnknown && ms.p2p_started > ms.p2p_completed) {
      const auto older = [&](const Op& op) {
        return op.membership == membership && IsPointToPoint(op.kind) && op.seq <= ms.p2p_started;
      };
      if (std::none_of(rank.ops.begin(), rank.ops.end(), older)) return true;
    }
    if (ms.completed == kUnknown || ms.started <= ms.completed || ms.member_rank < 0) return false;
    return model_.FindCollective(model_.comms[ms.comm].members[ms.member_rank], NextOf(ms)) == nullptr;
  });
}

const WaitGraph::Collective& WaitGraph::CollectiveOf(uint32_t comm, int64_t seq, bool absent_only) {
  auto [it, fresh] = collectives_.try_emplace({2 * uint64_t{comm} + absent_only, seq});
  if (!fresh) return it->second;
  Collective collective;
  std::vector<Edge> lacking, unknown, not_started;
  size_t inside = 0;
  for (const Member& member : model_.comms[comm].members) {
    if (member.rank_index < 0) {
      if (member.global_rank >= 0) unknown.push_back({MissingNode(member.global_rank), Why::kNoData, nullptr, comm});
      continue;
    }
    const RankView& peer = model_.ranks[member.rank_index];
    const bool gone = peer.host == HostState::kDead || peer.host == HostState::kStopped;
    const Op* theirs = model_.FindCollective(member, seq);
    const uint32_t unit = model_.UnitOf(member.rank_index, theirs);
    const bool queued = theirs != nullptr && theirs->state == OpState::kQueued;
    if (!queued && member.arrived < seq && unit == kNoIndex && RecordEnds(member)) {
      if (!absent_only)
        unknown.push_back({MissingNode(model_.bundle.ranks[member.rank_index].rank), Why::kNoData, nullptr, comm});
      continue;
    }
    if (LogIsSilent(member)) {
      if (!absent_only) unknown.push_back({HostNode(member.rank_index), Why::kNoData, nullptr, comm});
      continue;
    }
    if (queued || (member.arrived < seq && unit == kNoIndex)) {
      lacking.push_back({HostNode(member.rank_index), gone ? Why::kDead : Why::kNotIssued, nullptr, comm});
      continue;
    }
    if (theirs != nullptr ? theirs->state == OpState::kCompleted : member.completed >= seq) {
      const Rank& rank = model_.bundle.ranks[member.rank_index];
      collective.peers_finished |= !rank.ends_untold && (theirs == nullptr || !model_.JustCompleted(rank, *theirs));
      continue;
    }
    if (gone) {
      lacking.push_back({HostNode(member.rank_index), Why::kDead, nullptr, comm});
      continue;
    }
    if (theirs != nullptr && theirs->state == OpState::kStarted) collective.any_started = true;
    uint32_t lost_in = kNoIndex;
    const int lost = theirs == nullptr ? PlaceOfLost(member.rank_index, comm, seq, &lost_in) : 0;
    if (lost == 1) {
      if (LostStarted(queues[lost_in], comm, seq)) {
        collective.any_started = true;
      } else if (NothingRuns(member.rank_index)) {
        not_started.push_back({QueueNode(lost_in), Why::kNotStarted, nullptr, comm});
      }
      // If the next operations of several communicators are lost, any one of them may be at the front.
      if (queues[lost_in].lost.size() == 1 || collective.any_started) continue;
    }
    if (unit == kNoIndex) {
      // The operation is not known to be in flight on this rank although it is on others. If records are missing, that
      // proves nothing.
      const bool no_record = theirs == nullptr || theirs->recent_only;
      const uint32_t own = first_queue_[member.rank_index];
      const bool in_something = !queues[own].units.empty() || queues[own].overwritten;
      if (no_record && !absent_only && in_something) {
        lacking.push_back({QueueNode(own), Why::kBehind, nullptr, comm});
      }
      continue;
    }
    ++inside;
    const auto [queue, place] = PlaceOf(member.rank_index, unit);
    if (IsBehind(queue, place)) {
      // The member is behind only if its earlier work does not finish either. If that work waits for nothing, that work
      // becomes a sink of the graph.
      if (!absent_only) lacking.push_back({QueueNode(queue), Why::kBehind, nullptr, comm});
    } else if (theirs->state == OpState::kEnqueued) {
      not_started.push_back({QueueNode(queue), Why::kNotStarted, nullptr, comm});
    }
  }
  collective.all_inside = inside == model_.comms[comm].members.size();
  // Prefer a member that is known to be missing to one whose state is unknown.
  std::vector<Edge>* out = !lacking.empty()                                 ? &lacking
                           : collective.any_started && !not_started.empty() ? &not_started
                                                                            : &unknown;
  // A rank that does not reach the operation waits for what blocks its own stream, not for itself.
  if (!out->empty() && out != &not_started) {
    collective.node = AddNode(NodeKind::kCollective, -1);
    edges[collective.node] = std::move(*out);
  } else if (!out->empty()) {
    collective.started_node = AddNode(NodeKind::kCollective, -1);
    edges[collective.started_node] = std::move(*out);
  }
  it = collectives_.find({2 * uint64_t{comm} + absent_only, seq});
  it->second = collective;
  return it->second;
}

void WaitGraph::AddSendOrReceive(size_t rank_index, const Op& op, bool absent_only, std::vector<Edge>* out,
                                 GpuFront* front) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const Membership& ms = rank.memberships[op.membership];
  if (model_.PeerOf(rank, op) == nullptr) return;
  const Member& member = *model_.PeerOf(rank, op);
  if (member.rank_index < 0) {
    if (member.global_rank >= 0) out->push_back({MissingNode(member.global_rank), Why::kNoData, &op, ms.comm});
    return;
  }
  const RankView& peer = model_.ranks[member.rank_index];
  const bool gone = peer.host == HostState::kDead || peer.host == HostState::kStopped;
  const CallKind reverse = OtherSideOf(op.kind);
  bool counted = false;
  const Op* theirs = model_.OtherSide(static_cast<int32_t>(rank_index), op, member, &counted);
  const int64_t count = model_.PeerIssued(member, reverse, ms.member_rank);
  const bool issued = count >= 0 ? count >= op.seq : theirs != nullptr;
  if (!issued || (theirs != nullptr && theirs->state == OpState::kQueued)) {
    if (!issued && RecordEnds(member)) {
      // For operations queued behind another one, only a known absence is evidence.
      if (absent_only) return;
      out->push_back({MissingNode(member.global_rank), Why::kNoData, &op, ms.comm});
      return;
    }
    out->push_back({HostNode(member.rank_index), gone ? Why::kDead : Why::kNotIssued, &op, ms.comm});
    return;
  }
  if (theirs != nullptr && theirs->state == OpState::kCompleted) return;
  if (gone) {
    out->push_back({HostNode(member.rank_index), Why::kDead, &op, ms.comm});
    return;
  }
  const uint32_t unit = model_.UnitOf(member.rank_index, theirs);
  if (unit == kNoIndex) {
    const bool no_record = theirs == nullptr || theirs->recent_only;
    const uint32_t own = first_queue_[member.rank_index];
    if (no_record && !absent_only && !queues[own].units.empty()) {
      out->push_back({QueueNode(own), Why::kBehind, &op, ms.comm});
    } else if (theirs == nullptr && !absent_only && model_.bundle.ranks[member.rank_index].damaged) {
      // The operation is counted, but all records of the rank's work in flight are lost. So it is unknown whether its
      // GPU reached the operation.
      out->push_back({MissingNode(member.global_rank), Why::kNoData, &op, ms.comm});
    }
    return;
  }
  const auto [queue, place] = PlaceOf(member.rank_index, unit);
  // A stream is executing what it has started, even if other work precedes it (the rest of its group, if groups are no
  // longer recorded).
  const bool begun = queues[queue].stream != kNoIndex && theirs->state == OpState::kStarted;
  if (!begun && IsBehind(queue, place)) {
    if (!absent_only) out->push_back({QueueNode(queue), Why::kBehind, &op, ms.comm});
  } else if (op.state == OpState::kStarted && theirs->state == OpState::kEnqueued) {
    out->push_back({QueueNode(queue), Why::kNotStarted, &op, ms.comm});
  } else if (op.state == OpState::kEnqueued && theirs->state == OpState::kStarted &&
             front->front == Front::kAllArrived) {
    front->front = Front::kNotReached;
  }
}

}  // namespace lockstep
