// Finds processes that exited with status 0, or are stopped, while all others wait and GPU progress is not recorded.
// Every rank made every call, so the operations do not show what the others wait for. Also handles processes whose end
// was not observed.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

namespace {

// Returns whether the process destroyed its communicators itself, as a program does at its end.
bool LeftItsCommunicators(const Rank& rank) {
  return !rank.memberships.empty() && std::ranges::all_of(rank.memberships, [](const auto& ms) {
    return ms.state == ring::CommState::kDestroyed || ms.state == ring::CommState::kNotMember;
  });
}

// Returns whether all members of the class's other communicators made `calls` calls on theirs. If some made more or
// fewer, the numbers of rounds differ between communicators by design.
bool OthersEndedAt(const Model& model, uint32_t comm, int64_t calls) {
  bool any = false;
  for (const uint32_t other : model.kinds[model.comms[comm].kind]) {
    if (other == comm) continue;
    for (const Member& m : model.comms[other].members) {
      if (!m.recorded()) continue;
      if (m.arrived != calls) return false;
      any = true;
    }
  }
  return any;
}

// Returns whether a rank outside `ahead` issued a call on another communicator that a rank in `behind` never issued. If
// so, the rank in `behind` stopped; it did not end with the job.
bool OthersWentOn(const Facts& facts, uint32_t comm, const std::vector<int32_t>& ahead,
                  const std::vector<int32_t>& behind) {
  std::map<uint32_t, int64_t> most;  // indexed by communicator: highest number issued by the others
  for (const int32_t r : behind) {
    for (const Membership& ms : facts.bundle.ranks[r].memberships) {
      const auto& members = facts.model.comms[ms.comm].members;
      if (ms.comm == comm || ms.member_rank < 0) continue;
      const auto [at, fresh] = most.try_emplace(ms.comm, kNone);
      for (const Member& m : members) {
        if (fresh && m.rank_index >= 0 && !std::ranges::binary_search(ahead, m.rank_index))
          at->second = std::max(at->second, m.arrived);
      }
      if (at->second > std::max(members[ms.member_rank].arrived, kNone)) return true;
    }
  }
  return false;
}

bool AnyMissing(const Bundle& bundle) { return std::cmp_less(bundle.ranks.size(), bundle.ranks_expected); }

// Returns whether the job ended for all other ranks that left data: they exited with status 0, or have nothing in
// flight. At least three ranks must show that.
bool OthersHaveEnded(const Facts& facts, int32_t rank_index) {
  constexpr size_t kOthers = 3;
  const std::vector<Rank>& ranks = facts.bundle.ranks;
  if (ranks.size() <= kOthers) return false;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (static_cast<int32_t>(r) == rank_index) continue;
    const bool idle = facts.model.ranks[r].Idle() && !ranks[r].damaged && !ranks[r].ends_untold &&
                      CompletionsAreRecorded(ranks[r], nullptr);
    if (!EndedByItself(ranks[r]) && !idle) return false;
  }
  return true;
}

// Returns whether it is unknown when the data was taken. Either the process ended unobserved, or it was recorded on
// another boot or host, or the data is a framework's dump whose file lost its time.
bool NobodySaw(const Rank& rank) {
  if (IsFramework(rank)) return rank.captured_ns == 0 && !rank.only_active;
  return EndUnseen(rank) ||
         (rank.source == Source::kRing && rank.process.life == Life::kUnknown && rank.captured_ns == 0);
}

// Returns the last sign of the process in its record, by the wall clock.
int64_t LastSign(const Rank& rank) {
  int64_t last = 0;
  for (const Op& op : rank.ops) last = std::max({last, op.enter_ns, op.return_ns});
  for (const ring::ThreadSnapshot& thread : rank.threads)
    last = std::max({last, thread.since_ns, thread.wait_since_ns, thread.group_since_ns, thread.last_call_ns});
  return last + rank.real_minus_mono_ns;
}

// If only a period of watching the processes shows whether the job moves, returns its length; otherwise 0.
int64_t WatchedFor(const Bundle& bundle) {
  if (!OnlyProcessesKnown(bundle) || !ProcessesLookedAt(bundle)) return 0;
  int64_t longest = 0;
  for (const Rank& rank : bundle.ranks) longest = std::max(longest, rank.process.sample_gap_ns);
  return longest;
}

}  // namespace

std::vector<Cause> FromUnseenEnds(const Facts& facts) {
  Cause c = CauseOf(RANK_DEAD, REASON_ENDED_UNSEEN, GRADE_FAIR);
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    if (!EndUnseen(rank)) return {};
    if (rank.recorder_state == ring::RecorderState::kRecording && !LeftItsCommunicators(rank))
      c.ranks.push_back(static_cast<int32_t>(r));
  }
  if (c.ranks.empty()) return {};
  c.Add(Evidence::ALL_ENDED, {}).CountOf(facts.bundle.ranks.size(), c.ranks.size());
  return {c};
}

Cause AheadCause(const Facts& facts, const Cause& at, std::vector<int32_t> ahead, size_t behind, bool exited) {
  std::ranges::sort(ahead);
  Cause c = CauseOf(RANK_AHEAD, REASON_AHEAD, exited ? GRADE_GOOD : GRADE_FAIR, std::move(ahead));
  const uint32_t comm = at.op == nullptr ? at.comm : facts.model.CommOf(facts.bundle.ranks[at.op_rank], *at.op);
  c.In(comm, at.op, at.op_rank).Count(behind).Flag(exited);
  c.lost_seq = at.lost_seq;
  return c.Call(at.op != nullptr ? CallOf(facts.bundle, at.op_rank, *at.op)
                                 : CallNamed(LostCollective(at.lost_seq), CommText(facts.bundle, comm)));
}

// Returns whether each of the ranks waits, directly or through other ranks, for one of the others.
static bool AllWaitFor(const WaitGraph& graph, const std::vector<int32_t>& ranks, const std::vector<int32_t>& others) {
  const std::vector<bool> waits = graph.WaitingFor(others);
  return std::ranges::all_of(ranks, [&](int32_t r) {
    return std::ranges::any_of(graph.QueuesOf(r), [&](const Queue& queue) { return waits[graph.NodeOf(queue)]; });
  });
}

void BlameTheAhead(const Facts& facts, std::vector<Cause>* causes) {
  if (facts.graph == nullptr) return;
  std::vector<std::vector<int32_t>> blamed;
  for (Cause& c : *causes) {
    const int64_t seq = c.op != nullptr ? c.op->seq : c.lost_seq;
    if ((c.kind != RANK_DEAD && c.kind != RANK_NOT_ARRIVED) || (c.op == nullptr && seq == kNone) || c.op_rank < 0 ||
        c.stall != Stall::kUnknown)
      continue;
    if (c.op != nullptr && IsPointToPoint(c.op->kind)) {
      if (!OthersHaveEnded(facts, c.op_rank)) continue;
      c = AheadCause(facts, c, {c.op_rank}, 0, false);
      if (AnyMissing(facts.bundle)) c.grade = GRADE_WEAK;
      continue;
    }
    if (c.op != nullptr && !IsCollective(c.op->kind)) continue;
    const uint32_t comm = c.op == nullptr ? c.comm : facts.model.CommOf(facts.bundle.ranks[c.op_rank], *c.op);
    std::vector<int32_t> ahead, behind, waiting;
    size_t unseen = 0;
    int64_t last = kUnknown;  // last call of those behind; they all made equally many
    bool agree = true, exited = true, untold = false;
    for (const Member& m : facts.model.comms[comm].members) {
      if (m.rank_index < 0) {
        ++unseen;
        continue;
      }
      if (!m.recorded()) agree = false;
      if (!agree) break;
      const Rank& rank = facts.bundle.ranks[m.rank_index];
      const RankView& view = facts.model.ranks[m.rank_index];
      if (last == kUnknown && m.arrived < seq) last = m.arrived;
      const bool ended = EndedByItself(rank), before = m.arrived < seq && m.arrived == last && (last >= 0 || seq == 0);
      const bool done = before && (ended || view.Idle());
      if (before && !ended && !view.in_flight.empty()) {
        waiting.push_back(m.rank_index);
        continue;
      }
      agree = done || m.arrived >= seq;
      exited &= !done || ended;
      untold |= done && rank.ends_untold;
      (done ? behind : ahead).push_back(m.rank_index);
    }
    if (!agree || ahead.empty() || behind.size() < ahead.size() + unseen) continue;
    std::ranges::sort(ahead);
    std::ranges::sort(behind);
    // If the cause names only some of the ranks behind, and something distinguishes these from the others that are idle
    // at the same place, it is kept.
    const bool distinguished = c.kind == RANK_DEAD || c.reason != REASON_NEVER_ENTERED;
    if (c.ranks != behind && (distinguished || !std::ranges::includes(behind, c.ranks))) continue;
    // If a backend does not record sends and receives, ranks that look idle may wait for a member without data.
    if (unseen > 0 && untold) continue;
    if (OthersWentOn(facts, comm, ahead, behind)) continue;
    if (!AllWaitFor(*facts.graph, waiting, ahead)) continue;
    // If both sides are equally large, either may be at fault; other communicators of that class decide. If there are
    // none, and all other ranks have ended, an extra call by one rank is a little likelier than a skipped call by the
    // other.
    const bool only = facts.model.kinds[facts.model.comms[comm].kind].size() == 1;
    const bool undecided = behind.size() == ahead.size() && !OthersEndedAt(facts.model, comm, last);
    if (undecided && !(only && ahead.size() == 1 && !AnyMissing(facts.bundle) && OthersHaveEnded(facts, ahead[0])))
      continue;
    c = AheadCause(facts, c, std::move(ahead), behind.size(), exited);
    if (exited || !untold)
      c.Add(Evidence::ENDED_BEFORE, {})
          .CountOf(behind.size(), facts.model.comms[comm].members.size())
          .On(facts.bundle, comm)
          .Flag(exited)
          .Number(last);
    if (unseen > 0 || undecided) c.grade = GRADE_WEAK;
    for (int32_t r : c.ranks) {
      for (const uint32_t node : facts.graph->NodesOf(r)) c.nodes.push_back(node);
    }
    blamed.push_back(c.ranks);
  }
  // A comparison with ranks of the same role may have found the same extra call.
  std::erase_if(*causes, [&](const Cause& c) { return c.reason == REASON_EXTRA && Contains(blamed, c.ranks); });
}

std::vector<Cause> FromEndsUnderWaits(const Facts& facts, const std::vector<Cause>& known, int64_t late_after_ns) {
  if (!known.empty()) return {};
  std::vector<int32_t> ended, stopped;
  size_t waiting = 0;
  int64_t least = INT64_MAX;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    const RankView& view = facts.model.ranks[r];
    if (EndedWell(rank)) {
      if (!rank.process.consequence) ended.push_back(static_cast<int32_t>(r));
      continue;
    }
    if (view.host == HostState::kStopped) {
      stopped.push_back(static_cast<int32_t>(r));
      continue;
    }
    const int64_t waited = WaitedForUnseenWork(rank, view);
    if (waited < 0) return {};
    ++waiting;
    least = std::min(least, waited);
  }
  if (!stopped.empty() && ended.empty() && stopped.size() < waiting && least >= late_after_ns) {
    const Grade grade = stopped.size() == 1 ? GRADE_GOOD : GRADE_FAIR;
    Cause c = CauseOf(HOST_STALL, REASON_STOPPED_WHILE_OTHERS_WAIT, grade, stopped);
    c.Name(facts.bundle.ranks[stopped[0]].process.state);
    c.Add(Evidence::ALL_WAIT_FOR_GPU, {}).Count(waiting).fields.set_duration_ns(least);
    for (int32_t r : stopped) AddHostEvidence(facts, r, &c);
    return {c};
  }
  // If many ranks have ended, the job is ending, and the others may be almost done.
  if (ended.empty() || ended.size() >= waiting || least < late_after_ns) return {};
  Cause c = DeathCause(facts, ended[0]);
  c.ranks = ended;
  c.grade = ended.size() == 1 ? GRADE_GOOD : GRADE_WEAK;
  c.Add(Evidence::ALL_WAIT_FOR_GPU, {}).Count(waiting).Flag(true).fields.set_duration_ns(least);
  c.reason = REASON_EXITED_WHILE_OTHERS_WAIT;
  return {c};
}

void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes) {
  const int64_t watched = WatchedFor(bundle);
  if (causes->empty() || bundle.known_stalled || (watched == 0 && !std::ranges::all_of(bundle.ranks, NobodySaw)))
    return;
  int64_t last = 0;
  for (const Rank& rank : bundle.ranks) last = std::max(last, LastSign(rank));
  for (Cause& c : *causes) {
    // A stopped process does not continue on its own.
    if (!FindingFactsOf(c.kind).rests_on_flight || (watched > 0 && c.reason == REASON_PROCESS_STOPPED)) continue;
    if (c.op != nullptr && c.op_rank >= 0 && c.op->enter_ns > 0 &&
        last - (c.op->enter_ns + bundle.ranks[c.op_rank].real_minus_mono_ns) >= late_after_ns) {
      continue;
    }
    c.Doubt(GRADE_WEAK);
    Detail* rival = c.AddRival(Rival::JOB_MOVED);
    if (watched > 0) rival->set_duration_ns(watched);
  }
}

}  // namespace lockstep
