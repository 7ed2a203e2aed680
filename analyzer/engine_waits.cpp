#include "analyzer/engine_waits.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

namespace {

// A GPU that is known to stand still by itself.
bool IsFaulty(Front front) { return front == Front::kPeersFinished || front == Front::kNotReached; }

}  // namespace

WaitGraph::WaitGraph(const Model& model, const std::vector<Mismatch>& mismatches)
    : model_(model), mismatches_(mismatches) {
  // A rank that merely has not noticed its last completions is no cause, unless there is no other.
  if (!Build(true) || !sinks.empty()) return;
  Build(false);
}

bool WaitGraph::Build(bool forgive) {
  const size_t n = model_.bundle.ranks.size();
  first_missing_ = static_cast<uint32_t>(2 * n);
  missing_.clear();
  missing_nodes_.clear();
  edges.assign(2 * n, {});
  back.clear();
  sinks.clear();
  fronts.assign(n, GpuFront());
  for (size_t r = 0; r < n; ++r) BuildGpu(r, false);
  std::vector<std::pair<size_t, GpuFront>> forgiven;
  for (size_t r = 0; forgive && r < n; ++r) {
    if (!OnlySlowToNotice(r)) continue;
    forgiven.push_back({r, fronts[r]});
    fronts[r] = GpuFront();
    BuildGpu(r, true);
  }
  for (size_t r = 0; r < n; ++r) HoldByFaultyGpus(r);
  for (const auto& [r, before] : forgiven) {
    // Nothing holds up what is left: then what it did not notice is all there is.
    if (fronts[r].front == Front::kAllArrived) fronts[r] = before;
  }
  for (size_t r = 0; r < n; ++r) HoldByFaultyGpus(r);
  std::vector<bool> distrusted(n);
  for (size_t r = 0; r < n; ++r) distrusted[r] = IsFaulty(fronts[r].front) || fronts[r].front == Front::kMismatched;
  for (const auto& [r, before] : forgiven) distrusted[r] = true;
  stopped = FindStoppedHosts(model_, distrusted);
  for (size_t r = 0; r < n; ++r) BuildHost(r);
  back.resize(edges.size());
  for (uint32_t from = 0; from < edges.size(); ++from) {
    for (const Edge& e : edges[from]) back[e.to].push_back(from);
  }
  FindSinks();
  return !forgiven.empty();
}

uint32_t WaitGraph::MissingNode(int32_t global_rank) {
  auto [it, fresh] = missing_nodes_.try_emplace(global_rank, static_cast<uint32_t>(edges.size()));
  if (fresh) {
    missing_.push_back(global_rank);
    edges.emplace_back();
  }
  return it->second;
}

// The oldest thing in flight that waits for somebody is what the rank is in; what is queued behind it says nothing.
void WaitGraph::BuildGpu(size_t rank_index, bool skip_finished) {
  const RankView& view = model_.ranks[rank_index];
  const Rank& rank = model_.bundle.ranks[rank_index];
  GpuFront& front = fronts[rank_index];
  std::vector<Edge> out;
  // What a dead or stopped process left on its GPU stands still because of that.
  if (view.host == HostState::kDead || view.host == HostState::kStopped) {
    if (view.in_flight.empty()) return;
    front.front = Front::kWaits;
    front.op = &rank.ops[view.in_flight[0].ops[0]];
    front.comm = rank.memberships[front.op->membership].comm;
    edges[GpuNode(rank_index)].push_back({HostNode(rank_index), Why::kOwnGpu, front.op, front.comm});
    return;
  }
  for (uint32_t unit = 0; unit < view.in_flight.size(); ++unit) {
    out.clear();
    GpuFront here;
    for (uint32_t i : view.in_flight[unit].ops) AddOp(rank_index, rank.ops[i], &out, &here);
    // Everybody is behind in what is queued behind; only somebody's absence further on still tells something.
    if (unit > 0) std::erase_if(out, [](const Edge& e) { return e.why == Why::kBehind; });
    if (skip_finished && here.front == Front::kPeersFinished) continue;
    if (here.front == Front::kMismatched || here.front == Front::kPeersFinished) {
      front = here;
      out.clear();
      break;
    }
    if (!out.empty()) {
      front = here;
      front.front = Front::kWaits;
      const bool presumed = std::all_of(out.begin(), out.end(), [](const Edge& e) { return e.presumed; });
      if (presumed && PeersFinishedLater(rank_index, unit, &front)) out.clear();
      break;
    }
    if (front.front == Front::kIdle) front = here;
    if (here.front == Front::kNotReached) break;
  }
  edges[GpuNode(rank_index)] = std::move(out);
}

// A framework's watchdog looks every so often, so a dump may lack the last completion or two. More than that it misses only
// when the GPU, or the watchdog with it, stands still.
bool WaitGraph::OnlySlowToNotice(size_t rank_index) {
  constexpr int32_t kBetweenLooks = 2;
  const Rank& rank = model_.bundle.ranks[rank_index];
  return fronts[rank_index].front == Front::kPeersFinished && rank.source == Source::kFlightRecorder &&
         CountUnnoticed(rank_index) <= kBetweenLooks;
}

int32_t WaitGraph::CountUnnoticed(size_t rank_index) {
  int32_t count = 0;
  std::vector<Edge> out;
  for (const Unit& unit : model_.ranks[rank_index].in_flight) {
    GpuFront here;
    out.clear();
    for (uint32_t i : unit.ops) AddOp(rank_index, model_.bundle.ranks[rank_index].ops[i], &out, &here);
    count += here.front == Front::kPeersFinished;
  }
  return count;
}

// Ranks that run one program number their sends and receives alike. When a sibling pair has exchanged operation `seq`, and
// the peer here has issued as much as the sibling's peer, then it has issued its side of it too, and completed it.
bool WaitGraph::SiblingsExchanged(const Op& op, uint32_t comm, int32_t my_member_rank, const Member& peer) const {
  constexpr int64_t kSameProgram = 64;  // further apart than that, the numbers are not those of one program
  if (peer.membership == kNoIndex || my_member_rank < 0 || op.seq < 0) return false;
  auto issued = [&](const Member& m) {
    return m.rank_index < 0 || m.membership == kNoIndex ? kUnknown
                                                        : model_.bundle.ranks[m.rank_index].memberships[m.membership].p2p_issued;
  };
  const auto& here = model_.comms[comm];
  const int64_t own_issued = issued(here.members[my_member_rank]), peer_issued = issued(peer);
  if (own_issued < 0 || peer_issued < 0) return false;
  for (uint32_t c = 0; c < model_.comms.size(); ++c) {
    const CommView& other = model_.comms[c];
    if (c == comm || other.klass != here.klass) continue;
    const Member& sibling = other.members[my_member_rank];
    const int64_t theirs = issued(sibling), their_peer = issued(other.members[op.root_or_peer]);
    if (theirs < op.seq || their_peer < 0 || std::abs(theirs - own_issued) > kSameProgram) continue;
    if (peer_issued < their_peer || peer_issued - their_peer > kSameProgram) continue;
    bool pending = false;
    for (const Unit& unit : model_.ranks[sibling.rank_index].in_flight) {
      for (uint32_t i : unit.ops) {
        const Op& o = model_.bundle.ranks[sibling.rank_index].ops[i];
        pending |= o.membership == sibling.membership && IsPointToPoint(o.kind) && o.seq == op.seq;
      }
    }
    if (!pending) return true;
  }
  return false;
}

// Whether peers completed with this rank a collective that it holds behind that unit.
bool WaitGraph::PeersFinishedLater(size_t rank_index, uint32_t after, GpuFront* front) {
  const auto& units = model_.ranks[rank_index].in_flight;
  std::vector<Edge> edges_of_unit;
  for (uint32_t unit = after + 1; unit < units.size(); ++unit) {
    GpuFront here;
    edges_of_unit.clear();
    for (uint32_t i : units[unit].ops) AddOp(rank_index, model_.bundle.ranks[rank_index].ops[i], &edges_of_unit, &here);
    if (here.front != Front::kPeersFinished || !edges_of_unit.empty()) continue;
    *front = here;
    return true;
  }
  return false;
}

// What everybody has arrived in does not finish where one of them is known to stand still.
void WaitGraph::HoldByFaultyGpus(size_t rank_index) {
  GpuFront& front = fronts[rank_index];
  if (front.front != Front::kAllArrived || front.op == nullptr) return;
  const Rank& rank = model_.bundle.ranks[rank_index];
  const uint32_t unit = model_.UnitOf(static_cast<int32_t>(rank_index), front.op);
  if (unit == kNoIndex) return;
  for (uint32_t i : model_.ranks[rank_index].in_flight[unit].ops) {
    const Op& op = rank.ops[i];
    const uint32_t comm = rank.memberships[op.membership].comm;
    for (size_t m = 0; m < model_.comms[comm].members.size(); ++m) {
      if (IsPointToPoint(op.kind) && static_cast<int32_t>(m) != op.root_or_peer) continue;
      const int32_t peer = model_.comms[comm].members[m].rank_index;
      if (peer < 0 || peer == static_cast<int32_t>(rank_index) || !IsFaulty(fronts[peer].front)) continue;
      edges[GpuNode(rank_index)].push_back({GpuNode(static_cast<size_t>(peer)), Why::kBehind, &op, comm});
    }
  }
  if (!edges[GpuNode(rank_index)].empty()) front.front = Front::kWaits;
}

void WaitGraph::AddOp(size_t rank_index, const Op& op, std::vector<Edge>* out, GpuFront* front) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const Membership& ms = rank.memberships[op.membership];
  const CommView& view = model_.comms[ms.comm];
  if (front->op == nullptr) {
    front->op = &op;
    front->comm = ms.comm;
    front->front = Front::kAllArrived;
  }
  if (IsPointToPoint(op.kind)) {
    if (op.root_or_peer < 0 || static_cast<size_t>(op.root_or_peer) >= view.members.size()) return;
    for (size_t i = 0; i < mismatches_.size(); ++i) {
      const Mismatch& m = mismatches_[i];
      const bool send = op.kind == CallKind::kSend;
      if (m.comm == ms.comm && m.seq == op.seq && m.sender == (send ? ms.member_rank : op.root_or_peer) &&
          m.receiver == (send ? op.root_or_peer : ms.member_rank)) {
        *front = {Front::kMismatched, &op, ms.comm, static_cast<int32_t>(i)};
        return;
      }
    }
    AddMember(op, ms.comm, view.members[op.root_or_peer], ms.member_rank, out, front);
    return;
  }
  for (size_t i = 0; i < mismatches_.size(); ++i) {
    if (mismatches_[i].comm == ms.comm && mismatches_[i].seq == op.seq && mismatches_[i].sender < 0) {
      *front = {Front::kMismatched, &op, ms.comm, static_cast<int32_t>(i)};
      return;
    }
  }
  // A member that is known to lack is a better answer than one of which nothing is known.
  std::vector<Edge> unknown;
  for (size_t m = 0; m < view.members.size(); ++m) {
    if (static_cast<int32_t>(m) == ms.member_rank) continue;
    const Member& member = view.members[m];
    if (member.rank_index == static_cast<int32_t>(rank_index)) continue;
    const size_t before = out->size();
    AddMember(op, ms.comm, member, ms.member_rank, out, front);
    if (out->size() > before && out->back().why == Why::kNoData) {
      unknown.push_back(out->back());
      out->pop_back();
    }
  }
  if (out->empty()) *out = std::move(unknown);
}

void WaitGraph::AddMember(const Op& op, uint32_t comm, const Member& member, int32_t my_member_rank,
                          std::vector<Edge>* out, GpuFront* front) {
  if (member.rank_index < 0) {
    if (member.global_rank >= 0) out->push_back({MissingNode(member.global_rank), Why::kNoData, &op, comm});
    return;
  }
  const auto peer_index = static_cast<size_t>(member.rank_index);
  const RankView& peer = model_.ranks[peer_index];
  const Op* theirs = nullptr;
  bool issued = false;
  if (IsCollective(op.kind)) {
    theirs = model_.FindCollective(member, op.seq);
    issued = member.arrived >= op.seq;
  } else {
    const CallKind reverse = op.kind == CallKind::kSend ? CallKind::kRecv : CallKind::kSend;
    theirs = model_.FindPointToPoint(member, reverse, my_member_rank, op.seq);
    const int64_t count = model_.PeerIssued(member, reverse, my_member_rank);
    issued = count >= 0 ? count >= op.seq : theirs != nullptr;
  }
  if (theirs != nullptr && theirs->state == OpState::kQueued) issued = false;
  const bool finished = theirs != nullptr ? theirs->state == OpState::kCompleted
                                          : IsCollective(op.kind) && member.completed >= op.seq;

  if (!issued) {
    const bool gone = peer.host == HostState::kDead || peer.host == HostState::kStopped;
    const bool presumed = IsPointToPoint(op.kind) && theirs == nullptr &&
                          model_.bundle.ranks[peer_index].source == Source::kFlightRecorder;
    if (presumed && SiblingsExchanged(op, comm, my_member_rank, member)) return;
    out->push_back({HostNode(peer_index), gone ? Why::kDead : Why::kNotIssued, &op, comm, presumed});
    return;
  }
  if (finished) {
    if (IsCollective(op.kind) && NeedsEveryMember(op.kind)) front->front = Front::kPeersFinished;
    return;
  }
  if (peer.host == HostState::kDead || peer.host == HostState::kStopped) {
    out->push_back({HostNode(peer_index), Why::kDead, &op, comm});
    return;
  }
  const uint32_t their_unit = model_.UnitOf(member.rank_index, theirs);
  const bool behind = !peer.in_flight.empty() && (their_unit == kNoIndex ? theirs == nullptr || theirs->recent_only
                                                                         : their_unit > 0);
  if (behind) {
    // Behind only if what is ahead of it does not finish either; fronts that wait for nobody are found by the sinks.
    out->push_back({GpuNode(peer_index), Why::kBehind, &op, comm});
    return;
  }
  if (theirs == nullptr) return;
  if (op.state == OpState::kStarted && theirs->state == OpState::kEnqueued) {
    out->push_back({GpuNode(peer_index), Why::kNotStarted, &op, comm});
  } else if (op.state == OpState::kEnqueued && theirs->state == OpState::kStarted && front->front == Front::kAllArrived) {
    front->front = Front::kNotReached;
  }
}

void WaitGraph::BuildHost(size_t rank_index) {
  const RankView& view = model_.ranks[rank_index];
  const Rank& rank = model_.bundle.ranks[rank_index];
  if (view.host == HostState::kDead || view.host == HostState::kStopped) return;
  std::vector<Edge>& out = edges[HostNode(rank_index)];

  // Making a communicator needs every member's host.
  if (view.host == HostState::kInCall && view.thread != nullptr && ring::IsCommInit(view.thread->call)) {
    for (const Membership& ms : rank.memberships) {
      if (ms.state != ring::CommState::kInitializing) continue;
      for (const Member& m : model_.comms[ms.comm].members) {
        if (m.rank_index == static_cast<int32_t>(rank_index)) continue;
        if (m.rank_index < 0) {
          if (m.global_rank >= 0) out.push_back({MissingNode(m.global_rank), Why::kNoData, nullptr, ms.comm});
        } else if (m.membership == kNoIndex) {
          out.push_back({HostNode(m.rank_index), Why::kInit, nullptr, ms.comm});
        }
      }
    }
    if (!out.empty()) return;
  }
  // A host that waits, or of which nothing is known, is held up by its own GPU if that is held up. One that is known to be
  // elsewhere is not, unless it is burning CPU: then it may be polling the GPU.
  const bool polling = view.host == HostState::kElsewhere && rank.process.state == "R" &&
                       rank.process.cpu_ns_between_samples > rank.process.sample_gap_ns / 2;
  if (view.host == HostState::kElsewhere && !polling) return;
  if (stopped[rank_index].witness >= 0) return;
  if (fronts[rank_index].front != Front::kIdle) out.push_back({GpuNode(rank_index), Why::kOwnGpu, fronts[rank_index].op, fronts[rank_index].comm});
}

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
      if (IsHost(v)) waited |= stopped[v / 2].witness >= 0;
      // A GPU that stands still in an operation is a cause even if no host is seen to wait for it.
      if (!IsHost(v) && RankOf(v) >= 0) waited |= fronts[RankOf(v)].front != Front::kIdle;
    }
    if (leaves || !waited) continue;
    std::sort(members.begin(), members.end());
    sinks.push_back(std::move(members));
  }
  std::sort(sinks.begin(), sinks.end());
}

}  // namespace lockstep
