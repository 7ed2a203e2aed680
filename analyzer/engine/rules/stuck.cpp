// Describes GPUs that hang on their own, and operations that all members entered and that do not complete.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/facts/network.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

namespace {

// Returns what the record shows about a failure of the GPU itself, or an empty string.
std::string GpuErrorOf(const Rank& rank) {
  constexpr int32_t kNcclUnhandledCudaError = 1;
  for (const ring::StreamSnapshot& s : rank.streams) {
    if (s.first_error != 0) return absl::StrCat("CUDA error ", s.first_error, " on its stream ", s.index);
  }
  for (const Membership& ms : rank.memberships) {
    if (ms.async_error == kNcclUnhandledCudaError) return "NCCL reported an unhandled CUDA error";
  }
  return "";
}

// If the only sign that a member completed the collective at `front` is the counters in one damaged file, returns that
// member; otherwise empty.
std::vector<int32_t> FinishedByCountsAlone(const Facts& facts, const GpuFront& front) {
  std::vector<int32_t> counted;
  if (front.comm == kNoIndex || !front.InCollective()) return counted;
  for (const Member& m : facts.model.comms[front.comm].members) {
    const MemberState state = facts.model.StateOf(m, front.op->seq);
    if (!m.recorded() || !state.completed) continue;
    if (state.op != nullptr || !facts.bundle.ranks[m.rank_index].damaged) return {};
    counted.push_back(m.rank_index);
  }
  return counted.size() == 1 ? counted : std::vector<int32_t>();
}

// The members in the operation are stuck because `alone` made a different call.
Cause FinishedAloneCause(const Facts& facts, uint32_t node, int32_t alone) {
  const GpuFront& front = facts.graph->QueueOf(node).front;
  const int32_t r = facts.graph->RankOf(node);
  // Counters are in every readable part of a file, but those of a damaged file may be from an earlier time or another
  // job.
  const Grade grade = facts.bundle.ranks[alone].damaged ? GRADE_FAIR : GRADE_GOOD;
  Cause c = CauseOf(SILENT_DESYNC, REASON_FINISHED_ALONE, grade, {alone});
  c.nodes = {node};
  c.At(facts.bundle, front.comm, *front.op, r);
  const auto& members = facts.model.comms[front.comm].members;
  const auto own = std::ranges::find_if(members, [&](const Member& m) { return m.rank_index == alone; });
  const bool gone = own == members.end() || facts.model.FindCollective(*own, front.op->seq) == nullptr;
  c.Flag(gone);
  std::vector<int32_t> named = {alone};
  for (const Member& m : members) {
    if (m.rank_index == alone) continue;
    if (m.rank_index == r || facts.model.StateOf(m, front.op->seq).InFlight()) named.push_back(m.rank_index);
  }
  c.Add(Evidence::DONE_ELSEWHERE, named).Naming(facts.bundle).Flag(gone);
  return c;
}

// Returns whether the GPU is known to have completed something that the rank issued after `op`.
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

// Ranks that may be in an operation, or missing from it, although no record shows them there.
struct NotShown {
  NotShown(const Model& model, uint32_t comm) {
    if (comm == kNoIndex) return;
    const Bundle& bundle = model.bundle;
    const auto& members = model.comms[comm].members;
    unnamed = std::ranges::any_of(members, [](const Member& m) { return m.rank_index < 0 && m.global_rank < 0; });
    if (!bundle.comms[comm].members_inferred) return;
    by_waits = members.size() != static_cast<size_t>(std::max(bundle.ranks_expected, 0)) &&
               std::ranges::all_of(members, [&](const Member& m) {
                 return m.rank_index >= 0 && bundle.ranks[m.rank_index].only_active;
               });
    outside = RanksWithoutData(bundle, SIZE_MAX);
    // If communicators share a name, every rank is in one of them.
    absl::flat_hash_set<int32_t> named;
    for (const Communicator& other : bundle.comms) {
      if (!outside.empty() && other.name == bundle.comms[comm].name)
        named.insert(other.members.begin(), other.members.end());
    }
    std::erase_if(outside, [&](int32_t rank) { return named.contains(rank); });
  }

  bool unnamed = false;  // an unknown rank holds a place among the members
  // No source names the members, and only the ranks that still wait there are known. A rank that never arrived is not
  // among them.
  bool by_waits = false;
  std::vector<int32_t> outside;  // ranks without data that may be members; global ranks, ascending
};

// Adds the network steps of members that wait for the other end. If both ends of a pair wait, data that one end has
// handed over does not reach the other. In that case, the link between them is the cause, and other ranks wait because
// of this pair.
void AddNetworkSteps(const Facts& facts, const GpuFront& front, Cause* cause) {
  if (front.op == nullptr) return;
  const std::vector<StuckStep> steps = StuckSteps(facts.model, front.comm, front.op->kind, front.op->seq);
  if (steps.empty()) return;
  const std::vector<std::pair<int32_t, int32_t>> links = StuckLinks(steps);
  std::vector<const StuckStep*> told;
  for (const StuckStep& step : steps) {
    const bool in_link = std::ranges::any_of(links, [&](const auto& link) {
      return step.op->send ? step.rank_index == link.first && step.peer_index == link.second
                           : step.rank_index == link.second && step.peer_index == link.first;
    });
    if (links.empty() || in_link) told.push_back(&step);
  }
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < told.size() && i < kMost; ++i) cause->evidence.push_back(EvidenceOf(facts.model, *told[i]));
  if (told.size() > kMost) cause->Add(Evidence::MORE_STEPS, cause->ranks).Count(told.size() - kMost);
  if (links.size() == 1) {
    const auto [from, to] = links[0];
    cause->Because(REASON_LINK_DEAD, GRADE_STRONG).Of({from, to}).Naming(facts.bundle, {from, to});
  } else if (!links.empty()) {
    cause->Count(links.size());
  }
}

// A GPU that runs this operation and another one at once may run them in a different order than its peers do. The
// different order closes a cycle only if each member of this operation is also in another one, which all of its own
// members have entered.
void AddOtherOrders(const Facts& facts, const GpuFront& front, Cause* cause) {
  if (front.op == nullptr) return;
  const auto all_in = [&](const Rank& rank, const Op& op) {
    const auto& members = facts.model.comms[facts.model.CommOf(rank, op)].members;
    return std::ranges::all_of(members, [&](const Member& m) { return facts.model.StateOf(m, op.seq).InFlight(); });
  };
  CallRef another;
  for (const int32_t r : cause->ranks) {
    const Rank& rank = facts.bundle.ranks[r];
    const auto& units = facts.model.ranks[r].in_flight;
    const auto found = std::ranges::find_if(units, [&](const Unit& unit) {
      const Op& op = rank.ops[unit.ops[0]];
      const bool same_stream = op.stream != kNoIndex && op.stream == front.op->stream;
      return facts.model.CommOf(rank, op) != front.comm && !same_stream && IsCollective(op.kind) && all_in(rank, op);
    });
    if (found == units.end()) return;
    another = CallOf(facts.bundle, r, rank.ops[found->ops[0]]);
  }
  Detail* rival = cause->AddRival(Rival::GPU_ORDER);
  rival->set_count(static_cast<int64_t>(cause->ranks.size()));
  *rival->mutable_call() = std::move(another);
}

// The progress of the members of a stuck operation.
struct Inside {
  bool all_known = false;
  std::vector<int32_t> failed;    // members whose GPU reported an error
  std::vector<int32_t> finished;  // members that completed the operation
  std::vector<int32_t> moved;     // members that completed something issued after it
  std::vector<int32_t> stopped;   // members that are in it
  std::vector<int32_t> entered;   // members that issued it, according to their records
};

// Adds one member to the matching lists of `inside`. `op` is its call; null if it is not recorded.
void LookAt(const Facts& facts, int32_t member, const Op* op, Inside* inside, Cause* c) {
  const Rank& rank = facts.bundle.ranks[member];
  if (!GpuErrorOf(rank).empty()) inside->failed.push_back(member);
  if (op != nullptr && op->state == OpState::kCompleted) {
    inside->finished.push_back(member);
  } else if (op != nullptr && CompletedLater(rank, *op)) {
    inside->moved.push_back(member);
  } else if (op == nullptr || facts.model.UnitOf(member, op) == kNoIndex) {
    inside->all_known = false;
    // The part that could not be read may show that the rank completed the operation, or never reached it.
    c->doubtful |= op == nullptr && rank.damaged;
  } else {
    inside->stopped.push_back(member);
  }
}

// Also sets the ranks of the cause.
Inside LookAtMembers(const Facts& facts, int32_t r, const GpuFront& front, Cause* c) {
  Inside inside;
  c->ranks = {r};
  if (front.op == nullptr) return inside;
  const std::vector<Member>& members = facts.model.comms[front.comm].members;
  if (IsCollective(front.op->kind)) {
    inside.all_known = true;
    for (const Member& m : members) {
      if (!m.recorded()) {
        inside.all_known = false;
        continue;
      }
      c->ranks.push_back(m.rank_index);
      const Op* theirs = facts.model.FindCollective(m, front.op->seq);
      if (theirs != nullptr) inside.entered.push_back(m.rank_index);
      LookAt(facts, m.rank_index, theirs, &inside, c);
    }
  } else if (front.op->root_or_peer >= 0) {
    const Member* peer = facts.model.MemberAt(front.comm, front.op->root_or_peer);
    const bool known = peer != nullptr && peer->rank_index >= 0;
    bool counted = false;
    if (known) facts.model.OtherSide(r, *front.op, *peer, &counted);
    // If older records were overwritten, Lockstep only assumes which receive matches a framework's send. Between just
    // two ranks, that hardly matters.
    c->doubtful |= IsFramework(facts.bundle.ranks[r]) && !counted && members.size() > 2;
    if (known) c->ranks.push_back(peer->rank_index);
    for (const int32_t m : c->ranks) LookAt(facts, m, nullptr, &inside, c);
  }
  SortUnique(&c->ranks);
  return inside;
}

void AddQueues(const Facts& facts, uint32_t comm, Cause* c) {
  for (int32_t m : c->ranks) {
    for (const Queue& queue : facts.graph->QueuesOf(m)) {
      if (queue.front.op != nullptr && queue.front.comm == comm) c->nodes.push_back(facts.graph->NodeOf(queue));
    }
  }
}

void AddWhoEntered(const Facts& facts, int32_t r, const GpuFront& front, const Inside& inside, Cause* c) {
  const Rank& rank = facts.bundle.ranks[r];
  const bool all = IsCollective(front.op->kind);
  const std::vector<int32_t>& in = all ? inside.entered : c->ranks;
  EvidenceItem& into = c->Add(Evidence::ENTERED, in).Count(in.size());
  into.Call(BriefCall(facts.bundle, r, *front.op));
  if (all) into.CountOf(in.size(), facts.model.comms[front.comm].members.size());
  if (!all && c->ranks.size() != 2) into.Naming(facts.bundle, {r});
  if (rank.captured_ns > 0) c->evidence.push_back(InOperation(facts, r, *front.op));
}

// A member without data, or with an unknown state, may be what blocks the operation.
void DoubtUnseenMembers(const Facts& facts, uint32_t comm, Cause* c) {
  const auto [unnamed, by_waits, unseen] = NotShown(facts.model, comm);
  if (!unnamed && unseen.empty() && !by_waits) return;
  c->doubtful = c->hypothesis = true;
  c->Because(REASON_ALL_SEEN_IN, GRADE_GUESS);
  c->Add(Evidence::KNOWN_BY_USE, {});
  if (!unnamed && !unseen.empty()) {
    Detail* rival = c->AddRival(Rival::UNSEEN_MEMBER);
    for (const int32_t r : unseen) rival->add_ranks(r);
  } else if (!unseen.empty()) {
    c->Is(RANK_NO_DATA, REASON_NO_DATA_OTHERS_WAIT, GRADE_GUESS).Of({}).missing = unseen;
  }
}

// Returns whether the members that seem to have completed the operation may have left it because a member without data
// ended.
bool MayHaveFailed(const Facts& facts, uint32_t comm, const Inside& inside) {
  const auto untold = [&](int32_t r) { return facts.bundle.ranks[r].ends_untold; };
  if (std::ranges::none_of(inside.finished, untold)) return false;
  const NotShown rest(facts.model, comm);
  return rest.unnamed || !rest.outside.empty();
}

// Names only some members if they are more likely at fault than the rest: the one whose GPU reported an error, those
// still in the operation that others completed, or the only ones that completed nothing issued later.
void NarrowToMembers(const Facts& facts, uint32_t comm, const Inside& inside, Cause* c) {
  const size_t everybody = c->ranks.size(), stopped = inside.stopped.size();
  const Grade of_stopped = stopped == 1 ? GRADE_FAIR : GRADE_WEAK;
  if (inside.failed.size() == 1) {
    c->Is(GPU_STALL, REASON_ERROR_IN_OPERATION, GRADE_STRONG).Of(inside.failed);
    c->Name(GpuErrorOf(facts.bundle.ranks[inside.failed[0]]));
    c->detail.set_of(static_cast<int64_t>(everybody));
  } else if (!inside.finished.empty() && stopped > 0 && !MayHaveFailed(facts, comm, inside)) {
    // With a root, some members may complete the operation before others.
    c->Because(REASON_SOME_FINISHED, of_stopped).Of(inside.stopped);
    c->Count(inside.finished.size()).NamingOthers(facts.bundle, inside.finished);
  } else if (inside.all_known && stopped > 0 && stopped <= 2 && stopped < inside.moved.size()) {
    c->Is(GPU_STALL, REASON_GPU_STOPPED_AFTER, of_stopped).Of(inside.stopped);
    c->Add(Evidence::COMPLETED_LATER, inside.stopped).CountOf(inside.moved.size(), everybody);
  } else {
    DoubtUnseenMembers(facts, comm, c);
  }
}

// All members are in the operation, and none completes it. The cause is one of their GPUs or the network between them.
Cause StuckCause(const Facts& facts, uint32_t node) {
  const int32_t r = facts.graph->RankOf(node);
  const GpuFront& front = facts.graph->QueueOf(node).front;
  const bool exchange = front.op != nullptr && IsPointToPoint(front.op->kind);
  Cause c = CauseOf(COLLECTIVE_STUCK, REASON_ALL_IN, GRADE_WEAK);
  c.nodes = {node};
  c.In(front.comm, front.op, r).Flag(exchange);
  if (front.op != nullptr) c.Call(CallOf(facts.bundle, r, *front.op));
  const Inside inside = LookAtMembers(facts, r, front, &c);
  AddQueues(facts, front.comm, &c);
  if (front.op != nullptr) AddWhoEntered(facts, r, front, inside, &c);
  NarrowToMembers(facts, front.comm, inside, &c);
  if (c.kind == COLLECTIVE_STUCK && c.doubtful && exchange && MeetNowhereElse(facts.model, r, *front.op) &&
      TookTheWrongPeer(facts.model, r, *front.op, true)) {
    c.Is(P2P_UNMATCHED, REASON_WRONG_PEER, GRADE_FAIR).Of({r});
    c.doubtful = false;
    c.evidence[0] = EvidenceItem(Evidence::ONLY_EXCHANGE, {r}).Naming(facts.bundle);
  }
  if (c.kind == COLLECTIVE_STUCK) AddNetworkSteps(facts, front, &c);
  if (c.kind == COLLECTIVE_STUCK) AddOtherOrders(facts, front, &c);
  if (c.kind == COLLECTIVE_STUCK && front.op != nullptr && front.op->root_or_peer < 0 &&
      CallFactsOf(front.op->kind).has_root)
    c.AddRival(Rival::ROOTS_DIFFER);
  AddWaiterEvidence(facts, node, &c);
  return c;
}

}  // namespace

bool MissesUnknown(const Facts& facts, const GpuFront& front) {
  if (front.op == nullptr) return false;
  const NotShown rest(facts.model, front.comm);
  if (!rest.outside.empty()) return false;
  if (front.InCollective()) return rest.unnamed;
  const Member* peer = facts.model.MemberAt(front.comm, front.op->root_or_peer);
  return peer != nullptr && peer->rank_index < 0 && peer->global_rank < 0;
}

// All members issued the operation, starts are recorded, and no GPU has started it. So each GPU has earlier work that
// NCCL did not queue.
Cause NotBegunCause(const Facts& facts, uint32_t node) {
  const GpuFront& front = facts.graph->QueueOf(node).front;
  const int32_t r = facts.graph->RankOf(node);
  const Rank& rank = facts.bundle.ranks[r];
  Cause c = CauseOf(GPU_STALL, REASON_NO_STREAM_CAME, GRADE_STRONG);
  c.not_begun = true;
  c.nodes = {node};
  c.At(facts.bundle, front.comm, *front.op, r);
  for (const Member& m : facts.model.comms[front.comm].members) {
    if (m.rank_index < 0) continue;
    c.ranks.push_back(m.rank_index);
    c.doubtful |= facts.bundle.ranks[m.rank_index].damaged;  // the earlier work may be in the lost part
  }
  std::ranges::sort(c.ranks);
  const bool alone = c.ranks.size() == 1;
  c.grade = alone ? GRADE_GOOD : GRADE_WEAK;
  EvidenceItem& issued = c.Add(Evidence::NO_GPU_STARTED, c.ranks).Call(BriefCall(facts.bundle, r, *front.op));
  if (alone) issued.Naming(facts.bundle, {r});
  if (rank.captured_ns > 0) c.evidence.push_back(InOperation(facts, r, *front.op));
  AddWaiterEvidence(facts, node, &c);
  return c;
}

bool GpuFailed(const Facts& facts, uint32_t comm) {
  for (const Member& m : facts.model.comms[comm].members) {
    if (m.rank_index >= 0 && !GpuErrorOf(facts.bundle.ranks[m.rank_index]).empty()) return true;
  }
  return false;
}

Cause GpuCause(const Facts& facts, uint32_t node) {
  const GpuFront& front = facts.graph->QueueOf(node).front;
  const bool failed = front.front == Front::kFailed;
  if (!IsFaulty(front.front)) return StuckCause(facts, node);
  if (const int32_t alone = front.front == Front::kPeersFinished ? facts.graph->AloneDone(front) : -1; alone >= 0)
    return FinishedAloneCause(facts, node, alone);
  const int32_t r = facts.graph->RankOf(node);
  const Rank& rank = facts.bundle.ranks[r];
  Cause c = CauseOf(GPU_STALL, REASON_UNSPECIFIED, GRADE_STRONG, {r});
  c.nodes = {node};
  c.In(front.comm, front.op, r);
  if (front.op != nullptr) {
    c.Call(CallOf(facts.bundle, r, *front.op));
  } else if (!failed) {
    c.Call(CallNamed(front.lost_seq != kNone ? LostCollective(front.lost_seq) : "its operation",
                     front.comm == kNoIndex ? "" : CommText(facts.bundle, front.comm)));
  }
  const std::string error = GpuErrorOf(rank);
  if (failed) {
    c.reason = REASON_GPU_ERROR;
  } else if (front.front == Front::kPeersFinished) {
    c.Because(REASON_GPU_BEHIND, GRADE_GOOD);
    int behind = 0;
    for (const Membership& ms : rank.memberships) {
      if (ms.completed < 0) continue;
      for (const Member& m : facts.model.comms[ms.comm].members) {
        if (!m.recorded() || m.rank_index == r) continue;
        if (facts.model.MembershipOf(m).completed > ms.completed) {
          ++behind;
          break;
        }
      }
    }
    if (behind > 1) {
      c.Add(Evidence::STUCK_IN_SEVERAL, {r}).Count(behind);
      c.grade = GRADE_STRONG;
    }
    const std::vector<int32_t> counted = behind > 1 ? std::vector<int32_t>() : FinishedByCountsAlone(facts, front);
    if (!counted.empty()) {
      // Peers whose files do not contain this call may have made a different one, which can complete although this one
      // cannot.
      c.Because(REASON_GPU_OR_OTHER_CALL, GRADE_OPEN).Of({r, counted[0]});
      c.detail.add_ranks(rank.rank);
      c.detail.add_others(facts.bundle.ranks[counted[0]].rank);
    }
  } else {
    c.Because(REASON_STREAM_BLOCKED, GRADE_STRONG);
    const bool unseen = c.comm != kNoIndex && std::ranges::any_of(facts.model.comms[c.comm].members,
                                                                  [](const Member& m) { return m.rank_index < 0; });
    c.Add(Evidence::PEERS_STARTED, {r}).Flag(unseen);
    if (unseen) c.grade = GRADE_GOOD;
    // The record of the operation that this stream waits for may be lost.
    bool other_lost = rank.damaged;
    for (const Queue& queue : facts.graph->QueuesOf(r))
      other_lost |= facts.graph->NodeOf(queue) != node && queue.overwritten;
    if (other_lost) {
      c.doubtful = true;
      c.grade = GRADE_OPEN;
      c.AddRival(Rival::OTHER_STREAM);
    }
    if (front.lost_seq != kNone) {
      c.grade = std::min(c.grade, GRADE_GOOD);
      c.Add(Evidence::COUNTERS_DONE, {r}).Naming(facts.bundle);
    }
  }
  if (!error.empty()) {
    c.Name(error);
    c.Add(Evidence::GPU_ERROR, {r}).Naming(facts.bundle).Name(error);
    c.grade = std::max(c.grade, GRADE_RECORDED);
  }
  if (front.op != nullptr && rank.captured_ns > 0) {
    c.evidence.push_back(InOperation(facts, r, *front.op));
  }
  AddWaiterEvidence(facts, node, &c);
  return c;
}

}  // namespace lockstep
