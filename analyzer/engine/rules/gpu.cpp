// Describes GPUs that hang on their own, and members that are the only ones to complete an operation.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

namespace {

// Returns members whose counters say that they completed the operation in `front`, if no member's record shows the
// completion. Empty if a record does, or if the counters of several members agree.
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

// The members in the operation are stuck because one member made a different call.
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
  const auto own = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.rank_index == alone; });
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

}  // namespace

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
    c.Call(CallNamed(front.lost_seq != kNone ? absl::StrCat("collective #", front.lost_seq) : "its operation",
                     front.comm == kNoIndex ? "" : CommText(facts.bundle, front.comm)));
  }
  const std::string error = GpuErrorOf(rank);
  if (failed) {
    c.reason = REASON_GPU_ERROR;
  } else if (front.front == Front::kPeersFinished) {
    c.reason = REASON_GPU_BEHIND;
    c.grade = GRADE_GOOD;
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
      c.ranks.insert(c.ranks.end(), counted.begin(), counted.end());
      std::sort(c.ranks.begin(), c.ranks.end());
      c.reason = REASON_GPU_OR_OTHER_CALL;
      c.grade = GRADE_OPEN;
      c.detail.add_ranks(rank.rank);
      c.detail.add_others(facts.bundle.ranks[counted[0]].rank);
    }
  } else {
    c.reason = REASON_STREAM_BLOCKED;
    c.grade = GRADE_STRONG;
    const bool unseen = c.comm != kNoIndex &&
                        std::any_of(facts.model.comms[c.comm].members.begin(), facts.model.comms[c.comm].members.end(),
                                    [](const Member& m) { return m.rank_index < 0; });
    c.Add(Evidence::PEERS_STARTED, {r}).Flag(unseen);
    if (unseen) c.grade = GRADE_GOOD;
    // The operation that this stream waits for may be in the lost part of a damaged file.
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
