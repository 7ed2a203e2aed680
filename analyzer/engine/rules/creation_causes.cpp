// Finds communicators that were never created, or that differ from similar communicators.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/init.h"
#include "analyzer/engine/facts/splits.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

// If all members are in the creation, it counts as normal for this long. At the start of a large job, a creation may
// take minutes.
constexpr int64_t kLongSetUp = 120'000'000'000;

bool Subset(const std::vector<int32_t>& some, const std::set<int32_t>& all) {
  return !some.empty() && std::ranges::all_of(some, [&](int32_t r) { return all.contains(r); });
}

// Several faults of the same ranks are one finding.
void AddOrJoin(Cause c, std::vector<Cause>* found) {
  const auto same = std::find_if(found->rbegin(), found->rend(), [&](const Cause& known) {
    return known.kind == c.kind && known.ranks == c.ranks && known.missing == c.missing;
  });
  if (same == found->rend()) return found->push_back(std::move(c));
  Append(c.evidence, &same->evidence);
  Append(c.waiting, &same->waiting);
}

// A finding about the creation, which does not name a rank yet.
Cause Begin(const PendingCreation& p, Grade grade) {
  Cause c = CauseOf(INIT_INCOMPLETE, REASON_UNSPECIFIED, grade);
  c.comm = p.comm;
  c.waiting = p.waiting;
  c.op_name = absl::StrCat("nccl", ring::CallName(p.call));
  return c;
}

Cause CreationCause(const Facts& facts, const PendingCreation& p, const std::set<int32_t>& waiting_somewhere) {
  Cause c = Begin(p, GRADE_STRONG);
  const std::string call = p.parent == kNoIndex ? absl::StrCat(c.op_name, " for ", CommText(facts.bundle, p.comm))
                                                : absl::StrCat(c.op_name, " #", facts.bundle.comms[p.comm].ordinal,
                                                               " of ", CommText(facts.bundle, p.parent));
  EvidenceItem& wait = c.Add(Evidence::IN_CREATION, p.waiting).Count(p.waiting.size()).Call(CallNamed(call, ""));
  if (p.size > 0) wait.mutable_detail()->set_of(p.size);
  if (p.oldest_ns > 0) wait.fields.set_duration_ns(p.oldest_ns);
  c.Call(CallNamed(call, "")).Count(p.waiting.size());
  // A rank that waits in an operation, or in another creation, missed this creation because of that wait.
  std::vector<int32_t> free;
  for (int32_t r : p.absent) {
    const RankView& view = facts.model.ranks[r];
    const bool knows_no_wait = view.host == HostState::kElsewhere || view.Gone();
    const bool held = facts.graph != nullptr ? !facts.graph->edges[WaitGraph::HostNode(r)].empty()
                                             : !knows_no_wait && !view.in_flight.empty();
    // Without GPU progress markers, the operation that the process waits for is unknown.
    const bool may_be_held = view.host == HostState::kInWait && facts.bundle.ranks[r].gpu_marks == ring::GpuMarks::kOff;
    if (!waiting_somewhere.contains(r) && !held && !may_be_held) free.push_back(r);
  }
  const bool all_named = p.absent.empty() && p.unnamed == 0;
  // A log may end while the creation is still running, and there is no other sign of how long the others have waited.
  const bool seen_waiting = p.dated || facts.bundle.known_stalled || std::ranges::any_of(p.waiting, [&](int32_t r) {
                              return facts.model.ranks[r].host != HostState::kUnknown;
                            });
  if (!p.astray.empty()) {
    c.ranks = p.astray;
    c.reason = REASON_OTHER_UNIQUE_ID;
    c.Names(facts.bundle.comms[p.other].id, facts.bundle.comms[p.comm].id);
    if (p.astray.size() >= p.waiting.size()) {
      Append(p.waiting, &c.ranks);
      c.Because(REASON_UNIQUE_IDS_DIFFER, GRADE_WEAK).Of(c.ranks);
    }
  } else if (!p.failed.empty()) {
    c.ranks = p.failed;
    c.reason = REASON_CREATION_FAILED;
  } else if (!free.empty()) {
    if (const int32_t r = free[0]; free.size() == 1 && facts.model.ranks[r].host == HostState::kDead) {
      Cause dead = DeathCause(facts, r);
      dead.evidence.push_back(c.evidence[0]);
      dead.waiting = c.waiting;
      dead.comm = c.comm;
      dead.op_name = c.op_name;
      return dead;
    }
    c.Because(REASON_NEVER_CAME_TO_CREATION, seen_waiting ? GRADE_STRONG : GRADE_OPEN).Of(std::move(free));
    const auto stopped = [&](int32_t r) { return facts.model.ranks[r].host == HostState::kStopped; };
    if (std::ranges::all_of(c.ranks, stopped)) c.Is(HOST_STALL, c.reason, GRADE_RECORDED).Flag(true);
    for (int32_t r : c.ranks) {
      if (c.ranks.size() <= 4) AddHostEvidence(facts, r, &c);
    }
    const auto waits_outside = [&](int32_t r) {
      return ClassifyActivity(facts.bundle.ranks[r].process).stall == Stall::kRendezvous;
    };
    if (std::ranges::all_of(c.ranks, waits_outside)) c.stall = Stall::kRendezvous;
  } else if (p.absent.empty() && !p.unseen.empty()) {
    c.Because(REASON_NO_DATA_IN_CREATION, seen_waiting && p.unseen.size() == 1 ? GRADE_FAIR : GRADE_OPEN);
    c.missing = p.unseen;
  } else if (all_named && !p.returned.empty()) {
    c.Because(REASON_NOT_BACK_FROM_CREATION, GRADE_WEAK).Of(p.waiting).Count(p.returned.size());
    c.waiting.clear();
  } else if (all_named && (facts.bundle.known_stalled || p.oldest_ns >= kLongSetUp)) {
    c.Because(REASON_ALL_IN_CREATION, GRADE_OPEN).Of(p.waiting).cause = "network";
    c.waiting.clear();
  } else {
    c.kind = FINDING_UNSPECIFIED;  // there is no rank to name, or something else blocks the creation
  }
  return c;
}

// Returns whether every other rank with data waits, directly or through others, for one of these.
bool AllOthersWaitFor(const Facts& facts, const std::vector<int32_t>& ranks) {
  if (facts.graph == nullptr) return false;
  const std::vector<bool> waits = facts.graph->WaitingFor(ranks);
  std::set<int32_t> waiting(ranks.begin(), ranks.end());
  for (uint32_t node = 0; node < waits.size(); ++node) {
    if (waits[node] && facts.graph->RankOf(node) >= 0) waiting.insert(facts.graph->RankOf(node));
  }
  return waiting.size() == facts.bundle.ranks.size() && waiting.size() > ranks.size();
}

// The cause if the missing rank itself waits elsewhere, or its number is unknown. If every rank outside the creation
// waits for ranks inside it, no rank can make the missing call any more.
Cause Unexplained(const Facts& facts, const PendingCreation& p) {
  Cause c = Begin(p, GRADE_OPEN);
  c.ranks = p.absent;
  c.Call(CallNamed(absl::StrCat(c.op_name, p.parent == kNoIndex ? " for " : " of ",
                                CommText(facts.bundle, p.parent != kNoIndex ? p.parent : p.comm)),
                   ""));
  if (p.absent.empty()) {
    c.reason = REASON_CREATION_LACKS_UNKNOWN;
    c.CountOf(p.unnamed, p.size);
    if (const std::vector<int32_t> possible = PossibleMembers(facts.model, p);
        !possible.empty() && AllOthersWaitFor(facts, p.waiting)) {
      c.kind = DEADLOCK_CYCLE;
      c.ranks = possible;
      c.NamingOthers(facts.bundle, p.waiting);
      for (const int32_t r : p.waiting) c.nodes.push_back(WaitGraph::HostNode(r));
    }
  } else {
    c.doubtful = true;  // the operation that the rank waits in explains more
    c.reason = REASON_ELSEWHERE_THAN_CREATION;
    c.Count(p.waiting.size());
  }
  return c;
}

}  // namespace

void AddFromCreations(const Facts& facts, int64_t late_after_ns, std::vector<Cause>* causes) {
  const std::vector<PendingCreation> pending = FindPendingCreations(facts.model, late_after_ns);
  if (pending.empty()) return;
  std::set<int32_t> waiting;
  for (const PendingCreation& p : pending) {
    waiting.insert(p.waiting.begin(), p.waiting.end());
    waiting.insert(p.astray.begin(), p.astray.end());
  }
  // If some creation has a cause, ranks that wait in a creation are not causes themselves.
  std::vector<Cause> found;
  const PendingCreation* unexplained = nullptr;
  for (const PendingCreation& p : pending) {
    Cause c = CreationCause(facts, p, waiting);
    if (c.kind == FINDING_UNSPECIFIED) {
      if (unexplained == nullptr || p.waiting.size() > unexplained->waiting.size()) unexplained = &p;
      continue;
    }
    AddOrJoin(std::move(c), &found);
  }
  if (!found.empty()) {
    std::set<int32_t> unseen;
    for (const Cause& c : found) unseen.insert(c.missing.begin(), c.missing.end());
    std::erase_if(*causes, [&](const Cause& c) {
      if (c.kind == RANK_NO_DATA && c.ranks.empty()) return Subset(c.missing, unseen);
      return (c.kind == INIT_INCOMPLETE || c.kind == RANK_NOT_ARRIVED || c.kind == DEADLOCK_CYCLE) &&
             Subset(c.ranks, waiting);
    });
  } else if (causes->empty() && unexplained != nullptr &&
             unexplained->absent.size() + static_cast<size_t>(unexplained->unnamed) > 0) {
    found.push_back(Unexplained(facts, *unexplained));
  }
  for (Cause& c : found) {
    // The wait graph already names this rank, because others wait for it, but only in this creation. The finding about
    // the creation contains more.
    std::erase_if(*causes, [&](const Cause& known) {
      const bool same = known.op == nullptr && known.ranks == c.ranks && known.kind != RANK_DEAD;
      if (same) c.nodes = known.nodes;
      return same;
    });
    // A rank that is known to have stopped for another reason did not reach this creation either.
    if (std::ranges::none_of(c.ranks, [&](int32_t r) { return Names(*causes, r); })) causes->push_back(std::move(c));
  }
}

void AddFromSplits(const Facts& facts, std::vector<Cause>* causes) {
  std::vector<SplitFault> faults = FindSplitFaults(facts.model, facts.model.stalled || !facts.mismatches.empty());
  // If groups are unintended, differing calls and ranks that seem missing are consequences.
  const auto may_follow = [](const Cause& c) {
    return c.kind != RANK_DEAD && c.kind != HOST_STALL && c.kind != GPU_STALL && c.kind != GROUP_LEFT_OPEN;
  };
  std::set<uint32_t> affected;
  std::set<int32_t> touched;
  std::vector<Cause> found;
  for (SplitFault& fault : faults) {
    // All members agree on these groups, so they may be intended. A fault of another member does not show whether they
    // are.
    const auto supports = [&](const Cause& c) {
      return may_follow(c) && !c.ranks.empty() && Subset(c.ranks, {fault.ranks.begin(), fault.ranks.end()}) &&
             Contains(fault.affected, c.comm);
    };
    const bool intended = fault.agreed && std::ranges::none_of(*causes, supports);
    if (intended) fault.grade = GRADE_OPEN;
    // If the groups may be intended, they do not explain faults elsewhere.
    const bool beside = intended && !causes->empty();
    for (uint32_t comm : beside ? std::vector<uint32_t>() : fault.affected) {
      affected.insert(comm);
      for (const Member& m : facts.model.comms[comm].members) {
        if (m.rank_index >= 0) touched.insert(m.rank_index);
      }
    }
    fault.kind = SPLIT_MISMATCH;
    fault.op_name = absl::StrCat("nccl", ring::CallName(ring::CallKind::kCommSplit));
    fault.beside = beside;
    AddOrJoin(std::move(fault), &found);
  }
  if (found.empty()) return;
  std::erase_if(*causes, [&](const Cause& c) {
    return may_follow(c) && (affected.contains(c.comm) || Subset(c.ranks, touched));
  });
  causes->insert(causes->begin(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
}

}  // namespace lockstep
