// The second half of Causes: collecting causes.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/model/finding_kinds.h"

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;

namespace {

// Whether the dump proves that the operations it shows as unfinished really are: recorders that never see completions
// call every operation scheduled.
bool CompletionsAreRecorded(const Bundle& bundle, int32_t rank_index, const Op* op) {
  const Rank& rank = bundle.ranks[rank_index];
  if (rank.source != Source::kFlightRecorder) return true;
  if (rank.start_recorded || (op != nullptr && (op->state == OpState::kStarted || op->retired))) return true;
  for (const Membership& ms : rank.memberships) {
    if (ms.completed >= 0) return true;
  }
  for (const Op& o : rank.ops) {
    if (o.state == OpState::kCompleted) return true;
  }
  return false;
}

bool HasQueued(const Rank& rank) {
  return std::any_of(rank.ops.begin(), rank.ops.end(), [](const Op& op) { return op.state == OpState::kQueued; });
}

// A thread is between a group's begin and its end, and in no call.
bool HasOpenGroup(const Rank& rank) {
  return std::any_of(rank.threads.begin(), rank.threads.end(),
                     [](const auto& t) { return t.group_depth > 0 && t.call == ring::CallKind::kNone; });
}

// Several ranks that hang in the same way are reported together. A framework's dump does not show whether a rank hangs
// in its process or on its GPU, unless its peers happen to show it. There the two count as the same.
bool OneFinding(const Bundle& bundle, const Cause& a, const Cause& b) {
  if (a.kind == b.kind && a.ranks == b.ranks) return true;
  // Uncertain causes do not cast doubt on certain ones.
  if (a.doubtful != b.doubtful) return false;
  auto still = [&](const Cause& c) {
    return (c.kind == RANK_NOT_ARRIVED || c.kind == GPU_STALL) && !c.ranks.empty() &&
           bundle.ranks[c.ranks[0]].source == Source::kFlightRecorder;
  };
  if (still(a) && still(b)) return true;
  if (!SameStall(a.stall, b.stall)) return false;
  return a.kind == b.kind && FindingFactsOf(a.kind).alike_is_one;
}

}  // namespace

// The same cause seen from several ends, or by several culprits at once, is one finding.
void Causes::Merge(std::vector<Cause>* causes, Cause c) const {
  constexpr size_t kEnough = 24;
  Cause* same = nullptr;
  for (Cause& known : *causes) {
    if (OneFinding(bundle_, known, c)) same = &known;
  }
  if (same == nullptr) {
    causes->push_back(std::move(c));
    return;
  }
  if ((same->ranks != c.ranks || !c.missing.empty()) && same->evidence.size() < kEnough) {
    same->evidence.insert(same->evidence.end(), c.evidence.begin(), c.evidence.end());
  }
  same->ranks.insert(same->ranks.end(), c.ranks.begin(), c.ranks.end());
  same->missing.insert(same->missing.end(), c.missing.begin(), c.missing.end());
  same->nodes.insert(same->nodes.end(), c.nodes.begin(), c.nodes.end());
  same->grade = std::min(same->grade, c.grade);
  same->stall = std::max(same->stall, c.stall);
  same->moving |= c.moving;
  same->first_only &= c.first_only;
}

namespace {

// The rank outside the circle that all of them wait for may be in the lost parts of their damaged records.
void DoubtDamagedCircle(const Bundle& bundle, Cause* c) {
  const auto damaged = [&](int32_t rank) { return bundle.ranks[static_cast<size_t>(rank)].damaged; };
  if (c->kind != DEADLOCK_CYCLE || c->ranks.empty() || !std::all_of(c->ranks.begin(), c->ranks.end(), damaged)) return;
  c->hypothesis = true;
  c->grade = std::min(c->grade, GRADE_GUESS);
  c->AddRival(Rival::LOST_WAIT);
}

}  // namespace

std::vector<Cause> Causes::FromSinks() {
  std::vector<Cause> causes;
  if (graph_ == nullptr) return causes;
  std::set<std::pair<uint32_t, int64_t>> told;  // stuck collectives: every member is an end of the graph
  const std::set<uint32_t> silent_victims = SilentVictims();
  std::vector<Cause> by_damaged;
  for (const auto& sink : graph_->sinks) {
    if (silent_victims.contains(sink[0])) continue;
    std::set<int32_t> ranks;
    bool ended = false;
    for (uint32_t v : sink) {
      const int32_t r = graph_->RankOf(v);
      if (r < 0) continue;
      ranks.insert(r);
      ended |= model_.ranks[r].host == HostState::kStopped ||
               (model_.ranks[r].host == HostState::kDead && bundle_.ranks[r].process.life != Life::kExited);
    }
    std::vector<Cause> here;
    // A group that was never ended explains why the calls behind it had no effect, whatever else looks odd in that
    // rank's record.
    const bool open = sink.size() == 1 && graph_->IsHost(sink[0]) &&
                      (HasOpenGroup(bundle_.ranks[sink[0]]) ||
                       (bundle_.ranks[sink[0]].source == Source::kFlightRecorder && HasQueued(bundle_.ranks[sink[0]])));
    if (!ended && !open) {
      for (int32_t r : ranks) {
        if (const Divergence* d = DivergenceOf(r)) here.push_back(FromDivergence(*d));
      }
    }
    // An operation that no GPU of the circle has reached did not close it.
    if (!here.empty() && sink.size() > 1 && std::none_of(ranks.begin(), ranks.end(), [&](int32_t r) {
          const Divergence* d = DivergenceOf(r);
          return d != nullptr && CameTo(*d);
        })) {
      std::vector<Cause> left = LeftInCircle(sink);
      if (!left.empty()) here = std::move(left);
    }
    const uint32_t v = sink[0];
    // A communicator in creation from which no rank is seen to be missing: AddFromCreations handles it.
    if (here.empty() && sink.size() == 1 && graph_->Kind(v) == WaitGraph::NodeKind::kCollective) continue;
    if (here.empty() && sink.size() == 1 && graph_->Kind(v) == WaitGraph::NodeKind::kQueue) {
      const GpuFront& front = graph_->QueueOf(v).front;
      if (front.front == Front::kOverwritten) continue;
      if (front.front == Front::kMismatched) {
        here = Explain(mismatches_[front.mismatch]);
      } else if (front.front == Front::kAllArrived && !CompletionsAreRecorded(bundle_, graph_->RankOf(v), front.op)) {
        continue;
      } else {
        const bool stuck = front.front == Front::kAllArrived && front.op != nullptr && IsCollective(front.op->kind);
        const bool begun = !stuck || front.op->state != OpState::kEnqueued || GpuFailed(front.comm);
        // Starts are recorded and none exists: no GPU is in it. A graph capture that a framework records as a call is
        // not a stuck operation.
        if (!begun && (front.op->graph != 0 || bundle_.ranks[graph_->RankOf(v)].source == Source::kFlightRecorder))
          continue;
        if (stuck && bundle_.comms[front.comm].may_have_more) continue;
        if (stuck && !told.insert({front.comm, front.op->seq}).second) continue;
        here.push_back(begun ? GpuCause(v) : NotBegunCause(v));
      }
    } else if (here.empty() && sink.size() == 1) {
      here = WhyItLeft(v);
      if (here.empty()) here.push_back(HostCause(v));
    } else if (here.empty()) {
      // A circle through an operation whose calls differ is a mismatch, not a deadlock.
      for (uint32_t w : sink) {
        if (graph_->Kind(w) != WaitGraph::NodeKind::kQueue || graph_->QueueOf(w).front.front != Front::kMismatched)
          continue;
        here = Explain(mismatches_[graph_->QueueOf(w).front.mismatch]);
        break;
      }
      if (here.empty()) here = LeftInCircle(sink);
      if (here.empty()) {
        here = CycleCauses(sink);
        for (Cause& c : here) DoubtDamagedCircle(bundle_, &c);
      }
      NarrowByCounts(&here);
    }
    for (Cause& c : here) {
      c.nodes.insert(c.nodes.end(), sink.begin(), sink.end());
      if (c.by_damaged) {
        by_damaged.push_back(std::move(c));
      } else {
        Merge(&causes, std::move(c));
      }
    }
  }
  // Whole records that wait for a rank without data are stronger than damaged ones. A rank that only damaged records
  // wait for may itself be waiting.
  if (std::none_of(causes.begin(), causes.end(), [](const Cause& c) { return c.kind == RANK_NO_DATA; })) {
    for (Cause& c : by_damaged) Merge(&causes, std::move(c));
  }
  for (Cause& c : causes) {
    for (auto* list : {&c.ranks, &c.missing}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  }
  JoinStuck(&causes);
  if (causes.empty()) causes = FromOverwritten();
  // A rank that left its program is the cause if everything else known is that data is missing.
  auto weak = [](const Cause& c) { return c.kind == RANK_NO_DATA || c.doubtful || c.kind == COLLECTIVE_STUCK; };
  if (model_.stalled && std::all_of(causes.begin(), causes.end(), weak)) {
    for (const Divergence& d : divergences_) Merge(&causes, FromDivergence(d));
    // So is a rank whose own record shows a group that it never ended, even if the ranks that wait for it left no data.
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
      if (!graph_->edges[WaitGraph::HostNode(r)].empty() || Names(causes, static_cast<int32_t>(r))) continue;
      if (!HasOpenGroup(bundle_.ranks[r]) &&
          (bundle_.ranks[r].source != Source::kFlightRecorder || !HasQueued(bundle_.ranks[r])))
        continue;
      Cause c = HostCause(WaitGraph::HostNode(r));
      if (c.kind == GROUP_LEFT_OPEN) Merge(&causes, std::move(c));
    }
  }
  // A member that is known to hang explains an operation that all are in and that does not finish.
  std::set<int32_t> still;
  for (const Cause& c : causes) {
    if (c.kind != COLLECTIVE_STUCK) still.insert(c.ranks.begin(), c.ranks.end());
  }
  const bool certain = std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return !c.doubtful; });
  // So do sends and receives that met with different sizes: the calls of their group end together.
  std::set<uint32_t> mismatched;
  for (const Cause& c : causes) {
    if (c.reason == REASON_UNLIKE_PEER || c.reason == REASON_SPLITS_UNLIKE_PEER) mismatched.insert(c.comm);
  }
  // A rank that left no data most likely waits for the known cause.
  const bool known =
      std::any_of(causes.begin(), causes.end(), [&](const Cause& c) { return !weak(c) && !c.hypothesis; });
  if (known) {
    std::vector<int32_t> silent;
    for (const Cause& c : causes) {
      if (c.kind == RANK_NO_DATA) silent.insert(silent.end(), c.missing.begin(), c.missing.end());
    }
    std::set<int32_t> by_itself;
    for (const auto& [rank, seen] : SilentRanks(silent)) {
      if (NothingHeldIt(seen, still)) by_itself.insert(rank);
    }
    std::erase_if(silent, [&](int32_t rank) { return by_itself.contains(rank); });
    std::erase_if(causes, [&](Cause& c) {
      if (c.kind != RANK_NO_DATA) return false;
      std::erase_if(c.missing, [&](int32_t rank) { return !by_itself.contains(rank); });
      if (c.missing.empty()) return true;
      c.beside = true;
      c.evidence.push_back(
          {"a rank with the same role reached that place, and all that it did before is complete or waits for the "
           "named ranks: no other finding holds them up",
           {}});
      return false;
    });
    std::sort(silent.begin(), silent.end());
    if (silent.size() > 8) silent.resize(8);
    if (!silent.empty()) {
      Detail* rival = causes[0].AddRival(Rival::SECOND_CAUSE);
      for (const int32_t rank : silent) rival->add_ranks(rank);
    }
  }
  std::erase_if(causes, [&](const Cause& c) {
    if (c.doubtful && certain) return true;
    return c.kind == COLLECTIVE_STUCK &&
           (mismatched.contains(c.comm) ||
            std::any_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) { return still.contains(r); }));
  });
  return causes;
}

std::vector<Cause> Causes::WhyItLeft(uint32_t node) const {
  const int32_t r = graph_->RankOf(node);
  if (r < 0 || bundle_.ranks[r].source != Source::kFlightRecorder) return {};
  const Rank& rank = bundle_.ranks[r];
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || !IsCollective(op.kind)) continue;
    if (last == nullptr || op.record_id > last->record_id) last = &op;
  }
  if (last == nullptr) return {};
  if (!model_.ranks[r].in_flight.empty() && !model_.InFlight(r, *last)) return {};
  const uint32_t comm = model_.CommOf(rank, *last);
  for (const Mismatch& m : mismatches_) {
    if (m.comm == comm && m.seq == last->seq && m.sender < 0) return Explain(m);
  }
  return {};
}

std::vector<Cause> Causes::FromMissing() const {
  std::vector<Cause> causes;
  std::set<int32_t> missing;
  for (const CommView& view : model_.comms) {
    for (const Member& m : view.members) {
      if (m.rank_index < 0 && m.global_rank >= 0) missing.insert(m.global_rank);
    }
  }
  // Nor is it known what the ranks were in whose records lost that part.
  for (size_t r = 0; r < bundle_.ranks.size() && !missing.empty(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    if (rank.damaged && rank.source != Source::kFlightRecorder) missing.insert(rank.rank);
  }
  for (int32_t rank : missing) {
    Cause c = NoDataCause(rank);
    if (causes.empty()) {
      causes.push_back(std::move(c));
    } else {
      causes[0].missing.push_back(rank);
    }
  }
  return causes;
}

// A member that skipped, added or moved a call shifts its later ones, which causes the mismatch. For a changed call,
// the majority of the members decides if there is one.
std::vector<Cause> Causes::Explain(const Mismatch& m) const {
  std::vector<Cause> here;
  for (const Member& member : model_.comms[m.comm].members) {
    const Divergence* d = member.rank_index >= 0 ? DivergenceOf(member.rank_index) : nullptr;
    if (d != nullptr && d->type != Divergence::Type::kChanged) here.push_back(FromDivergence(*d));
  }
  if (m.sender >= 0 && here.empty()) return {FromMismatch(m)};
  for (int32_t r : m.odd_ranks) {
    const Divergence* d = DivergenceOf(r);
    if (here.empty() && !m.majority && d != nullptr) here.push_back(FromDivergence(*d));
  }
  if (here.empty()) here.push_back(FromMismatch(m));
  return here;
}

std::vector<Cause> Causes::FromDisagreement(const std::vector<Cause>& known) {
  std::vector<Cause> causes;
  // A framework's dump has no checksums, so a number in a damaged file may come from the damage. Alone, that is no
  // second cause. A cause built on operations that may be complete does not explain calls that are seen to differ.
  std::vector<Cause> sure = known;
  std::erase_if(sure, [](const Cause& c) { return c.doubtful; });
  auto garbled = [&](int32_t r) {
    return bundle_.ranks[r].damaged && bundle_.ranks[r].source == Source::kFlightRecorder;
  };
  for (const Mismatch& m : mismatches_) {
    std::vector<Cause> here = Explain(m);
    if (!known.empty())
      std::erase_if(here, [&](const Cause& c) { return std::all_of(c.ranks.begin(), c.ranks.end(), garbled); });
    for (Cause& c : here) {
      bool explained = false;
      for (int32_t r : c.ranks) explained |= Names(sure, r) || Names(causes, r);
      if (!explained) causes.push_back(std::move(c));
    }
  }
  return causes;
}

std::vector<Cause> Causes::FromDeaths(const std::vector<Cause>& known) {
  // If a cause is known, a later death is its consequence. FromStacks judges ends beside what the others are in.
  if (!known.empty() || ProcessesLookedAt(bundle_)) return {};
  std::map<std::string, int32_t> first;  // first of each host, whose clock orders the ends there
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    const Process& p = rank.process;
    const bool abnormal = p.life == Life::kKilled || (p.life == Life::kExited && p.exit_code != 0);
    if (!abnormal || model_.ranks[r].host != HostState::kDead) continue;
    auto [it, fresh] = first.try_emplace(absl::StrCat(rank.host, "/", rank.boot_id), static_cast<int32_t>(r));
    if (!fresh && p.ended_mono_ns < bundle_.ranks[it->second].process.ended_mono_ns)
      it->second = static_cast<int32_t>(r);
  }
  std::vector<int32_t> ranks;
  ranks.reserve(first.size());
  for (const auto& [host, r] : first) ranks.push_back(r);
  if (ranks.empty()) return {};
  std::sort(ranks.begin(), ranks.end());
  Cause c = DeathCause(ranks[0]);
  if (ranks.size() > 1) {
    c.ranks = ranks;
    c.grade = GRADE_OPEN;
    c.evidence.push_back(
        {"the first process to end on each host; nothing recorded shows which of these ended first", ranks});
  }
  return {c};
}

bool Causes::MetLater(int32_t rank_index, int32_t holder, const Op& op) const {
  const Rank& theirs = bundle_.ranks[holder];
  for (const Op& later : theirs.ops) {
    if (later.membership == kNoIndex || later.state != OpState::kCompleted || !NeedsEveryMember(later.kind)) continue;
    if (op.record_id >= 0 ? later.record_id <= op.record_id : later.enter_ns <= op.enter_ns) continue;
    if (later.membership == op.membership) continue;
    for (const Member& m : model_.comms[model_.CommOf(theirs, later)].members) {
      if (m.rank_index == rank_index && m.membership != kNoIndex && m.arrived >= later.seq) return true;
    }
  }
  return false;
}

std::vector<Cause> Causes::FromAbsence() {
  std::vector<Cause> causes;
  for (uint32_t c = 0; c < model_.comms.size(); ++c) {
    const CommView& view = model_.comms[c];
    // What each member holds, by (sequence, how many calls of that number).
    std::map<int64_t, std::vector<int32_t>> counts;
    for (size_t m = 0; m < view.members.size(); ++m) {
      const Member& member = view.members[m];
      if (member.rank_index < 0 || member.membership == kNoIndex) continue;
      for (uint32_t i : model_.ranks[member.rank_index].collectives[member.membership]) {
        auto& list = counts[bundle_.ranks[member.rank_index].ops[i].seq];
        list.resize(view.members.size(), 0);
        ++list[m];
      }
    }
    for (const auto& [seq, list] : counts) {
      const int32_t most = *std::max_element(list.begin(), list.end());
      Cause cause;
      for (size_t m = 0; m < list.size(); ++m) {
        const Member& member = view.members[m];
        if (member.rank_index < 0 || list[m] == most) continue;
        const Rank& rank = bundle_.ranks[member.rank_index];
        if (rank.source != Source::kFlightRecorder || rank.only_active || rank.damaged || member.left) continue;
        if (model_.ranks[member.rank_index].seen_moving) continue;  // others may have been read later
        if (list[m] == 0 && (member.membership == kNoIndex ? false : member.arrived >= seq)) continue;
        if (list[m] > 0 && member.arrived > seq) continue;
        if (list[m] == 0 && member.oldest != kUnknown && member.oldest > seq) continue;
        cause.ranks.push_back(member.rank_index);
      }
      if (cause.ranks.empty()) continue;
      // Only an operation that cannot end without them, and ended or is ending elsewhere, proves that they are missing.
      const Op *first = nullptr, *proof = nullptr;
      int32_t holder = -1;
      for (size_t m = 0; m < list.size(); ++m) {
        if (list[m] != most) continue;
        const Member& member = view.members[m];
        const Rank& rank = bundle_.ranks[member.rank_index];
        if (rank.damaged) continue;  // what only this rank holds may come from the damage
        int32_t nth = 0;
        const int32_t lacking = list[0] == most ? 0 : list[0];
        for (uint32_t i : model_.ranks[member.rank_index].collectives[member.membership]) {
          const Op& op = rank.ops[i];
          if (op.seq != seq) continue;
          if (nth++ < lacking) continue;
          if (first == nullptr) first = &op, holder = member.rank_index;
          if (NeedsEveryMember(op.kind) || op.kind == CallKind::kCoalesced || op.batch_end) proof = &op;
        }
        break;
      }
      // The ranks of a moving job are not read at the same moment: a rank that was read first has not reached recent
      // operations.
      if (first == nullptr || proof == nullptr || model_.Young(bundle_.ranks[holder], *first)) continue;
      // All members gave it up, as with a communicator that is aborted and re-created: they have met since.
      std::erase_if(cause.ranks, [&](int32_t r) { return MetLater(r, holder, *first); });
      if (cause.ranks.empty()) continue;
      cause.kind = RANK_NOT_ARRIVED;
      cause.comm = c;
      cause.op = first;
      cause.op_rank = holder;
      cause.grade = GRADE_GOOD;
      cause.reason = REASON_NEVER_ENTERED;
      *cause.detail.mutable_call() = CallOf(bundle_, bundle_.ranks[holder], *first);
      cause.evidence.push_back(
          {absl::StrCat(Who(holder), " recorded it; the named ranks' records end before it"), {holder}});
      causes.push_back(std::move(cause));
      break;
    }
  }
  return causes;
}

std::vector<Cause> Causes::FromHashes() {
  std::vector<Cause> causes;
  for (uint32_t c = 0; c < model_.comms.size(); ++c) {
    bool shown = false;
    for (const Mismatch& m : mismatches_) shown |= m.comm == c && m.sender < 0;
    if (shown) continue;
    std::map<int64_t, std::map<uint64_t, std::vector<int32_t>>> at;
    for (const Member& m : model_.comms[c].members) {
      if (m.rank_index < 0 || m.membership == kNoIndex) continue;
      const Membership& ms = bundle_.ranks[m.rank_index].memberships[m.membership];
      for (const HashCheckpoint& h : ms.checkpoints) at[h.seq][h.hash].push_back(m.rank_index);
      if (ms.signature_hash != 0 && ms.issued > 0) {
        auto& list = at[ms.issued][ms.signature_hash];
        if (std::find(list.begin(), list.end(), m.rank_index) == list.end()) list.push_back(m.rank_index);
      }
    }
    int64_t last_equal = 0;
    for (const auto& [seq, hashes] : at) {
      size_t members = 0;
      for (const auto& [hash, list] : hashes) members += list.size();
      if (hashes.size() == 1) {
        if (members > 1) last_equal = seq;
        continue;
      }
      std::vector<std::vector<int32_t>> classes;
      for (const auto& [hash, list] : hashes) classes.push_back(list);
      std::sort(classes.begin(), classes.end(),
                [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
      const bool majority = classes[0].size() > classes[1].size();
      Cause cause;
      cause.kind = SILENT_DESYNC;
      cause.comm = c;
      for (size_t i = majority ? 1 : 0; i < classes.size(); ++i) {
        cause.ranks.insert(cause.ranks.end(), classes[i].begin(), classes[i].end());
      }
      std::sort(cause.ranks.begin(), cause.ranks.end());
      cause.grade = majority ? GRADE_GOOD : GRADE_OPEN;
      cause.reason = REASON_HASHES_DIFFER;
      cause.detail.set_name(CommText(bundle_.comms[c]));
      cause.detail.set_number(last_equal);
      cause.detail.set_other_number(seq);
      causes.push_back(std::move(cause));
      break;
    }
  }
  return causes;
}

std::vector<Cause> Causes::FromAsyncErrors() {
  std::vector<Cause> causes;
  const Membership* first = nullptr;
  int32_t first_rank = -1;
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    for (const Membership& ms : bundle_.ranks[r].memberships) {
      if (ms.async_error == 0) continue;
      const int64_t at = ms.recorded->async_error_ns + bundle_.ranks[r].real_minus_mono_ns;
      if (first == nullptr || at < first->recorded->async_error_ns + bundle_.ranks[first_rank].real_minus_mono_ns) {
        first = &ms;
        first_rank = static_cast<int32_t>(r);
      }
    }
  }
  if (first == nullptr) return causes;
  Cause c;
  c.kind = ASYNC_ERROR;
  c.ranks = {first_rank};
  c.comm = first->comm;
  c.grade = GRADE_OPEN;
  constexpr int32_t kNcclUnhandledCudaError = 1;
  c.detail.set_name(CommText(bundle_.comms[first->comm]));
  if (first->async_error == kNcclUnhandledCudaError) {
    c.cause = "gpu";
    c.reason = REASON_CUDA_ERROR_REPORTED;
  } else {
    c.reason = REASON_ERROR_REPORTED;
    c.detail.set_number(first->async_error);
  }
  causes.push_back(std::move(c));
  return causes;
}

}  // namespace lockstep
