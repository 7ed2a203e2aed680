#include "analyzer/engine/facts/exits.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/components.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/numbers.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

// How a process ended: by a launcher's signal, by its own abort or exit status, or by a crash or SIGKILL.
enum class End { kForced, kGaveUp, kCrashed };

End EndOf(const Process& p) {
  if (p.life != Life::kKilled) return End::kGaveUp;
  switch (p.signal) {
    case SIGTERM:
    case SIGINT:
    case SIGHUP: return End::kForced;
    case SIGABRT: return End::kGaveUp;
    default: return End::kCrashed;
  }
}

bool KilledHard(const Process& p) { return p.life == Life::kKilled && p.signal == SIGKILL; }

// Returns whether a launcher killed what was left of the job. All processes have ended, and SIGKILL ended more than
// half of them. On at least one host, processes ended in both ways, and on no host did SIGKILL come first. Ends by
// other signals of a launcher are ignored.
bool RestWasKilled(const Model& model) {
  absl::flat_hash_map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>>
      first;  // first end by SIGKILL, first other end
  size_t killed = 0, otherwise = 0;
  for (const Rank& rank : model.bundle.ranks) {
    const Process& p = rank.process;
    if (p.life == Life::kRunning || p.life == Life::kUnknown) return false;
    if (EndOf(p) == End::kForced) continue;
    ++(KilledHard(p) ? killed : otherwise);
    if (p.ended_mono_ns <= 0 || rank.host.empty()) continue;
    const auto it = first.try_emplace({rank.host, rank.boot_id}, INT64_MAX, INT64_MAX).first;
    int64_t& earliest = KilledHard(p) ? it->second.first : it->second.second;
    earliest = std::min(earliest, p.ended_mono_ns);
  }
  bool ordered = false;
  for (const auto& [host, at] : first) {
    if (at.first == INT64_MAX || at.second == INT64_MAX) continue;
    if (at.first < at.second) return false;
    ordered = true;
  }
  return ordered && killed > otherwise;
}

// A watchdog waits for minutes, so a process that aborts sooner does so for another reason.
constexpr int64_t kWatchdogWaits = 60'000'000'000;

// PyTorch names its threads (pt_main_thread, pt_nccl_watchdg).
bool IsPyTorch(const Rank& rank) {
  if (IsFramework(rank)) return true;
  const auto named = [](std::string_view name) { return name.starts_with("pt_"); };
  if (std::ranges::any_of(rank.threads, [&](const ring::ThreadSnapshot& t) { return named(t.name); })) return true;
  if (rank.process.evidence == nullptr) return false;
  const auto& threads = rank.process.evidence->threads();
  return std::ranges::any_of(threads, [&](const ThreadStack& t) { return named(t.name()); });
}

// Builds the graph of waits between ranks, directly or through collectives.
class Builder {
 public:
  explicit Builder(const Model& model) : model_(model), edges_(model.ranks.size()), unseen_(model.ranks.size()) {
    for (size_t r = 0; r < model.ranks.size(); ++r) AddRank(static_cast<int32_t>(r));
  }

  const std::vector<std::vector<uint32_t>>& edges() const { return edges_; }
  // Returns whether the rank is in an operation that a rank without data may not have reached.
  bool WaitsForUnseen(size_t r) const {
    return unseen_[r] ||
           std::ranges::any_of(edges_[r], [&](uint32_t v) { return v >= model_.ranks.size() && unseen_[v]; });
  }

 private:
  // Adds the oldest unfinished operation of each communicator; later ones add no information. Aborted communicators
  // count, because a watchdog aborts communicators before it ends the process.
  void AddRank(int32_t r) {
    const Rank& rank = model_.bundle.ranks[r];
    absl::flat_hash_map<uint32_t, const Op*> oldest;
    for (const Op& op : rank.ops) {
      const bool flying = IsUnfinished(op.state) || op.state == OpState::kEntered || model_.InFlight(r, op);
      if (!flying || op.membership == kNoIndex || (!IsCollective(op.kind) && !IsPointToPoint(op.kind))) continue;
      const Op*& first = oldest[op.membership];
      if (first == nullptr || op.seq < first->seq) first = &op;
    }
    for (const auto& [membership, op] : oldest) AddOp(r, *op);
  }

  void AddOp(int32_t r, const Op& op) {
    const Rank& rank = model_.bundle.ranks[r];
    if (!IsPointToPoint(op.kind)) return AddCollective(r, model_.CommOf(rank, op), op.seq);
    const Member* peer = model_.PeerOf(rank, op);
    if (peer == nullptr) return;
    if (peer->rank_index < 0) {
      unseen_[r] = true;
    } else if (model_.ranks[peer->rank_index].host == HostState::kDead || model_.Met(r, op) == false) {
      edges_[r].push_back(static_cast<uint32_t>(peer->rank_index));
    }
  }

  void AddCollective(int32_t r, uint32_t comm, int64_t seq) {
    // One node per collective, so that its members are visited once.
    auto [it, fresh] = collectives_.try_emplace({comm, seq}, 0u);
    if (fresh) {
      std::vector<uint32_t> lacking;
      bool unseen = false;
      for (const Member& m : model_.comms[comm].members) {
        unseen = unseen || m.rank_index < 0 || (m.arrived < seq && model_.bundle.ranks[m.rank_index].damaged);
        if (m.rank_index < 0) continue;
        // A process's GPU work ends with the process. So others also wait for an ended member in operations that the
        // member had entered.
        const bool ended = model_.ranks[m.rank_index].host == HostState::kDead;
        if (ended || m.arrived < seq) lacking.push_back(static_cast<uint32_t>(m.rank_index));
      }
      it->second = static_cast<uint32_t>(edges_.size());
      edges_.push_back(std::move(lacking));
      unseen_.push_back(unseen);
    }
    edges_[r].push_back(it->second);
  }

  const Model& model_;
  std::vector<std::vector<uint32_t>> edges_;  // ranks first, then collectives
  std::vector<bool> unseen_;                  // same index: waits for (rank) or has (collective) a member without data
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, uint32_t> collectives_;
};

// A rank whose own GPU failed has a reason to give up, even if another process failed.
bool GpuFailed(const Rank& rank) {
  return std::ranges::any_of(rank.streams, [](const ring::StreamSnapshot& s) { return s.first_error != 0; });
}

// Returns, for each host (name and boot), when the first process crashed, was killed, or ended in its own code.
// Processes of one host share a clock, so their order is exact.
absl::flat_hash_map<std::pair<std::string, std::string>, int64_t> FirstCrashes(const Model& model) {
  absl::flat_hash_map<std::pair<std::string, std::string>, int64_t> first;
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    if (model.ranks[r].host != HostState::kDead || rank.process.ended_mono_ns <= 0 || rank.host.empty()) continue;
    const End end = EndOf(rank.process);
    const bool in_own_code = end == End::kGaveUp && !rank.threads.empty() && !EndedWaiting(rank);
    if (end != End::kCrashed && !in_own_code) continue;
    const auto [it, fresh] = first.try_emplace({rank.host, rank.boot_id}, rank.process.ended_mono_ns);
    if (!fresh) it->second = std::min(it->second, rank.process.ended_mono_ns);
  }
  return first;
}

}  // namespace

bool EndedWaiting(const Rank& rank) {
  return std::ranges::any_of(rank.threads, [](const ring::ThreadSnapshot& t) {
    return t.wait != ring::CallKind::kNone || t.call != ring::CallKind::kNone;
  });
}

std::vector<bool> FindConsequences(const Model& model) {
  const size_t n = model.ranks.size();
  std::vector<bool> consequence(n);
  size_t dead = 0, not_forced = 0;
  const bool rest_killed = RestWasKilled(model);
  const auto end_of = [&](size_t r) {
    const Process& p = model.bundle.ranks[r].process;
    return rest_killed && KilledHard(p) ? End::kForced : EndOf(p);
  };
  for (size_t r = 0; r < n; ++r) {
    if (model.ranks[r].host != HostState::kDead) continue;
    ++dead;
    not_forced += end_of(r) != End::kForced;
  }
  if (dead == 0) return consequence;
  const Builder builder(model);
  // A process that waited for a rank without data gave up because of that rank.
  auto gave_up_waiting = [&](size_t r) {
    return (EndedWaiting(model.bundle.ranks[r]) && builder.WaitsForUnseen(r)) ||
           EndedByWatchdog(model, r).waited_ns >= 0;
  };
  const auto first_crash = FirstCrashes(model);
  auto gave_up_after_crash = [&](size_t r) {
    const Rank& rank = model.bundle.ranks[r];
    if (rank.process.ended_mono_ns <= 0 || !EndedWaiting(rank) || GpuFailed(rank)) return false;
    const auto it = first_crash.find({rank.host, rank.boot_id});
    const int64_t least = KilledHard(rank.process) ? kEndedTogether : 0;
    return it != first_crash.end() && it->second + least < rank.process.ended_mono_ns;
  };
  const std::vector<std::vector<uint32_t>>& edges = builder.edges();
  // Each component comes after the components that it waits for.
  const Components components = FindComponents(
      static_cast<uint32_t>(edges.size()), [&](uint32_t v) { return edges[v].size(); },
      [&](uint32_t v, size_t k) { return edges[v][k]; });
  std::vector<bool> ends_below(components.count), crash_in(components.count), end_in(components.count),
      busy_in(components.count);
  std::vector<std::vector<uint32_t>> members(components.count);
  for (uint32_t v = 0; v < edges.size(); ++v) members[components.of[v]].push_back(v);
  for (uint32_t c = 0; c < components.count; ++c) {
    for (uint32_t v : members[c]) {
      if (v < n && model.ranks[v].host == HostState::kDead) {
        end_in[c] = true;
        const Rank& rank = model.bundle.ranks[v];
        busy_in[c] = busy_in[c] || (!rank.threads.empty() && !EndedWaiting(rank));
        crash_in[c] = crash_in[c] || end_of(v) == End::kCrashed;
      }
      for (uint32_t w : edges[v]) {
        const uint32_t d = components.of[w];
        if (d != c) ends_below[c] = ends_below[c] || ends_below[d] || end_in[d];
      }
    }
  }
  for (size_t r = 0; r < n; ++r) {
    if (model.ranks[r].host != HostState::kDead) continue;
    const End end = end_of(r);
    const uint32_t c = components.of[r];
    if (end == End::kCrashed) {
      // A launcher may have sent SIGKILL to a process that waited, after another process of the host had crashed.
      consequence[r] = KilledHard(model.bundle.ranks[r].process) && gave_up_after_crash(r);
      continue;
    }
    // Among ended processes that waited for each other, a process in its own code ended first.
    const bool fell_waiting = busy_in[c] && EndedWaiting(model.bundle.ranks[r]);
    consequence[r] = ends_below[c] || crash_in[c] || fell_waiting || gave_up_waiting(r) || gave_up_after_crash(r) ||
                     (end == End::kForced && not_forced > 0);
  }
  return consequence;
}

WatchdogEnd EndedByWatchdog(const Model& model, size_t rank_index) {
  WatchdogEnd end;
  const Rank& rank = model.bundle.ranks[rank_index];
  if (rank.process.life != Life::kKilled || rank.process.signal != SIGABRT || rank.process.ended_mono_ns <= 0 ||
      !EndedWaiting(rank))
    return end;
  int64_t oldest = INT64_MAX;
  for (const auto& unit : model.ranks[rank_index].in_flight) {
    if (unit.enter_ns > 0) oldest = std::min(oldest, unit.enter_ns);
  }
  if (oldest > rank.process.ended_mono_ns || rank.process.ended_mono_ns - oldest < kWatchdogWaits) return end;
  end.waited_ns = rank.process.ended_mono_ns - oldest;
  end.pytorch = IsPyTorch(rank);
  return end;
}

void SayWatchdogEnds(const Model& model, Verdict* verdict) {
  std::vector<int64_t> waited;
  std::map<int32_t, WatchdogEnd> of_rank;  // indexed by global rank
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const WatchdogEnd end = EndedByWatchdog(model, r);
    if (end.waited_ns < 0) continue;
    waited.push_back(end.waited_ns);
    of_rank.emplace(model.bundle.ranks[r].rank, end);
  }
  if (waited.empty()) return;
  Detail* detail = RuleOut(NotTheCause::CRASH, verdict)->mutable_detail();
  for (const auto& [rank, end] : of_rank) detail->add_ranks(rank);
  detail->set_duration_ns(Median(std::move(waited)));
  detail->set_flag(std::ranges::all_of(of_rank, [](const auto& of) { return of.second.pytorch; }));
  for (Finding& finding : *verdict->mutable_findings()) {
    for (const Culprit& culprit : finding.culprits()) {
      const auto it = of_rank.find(culprit.rank());
      if (it == of_rank.end()) continue;
      Evidence* evidence = finding.add_evidence();
      evidence->set_kind(Evidence::WATCHDOG_ENDED);
      evidence->set_duration_ns(it->second.waited_ns);
      evidence->mutable_detail()->add_ranks(culprit.rank());
      evidence->mutable_detail()->set_flag(it->second.pytorch);
      evidence->add_ranks(culprit.rank());
      break;  // the finding's other culprits ended in the same way
    }
  }
}

}  // namespace lockstep
