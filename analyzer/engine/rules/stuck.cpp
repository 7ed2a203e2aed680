// Operations that all members entered and that do not end, in words.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/facts/network.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

using ring::IsCollective;
using ring::IsPointToPoint;

namespace {

// Whether the GPU is known to have completed something that the rank issued after `op`.
bool CompletedLater(const Rank& rank, const Op& op) {
  for (size_t i = rank.ops.size(); i-- > 0;) {
    const Op& o = rank.ops[i];
    if (o.state != OpState::kCompleted || o.membership == kNoIndex || o.recent_only) continue;
    const bool later = o.record_id >= 0 && op.record_id >= 0 ? o.record_id > op.record_id
                                                             : o.thread == op.thread && o.index > op.index;
    if (later) return true;
  }
  return false;
}

std::string SomeRanks(const std::vector<int32_t>& ranks) {
  constexpr size_t kShown = 8;
  const size_t shown = std::min(ranks.size(), kShown);
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                      ranks.size() > shown ? absl::StrCat(" and ", ranks.size() - shown, " more") : "");
}

// Ranks without data that may be in a communicator whose members are known from its use alone; global ranks, ascending.
std::vector<int32_t> MayBelongTo(const Bundle& bundle, uint32_t comm) {
  if (comm == kNoIndex || !bundle.comms[comm].members_inferred) return {};
  std::vector<bool> known(static_cast<size_t>(std::max(bundle.ranks_expected, 0)));
  auto mark = [&known](int32_t rank) {
    if (rank >= 0 && static_cast<size_t>(rank) < known.size()) known[static_cast<size_t>(rank)] = true;
  };
  for (const Rank& rank : bundle.ranks) mark(rank.rank);
  // Of communicators that share a name everybody is in one.
  for (const Communicator& other : bundle.comms) {
    if (other.name == bundle.comms[comm].name) std::for_each(other.members.begin(), other.members.end(), mark);
  }
  std::vector<int32_t> out;
  for (size_t rank = 0; rank < known.size(); rank++) {
    if (!known[rank]) out.push_back(static_cast<int32_t>(rank));
  }
  return out;
}

}  // namespace

// Everybody is in, nobody gets out. One of the GPUs or what lies between them: members whose GPU reported an error, or
// who alone completed nothing of what they issued after it, are more likely than the rest.
Cause Causes::StuckCause(uint32_t node) const {
  const int32_t r = graph_->RankOf(node);
  const Rank& rank = bundle_.ranks[r];
  const GpuFront& front = graph_->QueueOf(node).front;
  Cause c;
  c.nodes = {node};
  c.ranks = {r};
  c.kind = COLLECTIVE_STUCK;
  c.confidence = 0.6;
  c.comm = front.comm;
  c.op = front.op;
  c.op_rank = r;
  const std::string what = front.op == nullptr ? "its operation" : OpText(bundle_, rank, *front.op);
  const std::string where = front.comm == kNoIndex ? "" : absl::StrCat(" on ", CommText(bundle_.comms[front.comm]));
  bool all_known = front.op != nullptr;
  std::vector<int32_t> failed, stopped, moved;
  auto look = [&](int32_t m, const Op* op) {
    if (!GpuErrorOf(bundle_.ranks[m]).empty()) failed.push_back(m);
    if (op != nullptr && CompletedLater(bundle_.ranks[m], *op)) {
      moved.push_back(m);
    } else if (op == nullptr || model_.UnitOf(m, op) == kNoIndex) {
      all_known = false;
      // It may have gone, or never come, in the part that could not be read.
      c.doubtful |= op == nullptr && bundle_.ranks[m].damaged;
    } else {
      stopped.push_back(m);
    }
  };
  if (front.op != nullptr && IsCollective(front.op->kind)) {
    for (const Member& m : model_.comms[front.comm].members) {
      if (m.rank_index < 0 || m.membership == kNoIndex) {
        all_known = false;
        continue;
      }
      if (m.rank_index != r) c.ranks.push_back(m.rank_index);
      look(m.rank_index, model_.FindCollective(m, front.op->seq));
    }
  } else if (front.op != nullptr && front.op->root_or_peer >= 0) {
    const auto& members = model_.comms[front.comm].members;
    const bool known =
        static_cast<size_t>(front.op->root_or_peer) < members.size() && members[front.op->root_or_peer].rank_index >= 0;
    bool counted = false;
    if (known) model_.OtherSide(r, *front.op, members[front.op->root_or_peer], &counted);
    // Where older records are gone, which receive a framework's send meets is only presumed; between two alone it
    // hardly matters.
    c.doubtful |= rank.source == Source::kFlightRecorder && !counted && members.size() > 2;
    look(r, nullptr);
    if (known) {
      c.ranks.push_back(members[front.op->root_or_peer].rank_index);
      look(c.ranks.back(), nullptr);
    }
    all_known = false;
  }
  std::sort(c.ranks.begin(), c.ranks.end());
  c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
  for (int32_t m : c.ranks) {
    for (uint32_t q = graph_->FirstQueue(m); q < graph_->FirstQueue(m + 1); ++q) {
      if (graph_->QueueOf(graph_->QueueNode(q)).front.op != nullptr &&
          graph_->QueueOf(graph_->QueueNode(q)).front.comm == front.comm) {
        c.nodes.push_back(graph_->QueueNode(q));
      }
    }
  }
  const size_t everybody = c.ranks.size();
  c.evidence.push_back({absl::StrCat("every member of ", where.empty() ? "it" : CommText(bundle_.comms[front.comm]),
                                     " arrived in ", what),
                        c.ranks});
  if (front.op != nullptr && rank.captured_ns > 0) {
    c.evidence.push_back(InOperation(r, *front.op));
  }
  c.alternatives = {"the network between these ranks", "the GPU of one of them, inside the operation"};
  c.may_be_network = true;
  c.tells_apart =
      "full GPU marks (which GPU did not start), the profiler (whose network steps stopped), Xid and link errors of "
      "their hosts";
  c.refuted_by = "a member that had not arrived";
  if (failed.size() == 1) {
    c.kind = GPU_STALL;
    c.ranks = failed;
    c.confidence = 0.93;
    c.what = absl::StrCat(GpuErrorOf(bundle_.ranks[failed[0]]), "; ", what, where, ", which all ", everybody,
                          " members entered, does not end");
    c.evidence.push_back({absl::StrCat(Who(failed[0]), ": ", GpuErrorOf(bundle_.ranks[failed[0]])), failed});
    c.advice = {"Read the host's kernel log for Xid errors and nvidia-smi for this GPU's state.",
                "Drain the GPU if it is gone; restart the job without it."};
    c.alternatives.clear();
    c.may_be_network = false;
    c.tells_apart.clear();
    c.refuted_by = "the error being a consequence of the job's end";
  } else if (all_known && !moved.empty() && !stopped.empty() && stopped.size() <= 2 && stopped.size() < moved.size()) {
    c.kind = GPU_STALL;
    c.ranks = stopped;
    c.confidence = stopped.size() == 1 ? 0.75 : 0.65;
    c.what = Say(Clause("its GPU", "their GPUs"), " completed nothing that was issued after ", what, where,
                 "; the GPUs of the other members did, and all wait in it");
    c.evidence.push_back({absl::StrCat(moved.size(), " of ", everybody,
                                       " members completed operations that they issued after it, the named did not"),
                          stopped});
    c.advice = {"Read the host's kernel log for Xid errors and nvidia-smi for this GPU's state.",
                "If there is none, suspect the network between the members of this communicator."};
  } else {
    c.what = absl::StrCat("all members entered ", what, where, " and none finishes it");
    const std::vector<int32_t> unseen = MayBelongTo(bundle_, front.comm);
    if (!unseen.empty()) {
      c.doubtful = c.hypothesis = true;
      c.confidence = 0.3;
      c.what = absl::StrCat("all members that left data entered ", what, where, " and none finishes it");
      c.evidence[0].fields.set_text(absl::StrCat("who is in ", CommText(bundle_.comms[front.comm]),
                                                 " is known from its use alone: everybody who used it arrived in ",
                                                 what));
      c.alternatives.insert(c.alternatives.begin(),
                            absl::StrCat(unseen.size() == 1 ? "" : "one of ", SomeRanks(unseen),
                                         ", which left no data, belongs to it and never arrived"));
      c.refuted_by = "a member without data that had not arrived";
      c.advice = {"Add the dumps of the ranks without data and analyze again: the others may wait for one of them.",
                  "Otherwise suspect the network between these ranks, or one of their GPUs."};
    } else {
      c.advice = {"Suspect the network between these ranks, or one of their GPUs: the record cannot tell which.",
                  "Read link and Xid errors on their hosts; full GPU marks or profiler data would tell more."};
    }
  }
  if (c.kind == COLLECTIVE_STUCK && c.doubtful && front.op != nullptr && IsPointToPoint(front.op->kind) &&
      TookTheWrongPeer(model_, r, *front.op)) {
    c.kind = P2P_UNMATCHED;
    c.ranks = {r};
    c.doubtful = false;
    c.confidence = 0.7;
    c.what = absl::StrCat(
        "is in ", what, where,
        ", and neither record holds anything else between the two: most likely the wrong peer, and another "
        "rank waits for what it should have done instead");
    c.evidence[0] = {
        absl::StrCat(Who(r), " and that rank exchange with others, and but for this call not with each other"), {r}};
    c.alternatives = {"the network between these two ranks, or one of their GPUs inside the operation"};
    c.tells_apart = "the program of both sides at that place; longer records";
    c.advice = {"Look at how the named rank computes the peer of that call."};
    c.refuted_by = "the other side's program having a matching call";
  }
  if (c.kind == COLLECTIVE_STUCK) AddNetworkSteps(front, &c);
  if (c.kind == COLLECTIVE_STUCK) AddOtherOrders(r, front, &c);
  AddWaiterEvidence(node, &c);
  return c;
}

// Everybody issued it, starts are recorded, and no GPU has begun it: each has work ahead of it that NCCL did not queue.
Cause Causes::NotBegunCause(uint32_t node) const {
  const GpuFront& front = graph_->QueueOf(node).front;
  const int32_t r = graph_->RankOf(node);
  const Rank& rank = bundle_.ranks[r];
  const std::string what = absl::StrCat(OpText(bundle_, rank, *front.op), " on ", CommText(bundle_.comms[front.comm]));
  Cause c;
  c.kind = GPU_STALL;
  c.not_begun = true;
  c.nodes = {node};
  c.comm = front.comm;
  c.op = front.op;
  c.op_rank = r;
  for (const Member& m : model_.comms[front.comm].members) {
    if (m.rank_index < 0) continue;
    c.ranks.push_back(m.rank_index);
    c.doubtful |=
        bundle_.ranks[static_cast<size_t>(m.rank_index)].damaged;  // what stands before it may be among what was lost
  }
  std::sort(c.ranks.begin(), c.ranks.end());
  const bool alone = c.ranks.size() == 1;
  c.what = absl::StrCat(alone ? "its stream never" : "no member's stream ever", " reached ", what,
                        ": work ahead of it that is not NCCL's does not end");
  c.confidence = alone ? 0.85 : 0.6;
  c.evidence.push_back({absl::StrCat(alone ? Who(r) + " issued " : "all members issued ", what,
                                     " and no GPU has begun it; all that NCCL had queued before is complete"),
                        c.ranks});
  if (rank.captured_ns > 0) c.evidence.push_back(InOperation(r, *front.op));
  c.advice = {"Look for a kernel or host callback that never ends on these GPUs, ahead of the collective.",
              "Read the hosts' kernel logs for Xid errors."};
  c.refuted_by = "a start mark of that operation, or a long computation that ends";
  AddWaiterEvidence(node, &c);
  return c;
}

// The network operations of the members that wait for the other end. Where one pair waits at both ends, data that the
// one has handed over does not reach the other: that link it is, and who waits for those two waits because of them.
void Causes::AddNetworkSteps(const GpuFront& front, Cause* cause) const {
  if (front.op == nullptr) return;
  const std::vector<StuckStep> steps = StuckSteps(model_, front.comm, front.op->kind, front.op->seq);
  if (steps.empty()) return;
  const std::vector<std::pair<int32_t, int32_t>> links = StuckLinks(steps);
  std::vector<const StuckStep*> told;
  for (const StuckStep& step : steps) {
    const bool in_link = std::any_of(links.begin(), links.end(), [&](const auto& link) {
      return step.op->send ? step.rank_index == link.first && step.peer_index == link.second
                           : step.rank_index == link.second && step.peer_index == link.first;
    });
    if (links.empty() || in_link) told.push_back(&step);
  }
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < told.size() && i < kMost; ++i) {
    cause->evidence.push_back(
        {absl::StrCat(Who(told[i]->rank_index), " ", StepText(model_, *told[i])), {told[i]->rank_index}});
  }
  if (told.size() > kMost) {
    cause->evidence.push_back({absl::StrCat(told.size() - kMost, " more network steps wait likewise"), cause->ranks});
  }
  const std::string what = OpText(bundle_, bundle_.ranks[cause->op_rank], *front.op);
  if (links.size() == 1) {
    const auto [from, to] = links[0];
    cause->ranks = {std::min(from, to), std::max(from, to)};
    cause->confidence = 0.9;
    cause->what = absl::StrCat("what rank ", bundle_.ranks[from].rank, " sends to rank ", bundle_.ranks[to].rank,
                               " in ", what, " does not arrive: ", StepText(model_, *told[0]));
    cause->alternatives = {"the network between these two ranks", "one of their network adapters"};
    cause->tells_apart = "counters and errors of the two hosts' network ports";
    cause->advice = {"Look at the network ports of both hosts, and the switches between them.",
                     "Run a bandwidth test between these two hosts alone."};
    cause->refuted_by = "a step of that channel that advances";
  } else if (!links.empty()) {
    cause->what = Say(cause->what, "; data stands still on ", links.size(), " links between them");
  } else {
    cause->what = Say(cause->what, "; its longest wait: ", Who(steps[0].rank_index), " ", StepText(model_, steps[0]));
  }
}
// Members that wait in a second operation of theirs as well, on another stream: their GPUs may have taken the two up in
// different orders.
void Causes::AddOtherOrders(int32_t r, const GpuFront& front, Cause* cause) const {
  if (front.op == nullptr) return;
  const Rank& rank = bundle_.ranks[r];
  for (const Unit& unit : model_.ranks[r].in_flight) {
    const Op& op = rank.ops[unit.ops[0]];
    const uint32_t comm = model_.CommOf(rank, op);
    const bool same_stream = op.stream != kNoIndex && op.stream == front.op->stream;
    if (comm == front.comm || same_stream || !IsCollective(op.kind)) continue;
    std::vector<int32_t> shared;
    bool all_in = true;
    for (const Member& m : model_.comms[comm].members) {
      const Op* theirs = m.rank_index < 0 ? nullptr : model_.FindCollective(m, op.seq);
      all_in &= theirs != nullptr && model_.InFlight(m.rank_index, *theirs);
      if (m.rank_index >= 0 && std::binary_search(cause->ranks.begin(), cause->ranks.end(), m.rank_index))
        shared.push_back(m.rank_index);
    }
    if (!all_in || shared.size() < 2) continue;
    cause->alternatives.push_back(absl::StrCat("the GPUs of ", shared.size(), " members run it and ",
                                               OpText(bundle_, rank, op), " on ", CommText(bundle_.comms[comm]),
                                               ", which all entered too, in different orders"));
    absl::StrAppend(&cause->tells_apart,
                    "; the job running with NCCL_LAUNCH_ORDER_IMPLICIT=1 (launch order, stream priorities and "
                    "CUDA_DEVICE_MAX_CONNECTIONS decide what a GPU runs first)");
    return;
  }
}

}  // namespace lockstep
