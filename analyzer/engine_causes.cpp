#include "analyzer/engine_causes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

Causes::Causes(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
               const WaitGraph* graph)
    : model_(model), bundle_(model.bundle), mismatches_(mismatches), divergences_(divergences), graph_(graph) {}

const Divergence* Causes::DivergenceOf(int32_t rank_index) const {
  for (const Divergence& d : divergences_) {
    if (d.rank == rank_index) return &d;
  }
  return nullptr;
}

std::string Causes::Who(int32_t rank_index) const { return absl::StrCat("rank ", bundle_.ranks[rank_index].rank); }

std::string Causes::Seconds(const Rank& rank, int64_t since_ns) const {
  if (rank.captured_ns == 0 || since_ns <= 0 || rank.captured_ns < since_ns) return "";
  return absl::StrFormat(" for %.1f s", static_cast<double>(rank.captured_ns - since_ns) / 1e9);
}

const Edge* Causes::FirstWaiter(uint32_t node, uint32_t* from) const {
  const Edge* first = nullptr;
  std::tuple<bool, int32_t, int64_t> first_key;
  for (uint32_t w : graph_->back[node]) {
    for (const Edge& e : graph_->edges[w]) {
      if (e.to != node || e.why == Why::kOwnGpu) continue;
      const Rank& waiter = bundle_.ranks[graph_->RankOf(w)];
      // The smallest communicator is the closest to the place in the program where the rank stopped; among equals, the
      // earliest. A framework numbers sends for itself, so its collectives say better where that was.
      const bool own_numbers =
          e.op != nullptr && waiter.source == Source::kFlightRecorder && IsPointToPoint(e.op->kind);
      const std::tuple<bool, int32_t, int64_t> key = {own_numbers, e.comm == kNoIndex ? 0 : bundle_.comms[e.comm].size,
                                                      e.op != nullptr ? e.op->enter_ns + waiter.real_minus_mono_ns : 0};
      if (first == nullptr || key < first_key) {
        first = &e;
        first_key = key;
        *from = w;
      }
    }
  }
  return first;
}

void Causes::AddWaiterEvidence(uint32_t node, Cause* cause) const {
  uint32_t from = 0;
  const Edge* edge = FirstWaiter(node, &from);
  if (edge == nullptr) return;
  if (cause->op == nullptr) {
    cause->comm = edge->comm;
    cause->op = edge->op;
    cause->op_rank = graph_->RankOf(from);
  }
  if (edge->op == nullptr || edge->comm == kNoIndex) return;
  std::vector<int32_t> waiting;
  std::set<int32_t> names;
  for (uint32_t w : graph_->back[node]) {
    for (const Edge& e : graph_->edges[w]) {
      if (e.to == node && e.comm == edge->comm && e.op != nullptr && e.op->seq == edge->op->seq &&
          e.op->kind == edge->op->kind && names.insert(graph_->RankOf(w)).second) {
        waiting.push_back(graph_->RankOf(w));
      }
    }
  }
  std::sort(waiting.begin(), waiting.end());
  const Rank& waiter = bundle_.ranks[graph_->RankOf(from)];
  const Communicator& comm = bundle_.comms[edge->comm];
  cause->evidence.push_back({absl::StrCat(waiting.size(), " of ", comm.size, " members of ", CommText(comm), " wait in ",
                                          OpText(bundle_, waiter, *edge->op), Seconds(waiter, edge->op->enter_ns)),
                             waiting});
}

void Causes::AddHostEvidence(int32_t rank_index, Cause* cause) const {
  const Rank& rank = bundle_.ranks[rank_index];
  const Process& p = rank.process;
  std::string text;
  if (!p.state.empty()) text = absl::StrCat("process state ", p.state);
  if (!p.wchan.empty() && p.wchan != "0") absl::StrAppend(&text, text.empty() ? "" : ", ", "in kernel function ", p.wchan);
  if (p.cpu_ns_between_samples >= 0 && p.sample_gap_ns > 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    absl::StrFormat("CPU %.0f%% of the last %.1f s",
                                    100.0 * static_cast<double>(p.cpu_ns_between_samples) / static_cast<double>(p.sample_gap_ns),
                                    static_cast<double>(p.sample_gap_ns) / 1e9));
  }
  if (p.io_bytes_between_samples > 0) absl::StrAppend(&text, ", ", p.io_bytes_between_samples, " bytes of I/O");
  if (!text.empty()) cause->evidence.push_back({absl::StrCat(Who(rank_index), ": ", text), {rank_index}});
  if (!p.stack.empty()) {
    cause->evidence.push_back({absl::StrCat(Who(rank_index), " stack: ", absl::StrJoin(p.stack, " < ")), {rank_index}});
  } else if (!p.stack_refused.empty()) {
    cause->evidence.push_back({absl::StrCat(Who(rank_index), " stack: ", p.stack_refused), {rank_index}});
  }
}

Cause Causes::DeathCause(int32_t rank_index) const {
  const Rank& rank = bundle_.ranks[rank_index];
  Cause c;
  c.kind = RANK_DEAD;
  c.ranks = {rank_index};
  c.confidence = 0.97;
  switch (rank.process.life) {
    case Life::kKilled: {
      static const std::map<int, const char*> kSignals = {{1, "SIGHUP"},  {2, "SIGINT"},  {3, "SIGQUIT"}, {4, "SIGILL"},
                                                          {6, "SIGABRT"}, {7, "SIGBUS"},  {8, "SIGFPE"},  {9, "SIGKILL"},
                                                          {11, "SIGSEGV"}, {15, "SIGTERM"}};
      auto it = kSignals.find(rank.process.signal);
      c.what = absl::StrCat("died of signal ", rank.process.signal, it == kSignals.end() ? "" : absl::StrCat(" (", it->second, ")"));
      c.advice = rank.process.signal == 9 || rank.process.signal == 7
                     ? "1. Look in that host's kernel log for the out-of-memory killer and hardware errors.\n"
                       "2. Ask who sent the signal (scheduler, operator).\n3. Restart; drain the host if it happens again."
                     : "1. Read that rank's own error output and core file.\n2. Fix the crash; the other ranks only wait.";
      break;
    }
    case Life::kExited:
      c.what = absl::StrCat("exited ", rank.process.exit_code);
      c.advice = rank.process.exit_code == 0
                     ? "1. Find out why this rank left the training loop early (data ran out, a swallowed exception).\n"
                       "2. Make every rank run the same number of steps."
                     : "1. Read that rank's own error output: it failed first.\n2. The other ranks only wait for it.";
      break;
    default:
      c.what = "its process is gone; how it ended was not seen";
      c.confidence = 0.85;
      c.advice = "1. Read that rank's own error output and its host's kernel log.";
  }
  // The last thing it did: its records outlive it.
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || op.recent_only) continue;
    if (last == nullptr || op.enter_ns > last->enter_ns) last = &op;
  }
  if (last != nullptr) {
    c.evidence.push_back({absl::StrCat("its last recorded call: ", OpText(bundle_, rank, *last), " on ",
                                       CommText(bundle_.comms[rank.memberships[last->membership].comm])),
                          {rank_index}});
  }
  c.refuted_by = "the process still running, or another rank's process having ended before it";
  return c;
}

Cause Causes::NoDataCause(int32_t global_rank) const {
  Cause c;
  c.kind = RANK_NO_DATA;
  c.missing = {global_rank};
  c.what = "left no data";
  c.confidence = 0.3;
  c.advice = "1. Look at this rank by hand: is its process alive, was the recorder loaded, was its dump written?\n"
             "2. Add its dump and analyze again.";
  c.refuted_by = "its data showing that it had arrived";
  return c;
}

Cause Causes::HostCause(uint32_t node) const {
  const int32_t r = graph_->RankOf(node);
  Cause c;
  c.nodes = {node};
  if (r < 0) {
    c = NoDataCause(graph_->MissingRank(node));
    c.nodes = {node};
    c.what = "others wait for it and it left no data";
    c.confidence = 0.5;
    AddWaiterEvidence(node, &c);
    return c;
  }
  const Rank& rank = bundle_.ranks[r];
  const RankView& view = model_.ranks[r];
  if (view.host == HostState::kDead) {
    c = DeathCause(r);
    c.nodes = {node};
    AddWaiterEvidence(node, &c);
    return c;
  }
  c.ranks = {r};
  uint32_t from = 0;
  const Edge* edge = FirstWaiter(node, &from);
  std::string never;
  if (edge != nullptr && edge->op != nullptr) {
    never = absl::StrCat("never entered ", OpText(bundle_, bundle_.ranks[graph_->RankOf(from)], *edge->op), " on ",
                         CommText(bundle_.comms[edge->comm]));
    if (IsPointToPoint(edge->op->kind)) {
      never = absl::StrCat("never issued the other side of rank ", bundle_.ranks[graph_->RankOf(from)].rank, "'s ",
                           OpText(bundle_, bundle_.ranks[graph_->RankOf(from)], *edge->op), " on ",
                           CommText(bundle_.comms[edge->comm]));
    }
  }
  AddWaiterEvidence(node, &c);
  c.refuted_by = "that rank's own record of the operation";

  const ring::ThreadSnapshot* open_group = nullptr;
  for (const ring::ThreadSnapshot& t : rank.threads) {
    if (t.group_depth > 0 && t.call == CallKind::kNone) open_group = &t;
  }
  if (view.host == HostState::kStopped) {
    c.kind = HOST_STALL;
    c.what = absl::StrCat("its process is stopped (state ", rank.process.state, ")", never.empty() ? "" : "; it ", never);
    c.confidence = 0.97;
    c.advice = "1. Find who stopped it (a debugger, SIGSTOP, a job manager) and continue it: kill -CONT PID.";
  } else if (open_group != nullptr && view.host != HostState::kInCall) {
    c.kind = GROUP_LEFT_OPEN;
    c.what = absl::StrCat("called ncclGroupStart without ncclGroupEnd (depth ", open_group->group_depth,
                          "): its calls were accepted, none was launched", Seconds(rank, open_group->group_since_ns));
    c.advice = "1. Find the path that leaves the group without ncclGroupEnd (an early return, an exception).";
  } else if (view.host == HostState::kInCall && view.thread != nullptr) {
    const bool init = ring::IsCommInit(view.thread->call);
    c.kind = init ? INIT_INCOMPLETE : HOST_STALL;
    c.what = absl::StrCat("is inside nccl", ring::CallName(view.thread->call), Seconds(rank, view.thread->since_ns),
                          never.empty() ? "" : "; it ", never);
    c.confidence = 0.6;
    c.advice = "1. Look at this thread's stack: the call itself does not return.";
  } else if (view.host == HostState::kInWait && view.thread != nullptr) {
    c.kind = GPU_STALL;
    c.what = absl::StrCat("waits in ", ring::CallName(view.thread->wait), Seconds(rank, view.thread->wait_since_ns),
                          " for GPU work that is not NCCL's", never.empty() ? "" : "; it ", never);
    c.confidence = 0.8;
    c.advice = "1. Look for a kernel that never ends on this GPU.\n2. Read the host's kernel log for Xid errors.";
  } else if (view.host == HostState::kElsewhere) {
    c.kind = HOST_STALL;
    const int64_t since = view.thread != nullptr ? view.thread->last_call_ns : 0;
    c.what = absl::StrCat(never, never.empty() ? "its host is" : "; its host is", " in no NCCL call and no GPU wait",
                          Seconds(rank, since));
    c.confidence = 0.93;
    c.advice = "1. Look at this rank's Python and native stacks: data loader, checkpoint, lock, garbage collection.\n"
               "2. The network and the other ranks only wait for it.";
  } else {
    c.kind = RANK_NOT_ARRIVED;
    c.what = never.empty() ? "never arrived" : never;
    c.confidence = 0.85;
    bool idle = view.in_flight.empty();
    if (idle) c.evidence.push_back({absl::StrCat(Who(r), " has nothing unfinished of its own"), {r}});
    const StoppedHost& stopped = graph_->stopped[r];
    if (stopped.witness >= 0) {
      const Rank& witness = bundle_.ranks[stopped.witness];
      const std::string next = absl::StrCat(OpText(bundle_, witness, *stopped.next), " on ",
                                            CommText(bundle_.comms[model_.CommOf(witness, *stopped.next)]));
      if (never.empty()) {
        c.what = "its host stopped short of where its siblings went on with the same work unfinished";
        c.comm = model_.CommOf(witness, *stopped.next);
        c.op = stopped.next;
        c.op_rank = stopped.witness;
        c.confidence = 0.75;
      }
      c.evidence.push_back({absl::StrCat(stopped.witnesses, stopped.witnesses == 1 ? " rank" : " ranks",
                                         " in the same role issued ", next, " with all the work unfinished that ", Who(r),
                                         " has; it did not, so that work did not hold its host"),
                            {stopped.witness, r}});
    }
    c.advice = "1. Look at this rank's host process: data loader, checkpoint, lock held, exception.\n"
               "2. The network and the other ranks only wait for it.";
  }
  AddHostEvidence(r, &c);
  if (c.kind == HOST_STALL || c.kind == RANK_NOT_ARRIVED) {
    const ActivityView activity = ClassifyActivity(rank.process);
    c.stall = activity.stall;
    c.moving = activity.moving == Moving::kYes;
    // Where the host's place is not recorded, its stack shows it as well.
    if (c.stall != Stall::kUnknown && view.host == HostState::kUnknown) c.kind = HOST_STALL, c.confidence = 0.9;
  }
  return c;
}

Cause Causes::GpuCause(uint32_t node) const {
  const int32_t r = graph_->RankOf(node);
  const Rank& rank = bundle_.ranks[r];
  const GpuFront& front = graph_->fronts[r];
  Cause c;
  c.nodes = {node};
  c.ranks = {r};
  c.comm = front.comm;
  c.op = front.op;
  c.op_rank = r;
  const std::string what = front.op == nullptr ? "its operation" : OpText(bundle_, rank, *front.op);
  const std::string where = front.comm == kNoIndex ? "" : absl::StrCat(" on ", CommText(bundle_.comms[front.comm]));
  if (front.front == Front::kPeersFinished) {
    c.kind = GPU_STALL;
    c.what = absl::StrCat("its GPU never completed ", what, where, ", which its peers completed with it");
    c.confidence = 0.85;
    c.evidence.push_back({absl::StrCat(Who(r), ": ", what, where, " is unfinished here and finished on its peers"), {r}});
    int behind = 0;
    for (const Membership& ms : rank.memberships) {
      if (ms.completed < 0) continue;
      for (const Member& m : model_.comms[ms.comm].members) {
        if (m.rank_index < 0 || m.membership == kNoIndex || m.rank_index == r) continue;
        if (bundle_.ranks[m.rank_index].memberships[m.membership].completed > ms.completed) {
          ++behind;
          break;
        }
      }
    }
    if (behind > 1) {
      c.evidence.push_back({absl::StrCat("it stands still in ", behind, " communicators at once: not one stream, the GPU"), {r}});
      c.confidence = 0.93;
    }
    c.advice = "1. Read the host's kernel log for Xid errors and nvidia-smi for this GPU's state.\n"
               "2. Drain the GPU if it is gone; restart the job without it.";
    c.refuted_by = "the rank's own watchdog merely being slow to notice completions";
  } else if (front.front == Front::kNotReached) {
    c.kind = GPU_STALL;
    c.what = absl::StrCat("its stream never reached ", what, where, ": work ahead of it that is not NCCL's does not end");
    c.confidence = 0.92;
    c.evidence.push_back({absl::StrCat(Who(r), " issued ", what, where, " but its GPU did not start it; its peers' did"), {r}});
    c.advice = "1. Look for a kernel or host callback that never ends on this GPU, ahead of the collective.\n"
               "2. Read the host's kernel log for Xid errors.";
    c.refuted_by = "a start mark of that operation on that GPU";
  } else {
    c.kind = COLLECTIVE_STUCK;
    c.confidence = 0.6;
    if (front.op != nullptr && IsCollective(front.op->kind)) {
      for (const Member& m : model_.comms[front.comm].members) {
        if (m.rank_index >= 0 && m.rank_index != r && m.membership != kNoIndex) c.ranks.push_back(m.rank_index);
      }
    } else if (front.op != nullptr && front.op->root_or_peer >= 0) {
      const auto& members = model_.comms[front.comm].members;
      if (static_cast<size_t>(front.op->root_or_peer) < members.size() && members[front.op->root_or_peer].rank_index >= 0) {
        c.ranks.push_back(members[front.op->root_or_peer].rank_index);
      }
    }
    std::sort(c.ranks.begin(), c.ranks.end());
    c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
    for (int32_t m : c.ranks) c.nodes.push_back(WaitGraph::GpuNode(m));
    c.what = absl::StrCat("all members entered ", what, where, " and none finishes it");
    c.evidence.push_back({absl::StrCat("every member of ", where.empty() ? "it" : CommText(bundle_.comms[front.comm]), " arrived in ", what), c.ranks});
    c.advice = "1. Suspect the network between these ranks, or one of their GPUs: the record cannot tell which.\n"
               "2. Read link and Xid errors on their hosts; full GPU marks or profiler data would tell more.";
    c.refuted_by = "a member that had not arrived";
  }
  if (front.op != nullptr && rank.captured_ns > 0) {
    c.evidence.push_back({absl::StrCat(Who(r), " has been in it", Seconds(rank, front.op->enter_ns)), {r}});
  }
  AddWaiterEvidence(node, &c);
  return c;
}

Cause Causes::FromMismatch(const Mismatch& m) const {
  // Where the members alone give no majority, a sibling group may have told which of them left the program.
  Cause c;
  c.kind = m.kind;
  c.comm = m.comm;
  c.op = m.odd_op;
  c.op_rank = m.odd_ranks.empty() ? -1 : m.odd_ranks[0];
  c.ranks = m.odd_ranks;
  const std::string where = absl::StrCat("#", m.seq, " on ", CommText(bundle_.comms[m.comm]));
  if (m.sender >= 0) {
    const std::string other = absl::StrCat(m.usual_text, m.odd_op->kind == CallKind::kSend ? " received" : " sent");
    c.what = absl::StrCat("issued ", OpText(bundle_, bundle_.ranks[c.op_rank], *m.odd_op), " on ",
                          CommText(bundle_.comms[m.comm]), " with ", m.odd_text, " against ", other,
                          m.majority ? "; ranks at the same place of the program issued the other" : "; nothing recorded tells which is right");
    c.confidence = m.majority ? 0.9 : 0.5;
  } else if (m.kind == MISMATCH_SPLITS) {
    c.what = absl::StrCat("in ", OpName(bundle_, *m.odd_op), " ", where, " ", m.odd_text, " but ", m.usual_text);
    c.confidence = 0.6;
  } else if (m.usual_op == nullptr) {
    c.what = absl::StrCat("issued ", OpName(bundle_, *m.odd_op), " ", where, " with ", m.odd_text, "; expected ", m.usual_text);
    c.confidence = 0.9;
  } else if (m.by_siblings) {
    c.what = absl::StrCat("issued ", m.odd_text, " against ", m.usual_text, " in collective ", where,
                          "; ranks in the same role issued the latter");
    c.confidence = 0.85;
  } else if (m.majority) {
    c.what = absl::StrCat("issued ", m.odd_text, " where ", m.members_seen - static_cast<int>(m.odd_ranks.size()), " of ",
                          m.members_seen, " issued ", m.usual_text, ", collective ", where);
    c.confidence = 0.95;
  } else {
    c.what = absl::StrCat("disagree in collective ", where, ": ", m.odd_text, " against ", m.usual_text,
                          "; nothing recorded tells which is right");
    c.confidence = 0.5;
  }
  if (m.usual_op != nullptr && m.usual_rank >= 0) {
    c.evidence.push_back({absl::StrCat(Who(c.op_rank), ": ", ArgumentsText(bundle_, *m.odd_op), "; ", Who(m.usual_rank), ": ",
                                       ArgumentsText(bundle_, *m.usual_op)),
                          {c.op_rank, m.usual_rank}});
  }
  c.advice = "1. Compare the arguments at this call site on the named ranks: data-dependent shape, branch or configuration.\n"
             "2. Results since then may be wrong even where nothing hangs.";
  c.refuted_by = "records of the other members showing the same arguments";
  return c;
}

Cause Causes::FromDivergence(const Divergence& d) const {
  const Rank& rank = bundle_.ranks[d.rank];
  const Rank& sibling = bundle_.ranks[d.sibling_rank];
  Cause c;
  c.ranks = {d.rank};
  c.confidence = d.siblings_agreeing >= 3 ? 0.93 : 0.85;
  const Op* theirs = d.sibling;
  auto own_comm = [&](const Rank& r, const Op& op) { return r.memberships[op.membership].comm; };
  if (d.type == Divergence::Type::kSkipped) {
    c.kind = RANK_NOT_ARRIVED;
    c.cause = "code mismatch";
    // Named as its own communicator numbers it: the sibling's count of that kind of communicator is the same.
    const std::string& klass = model_.comms[own_comm(sibling, *theirs)].klass;
    for (const Membership& ms : rank.memberships) {
      if (model_.comms[ms.comm].klass == klass) c.comm = ms.comm;
    }
    if (c.comm == kNoIndex) c.comm = own_comm(sibling, *theirs);
    c.op = theirs;
    c.op_rank = d.sibling_rank;
    c.what = absl::StrCat("skipped ", OpName(bundle_, *theirs), " #", theirs->seq, " on ", CommText(bundle_.comms[c.comm]),
                          " and went on");
    c.evidence.push_back({absl::StrCat(d.siblings_agreeing, " of ", d.family_size, " ranks in the same role issued ",
                                       ArgumentsText(bundle_, *theirs), " there; ", Who(d.rank), " issued ",
                                       d.own == nullptr ? "nothing" : ArgumentsText(bundle_, *d.own), " instead"),
                          {d.sibling_rank, d.rank}});
    c.advice = "1. Find the branch around this call that the named rank did not take (data-dependent condition, early continue).";
  } else if (d.type == Divergence::Type::kExtra) {
    c.kind = RANK_AHEAD;
    c.comm = own_comm(rank, *d.own);
    c.op = d.own;
    c.op_rank = d.rank;
    c.what = absl::StrCat("issued an extra ", OpName(bundle_, *d.own), " #", d.own->seq, " on ", CommText(bundle_.comms[c.comm]),
                          " that no rank in the same role issued");
    c.evidence.push_back({absl::StrCat(d.siblings_agreeing, " of ", d.family_size, " ranks in the same role went on with ",
                                       ArgumentsText(bundle_, *theirs)),
                          {d.sibling_rank, d.rank}});
    c.advice = "1. Find the code path on which only this rank makes the call (logging, evaluation, a retry).";
  } else if (d.type == Divergence::Type::kReordered) {
    c.kind = ORDER_INVERSION;
    c.comm = own_comm(rank, *d.own);
    c.op = d.own;
    c.op_rank = d.rank;
    c.what = absl::StrCat("issued ", OpText(bundle_, rank, *d.own), " on ", CommText(bundle_.comms[c.comm]),
                          " at another place than its siblings, which issued ", OpText(bundle_, sibling, *theirs), " on ",
                          CommText(bundle_.comms[own_comm(sibling, *theirs)]), " there");
    c.evidence.push_back({absl::StrCat(d.siblings_agreeing, " of ", d.family_size,
                                       " ranks in the same role issued the same calls in another order"),
                          {d.sibling_rank, d.rank}});
    c.advice = "1. Make every rank issue operations of different communicators in one order, or from one stream.";
  } else {
    std::string own_text, their_text;
    c.kind = CompareCalls(bundle_, *d.own, *theirs, &own_text, &their_text);
    c.comm = own_comm(rank, *d.own);
    c.op = d.own;
    c.op_rank = d.rank;
    c.what = absl::StrCat("issued ", own_text, " where ", d.siblings_agreeing, " ranks in the same role issued ", their_text,
                          ", ", OpName(bundle_, *theirs), " #", d.own->seq, " on ", CommText(bundle_.comms[c.comm]));
    c.evidence.push_back({absl::StrCat(Who(d.rank), ": ", ArgumentsText(bundle_, *d.own), "; ", Who(d.sibling_rank),
                                       " at the same place: ", ArgumentsText(bundle_, *theirs)),
                          {d.rank, d.sibling_rank}});
    c.advice = "1. Compare the arguments at this call site on the named rank: data-dependent shape, branch or configuration.\n"
               "2. Results since then may be wrong even where nothing hangs.";
  }
  c.refuted_by = "the ranks in the same role running a different program by design";
  return c;
}

Cause Causes::CycleCause(const std::vector<uint32_t>& sink) const {
  Cause c;
  c.nodes = sink;
  std::set<int32_t> ranks;
  for (uint32_t v : sink) {
    if (graph_->RankOf(v) >= 0) ranks.insert(graph_->RankOf(v));
  }
  c.ranks.assign(ranks.begin(), ranks.end());
  c.kind = DEADLOCK_CYCLE;
  c.confidence = 0.8;
  std::vector<std::string> orders;
  bool p2p = true, sends = true;
  for (uint32_t v : sink) {
    if (graph_->IsHost(v)) continue;
    const int32_t r = graph_->RankOf(v);
    for (const Edge& e : graph_->edges[v]) {
      if (e.op == nullptr) continue;
      p2p &= IsPointToPoint(e.op->kind);
      sends &= e.op->kind == CallKind::kSend;
      c.doubtful |= e.presumed;
      if (c.op == nullptr) c.op = e.op, c.op_rank = r, c.comm = e.comm;
      orders.push_back(absl::StrCat(Who(r), " waits in ", OpText(bundle_, bundle_.ranks[r], *e.op), " on ",
                                    CommText(bundle_.comms[e.comm])));
      c.evidence.push_back({orders.back(), {r}});
      break;
    }
  }
  // Two ranks that have both issued both operations, in opposite orders.
  bool inverted = false;
  for (uint32_t v : sink) {
    for (const Edge& e : graph_->edges[v]) inverted |= e.why == Why::kBehind && std::binary_search(sink.begin(), sink.end(), e.to);
  }
  if (inverted && !p2p) {
    c.kind = ORDER_INVERSION;
    c.what = "issued the same operations in different orders and wait for each other";
    c.advice = "1. Make every rank issue operations of different communicators in one order, or from one stream.";
  } else if (p2p && sends) {
    c.what = "wait for each other in sends: each must receive before the other's send ends";
    c.advice = "1. Put the sends and receives of a pair into one group (ncclGroupStart .. ncclGroupEnd).";
  } else {
    c.what = "wait for each other in a circle";
    c.advice = "1. Compare the order of calls of the named ranks around the operations listed: one of them left out, added or "
               "reordered a call.";
  }
  c.refuted_by = "one of the operations completing";
  return c;
}

}  // namespace lockstep
