// Determines the state of each member of an operation.
#include <algorithm>

#include "analyzer/engine/facts/waits.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

using ring::CallKind;

void WaitGraph::AddUnit(size_t rank_index, uint32_t unit, bool absent_only, std::vector<Edge>* out, GpuFront* front) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  // A group completes as a whole, so an operation that the peer has completed does not block the group.
  const auto done_there = [&](const Op& op) {
    const Member* peer = IsPointToPoint(op.kind) ? model_.PeerOf(rank, op) : nullptr;
    return peer != nullptr && model_.StateOf(static_cast<int32_t>(rank_index), op, *peer).completed;
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
        const bool here = IsPointToPoint(op.kind)
                              ? pair == std::pair(m.sender, m.receiver) || std::ranges::binary_search(m.pairs, pair)
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

// Returns whether the rank may be in an operation of a group that its log does not name. A log names only groups with
// operations that timed out before the process ended.
bool WaitGraph::LogIsSilent(const Member& member) const {
  const auto r = static_cast<size_t>(member.rank_index);
  return model_.bundle.ranks[r].only_active && member.membership == kNoIndex && !model_.ranks[r].in_flight.empty();
}

// Returns whether the rank was read only in part, without the counters that would show how far it got.
bool WaitGraph::RecordEnds(const Member& member) const {
  const Rank& rank = model_.bundle.ranks[member.rank_index];
  return rank.damaged && (member.membership == kNoIndex || rank.memberships[member.membership].issued == kUnknown);
}

uint32_t WaitGraph::LostIn(int32_t rank_index, uint32_t comm, int64_t seq) const {
  for (const Queue& queue : QueuesOf(rank_index)) {
    if (Contains(queue.lost, std::pair(comm, seq))) return static_cast<uint32_t>(&queue - queues.data());
  }
  return kNoIndex;
}

bool WaitGraph::LostStarted(const Queue& queue, uint32_t comm, int64_t seq) const {
  const Rank& rank = model_.bundle.ranks[queue.rank];
  if (!IsFramework(rank)) return queue.lost_started;
  return std::ranges::any_of(rank.memberships,
                             [&](const Membership& ms) { return ms.comm == comm && ms.started >= seq; });
}

bool WaitGraph::NothingRuns(size_t rank_index) const {
  const Rank& rank = model_.bundle.ranks[rank_index];
  if (!rank.start_recorded) return false;
  if (!IsFramework(rank)) {
    return !rank.damaged && rank.gpu_marks == ring::GpuMarks::kFull &&
           std::ranges::all_of(rank.streams, [](const ring::StreamSnapshot& s) {
             return s.completed >= s.issued || (s.marked && s.started <= s.completed && s.given >= s.issued);
           });
  }
  // In a framework's file, the group status precedes the entries, so a truncated file may contain all of it.
  return std::ranges::all_of(rank.memberships, [](const Membership& ms) {
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
  return std::ranges::any_of(rank.memberships, [&](const Membership& ms) {
    const auto membership = static_cast<uint32_t>(&ms - rank.memberships.data());
    // Batches of sends and receives have ascending numbers.
    if (ms.p2p_started != kUnknown && ms.p2p_started > ms.p2p_completed) {
      const auto older = [&](const Op& op) {
        return op.membership == membership && IsPointToPoint(op.kind) && op.seq <= ms.p2p_started;
      };
      if (std::ranges::none_of(rank.ops, older)) return true;
    }
    if (ms.completed == kUnknown || ms.started <= ms.completed || ms.member_rank < 0) return false;
    return model_.FindCollective(model_.comms[ms.comm].members[ms.member_rank], NextOf(ms)) == nullptr;
  });
}

WaitGraph::Standing WaitGraph::StandingOf(const Member& member, const MemberState& state, bool absent_only,
                                          Edge* edge) {
  const auto at = [edge](Standing standing, uint32_t node, Why why) {
    edge->to = node;
    edge->why = why;
    return standing;
  };
  if (member.rank_index < 0) {
    if (member.global_rank < 0) return Standing::kUnclear;
    return at(Standing::kUnknown, MissingNode(member.global_rank), Why::kNoData);
  }
  const auto r = static_cast<size_t>(member.rank_index);
  const Rank& rank = model_.bundle.ranks[r];
  const bool gone = model_.ranks[r].Gone();
  if (!state.issued) {
    const bool ends = RecordEnds(member);
    if (state.op != nullptr || (!ends && !LogIsSilent(member)))
      return at(Standing::kNotIssued, HostNode(r), gone ? Why::kDead : Why::kNotIssued);
    if (absent_only) return Standing::kUnclear;
    return at(Standing::kUnknown, ends ? MissingNode(rank.rank) : HostNode(r), Why::kNoData);
  }
  if (state.completed) return Standing::kCompleted;
  if (gone) return at(Standing::kNotIssued, HostNode(r), Why::kDead);
  if (!state.InFlight()) {
    // The operation is not known to be in flight on this rank although it is on others. If records are missing, that
    // proves nothing.
    if (absent_only || (state.op != nullptr && !state.op->recent_only)) return Standing::kUnclear;
    const uint32_t own = first_queue_[r];
    if (!queues[own].units.empty() || queues[own].overwritten)
      return at(Standing::kBehind, QueueNode(own), Why::kBehind);
    // All records of the rank's work in flight are lost. So it is unknown whether its GPU reached the operation.
    if (state.op != nullptr || !rank.damaged) return Standing::kUnclear;
    return at(Standing::kUnknown, MissingNode(rank.rank), Why::kNoData);
  }
  const auto [queue, place] = PlaceOf(r, state.unit);
  // A stream is executing what it has started, even if other work precedes it (the rest of its group, if groups are no
  // longer recorded). The member is behind only if its earlier work does not finish either. If that work waits for
  // nothing, that work becomes a sink of the graph.
  const bool begun = queues[queue].stream != kNoIndex && state.op->state == OpState::kStarted;
  if (begun || !IsBehind(queue, place)) return at(Standing::kReached, QueueNode(queue), Why::kNotStarted);
  return absent_only ? Standing::kUnclear : at(Standing::kBehind, QueueNode(queue), Why::kBehind);
}

const WaitGraph::Collective& WaitGraph::CollectiveOf(uint32_t comm, int64_t seq, bool absent_only) {
  auto [it, fresh] = collectives_.try_emplace({2 * uint64_t{comm} + absent_only, seq});
  if (!fresh) return it->second;
  Collective collective;
  std::vector<Edge> lacking, unknown, not_started;
  size_t inside = 0;
  for (const Member& member : model_.comms[comm].members) {
    const MemberState state = model_.StateOf(member, seq);
    Edge edge{.comm = comm};
    const Standing standing = StandingOf(member, state, absent_only, &edge);
    const bool present = state.issued && standing != Standing::kNotIssued && standing != Standing::kCompleted;
    inside += present && state.InFlight();
    collective.any_started |= present && state.op != nullptr && state.op->state == OpState::kStarted;
    if (const uint32_t lost = present && state.op == nullptr ? LostIn(member.rank_index, comm, seq) : kNoIndex;
        lost != kNoIndex) {
      if (LostStarted(queues[lost], comm, seq)) {
        collective.any_started = true;
      } else if (NothingRuns(member.rank_index)) {
        not_started.push_back({QueueNode(lost), Why::kNotStarted, nullptr, comm});
      }
      // If the next operations of several communicators are lost, any one of them may be at the front.
      if (queues[lost].lost.size() == 1 || collective.any_started) continue;
    }
    switch (standing) {
      case Standing::kUnclear: break;
      case Standing::kUnknown: unknown.push_back(edge); break;
      case Standing::kNotIssued:
      case Standing::kBehind: lacking.push_back(edge); break;
      case Standing::kCompleted:
        collective.peers_finished |=
            !model_.bundle.ranks[member.rank_index].ends_untold &&
            (state.op == nullptr || !model_.JustCompleted(model_.bundle.ranks[member.rank_index], *state.op));
        break;
      case Standing::kReached:
        if (state.op->state == OpState::kEnqueued) not_started.push_back(edge);
    }
  }
  collective.all_inside = inside == model_.comms[comm].members.size();
  // Prefer a member that is known to be missing to one whose state is unknown.
  std::vector<Edge>* out = !lacking.empty()                                 ? &lacking
                           : collective.any_started && !not_started.empty() ? &not_started
                                                                            : &unknown;
  if (!out->empty()) {
    // A rank that does not reach the operation waits for what blocks its own stream, not for itself.
    uint32_t& node = out == &not_started ? collective.started_node : collective.node;
    node = AddNode(NodeKind::kCollective, -1);
    edges[node] = std::move(*out);
  }
  return collectives_[{2 * uint64_t{comm} + absent_only, seq}] = collective;
}

void WaitGraph::AddSendOrReceive(size_t rank_index, const Op& op, bool absent_only, std::vector<Edge>* out,
                                 GpuFront* front) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const Member* peer = model_.PeerOf(rank, op);
  if (peer == nullptr) return;
  const MemberState state = model_.StateOf(static_cast<int32_t>(rank_index), op, *peer);
  Edge edge{.op = &op, .comm = model_.CommOf(rank, op)};
  const Standing standing = StandingOf(*peer, state, absent_only, &edge);
  if (standing == Standing::kUnclear || standing == Standing::kCompleted) return;
  if (standing != Standing::kReached || (op.state == OpState::kStarted && state.op->state == OpState::kEnqueued)) {
    out->push_back(edge);
  } else if (op.state == OpState::kEnqueued && state.op->state == OpState::kStarted &&
             front->front == Front::kAllArrived) {
    front->front = Front::kNotReached;
  }
}

int32_t WaitGraph::AloneDone(const GpuFront& front) const {
  constexpr int kOthers = 2;
  if (!front.InCollective() || front.comm == kNoIndex) return -1;
  // Visits the members once per operation, not once per waiting member.
  const auto [it, fresh] = alone_done_.try_emplace({front.comm, front.op->seq}, -1);
  if (!fresh) return it->second;
  int32_t alone = -1;
  int inside = 0;
  for (const Member& m : model_.comms[front.comm].members) {
    if (!m.recorded()) continue;
    const MemberState state = model_.StateOf(m, front.op->seq);
    if (state.op != nullptr && !NeedsEveryMember(state.op->kind)) return -1;
    inside += state.InFlight();
    if (!state.completed) continue;
    if (alone >= 0 || (state.op != nullptr && model_.JustCompleted(model_.bundle.ranks[m.rank_index], *state.op)))
      return -1;
    alone = m.rank_index;
  }
  return it->second = inside >= kOthers ? alone : -1;
}

}  // namespace lockstep
