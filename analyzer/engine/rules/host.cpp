#include <algorithm>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

using ring::CallKind;

namespace {

// Returns whether the rank may wait in its last call: ends of calls are not recorded, and no other member of the
// communicator is known.
bool LastCallIsUnseen(const Bundle& bundle, const Rank& rank) {
  if (!rank.ends_untold || rank.ops.empty() || rank.ops.back().membership == kNoIndex) return false;
  const Communicator& comm = bundle.comms[rank.memberships[rank.ops.back().membership].comm];
  return comm.members_inferred && comm.size == 1;
}

// Returns whether the rank may wait in a call that is not recorded. Either calls without entries are counted, or the
// process created a group without any entry (for example, to send and receive).
bool MayCallUnrecorded(const Bundle& bundle, const Rank& rank) {
  const auto any = [&rank](auto&& test) { return std::ranges::any_of(rank.memberships, test); };
  return any([](const Membership& ms) { return ms.unrecorded > 0; }) ||
         (rank.newest_group_size > 0 &&
          !any([&](const Membership& ms) { return bundle.comms[ms.comm].size == rank.newest_group_size; }));
}

// Returns the first call of a batch that a framework's process did not end; null if there is none.
const Op* FirstQueued(const Rank& rank) {
  if (!IsFramework(rank)) return nullptr;
  for (const Op& op : rank.ops) {
    if (op.state == OpState::kQueued) return &op;
  }
  return nullptr;
}

// Returns true if the rank is ending its communicators, or has ended the one in which others wait.
bool LeftTheLoop(const Facts& facts, int32_t rank_index, uint32_t comm) {
  const ring::ThreadSnapshot* thread = facts.model.ranks[rank_index].thread;
  if (thread != nullptr && (thread->call == CallKind::kCommFinalize || thread->call == CallKind::kCommDestroy))
    return true;
  const Membership* ms = MembershipIn(facts.bundle.ranks[rank_index], comm);
  return ms != nullptr && (ms->state == ring::CommState::kFinalizing || ms->state == ring::CommState::kDestroyed);
}

// Returns whether the rank waits for a rank that left no data.
bool WaitsForMissing(const Facts& facts, int32_t rank_index) {
  const WaitGraph& graph = *facts.graph;
  const auto missing = [&](const Edge& e) { return graph.Kind(e.to) == WaitGraph::NodeKind::kMissing; };
  for (const Queue& queue : graph.QueuesOf(rank_index)) {
    for (const Edge& e : graph.edges[graph.NodeOf(queue)]) {
      const auto& behind = graph.edges[e.to];
      const bool collective = graph.Kind(e.to) == WaitGraph::NodeKind::kCollective;
      if (missing(e) || (collective && std::ranges::any_of(behind, missing))) return true;
    }
  }
  return false;
}

// Returns whether the process may be in a launch that waits for space in its GPU's queue. In that case, its GPU has
// unfinished work, nothing shows its stack, and another such rank is outside NCCL as well.
bool MayWaitToLaunch(const Facts& facts, int32_t rank_index) {
  const auto outside = [&](size_t r) {
    return facts.model.ranks[r].host == HostState::kElsewhere && facts.bundle.ranks[r].process.stack.empty() &&
           facts.bundle.ranks[r].process.python_stack.empty();
  };
  const auto busy = [&](size_t r) { return !facts.model.ranks[r].in_flight.empty(); };
  const auto own = static_cast<size_t>(rank_index);
  if (!outside(own) || !busy(own)) return false;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    if (r != own && outside(r) && busy(r)) return true;
  }
  return false;
}

// Returns whether the rank and its peers on another communicator are all idle after the same call. If so, that part of
// the job most likely waits for another part outside NCCL.
bool IdleWithPeers(const Facts& facts, int32_t rank_index, uint32_t waited_on) {
  const Rank& rank = facts.bundle.ranks[rank_index];
  if (rank.ends_untold) return false;  // its calls may have failed
  return std::ranges::any_of(rank.memberships, [&](const Membership& ms) {
    const std::vector<Member>& members = facts.model.comms[ms.comm].members;
    return ms.comm != waited_on && ms.issued > 0 && members.size() >= kManyAgainstOne &&
           std::ranges::all_of(members, [&](const Member& m) {
             return m.recorded() && m.arrived == members[0].arrived &&
                    facts.model.ranks[m.rank_index].in_flight.empty();
           });
  });
}

// Describes a rank that never made the call in which others wait, although its process does not appear to be stuck.
void SetNotArrived(const Facts& facts, uint32_t node, const Facts::Waiter& waiter, Cause* cause) {
  const int32_t r = facts.graph->RankOf(node);
  const Rank& rank = facts.bundle.ranks[r];
  const bool idle = facts.model.ranks[r].in_flight.empty();
  const bool never = waiter.edge != nullptr && (waiter.edge->op != nullptr || waiter.edge->lost_seq != kNone);
  Cause& c = *cause;
  c.Is(RANK_NOT_ARRIVED, REASON_NEVER_ENTERED, GRADE_GOOD);
  if (idle && IsFramework(rank)) c.AddRival(Rival::OWN_GPU);
  if (idle && rank.damaged && !IsFramework(rank)) {
    // The rank may be a victim, because the current operations of its process and GPU are in the lost part.
    c.doubtful = true;
    c.grade = GRADE_OPEN;
    c.AddRival(Rival::LOST_WAIT);
  } else if (const bool unseen = LastCallIsUnseen(facts.bundle, rank);
             idle && (unseen || MayCallUnrecorded(facts.bundle, rank))) {
    c.grade = GRADE_WEAK;
    c.Add(Evidence::UNRECORDED_CALLS, {r}).Naming(facts.bundle).Flag(unseen);
  } else if (idle && !rank.ops.empty() && !CompletionsAreRecorded(rank, nullptr)) {
    // The rank may be waiting in any of its calls. If there is a certain finding elsewhere, that explains why the rank
    // stopped.
    c.doubtful = true;
    c.grade = GRADE_FAIR;
    c.Add(Evidence::UNRECORDED_CALLS, {r}).Naming(facts.bundle).Flag(true);
  } else if (idle) {
    const bool any = !rank.ops.empty() || std::ranges::any_of(rank.memberships, [](const Membership& ms) {
      return ms.issued > 0 || ms.p2p_issued > 0;
    });
    if (any) c.Add(Evidence::NOTHING_OPEN, {r}).Naming(facts.bundle);
    if (waiter.edge != nullptr && IdleWithPeers(facts, r, waiter.edge->comm)) {
      c.doubtful = true;
      c.grade = GRADE_FAIR;
      c.AddRival(Rival::MEETS_OUTSIDE);
    }
    // A framework does not record how groups are created, so the rank may be waiting there for a member without data.
    const auto silent = [](const Member& m) { return m.rank_index < 0; };
    if (IsFramework(rank) && waiter.edge != nullptr &&
        std::ranges::any_of(facts.model.comms[waiter.edge->comm].members, silent)) {
      c.grade = GRADE_FAIR;
      c.AddRival(Rival::SILENT_RANK);
    }
  }
  // A dump or log may omit a group of the rank, so the rank may be in the call that others wait in. In that case, an
  // exception or a differing call elsewhere is the more certain cause.
  const bool unrecorded = waiter.edge != nullptr && MembershipIn(rank, waiter.edge->comm) == nullptr;
  const bool certain = !facts.mismatches.empty() || std::ranges::any_of(facts.bundle.ranks, [](const Rank& other) {
    return !other.process.exception.empty();
  });
  if (unrecorded && IsFramework(rank) && certain) c.doubtful = true;
  const StoppedHost& stopped = facts.graph->stopped[r];
  if (stopped.witness >= 0) {
    if (!never) {
      c.Because(REASON_STOPPED_SHORT, GRADE_FAIR);
      // Processes may run ahead of their GPUs by different numbers of calls.
      c.doubtful = WaitsForMissing(facts, r) || !CompletionsAreRecorded(rank, nullptr);
      c.In(facts.model.CommOf(facts.bundle.ranks[stopped.witness], *stopped.next), stopped.next, stopped.witness);
    }
    c.Add(Evidence::ROLE_DID_NOT_WAIT, {stopped.witness, r})
        .Naming(facts.bundle, {r})
        .Count(stopped.witnesses)
        .Call(BriefCall(facts.bundle, stopped.witness, *stopped.next))
        .Flag(true);
  }
}

}  // namespace

Cause HostCause(const Facts& facts, uint32_t node) {
  const int32_t r = facts.graph->RankOf(node);
  if (r < 0) return WaitedForWithoutData(facts, node);
  Cause c;
  c.nodes = {node};
  const Rank& rank = facts.bundle.ranks[r];
  const RankView& view = facts.model.ranks[r];
  const ring::ThreadSnapshot* open_group = nullptr;
  for (const ring::ThreadSnapshot& t : rank.threads) {
    if (t.group_depth > 0 && t.call == CallKind::kNone) open_group = &t;
  }
  // If a process exits with status 0 and leaves a group open, the open group is the cause, because its calls were never
  // launched.
  const bool ended_well = EndedWell(rank);
  if (view.host == HostState::kDead && (open_group == nullptr || !ended_well)) {
    c = DeathCause(facts, r);
    c.nodes = {node};
    AddWaiterEvidence(facts, node, &c);
    return c;
  }
  c.ranks = {r};
  const auto [edge, from] = facts.FirstWaiter(node);
  const bool never = edge != nullptr && edge->op != nullptr;
  if (never) {
    const int32_t waiter = facts.graph->RankOf(from);
    c.Call(CallOf(facts.bundle, waiter, *edge->op));
    if (IsPointToPoint(edge->op->kind)) c.detail.add_ranks(facts.bundle.ranks[waiter].rank);
  } else if (edge != nullptr && edge->lost_seq != kNone) {
    c.Call(CallNamed(LostCollective(edge->lost_seq), CommText(facts.bundle, edge->comm)));
  }
  const auto since = [&](int64_t ns) {
    c.since_ns = ns, c.since_rank = r;
    if (const std::optional<int64_t> lasted = Lasted(rank, ns)) c.detail.set_duration_ns(*lasted);
  };
  AddWaiterEvidence(facts, node, &c);

  if (view.host == HostState::kStopped) {
    c.Is(HOST_STALL, REASON_PROCESS_STOPPED, GRADE_RECORDED).Name(rank.process.state);
  } else if (open_group != nullptr && view.host != HostState::kInCall) {
    c.Is(GROUP_LEFT_OPEN, REASON_GROUP_OPEN, GRADE_STRONG).Count(open_group->group_depth).Flag(ended_well);
    if (!ended_well) since(open_group->group_since_ns);
  } else if (const Op* queued = FirstQueued(rank); queued != nullptr) {
    c.Is(GROUP_LEFT_OPEN, REASON_BATCH_OPEN, GRADE_GOOD).Call(CallOf(facts.bundle, r, *queued));
  } else if (edge != nullptr && LeftTheLoop(facts, r, edge->comm)) {
    c.Is(RANK_NOT_ARRIVED, REASON_LEFT_LOOP, GRADE_STRONG).cause = "code mismatch";
  } else if (view.host == HostState::kInCall && view.thread != nullptr) {
    const bool init = ring::IsCommInit(view.thread->call);
    c.Is(init ? INIT_INCOMPLETE : HOST_STALL, REASON_INSIDE_CALL, GRADE_WEAK).Name(ring::CallName(view.thread->call));
    since(view.thread->since_ns);
    c.inside = absl::StrCat("nccl", ring::CallName(view.thread->call));
    c.doubtful = rank.damaged;  // the ranks that this rank waits for may be in the lost part
  } else if (view.host == HostState::kInWait && view.thread != nullptr) {
    // It may be unknown which operation the rank's GPU is in. That operation may wait for another rank.
    c.doubtful = rank.gpu_marks == ring::GpuMarks::kOff || rank.damaged;
    c.Is(GPU_STALL, c.doubtful ? REASON_WAITS_UNSEEN : REASON_WAITS_FOR_OTHER_WORK,
         c.doubtful ? GRADE_GUESS : GRADE_GOOD);
    since(view.thread->wait_since_ns);
    c.inside = ring::CallName(view.thread->wait);
    c.Name(c.inside);
  } else if (view.host == HostState::kElsewhere) {
    const bool launches = MayWaitToLaunch(facts, r);
    c.Is(HOST_STALL, REASON_OUTSIDE_NCCL, launches ? GRADE_OPEN : GRADE_STRONG);
    since(view.thread != nullptr ? view.thread->last_call_ns : 0);
    if (launches) c.AddRival(Rival::OWN_GPU);
  } else {
    SetNotArrived(facts, node, facts.FirstWaiter(node), &c);
  }
  AddHostEvidence(facts, r, &c);
  if (c.kind == HOST_STALL || c.kind == RANK_NOT_ARRIVED) {
    const ActivityView activity = ClassifyActivity(rank.process);
    c.stall = activity.stall;
    // A compiler uses the CPU, so one sample of its stack is enough.
    c.moving = activity.moving == Moving::kYes ||
               (activity.stall == Stall::kCompilation && activity.moving == Moving::kUnknown);
    // If the place of the CPU thread is not recorded, its stack shows it.
    if (c.stall != Stall::kUnknown && view.host == HostState::kUnknown) c.kind = HOST_STALL;
    if (c.stall == Stall::kRendezvous) {
      c.grade = std::min(c.grade, GRADE_GOOD);
      c.AddRival(Rival::MEETS_OUTSIDE);
    }
  }
  return c;
}

}  // namespace lockstep
