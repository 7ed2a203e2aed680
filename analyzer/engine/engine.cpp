#include "analyzer/engine/engine.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/checkpoint.h"
#include "analyzer/engine/facts/clock.h"
#include "analyzer/engine/facts/exits.h"
#include "analyzer/engine/facts/factor.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/startup.h"
#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/facts/waits.h"
#include "analyzer/engine/not_seen.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/engine/view.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

// Returns whether the rank's later calls are unknown. A missing record then proves nothing. A switch or the overhead
// budget stopped the recording, or the process has since run another program (exec). False for a process that was
// killed or failed, because that end is known.
bool IsBlind(const Rank& rank) {
  const bool stopped =
      rank.recorder_state == ring::RecorderState::kStopped || rank.recorder_state == ring::RecorderState::kReplaced;
  const bool died =
      rank.process.life == Life::kKilled || (rank.process.life == Life::kExited && rank.process.exit_code != 0);
  return stopped && !died;
}

std::string StoppedText(const Rank& rank) {
  std::string at;
  if (rank.stopped_ns > 0) at = UtcText(rank.stopped_ns + rank.real_minus_mono_ns, " at %Y-%m-%d %H:%M:%S UTC");
  return absl::StrCat("recording stopped", at,
                      " (reason: ", rank.stop_reason.empty() ? "not recorded" : rank.stop_reason, "); what rank ",
                      rank.rank, " did afterwards is unknown");
}

// Returns the bundle without the blind ranks, and with a problem for each.
Bundle WithoutBlindRanks(const Bundle& bundle) {
  Bundle seen = bundle;
  seen.ranks_expected = std::max(bundle.ranks_expected, static_cast<int32_t>(bundle.ranks.size()));
  for (const Rank& rank : bundle.ranks) {
    if (IsBlind(rank))
      seen.problems.push_back(
          {.path = rank.path, .text = StoppedText(rank), .rank = rank.rank, .stopped = true, .like = "stopped"});
  }
  std::erase_if(seen.ranks, IsBlind);
  return seen;
}

VerdictKind VerdictOf(const std::vector<Cause>& causes, const Bundle& bundle, bool may_move) {
  if (causes.empty()) return VERDICT_HEALTHY;
  const VerdictKind verdict = FindingFactsOf(causes[0].kind).verdict;
  if (verdict != VERDICT_UNSPECIFIED) return verdict;
  // If the job was live, the data was taken early, or a named process was active, the job may only be slow. A live
  // observer that saw the job stuck excludes this.
  return (may_move || causes[0].moving) && !bundle.known_stalled ? VERDICT_LATE : VERDICT_HUNG;
}

// PyTorch's default timeout of an NCCL operation. Older dumps do not contain the timeout.
constexpr int64_t kDefaultTimeout = 10 * kMinute;

// Returns whether a framework's dumps were taken before half of the watchdog's timeout. A rank that others wait for may
// then be in a long evaluation or checkpoint. False if the first finding is certain at any age, like calls that differ,
// or has a known cause.
bool MayOnlyBeSlow(const Model& model, const std::vector<Cause>& causes) {
  if (causes.empty() || FindingFactsOf(causes[0].kind).definite || !causes[0].cause.empty()) return false;
  bool early = false;
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    if (!IsFramework(rank) || rank.captured_ns == 0) continue;
    const int64_t timeout_ns = rank.timeout_ns > 0 ? rank.timeout_ns : kDefaultTimeout;
    for (const Unit& unit : model.ranks[r].in_flight) {
      const bool given_up =
          !rank.ends_untold && std::ranges::any_of(unit.ops, [&](uint32_t i) { return rank.ops[i].retired; });
      const bool dated = unit.enter_ns > 0;
      if (given_up || (dated && rank.captured_ns - unit.enter_ns >= timeout_ns / 2)) return false;
      early |= dated;
    }
  }
  return early;
}

// Returns whether the fault may also be an operation that never finishes in the network.
bool MayBeNetwork(Reason reason) {
  switch (reason) {
    case REASON_FINISHED_ALONE:
    case REASON_GPU_STOPPED_AFTER:
    case REASON_WRONG_PEER:
    case REASON_TWO_STREAMS_STUCK:
    case REASON_STOPPED_WHILE_OTHERS_WAIT:
    case REASON_EXITED_WHILE_OTHERS_WAIT: return true;
    default: return false;
  }
}

bool OnlyEndKnown(const Rank& rank) {
  const Process& process = rank.process;
  // Evidence taken after the end is only the host's kernel log.
  const bool looked_at = process.evidence != nullptr && process.evidence->took_ns() != 0;
  return rank.memberships.empty() && rank.ops.empty() && rank.threads.empty() && !looked_at && process.stack.empty() &&
         (process.python_stack.empty() || !process.exception.empty()) && HasEnded(process);
}

void AddWhatItIsNot(const Model& model, const std::vector<Cause>& causes, Verdict* verdict) {
  if (causes.empty()) return;
  const FindingKind kind = causes[0].kind;
  const bool stuck_inside = std::ranges::any_of(causes, [](const Cause& c) {
    return c.kind == COLLECTIVE_STUCK || c.kind == RANK_NO_DATA || MayBeNetwork(c.reason);
  });
  const std::vector<Problem>& problems = model.bundle.problems;
  const bool reported =
      std::ranges::any_of(problems, [](const Problem& problem) { return problem.like == kNetworkFailed; });
  if (model.stalled && !stuck_inside && !reported) RuleOut(NotTheCause::NETWORK, verdict);
  bool marks = false;
  for (const Rank& r : model.bundle.ranks) marks |= r.gpu_marks != ring::GpuMarks::kOff;
  if (kind == HOST_STALL && marks) RuleOut(NotTheCause::GPU, verdict);
}

// Finds what is stuck, which calls disagree and which processes ended. Owns the data that the causes refer to.
class StillSide {
 public:
  StillSide(const Model& model, const AnalyzeOptions& options, bool incomplete) : mismatches(FindMismatches(model)) {
    const std::vector<Rank>& ranks = model.bundle.ranks;
    const bool anyone_ended = std::ranges::any_of(
        ranks, [](const Rank& r) { return r.process.life == Life::kExited || r.process.life == Life::kKilled; });
    const bool disturbed = model.stalled || !mismatches.empty() || anyone_ended;
    if (disturbed || incomplete) divergences_ = FindDivergences(model);
    if (model.stalled) graph.emplace(model, mismatches);
    facts.emplace(model, mismatches, divergences_, graph ? &*graph : nullptr);
    causes = FromSinks(*facts);
    AddOneSided(*facts, options.late_after_ns, &causes);
    AddFromCreations(*facts, options.late_after_ns, &causes);
    if (disturbed) Append(FromDisagreement(*facts, causes));
    AddFromSplits(*facts, &causes);
    AddFromNewestGroups(*facts, &causes);
    Append(FromDeaths(*facts, causes));
    Append(FromEndsUnderWaits(*facts, causes, options.late_after_ns));
    DropDoubtful(&causes);
    Append(FromBeside(*facts, causes));
    BlameTheAhead(*facts, &causes);
    BlameTheSilent(*facts, &causes);
    JoinStorage(&causes);
    if (causes.empty()) Append(FromAbsence(*facts));
    Prefer(FromHashes);
    Prefer(FromAsyncErrors);
  }
  StillSide(const StillSide&) = delete;
  StillSide& operator=(const StillSide&) = delete;

  void Append(std::vector<Cause> more) {
    for (Cause& c : more) causes.push_back(std::move(c));
  }

  const std::vector<Mismatch> mismatches;
  std::optional<WaitGraph> graph;  // set if something is stuck
  std::optional<Facts> facts;
  std::vector<Cause> causes;

 private:
  // Calls with different hashes, and errors that NCCL reported, are stronger evidence than waits with an unknown
  // reason.
  void Prefer(std::vector<Cause> (*rule)(const Facts&)) {
    if (std::ranges::any_of(causes, [](const Cause& c) { return !c.doubtful || c.grade >= kAnyone; })) return;
    if (std::vector<Cause> found = rule(*facts); !found.empty()) causes = std::move(found);
  }

  std::vector<Divergence> divergences_;
};

// Finds what makes the job slow, from times alone.
struct SlowSide {
  explicit SlowSide(const Model& model)
      : timing(model), clocks(timing), slowness(timing, clocks), causes(slowness.Find()) {}

  const Timing timing;
  const Clocks clocks;
  Slowness slowness;
  std::vector<Cause> causes;
};

Verdict AnalyzeSeen(const Bundle& bundle, const AnalyzeOptions& options,
                    const std::function<void(const AnalysisView&)>& look) {
  Verdict verdict;
  verdict.set_job(bundle.job);
  verdict.set_stalled_ns(bundle.stalled_ns);
  verdict.set_ranks_read(static_cast<int32_t>(bundle.ranks.size()));
  verdict.set_ranks_only_ended(static_cast<int32_t>(std::ranges::count_if(bundle.ranks, OnlyEndKnown)));
  verdict.set_ranks_expected(std::max(bundle.ranks_expected, static_cast<int32_t>(bundle.ranks.size())));
  for (const Problem& p : bundle.problems) {
    auto* out = verdict.add_problems();
    out->set_path(p.path);
    out->set_offset(p.offset);
    out->set_text(p.text);
    out->set_rank(p.rank);
    out->set_like(p.like);
  }

  const Model model(bundle, options);
  const bool incomplete =
      verdict.ranks_read() < verdict.ranks_expected() || std::ranges::any_of(bundle.ranks, &Rank::damaged);
  const bool live = std::ranges::any_of(bundle.ranks, [](const Rank& r) {
    return r.captured_ns > 0 && !IsFramework(r) &&
           (r.process.life == Life::kRunning || r.process.life == Life::kUnknown);
  });
  // Runs both in parallel. Only the first one uses the tables that the model builds on first use.
  std::optional<StillSide> still;
  std::optional<SlowSide> slow;
  Parallel(2, [&](size_t side, size_t) {
    if (side == 0) {
      still.emplace(model, options, incomplete);
    } else {
      slow.emplace(model);
    }
  });
  still->Append(std::move(slow->causes));
  const Facts& facts = *still->facts;
  std::vector<Cause>& causes = still->causes;
  if (causes.empty()) still->Append(FromRendezvous(facts, options.late_after_ns));
  if (causes.empty()) still->Append(FromStacks(facts));
  const auto open = [](const Cause& c) { return (c.doubtful && c.hypothesis) || c.kind == RANK_NO_DATA; };
  if (!causes.empty() && std::ranges::all_of(causes, open)) {
    if (std::vector<Cause> elsewhere = FromStacksBesideCalls(facts); !elsewhere.empty()) causes = std::move(elsewhere);
  }
  // If nothing is stuck, no rank waits for a rank that left no data.
  if (causes.empty() && (model.stalled || bundle.known_stalled)) still->Append(FromMissing(facts));
  if (causes.empty()) still->Append(FromUnseenEnds(facts));
  FoldHostsOfFailedGpus(&causes);
  FoldByFactor(model, &causes);
  DoubtUnseenEnd(bundle, options.late_after_ns, &causes);
  DoubtKillsOnSeveralHosts(bundle, &causes);
  const std::vector<NotTheCause> legal =
      bundle.known_stalled ? std::vector<NotTheCause>() : TakeLegalOperations(model, options.late_after_ns, &causes);
  // If all ranks with data are in one call, a rank without data is more likely the cause than that call.
  const auto place = [](const Cause& c) {
    const int order = FindingFactsOf(c.kind).order, no_data = FindingFactsOf(RANK_NO_DATA).order;
    return c.reason == REASON_ALL_SEEN_IN ? 2 * std::max(order, no_data) + 1 : 2 * order;
  };
  // A fault that no rank waits for yet comes after the proven causes, but before guesses.
  const auto proven = [](const Cause& c) { return c.doubtful && c.grade < kAnyone ? 2 : c.beside ? 1 : 0; };
  std::ranges::stable_sort(causes, [&](const Cause& a, const Cause& b) {
    if (proven(a) != proven(b)) return proven(a) < proven(b);
    return a.doubtful != b.doubtful ? b.doubtful : place(a) < place(b);
  });

  verdict.set_verdict(VerdictOf(causes, bundle, live || MayOnlyBeSlow(model, causes)));
  for (const Cause& c : causes) {
    *verdict.add_findings() = ToFinding(facts, c);
  }
  AddWhatItIsNot(model, causes, &verdict);
  for (const NotTheCause& why : legal) *verdict.add_ruled_out() = why;
  SayWatchdogEnds(model, &verdict);
  if (causes.empty() && !legal.empty()) verdict.set_verdict(VERDICT_LATE);
  // Nothing was recorded. What is known of the ranks comes from the process that started them.
  const bool only_ends =
      verdict.ranks_only_ended() == verdict.ranks_read() && !std::ranges::all_of(bundle.ranks, IsFramework);
  if (!only_ends) {
    slow->clocks.Fill(&verdict);
    slow->slowness.Fill(&verdict);
    ExplainStartUp(model, &verdict);
  }
  AddCheckpoints(bundle, &verdict);
  SayWhatIsNotWrapped(bundle, &verdict);
  SayWhatHadNoRoom(bundle.ranks, &verdict);
  if (!causes.empty() && OnlyProcessesKnown(bundle)) {
    // An exit or exception that the launcher or the process itself reported is evidence without calls and stacks.
    const bool reported_ends =
        std::ranges::all_of(causes, [](const Cause& c) { return c.kind == RANK_DEAD && c.waiting.empty(); });
    if (!reported_ends) AddNotSeen(NotSeen::CALLS_BY_STACKS, {}, &verdict);
    SayWhatWasRefused(bundle, &verdict);
  }
  if (causes.empty()) {
    const bool damaged = std::ranges::any_of(bundle.ranks, &Rank::damaged);
    if (damaged || only_ends || verdict.ranks_read() == 0 || verdict.ranks_read() < verdict.ranks_expected())
      verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
    for (const Problem& p : bundle.problems) {
      if (!p.note) verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
    }
    SayWhatIsNotSeen(model, options.late_after_ns, &verdict);
    if (!bundle.ranks.empty() && !only_ends && !OnlyProcessesKnown(bundle))
      AddNotSeen(NotSeen::SAME_VALUES, {}, &verdict);
  }
  PutIntoWords(&verdict);
  if (look)
    look({model, still->mismatches, still->graph ? &*still->graph : nullptr, slow->timing, slow->clocks, slow->slowness,
          verdict});
  return verdict;
}

}  // namespace

Verdict Analyze(const Bundle& bundle, const AnalyzeOptions& options) { return AnalyzeAndLook(bundle, options, {}); }

Verdict AnalyzeAndLook(const Bundle& bundle, const AnalyzeOptions& options,
                       const std::function<void(const AnalysisView&)>& look) {
  if (std::ranges::none_of(bundle.ranks, IsBlind)) return AnalyzeSeen(bundle, options, look);
  return AnalyzeSeen(WithoutBlindRanks(bundle), options, look);
}

}  // namespace lockstep
