// Finds the causes at the ends of the wait graph: ranks and operations that wait for nothing else, and cycles.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

using ring::CallKind;

namespace {

// Returns whether both causes are one finding, because their ranks hang in the same way. A framework's dump rarely
// shows whether a rank hangs in its process or on its GPU, so for such dumps the two count as the same.
bool OneFinding(const Bundle& bundle, const Cause& a, const Cause& b) {
  if (a.kind == b.kind && a.ranks == b.ranks) return true;
  // Uncertain causes do not weaken certain ones.
  if (a.doubtful != b.doubtful) return false;
  auto still = [&](const Cause& c) {
    return (c.kind == RANK_NOT_ARRIVED || c.kind == GPU_STALL) && !c.ranks.empty() &&
           IsFramework(bundle.ranks[c.ranks[0]]);
  };
  if (still(a) && still(b)) return true;
  if (a.reason == REASON_REORDERED && b.reason == REASON_REORDERED) return true;
  if (!SameStall(a.stall, b.stall)) return false;
  return a.kind == b.kind && FindingFactsOf(a.kind).alike_is_one;
}

}  // namespace

bool LeftGroupOpen(const Rank& rank) {
  if (IsFramework(rank) && std::ranges::any_of(rank.ops, [](const Op& op) { return op.state == OpState::kQueued; }))
    return true;
  return std::ranges::any_of(rank.threads,
                             [](const auto& t) { return t.group_depth > 0 && t.call == CallKind::kNone; });
}

// The same cause, reached from several ends of the graph or shared by several culprits, is one finding.
void Merge(const Facts& facts, std::vector<Cause>* causes, Cause c) {
  constexpr size_t kEnough = 24;
  Cause* same = nullptr;
  for (Cause& known : *causes) {
    if (OneFinding(facts.bundle, known, c)) same = &known;
  }
  if (same == nullptr) {
    causes->push_back(std::move(c));
    return;
  }
  if ((same->ranks != c.ranks || !c.missing.empty()) && same->evidence.size() < kEnough) {
    Append(c.evidence, &same->evidence);
  }
  Append(c.ranks, &same->ranks);
  Append(c.missing, &same->missing);
  Append(c.nodes, &same->nodes);
  same->grade = std::min(same->grade, c.grade);
  same->stall = std::max(same->stall, c.stall);
  same->moving |= c.moving;
  same->first_only &= c.first_only;
}

namespace {

// Doubts a cycle if the records of all its ranks are damaged, because they may have lost a wait for a rank outside the
// cycle.
void DoubtDamagedCircle(const Bundle& bundle, Cause* c) {
  const auto damaged = [&](int32_t rank) { return bundle.ranks[rank].damaged; };
  if (c->kind != DEADLOCK_CYCLE || c->ranks.empty() || !std::ranges::all_of(c->ranks, damaged)) return;
  c->Doubt(GRADE_GUESS);
  c->AddRival(Rival::LOST_WAIT);
}

// Lowers the confidence if the job may still be running. A faulty GPU stalls alone: if most GPUs of an operation have
// not started it, they may all be computing. If the capture times of the dumps are unknown, several such GPUs, or ranks
// at three or more places, are enough.
void DoubtRunning(const Facts& facts, Cause* c) {
  constexpr size_t kManyPlaces = 3;
  if (facts.bundle.known_stalled || c->comm == kNoIndex) return;
  std::set<int64_t> places;
  size_t recorded = 0;
  bool timed = false;
  for (const Member& m : facts.model.comms[c->comm].members) {
    if (!m.recorded()) continue;
    ++recorded;
    if (!std::ranges::binary_search(c->ranks, m.rank_index)) continue;
    const Rank& rank = facts.bundle.ranks[m.rank_index];
    timed |= !IsFramework(rank) || rank.captured_ns > 0;
    places.insert(rank.memberships[m.membership].issued);
  }
  const bool busy = c->reason == REASON_STREAM_BLOCKED && c->ranks.size() > 1;
  if (busy ? timed && 2 * c->ranks.size() <= recorded : timed || places.size() < kManyPlaces) return;
  c->moving = true;
  c->Doubt(GRADE_OPEN);
}

// Returns whether another cause may explain this one.
bool IsWeak(const Cause& c) { return c.kind == RANK_NO_DATA || c.doubtful || c.kind == COLLECTIVE_STUCK; }

// Returns the ranks of all causes except stuck operations: each of these ranks hangs on its own.
std::set<int32_t> KnownToHang(const std::vector<Cause>& causes) {
  std::set<int32_t> ranks;
  for (const Cause& c : causes) {
    if (c.kind != COLLECTIVE_STUCK) ranks.insert(c.ranks.begin(), c.ranks.end());
  }
  return ranks;
}

// Returns the cause at a queue at the end of the graph; its GPU is stuck. `told`: stuck collectives that already have a
// cause, because every member of a collective is an end of the graph.
std::vector<Cause> FromQueue(const Facts& facts, uint32_t node, std::set<std::pair<uint32_t, int64_t>>* told) {
  const GpuFront& front = facts.graph->QueueOf(node).front;
  const Rank& rank = facts.bundle.ranks[facts.graph->RankOf(node)];
  // Other ranks wait for the operation that this rank is in. Either its record is lost, or the dump was taken before
  // its completion was noticed.
  if (front.front == Front::kOverwritten || front.front == Front::kIdle) return {};
  if (front.front == Front::kMismatched) return Explain(facts, facts.mismatches[front.mismatch]);
  const bool all_in = front.front == Front::kAllArrived;
  if (all_in && !CompletionsAreRecorded(rank, front.op)) return {};
  const bool framework = IsFramework(rank);
  const bool stuck = all_in && front.InCollective(), exchange = front.InExchange();
  const bool begun = !stuck || front.op->state != OpState::kEnqueued || GpuFailed(facts, front.comm);
  // Starts are recorded, but none for this operation, so no GPU is in it. A graph capture that a framework records as a
  // call is not a stuck operation.
  if (!begun && (front.op->graph != 0 || framework)) return {};
  if (stuck && facts.bundle.comms[front.comm].may_have_more) return {};
  // A log does not show the peer of a send or receive, for which the rank waits.
  if (exchange && front.op->root_or_peer < 0 && rank.only_active) return {};
  // A framework's dump or a log may omit a member, and the operation may wait for that member.
  if (framework && (stuck || exchange) && MissesUnknown(facts, front)) return {};
  if (stuck && !told->insert({front.comm, front.op->seq}).second) return {};
  return {begun ? GpuCause(facts, node) : NotBegunCause(facts, node)};
}

std::vector<Cause> FromCircle(const Facts& facts, const std::vector<uint32_t>& sink) {
  // A cycle through an operation whose calls differ is a mismatch, not a deadlock.
  for (uint32_t node : sink) {
    if (facts.graph->Kind(node) == WaitGraph::NodeKind::kQueue &&
        facts.graph->QueueOf(node).front.front == Front::kMismatched)
      return Explain(facts, facts.mismatches[facts.graph->QueueOf(node).front.mismatch]);
  }
  std::vector<Cause> causes = LeftInCircle(facts, sink);
  if (!causes.empty()) return causes;
  causes = CycleCauses(facts, sink);
  for (Cause& c : causes) DoubtDamagedCircle(facts.bundle, &c);
  return causes;
}

// Returns the places where the programs of these ranks differ from those of ranks with the same role.
std::vector<Cause> FromPrograms(const Facts& facts, const std::vector<uint32_t>& sink) {
  const std::set<int32_t> ranks = facts.graph->RanksOf(sink);
  // A process that was stopped or killed did not leave its program.
  for (int32_t r : ranks) {
    const HostState host = facts.model.ranks[r].host;
    if (host == HostState::kStopped ||
        (host == HostState::kDead && facts.bundle.ranks[r].process.life != Life::kExited))
      return {};
  }
  // A group that was never ended explains why later calls had no effect, even if other things look odd in that rank's
  // record.
  if (sink.size() == 1 && facts.graph->IsHost(sink[0]) && LeftGroupOpen(facts.bundle.ranks[sink[0]])) return {};
  std::vector<Cause> causes;
  for (int32_t r : ranks) {
    const Divergence* d = facts.DivergenceOf(r);
    if (d != nullptr) causes.push_back(FromDivergence(facts, *d));
  }
  return causes;
}

// `sink`: one node of the wait graph, or a cycle of several.
std::vector<Cause> FromSink(const Facts& facts, const std::vector<uint32_t>& sink,
                            std::set<std::pair<uint32_t, int64_t>>* told) {
  const uint32_t node = sink[0];
  std::vector<Cause> causes = FromPrograms(facts, sink);
  if (!causes.empty()) return causes;
  if (sink.size() > 1) {
    causes = FromCircle(facts, sink);
    NarrowByCounts(facts, &causes);
    return causes;
  }
  if (Cause wrong; FromWrongPeer(facts, sink, &wrong)) return {wrong};
  switch (facts.graph->Kind(node)) {
    case WaitGraph::NodeKind::kCollective:
      // A communicator is being created, and no rank is known to be missing. AddFromCreations handles this.
      return {};
    case WaitGraph::NodeKind::kQueue: return FromQueue(facts, node, told);
    default:
      causes = WhyItLeft(facts, node);
      if (causes.empty()) causes.push_back(HostCause(facts, node));
      return causes;
  }
}

// If all other causes are weak, a rank that left its program is the cause. The ranks that wait for it may have left no
// data.
void AddWithoutWaiters(const Facts& facts, std::vector<Cause>* causes) {
  for (const Divergence& d : facts.divergences) Merge(facts, causes, FromDivergence(facts, d));
}

// Drops operations that all members are in and that do not complete, if another cause explains them. A member that is
// known to hang explains them. Sends and receives that matched with different sizes do, too, because the calls of their
// group complete together. Certain causes explain doubtful ones.
void DropExplained(std::vector<Cause>* causes) {
  const std::set<int32_t> still = KnownToHang(*causes);
  const bool certain = std::ranges::any_of(*causes, [](const Cause& c) { return !c.doubtful; });
  std::set<uint32_t> mismatched;
  for (const Cause& c : *causes) {
    if (c.reason == REASON_UNLIKE_PEER || c.reason == REASON_SPLITS_UNLIKE_PEER) mismatched.insert(c.comm);
  }
  std::erase_if(*causes, [&](const Cause& c) {
    if (c.doubtful && certain) return true;
    return c.kind == COLLECTIVE_STUCK &&
           (mismatched.contains(c.comm) || std::ranges::any_of(c.ranks, [&](int32_t r) { return still.contains(r); }));
  });
}

}  // namespace

std::vector<Cause> FromSinks(const Facts& facts) {
  std::vector<Cause> causes;
  if (facts.graph == nullptr) return causes;
  std::set<std::pair<uint32_t, int64_t>> told;
  const std::set<uint32_t> silent_victims = SilentVictims(facts);
  for (const auto& sink : facts.graph->sinks) {
    if (silent_victims.contains(sink[0])) continue;
    for (Cause& c : FromSink(facts, sink, &told)) {
      Append(sink, &c.nodes);
      Merge(facts, &causes, std::move(c));
    }
  }
  for (Cause& c : causes) {
    for (auto* list : {&c.ranks, &c.missing}) {
      SortUnique(list);
    }
    DoubtRunning(facts, &c);
  }
  JoinStuck(facts, &causes);
  if (causes.empty()) causes = FromOverwritten(facts);
  if (facts.model.stalled && std::ranges::all_of(causes, IsWeak)) AddWithoutWaiters(facts, &causes);
  if (std::ranges::any_of(causes, [](const Cause& c) { return !IsWeak(c) && !c.hypothesis; }))
    SetSilentAside(facts, &causes);
  DropExplained(&causes);
  return causes;
}

}  // namespace lockstep
