#include "analyzer/engine/rules/causes.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/unseen_end.h"
#include "analyzer/evidence/frames.h"
#include "proto/process.pb.h"

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

Causes::Causes(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
               const WaitGraph* graph)
    : model_(model), bundle_(model.bundle), mismatches_(mismatches), divergences_(divergences), graph_(graph) {
  divergence_of_rank_.assign(bundle_.ranks.size(), -1);
  for (size_t i = divergences_.size(); i-- > 0;) divergence_of_rank_[divergences_[i].rank] = static_cast<int32_t>(i);
  for (const Rank& rank : bundle_.ranks) {
    if (rank.damaged) damaged_.insert(rank.rank);
  }
}

const Divergence* Causes::DivergenceOf(int32_t rank_index) const {
  const int32_t index = divergence_of_rank_[rank_index];
  return index < 0 ? nullptr : &divergences_[index];
}

std::string Causes::Who(int32_t rank_index) const {
  return absl::StrCat("rank ", bundle_.ranks[rank_index].rank);
}

std::optional<int64_t> Causes::Lasted(const Rank& rank, int64_t since_ns) const {
  if (rank.captured_ns == 0 || since_ns <= 0 || rank.captured_ns < since_ns || EndUnseen(rank)) return std::nullopt;
  return rank.captured_ns - since_ns;
}

EvidenceItem Causes::InOperation(int32_t rank_index, const Op& op) const {
  const Rank& rank = bundle_.ranks[static_cast<size_t>(rank_index)];
  Evidence in;
  in.set_kind(Evidence::IN_OPERATION);
  in.set_operation(OpText(bundle_, rank, op));
  if (const std::optional<int64_t> lasted = Lasted(rank, op.enter_ns)) in.set_duration_ns(*lasted);
  return {std::move(in), {rank_index}};
}

// The smallest communicator is the closest to the place in the program where the rank stopped. Among equal sizes, take
// the earliest. A framework numbers sends separately, so its collectives show the place better.
Causes::Waiter Causes::FirstWaiter(uint32_t node) const {
  Waiter first;
  std::tuple<bool, bool, int32_t, int64_t> first_key;
  auto consider = [&](const Edge& e, uint32_t from) {
    const Rank& waiter = bundle_.ranks[graph_->RankOf(from)];
    const bool own_numbers = e.op != nullptr && waiter.source == Source::kFlightRecorder && IsPointToPoint(e.op->kind);
    // A damaged file may not contain its clock.
    const std::tuple<bool, bool, int32_t, int64_t> key = {
        waiter.damaged, own_numbers, e.comm == kNoIndex ? 0 : bundle_.comms[e.comm].size,
        e.op != nullptr ? e.op->enter_ns + waiter.real_minus_mono_ns : 0};
    if (first.edge != nullptr && key >= first_key) return;
    first = {&e, from};
    first_key = key;
  };
  for (uint32_t w : graph_->back[node]) {
    if (graph_->Kind(w) == WaitGraph::NodeKind::kCollective) {
      const Waiter& in = FirstIn(w);
      if (in.edge != nullptr) consider(*in.edge, in.from);
      continue;
    }
    for (const Edge& e : graph_->edges[w]) {
      if (e.to == node && e.why != Why::kOwnGpu && e.why != Why::kOutside) consider(e, w);
    }
  }
  return first;
}

const Causes::Waiter& Causes::FirstIn(uint32_t collective) const {
  auto [it, fresh] = first_in_.try_emplace(collective);
  if (fresh) it->second = FirstWaiter(collective);
  return it->second;
}

void Causes::AddWaiterEvidence(uint32_t node, Cause* cause) const {
  const auto [edge, from] = FirstWaiter(node);
  if (edge == nullptr) return;
  if (cause->op == nullptr) {
    cause->comm = edge->comm;
    cause->op = edge->op;
    cause->op_rank = graph_->RankOf(from);
  }
  if (edge->op == nullptr || edge->comm == kNoIndex) return;
  std::set<int32_t> waiting;
  if (edge->why == Why::kIn) {
    for (uint32_t w : graph_->back[edge->to]) waiting.insert(graph_->RankOf(w));
  } else {
    for (uint32_t w : graph_->back[node]) {
      for (const Edge& e : graph_->edges[w]) {
        const bool same = e.to == node && e.comm == edge->comm && e.op != nullptr && e.op->seq == edge->op->seq &&
                          e.op->kind == edge->op->kind && graph_->RankOf(w) >= 0;
        if (same) waiting.insert(graph_->RankOf(w));
      }
    }
  }
  const Rank& waiter = bundle_.ranks[graph_->RankOf(from)];
  Evidence wait;
  wait.set_kind(Evidence::WAITING);
  wait.set_operation(OpText(bundle_, waiter, *edge->op));
  *wait.mutable_communicator() = Labelled(bundle_.comms[edge->comm]);
  if (const std::optional<int64_t> lasted = Lasted(waiter, edge->op->enter_ns)) wait.set_duration_ns(*lasted);
  cause->evidence.push_back({std::move(wait), std::vector<int32_t>(waiting.begin(), waiting.end())});
}

void Causes::AddHostEvidence(int32_t rank_index, Cause* cause) const {
  const Rank& rank = bundle_.ranks[rank_index];
  const Process& p = rank.process;
  const bool sampled_cpu = p.cpu_ns_between_samples >= 0 && p.sample_gap_ns > 0;
  const bool sleeps = !p.wchan.empty() && p.wchan != "0";
  if (!p.state.empty() || sleeps || sampled_cpu || p.io_bytes_between_samples > 0) {
    Evidence seen;
    seen.set_kind(Evidence::PROCESS_STATE);
    seen.mutable_process()->set_state(p.state);
    if (sleeps) seen.mutable_process()->set_kernel_function(p.wchan);
    seen.mutable_process()->set_between_ns(p.sample_gap_ns);
    seen.mutable_process()->set_cpu_ns(p.cpu_ns_between_samples);
    seen.mutable_process()->set_io_bytes(p.io_bytes_between_samples);
    cause->evidence.push_back({std::move(seen), {rank_index}});
  }
  if (p.stack.empty() && p.stack_refused.empty()) return;
  Evidence stack;
  stack.set_kind(Evidence::STACK);
  for (const std::string& frame : p.stack) *stack.add_frames() = ParseFrame(frame);
  stack.set_place(CodePlace(stack.frames()));
  if (p.stack.empty()) stack.set_refused(p.stack_refused);
  cause->evidence.push_back({std::move(stack), {rank_index}});
}

namespace {

// The line of the kernel log about the end of this process; null: none.
const HardwareEvent* KernelOnEndOf(const Rank& rank) {
  constexpr int64_t kNear = 30'000'000'000;  // a core dump and a busy log take time
  const ProcessEvidence* evidence = rank.process.evidence.get();
  if (evidence == nullptr || rank.pid <= 0 || rank.process.life != Life::kKilled) return nullptr;
  const HardwareEvent* found = nullptr;
  for (const HardwareEvent& event : evidence->hardware()) {
    const bool out_of_memory = event.kind() == HardwareEvent::OUT_OF_MEMORY;
    if (event.pid() != rank.pid || out_of_memory != (rank.process.signal == SIGKILL) ||
        (!out_of_memory && event.kind() != HardwareEvent::CRASH))
      continue;
    // The kernel reuses process numbers.
    if (rank.process.ended_mono_ns != 0 && evidence->taken_ns() != 0 &&
        std::abs(evidence->taken_ns() - event.age_ns() - rank.process.ended_mono_ns) > kNear)
      continue;
    found = &event;
  }
  return found;
}

}  // namespace

Cause Causes::DeathCause(int32_t rank_index) const {
  const Rank& rank = bundle_.ranks[rank_index];
  Cause c;
  c.kind = RANK_DEAD;
  c.ranks = {rank_index};
  c.grade = GRADE_RECORDED;
  switch (rank.process.life) {
    case Life::kKilled:
      c.reason = REASON_KILLED;
      c.detail.set_number(rank.process.signal);
      break;
    case Life::kExited:
      c.reason = REASON_EXITED;
      c.detail.set_number(rank.process.exit_code);
      break;
    default:
      c.reason = REASON_GONE;
      c.grade = GRADE_GOOD;
  }
  if (const HardwareEvent* event = KernelOnEndOf(rank); event != nullptr) {
    c.evidence.push_back({absl::StrCat("the kernel log about its end: ", event->text()), {rank_index}});
    if (event->kind() == HardwareEvent::OUT_OF_MEMORY) c.reason = REASON_KILLED_FOR_MEMORY;
  } else if (rank.process.life == Life::kKilled && rank.process.signal == SIGKILL && rank.process.evidence != nullptr &&
             rank.process.evidence->hardware_unread().empty()) {
    c.detail.set_flag(true);
  }
  // A watchdog ends its process because of another rank. The operation that this rank waited in is lost.
  const bool in_own_code =
      !rank.threads.empty() && std::none_of(rank.threads.begin(), rank.threads.end(), [](const auto& t) {
        return t.wait != CallKind::kNone || t.call != CallKind::kNone;
      });
  if (rank.damaged && !in_own_code && rank.process.life == Life::kKilled && rank.process.signal == SIGABRT) {
    c.grade = GRADE_WEAK;
    c.AddRival(Rival::WATCHDOG);
  }
  // The last call it made: its records outlive the process.
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || op.recent_only) continue;
    if (last == nullptr || op.enter_ns > last->enter_ns) last = &op;
  }
  if (last != nullptr) {
    Evidence call;
    call.set_kind(Evidence::LAST_CALL);
    call.set_operation(OpText(bundle_, rank, *last));
    *call.mutable_communicator() = Labelled(bundle_.comms[rank.memberships[last->membership].comm]);
    c.evidence.push_back({std::move(call), {rank_index}});
  }
  for (size_t s = 0; s < rank.streams.size(); ++s) {
    const ring::StreamSnapshot& stream = rank.streams[s];
    if (stream.late_completed == 0) continue;
    const Op* newest = nullptr;
    for (const Op& op : rank.ops) {
      if (op.stream != s || op.membership == kNoIndex || op.ticket <= 0 ||
          static_cast<uint64_t>(op.ticket) > stream.completed)
        continue;
      if (static_cast<uint64_t>(op.ticket) <= stream.completed - stream.late_completed) continue;
      if (newest == nullptr || op.ticket > newest->ticket) newest = &op;
    }
    const std::string what = newest == nullptr ? "" : absl::StrCat(", the newest ", OpText(bundle_, rank, *newest));
    c.evidence.push_back(
        {absl::StrCat("its GPU reached ", stream.late_completed,
                      stream.late_completed == 1 ? " operation" : " operations", " after the process died", what),
         {rank_index}});
  }
  return c;
}

Cause Causes::NoDataCause(int32_t global_rank) const {
  Cause c;
  c.kind = RANK_NO_DATA;
  c.missing = {global_rank};
  c.reason = REASON_NO_DATA;
  c.grade = GRADE_GUESS;
  for (const Problem& problem : bundle_.problems) {
    if (problem.rank != global_rank || !problem.stopped) continue;
    c.reason = REASON_RECORDING_STOPPED;
    c.detail.set_name(problem.text);
  }
  return c;
}

namespace {

// A framework's dump: the first call of a batch that the host did not end; null: none.
const Op* FirstQueued(const Rank& rank) {
  if (rank.source != Source::kFlightRecorder) return nullptr;
  for (const Op& op : rank.ops) {
    if (op.state == OpState::kQueued) return &op;
  }
  return nullptr;
}

}  // namespace

bool Causes::LeftTheLoop(int32_t rank_index, uint32_t comm) const {
  const ring::ThreadSnapshot* thread = model_.ranks[rank_index].thread;
  if (thread != nullptr && (thread->call == CallKind::kCommFinalize || thread->call == CallKind::kCommDestroy))
    return true;
  for (const Membership& ms : bundle_.ranks[rank_index].memberships) {
    if (ms.comm == comm && (ms.state == ring::CommState::kFinalizing || ms.state == ring::CommState::kDestroyed))
      return true;
  }
  return false;
}

bool Causes::OnlyFirstOperationsWaitFor(uint32_t node) const {
  // A lost record is known only by its number, or from another member's record.
  auto own = [&](const Edge& e, uint32_t from) {
    if (e.op == nullptr || graph_->RankOf(from) < 0) return false;
    const auto& ops = bundle_.ranks[static_cast<size_t>(graph_->RankOf(from))].ops;
    return !std::less<const Op*>()(e.op, ops.data()) && std::less<const Op*>()(e.op, ops.data() + ops.size());
  };
  // The record of a first operation may be gone if the job continues beside it.
  auto first_lost = [&](const Edge& e, uint32_t from) {
    if (graph_->Kind(from) != WaitGraph::NodeKind::kQueue || e.op != nullptr) return false;
    const Queue& queue = graph_->QueueOf(from);
    const auto& memberships = bundle_.ranks[static_cast<size_t>(queue.rank)].memberships;
    return std::any_of(queue.lost.begin(), queue.lost.end(), [&](const auto& lost) {
      return lost.first == e.comm && std::any_of(memberships.begin(), memberships.end(), [&](const Membership& ms) {
               return ms.comm == e.comm && ms.completed == kNone &&
                      lost.second == (ms.first_seq >= 0 ? ms.first_seq : 1);
             });
    });
  };
  auto first = [&](const Edge& e, uint32_t from) {
    if (first_lost(e, from)) return true;
    if (!own(e, from) || !IsCollective(e.op->kind)) return false;
    return e.op->seq == bundle_.ranks[graph_->RankOf(from)].memberships[e.op->membership].first_seq;
  };
  // A call that a damaged record lost may be behind the first operation.
  auto lost = [&](const Edge& e, uint32_t from) {
    return graph_->RankOf(from) >= 0 && bundle_.ranks[static_cast<size_t>(graph_->RankOf(from))].damaged &&
           !own(e, from);
  };
  bool any = false;
  for (uint32_t w : graph_->back[node]) {
    if (graph_->Kind(w) == WaitGraph::NodeKind::kCollective) {
      const Waiter& in = FirstIn(w);
      if (in.edge == nullptr || lost(*in.edge, in.from)) continue;
      if (!first(*in.edge, in.from)) return false;
      any = true;
      continue;
    }
    for (const Edge& e : graph_->edges[w]) {
      if (e.to != node || e.why == Why::kOwnGpu || e.why == Why::kOutside || lost(e, w)) continue;
      if (!first(e, w)) return false;
      any = true;
    }
  }
  return any;
}

Cause Causes::HostCause(uint32_t node) const {
  const int32_t r = graph_->RankOf(node);
  Cause c;
  c.nodes = {node};
  if (r < 0) {
    c = NoDataCause(graph_->MissingRank(node));
    c.nodes = {node};
    if (c.reason == REASON_RECORDING_STOPPED) {
      c.detail.set_flag(true);
    } else {
      c.reason = REASON_NO_DATA_OTHERS_WAIT;
    }
    if (damaged_.contains(c.missing[0])) c.reason = REASON_DATA_LOST_OTHERS_WAIT;
    c.grade = kWaitedForWithoutData;
    c.first_only = OnlyFirstOperationsWaitFor(node);
    AddWaiterEvidence(node, &c);
    if (c.first_only && c.op == nullptr) c.first_lost = c.comm;
    // An operation that a damaged record shows in flight may be behind a lost one. Then the rank itself holds up the
    // others.
    std::set<int32_t> waiting;
    const auto lost_some = [&](uint32_t w) {
      const int32_t r = graph_->RankOf(w);
      if (r < 0 || !bundle_.ranks[static_cast<size_t>(r)].damaged ||
          bundle_.ranks[static_cast<size_t>(r)].source == Source::kFlightRecorder)
        return false;
      waiting.insert(r);
      return true;
    };
    const auto& back = graph_->back;
    const bool all = std::all_of(back[node].begin(), back[node].end(), [&](uint32_t w) {
      return graph_->Kind(w) == WaitGraph::NodeKind::kCollective
                 ? std::all_of(back[w].begin(), back[w].end(), lost_some)
                 : lost_some(w);
    });
    if (all && !waiting.empty()) {
      for (int32_t r : waiting) c.missing.push_back(bundle_.ranks[static_cast<size_t>(r)].rank);
      c.reason = REASON_NO_DATA_OR_LOST;
      c.by_damaged = true;
    }
    return c;
  }
  const Rank& rank = bundle_.ranks[r];
  const RankView& view = model_.ranks[r];
  const ring::ThreadSnapshot* open_group = nullptr;
  for (const ring::ThreadSnapshot& t : rank.threads) {
    if (t.group_depth > 0 && t.call == CallKind::kNone) open_group = &t;
  }
  // A rank does not wait for calls that it never launched. Its process may have run to its end, which is not a cause of
  // its own.
  const bool ended_well = rank.process.life == Life::kExited && rank.process.exit_code == 0;
  if (view.host == HostState::kDead && (open_group == nullptr || !ended_well)) {
    c = DeathCause(r);
    c.nodes = {node};
    AddWaiterEvidence(node, &c);
    return c;
  }
  c.ranks = {r};
  const auto [edge, from] = FirstWaiter(node);
  const bool never = edge != nullptr && edge->op != nullptr;
  if (never) {
    const Rank& waiter = bundle_.ranks[graph_->RankOf(from)];
    *c.detail.mutable_call() = CallOf(bundle_, waiter, *edge->op);
    if (IsPointToPoint(edge->op->kind)) c.detail.add_ranks(waiter.rank);
  }
  const auto since = [&](int64_t ns) {
    c.since_ns = ns, c.since_rank = r;
    if (const std::optional<int64_t> lasted = Lasted(rank, ns)) c.detail.set_duration_ns(*lasted);
  };
  AddWaiterEvidence(node, &c);

  if (view.host == HostState::kStopped) {
    c.kind = HOST_STALL;
    c.reason = REASON_PROCESS_STOPPED;
    c.detail.set_name(rank.process.state);
    c.grade = GRADE_RECORDED;
  } else if (open_group != nullptr && view.host != HostState::kInCall) {
    c.kind = GROUP_LEFT_OPEN;
    c.reason = REASON_GROUP_OPEN;
    c.detail.set_count(open_group->group_depth);
    c.detail.set_flag(ended_well);
    if (!ended_well) since(open_group->group_since_ns);
  } else if (const Op* queued = FirstQueued(rank); queued != nullptr) {
    c.kind = GROUP_LEFT_OPEN;
    c.reason = REASON_BATCH_OPEN;
    *c.detail.mutable_call() = CallOf(bundle_, rank, *queued);
    c.grade = GRADE_GOOD;
  } else if (edge != nullptr && LeftTheLoop(r, edge->comm)) {
    c.kind = RANK_NOT_ARRIVED;
    c.cause = "code mismatch";
    c.reason = REASON_LEFT_LOOP;
    c.grade = GRADE_STRONG;
  } else if (view.host == HostState::kInCall && view.thread != nullptr) {
    const bool init = ring::IsCommInit(view.thread->call);
    since(view.thread->since_ns);
    c.inside = absl::StrCat("nccl", ring::CallName(view.thread->call));
    c.kind = init ? INIT_INCOMPLETE : HOST_STALL;
    c.doubtful = rank.damaged;  // the ranks that it waits for may be in the lost part
    c.reason = REASON_INSIDE_CALL;
    c.detail.set_name(ring::CallName(view.thread->call));
    c.grade = GRADE_WEAK;
  } else if (view.host == HostState::kInWait && view.thread != nullptr) {
    c.kind = GPU_STALL;
    since(view.thread->wait_since_ns);
    c.inside = ring::CallName(view.thread->wait);
    const bool blind = rank.gpu_marks == ring::GpuMarks::kOff || rank.damaged;
    c.reason = blind ? REASON_WAITS_UNSEEN : REASON_WAITS_FOR_OTHER_WORK;
    c.detail.set_name(c.inside);
    c.grade = GRADE_GOOD;
    if (blind) {
      // Nothing shows what its GPU is in. It may be an operation that waits for another rank.
      c.doubtful = true;
      c.grade = GRADE_GUESS;
    }
  } else if (view.host == HostState::kElsewhere) {
    c.kind = HOST_STALL;
    since(view.thread != nullptr ? view.thread->last_call_ns : 0);
    c.reason = REASON_OUTSIDE_NCCL;
    c.grade = GRADE_STRONG;
  } else {
    c.kind = RANK_NOT_ARRIVED;
    c.reason = REASON_NEVER_ENTERED;
    c.grade = GRADE_GOOD;
    bool idle = view.in_flight.empty();
    if (idle && rank.source == Source::kFlightRecorder) {
      c.AddRival(Rival::OWN_GPU);
    }
    if (idle && rank.damaged && rank.source != Source::kFlightRecorder) {
      // What its process and GPU are in is in the lost part: the rank may be a victim.
      c.doubtful = true;
      c.grade = GRADE_OPEN;
      c.AddRival(Rival::LOST_WAIT);
    } else if (idle) {
      c.evidence.push_back({absl::StrCat(Who(r), " has no unfinished operation of its own"), {r}});
    }
    if (idle && std::any_of(rank.memberships.begin(), rank.memberships.end(),
                            [](const Membership& ms) { return ms.not_loaded > 0; })) {
      c.grade = GRADE_WEAK;
      c.evidence.push_back({absl::StrCat(Who(r),
                                         " makes calls that have no entry in its record (sends and receives): it "
                                         "may wait in one of them for another rank"),
                            {r}});
    }
    const StoppedHost& stopped = graph_->stopped[r];
    if (stopped.witness >= 0) {
      const Rank& witness = bundle_.ranks[stopped.witness];
      const std::string next = absl::StrCat(OpText(bundle_, witness, *stopped.next), " on ",
                                            CommText(bundle_.comms[model_.CommOf(witness, *stopped.next)]));
      if (!never) {
        c.reason = REASON_STOPPED_SHORT;
        c.comm = model_.CommOf(witness, *stopped.next);
        c.op = stopped.next;
        c.op_rank = stopped.witness;
        c.grade = GRADE_FAIR;
      }
      c.evidence.push_back(
          {absl::StrCat(stopped.witnesses, stopped.witnesses == 1 ? " rank" : " ranks", " with the same role issued ",
                        next, " while the same work was unfinished as on ", Who(r),
                        ", which did not issue it: that work did not block its process"),
           {stopped.witness, r}});
    }
  }
  AddHostEvidence(r, &c);
  if (c.kind == HOST_STALL || c.kind == RANK_NOT_ARRIVED) {
    const ActivityView activity = ClassifyActivity(rank.process);
    c.stall = activity.stall;
    c.moving = activity.moving == Moving::kYes;
    // If the place of the CPU thread is not recorded, its stack shows it.
    if (c.stall != Stall::kUnknown && view.host == HostState::kUnknown) c.kind = HOST_STALL, c.grade = GRADE_STRONG;
    if (c.stall == Stall::kRendezvous) {
      c.grade = std::min(c.grade, GRADE_GOOD);
      c.AddRival(Rival::MEETS_OUTSIDE);
    }
  }
  return c;
}

}  // namespace lockstep
