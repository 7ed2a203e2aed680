#include "tests/corpus/shown.h"

#include <algorithm>

namespace lockstep::corpus {
namespace {

uint64_t MixText(uint64_t h, const std::string& text) {
  for (const char c : text) h = Mix(h, static_cast<uint8_t>(c));
  return h;
}

// Returns a hash of what is written about a rank once nothing moves. Times are left out, because they differ between
// any two runs.
uint64_t Written(const Simulator& run, const DumpOptions& dump, bool fr, int32_t rank) {
  CaptureOptions options = dump.capture;
  options.at = kNever / 2;
  options.jitter = 0;
  options.expand = false;
  const RankView view = Capture(run, options, rank);
  uint64_t h = 1;
  auto add = [&](uint64_t value) { h = Mix(h, value); };
  for (const OpView& op : view.ops) {
    const bool operation = op.instr->act == Act::kCall || op.instr->act == Act::kAllToAllV;
    if (fr && (!operation || op.recent_only || op.replay != 0 || op.stage == Stage::kFailed))
      continue;  // fr_file.cpp leaves these operations out, too
    add(static_cast<uint64_t>(op.kind));
    add(static_cast<uint64_t>(op.slot) << 32 | op.seq);
    add(op.count);
    add(static_cast<uint64_t>(static_cast<uint32_t>(op.root_or_peer)) << 32 | op.instr->datatype << 8 |
        (fr ? 0 : op.instr->reduction));
    const bool started = op.stage == Stage::kStarted && fr && !dump.timing;
    add(static_cast<uint64_t>(started ? Stage::kEnqueued : op.stage));
  }
  for (const CommView& c : view.comms) {
    if (fr && c.ready == 0) continue;
    // Graph launches make no calls that a framework would count.
    const auto issued = static_cast<uint64_t>(fr ? c.called : c.issued);
    add(static_cast<uint64_t>(c.slot) << 56 | issued << 28 |
        (fr && c.called != c.issued ? 0 : static_cast<uint64_t>(c.done)));
    add(static_cast<uint64_t>(c.p2p) << 32 | c.all_to_alls);
    if (fr) continue;
    add(c.hash);
    add(static_cast<uint64_t>(c.state) << 32 | static_cast<uint32_t>(c.async_error));
  }
  if (fr) return h;
  for (const ThreadView& t : view.threads) {
    add(static_cast<uint64_t>(t.call) << 32 | static_cast<uint64_t>(t.wait));
    add(t.group_depth);
  }
  for (const StreamView& s : view.streams) {
    add(static_cast<uint64_t>(s.issued) << 32 | s.completed);
    add(static_cast<uint64_t>(s.started) << 32 | static_cast<uint32_t>(s.first_error));
  }
  add(static_cast<uint64_t>(view.status));
  if (dump.facts) {
    for (const std::string& frame : dump.facts(rank, view.status).stack) h = MixText(h, frame);
  }
  return h;
}

bool AnyoneDiffers(const Simulator& a, const Simulator& b, const DumpOptions& dump, bool fr,
                   const std::set<int32_t>& unreadable) {
  for (int32_t r = 0; r < a.job().ranks; ++r) {
    if (unreadable.count(r) == 0 && Written(a, dump, fr, r) != Written(b, dump, fr, r)) return true;
  }
  return false;
}

// Returns whether a rank with the same program got past the fault. Only its calls show that the culprits' calls are
// different, missing or extra.
bool SomebodyCameAsFar(const Simulator& run, const std::vector<std::shared_ptr<const Program>>& base,
                       const std::vector<int32_t>& culprits, int fault, const std::set<int32_t>& unreadable) {
  for (int32_t r = 0; r < run.job().ranks; ++r) {
    if (unreadable.count(r) > 0 || std::find(culprits.begin(), culprits.end(), r) != culprits.end()) continue;
    for (int32_t c : culprits) {
      if (base[static_cast<size_t>(r)] == base[static_cast<size_t>(c)] &&
          run.ranks()[static_cast<size_t>(r)].pc > run.StruckAt(fault))
        return true;
    }
  }
  return false;
}

}  // namespace

std::set<int32_t> Unreadable(const Simulator& run, const DumpOptions& dump, bool fr) {
  std::set<int32_t> ranks = dump.missing;
  ranks.insert(dump.cut.begin(), dump.cut.end());
  ranks.insert(dump.other_run.begin(), dump.other_run.end());
  if (!fr) return ranks;
  ranks.insert(dump.empty.begin(), dump.empty.end());
  // The process itself writes a framework's dump.
  for (int32_t r = 0; r < run.job().ranks; ++r) {
    const HostStatus status = run.ranks()[static_cast<size_t>(r)].status;
    if (status == HostStatus::kDead || status == HostStatus::kExited || status == HostStatus::kFrozen) ranks.insert(r);
  }
  return ranks;
}

std::set<int32_t> WaitedForUnseen(const Simulator& run, const std::set<int32_t>& unreadable) {
  std::set<int32_t> ranks;
  for (const Standing& standing : run.StandingStill()) {
    const auto readable = [&](int32_t r) { return unreadable.count(r) == 0; };
    if (std::none_of(standing.inside.begin(), standing.inside.end(), readable)) continue;
    if (std::any_of(standing.absent.begin(), standing.absent.end(), readable)) continue;
    for (const auto* side : {&standing.inside, &standing.absent}) {
      for (int32_t r : *side) {
        if (!readable(r)) ranks.insert(r);
      }
    }
  }
  return ranks;
}

void SettleTwoFaults(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                     const std::vector<std::shared_ptr<const Program>>& before_second, const SimOptions& options,
                     Outcome* outcome) {
  Truth& truth = outcome->truth;
  const Simulator& run = *outcome->run;
  const std::set<int32_t> unreadable = Unreadable(run, outcome->dump, request.fr);
  const std::set<int32_t> unseen = WaitedForUnseen(run, unreadable);
  auto lost = [&](const std::vector<int32_t>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(), [&](int32_t r) { return unreadable.count(r) > 0; });
  };
  truth.unseen_ranks.assign(unseen.begin(), unseen.end());
  // If others wait for several ranks without data, each of these may be the culprit.
  const bool told_apart = std::all_of(unseen.begin(), unseen.end(), [&](int32_t r) {
    return std::count(truth.culprit_ranks.begin(), truth.culprit_ranks.end(), r) +
               std::count(truth.second_ranks.begin(), truth.second_ranks.end(), r) >
           0;
  });
  auto waited_for = [&](const std::vector<int32_t>& ranks) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int32_t r) { return unreadable.count(r) == 0 || (told_apart && unseen.count(r) > 0); });
  };
  static const std::string kNeeds =
      "its own dump: the other fault stopped the job before another rank's record could show it";
  static const std::string kHidden =
      "a job that continues: the other fault stopped all ranks before this one could show";

  SimOptions without_second = options;
  Job first_job = outcome->job;
  truth.second_shown = waited_for(truth.second_ranks);
  if (before_second.empty()) {
    without_second.without = 2;
  } else {
    for (int32_t r : truth.second_ranks)
      first_job.programs[static_cast<size_t>(r)] = before_second[static_cast<size_t>(r)];
    truth.second_shown = truth.second_shown && SomebodyCameAsFar(run, before_second, truth.second_ranks, 1, unreadable);
  }
  Simulator first_only(first_job, without_second);
  first_only.Run();
  truth.second_shown = truth.second_shown && AnyoneDiffers(run, first_only, outcome->dump, request.fr, unreadable);
  if (!truth.second_shown) truth.second_needs = lost(truth.second_ranks) ? kNeeds : kHidden;

  if (!truth.identifiable) return;
  // To remove a fault of the program, the job runs the original program. To remove any other fault, it skips the
  // instructions that cause the fault.
  static const std::set<int> kOfProgram{1, 2, 3, 4, 5, 6, 11, 12, 22, 24, 25, 26, 31};
  Job job = outcome->job;
  SimOptions without_first = options;
  bool shown = waited_for(truth.culprit_ranks);
  if (kOfProgram.count(request.scenario) > 0) {
    for (int32_t r : truth.culprit_ranks) job.programs[static_cast<size_t>(r)] = base[static_cast<size_t>(r)];
    // A rank that left its loop is visibly elsewhere or missing, even if the others did not get far.
    if (request.scenario != 11) shown = shown && SomebodyCameAsFar(run, base, truth.culprit_ranks, 0, unreadable);
    // Sizes of an all-to-all may legally differ everywhere. A wrong row is visible only next to its peer's row.
    if (request.scenario == 6) {
      const std::vector<int32_t>& pair = truth.set_allowed.back();
      shown = shown && std::all_of(pair.begin(), pair.end(), [&](int32_t r) {
                return unreadable.count(r) == 0 && run.ranks()[static_cast<size_t>(r)].pc > run.StruckAt(0);
              });
    }
  } else {
    without_first.without = 1;
  }
  Simulator second_only(job, without_first);
  second_only.Run();
  shown = shown && AnyoneDiffers(run, second_only, outcome->dump, request.fr, unreadable);
  if (shown) return;
  truth.identifiable = false;
  truth.needs = lost(truth.culprit_ranks) ? kNeeds : kHidden;
}

}  // namespace lockstep::corpus
