#include "analyzer/engine/engine.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/one_sided.h"
#include "analyzer/engine/rules/unseen_end.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/engine/unwrapped.h"
#include "analyzer/engine/view.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/words/words.h"

namespace lockstep {
namespace {

VerdictKind VerdictOf(const std::vector<Cause>& causes, const Bundle& bundle, bool live) {
  if (causes.empty()) return VERDICT_HEALTHY;
  const VerdictKind verdict = FindingFactsOf(causes[0].kind).verdict;
  if (verdict != VERDICT_UNSPECIFIED) return verdict;
  // Read from a live job that is not known to be stuck, or seen working: it may only be slow.
  return (live || causes[0].moving) && !bundle.known_stalled ? VERDICT_LATE : VERDICT_HUNG;
}

// For these reasons, an operation that never ends in the network is an alternative explanation.
bool MayBeNetwork(Reason reason) {
  switch (reason) {
    case REASON_FINISHED_ALONE:
    case REASON_GPU_STOPPED_AFTER:
    case REASON_WRONG_PEER:
    case REASON_TWO_STREAMS_STUCK:
    case REASON_STOPPED_WHILE_OTHERS_WAIT:
    case REASON_EXITED_WHILE_OTHERS_WAIT:
      return true;
    default:
      return false;
  }
}

void AddWhatItIsNot(const Model& model, const std::vector<Cause>& causes, Verdict* verdict) {
  if (causes.empty()) return;
  const FindingKind kind = causes[0].kind;
  const bool stuck_inside = std::any_of(causes.begin(), causes.end(), [](const Cause& c) {
    return c.kind == COLLECTIVE_STUCK || MayBeNetwork(c.reason);
  });
  if (model.stalled && !stuck_inside)
    RuleOut(NotTheCause::NETWORK, "no stuck operation has all its members in it", verdict);
  bool marks = false;
  for (const Rank& r : model.bundle.ranks) marks |= r.gpu_marks != ring::GpuMarks::kOff;
  if ((kind == HOST_STALL || kind == RANK_DEAD) && marks)
    RuleOut(NotTheCause::GPU, "the earlier operations of the named ranks are complete or wait for other ranks",
            verdict);
}

// How long the members have been in a cause's collective; -1: unknown. A damaged file may not contain its capture time,
// so every member is tried.
int64_t AgeOf(const Model& model, const Cause& c) {
  const auto tells = [](const Rank& rank, const Op& op) {
    return !rank.damaged && rank.captured_ns > 0 && op.enter_ns > 0 && op.enter_ns <= rank.captured_ns;
  };
  const Rank& first = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
  if (tells(first, *c.op)) return first.captured_ns - c.op->enter_ns;
  for (const Member& m : model.comms[c.comm].members) {
    const Op* op = model.FindCollective(m, c.op->seq);
    if (op == nullptr) continue;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(m.rank_index)];
    if (tells(rank, *op)) return rank.captured_ns - op->enter_ns;
  }
  return first.captured_ns > 0 ? first.captured_ns - c.op->enter_ns : -1;
}

// The first operation of a communicator connects its members, which takes time. If all members are in it at the first
// look at the job, that is at most late. The same holds for an operation that no GPU has reached because computation is
// ahead of it. Removes such causes and says why each is not a hang yet.
std::vector<std::string> TakeLegalOperations(const Model& model, std::vector<Cause>* causes) {
  constexpr int64_t kMayConnect = 120'000'000'000, kMayCompute = 120'000'000'000;
  std::vector<std::string> legal;
  std::erase_if(*causes, [&](const Cause& c) {
    const bool unseen = c.kind == RANK_NO_DATA && c.first_only;
    if (c.first_lost != kNoIndex && c.op == nullptr && (unseen || c.kind != RANK_NO_DATA)) {
      // Its record is gone because the job continued beside it. The newest call limits how long ago that was.
      const Rank& rank = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
      int64_t newest = 0;
      for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
      if (rank.captured_ns <= 0 || rank.captured_ns - newest > kMayConnect) return false;
      legal.push_back(absl::StrCat("all members", unseen ? " that left data" : "", " are in the first operation of ",
                                   CommText(model.bundle.comms[c.first_lost]),
                                   ", whose record is gone; look again in a minute"));
      return true;
    }
    if (c.op == nullptr || c.op_rank < 0 || c.comm == kNoIndex || !ring::IsCollective(c.op->kind)) return false;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
    // If the waiting rank's own record is lost, the operation may be the one that another member recorded.
    const auto m = std::find_if(rank.memberships.begin(), rank.memberships.end(),
                                [&](const Membership& ms) { return ms.comm == c.comm; });
    if (m == rank.memberships.end()) return false;
    const int64_t age = AgeOf(model, c);
    if (c.not_begun) {
      if (age > kMayCompute) return false;
      legal.push_back(absl::StrCat("no GPU has started ", OpText(model.bundle, rank, *c.op), " on ",
                                   CommText(model.bundle.comms[c.comm]),
                                   "; non-NCCL work is ahead of it; look again in a minute"));
      return true;
    }
    // A rank that left no data may be in it as well.
    if ((c.kind != COLLECTIVE_STUCK && !unseen) || c.op->seq != m->first_seq || age < 0 || age > kMayConnect)
      return false;
    legal.push_back(absl::StrCat("all members", unseen ? " that left data" : "", " are in ",
                                 OpText(model.bundle, rank, *c.op), " on ", CommText(model.bundle.comms[c.comm]),
                                 ", the first operation of its communicator; look again in a minute"));
    return true;
  });
  return legal;
}

constexpr Grade kProven = GRADE_GOOD;
constexpr Grade kAnyone = GRADE_OPEN;  // below it, a set contains every rank that nothing clears

// Once calls are known to disagree, a rank that waits for a GPU without recorded progress is most likely a victim.
void DropDoubtful(std::vector<Cause>* causes) {
  const bool proven =
      std::any_of(causes->begin(), causes->end(), [](const Cause& c) { return !c.doubtful && c.grade >= kProven; });
  if (proven) std::erase_if(*causes, [](const Cause& c) { return c.doubtful; });
}

// A process that its stack shows waiting for another one outside NCCL is a victim of whichever named rank does not wait
// like that.
void DropWaitersOutside(std::vector<Cause>* causes) {
  const auto waits = [](const Cause& c) { return c.stall == Stall::kRendezvous; };
  const bool root = std::any_of(causes->begin(), causes->end(), [&](const Cause& c) {
    return FindingFactsOf(c.kind).host_shows_why && !c.doubtful && !c.beside && !waits(c);
  });
  if (root) std::erase_if(*causes, waits);
}

// Hosts that wait for files at the same time wait for one thing, whether or not other ranks wait for each of them yet.
void JoinStorage(std::vector<Cause>* causes) {
  const auto files = [](const Cause& c) {
    return c.kind == HOST_STALL && c.missing.empty() && (c.stall == Stall::kCheckpoint || c.stall == Stall::kStorage);
  };
  const auto first =
      std::find_if(causes->begin(), causes->end(), [&](const Cause& c) { return files(c) && !c.beside; });
  if (first == causes->end()) return;
  for (Cause& c : *causes) {
    if (!files(c) || !c.beside) continue;
    first->ranks.insert(first->ranks.end(), c.ranks.begin(), c.ranks.end());
    first->nodes.insert(first->nodes.end(), c.nodes.begin(), c.nodes.end());
    for (auto& evidence : c.evidence) first->evidence.push_back(std::move(evidence));
    c.kind = FINDING_UNSPECIFIED;
  }
  std::sort(first->ranks.begin(), first->ranks.end());
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

// A GPU that reported a CUDA error explains why its own process hangs: one finding, about the GPU.
void FoldHostsOfFailedGpus(std::vector<Cause>* causes) {
  for (Cause& gpu : *causes) {
    if (gpu.kind != GPU_STALL || gpu.grade < GRADE_RECORDED) continue;
    for (Cause& host : *causes) {
      if (host.kind != HOST_STALL || host.ranks != gpu.ranks || !host.missing.empty()) continue;
      for (auto& evidence : host.evidence) gpu.evidence.push_back(std::move(evidence));
      gpu.nodes.insert(gpu.nodes.end(), host.nodes.begin(), host.nodes.end());
      host.kind = FINDING_UNSPECIFIED;
    }
  }
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

std::string RanksAre(const std::vector<int32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks), ranks.size() == 1 ? " is" : " are");
}

// Ranks whose stacks could not be read, in a job without recorded calls.
std::vector<int32_t> SayWhatWasRefused(const Bundle& bundle, Verdict* verdict) {
  std::vector<int32_t> refused;
  std::string why;
  for (const Rank& rank : bundle.ranks) {
    if (PlaceOfProcess(rank.process).where != Whereabouts::kUnknown) continue;
    refused.push_back(rank.rank);
    if (why.empty()) why = rank.process.stack_refused;
  }
  if (!refused.empty())
    verdict->add_blind(absl::StrCat("where ", RanksAre(refused), ": ", why.empty() ? "no stack was taken" : why));
  return refused;
}

// For verdicts that name no rank, of jobs with only stacks.
void SayWhatStacksLeaveOpen(const Bundle& bundle, Verdict* verdict) {
  verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
  std::vector<int32_t> moved, stopped;
  for (const Rank& rank : bundle.ranks) {
    const ProcessPlace place = PlaceOfProcess(rank.process);
    if (place.moved || place.works) moved.push_back(rank.rank);
    if (place.where == Whereabouts::kStopped) stopped.push_back(rank.rank);
  }
  if (!stopped.empty()) {
    verdict->add_blind(
        absl::StrCat("what the job would do: ", RanksAre(stopped), " stopped by a signal or a debugger"));
  }
  if (!moved.empty()) {
    verdict->add_blind(absl::StrCat("whether the job hangs: ", RanksAre(moved),
                                    " moving: CPU time, I/O or another stack at the second look. Look again later"));
  }
  if (SayWhatWasRefused(bundle, verdict).size() == bundle.ranks.size()) return;
  verdict->add_blind(
      "what the ranks wait for: only their stacks are known, and no small group of ranks is in a different place "
      "from the rest. Flight Recorder dumps or the log of NCCL's calls (NCCL_DEBUG=INFO, "
      "NCCL_DEBUG_SUBSYS=INIT,COLL) would show it");
}

// For verdicts that name no rank: says which hangs would leave the same recording, and does not call the job healthy.
void SayWhatIsNotSeen(const Model& model, int64_t late_after_ns, Verdict* verdict) {
  const std::vector<Rank>& ranks = model.bundle.ranks;
  if (OnlyProcessesKnown(model.bundle)) return SayWhatStacksLeaveOpen(model.bundle, verdict);
  if (ranks.size() < 2) return;
  const bool frameworks =
      std::all_of(ranks.begin(), ranks.end(), [](const Rank& r) { return r.source == Source::kFlightRecorder; });
  const auto called = [](const Rank& r) {
    return !r.ops.empty() ||
           std::any_of(r.memberships.begin(), r.memberships.end(), [](const Membership& ms) { return ms.issued > 0; });
  };
  if (frameworks && std::none_of(ranks.begin(), ranks.end(), called)) {
    verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
    verdict->add_blind(
        "whether the job began: no dump holds a call. A rank that never reaches the creation of the first communicator "
        "leaves the same data: look for one whose stack is not in init_process_group; Lockstep's own recorder would "
        "show it");
    return;
  }
  if (frameworks && model.bundle.known_stalled) {
    verdict->add_blind(
        "communicators being created: a framework's dump lists them only after creation, so a rank that never reaches "
        "one is not seen");
  }
  if (frameworks && !model.bundle.known_stalled && verdict->verdict() == VERDICT_HEALTHY) {
    constexpr int64_t kMoves = 2'000'000'000;  // a running job calls NCCL more often than this
    int64_t newest = 0, taken = 0;
    for (const Rank& rank : ranks) {
      taken = std::max(taken, rank.captured_ns);
      for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
    }
    if (taken == 0 || taken - newest > kMoves) {
      verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
      verdict->add_blind(absl::StrCat(
          "whether the job is still running: ",
          taken == 0 ? std::string("the age of the newest record is unknown")
                     : absl::StrFormat("the newest record is %.0f s older than the dumps",
                                       static_cast<double>(taken - newest) / 1e9),
          ". It may have ended, or it may hang where nothing is recorded: in a barrier or store outside NCCL, in the "
          "creation of a communicator, or in a data loader. The ranks' stacks would show it"));
    }
  }
  // Without GPU marks, a finished operation and one that never ends look the same. The waits of the CPU threads do not.
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto* thread = model.ranks[i].thread;
    const bool waits = model.ranks[i].host == HostState::kInWait && thread != nullptr && thread->wait_since_ns > 0 &&
                       ranks[i].captured_ns > 0 && ranks[i].gpu_marks == ring::GpuMarks::kOff;
    if (!waits) return;
    least = std::min(least, ranks[i].captured_ns - thread->wait_since_ns);
  }
  if (least < late_after_ns) return;
  verdict->set_verdict(model.bundle.known_stalled ? VERDICT_HUNG : VERDICT_LATE);
  verdict->add_blind(
      absl::StrFormat("what the GPUs are doing: every process has waited for its own GPU for %.0f s or more, and GPU "
                      "marks are off. A stuck GPU, a network that does not deliver and a long computation look the "
                      "same; GPU marks would tell them apart",
                      static_cast<double>(least) / 1e9));
}

// Rings that a small file system had no room for.
void SayWhatHadNoRoom(const std::vector<Rank>& ranks, Verdict* verdict) {
  std::map<uint64_t, std::vector<int32_t>> small;  // by the ring's size
  std::vector<int32_t> in_memory;
  for (const Rank& rank : ranks) {
    if (rank.ring_place == ring::RingPlace::kMemory) {
      in_memory.push_back(rank.rank);
    } else if (rank.ring_bytes > 0 && rank.ring_bytes < rank.wanted_ring_bytes) {
      small[rank.ring_bytes].push_back(rank.rank);
    }
  }
  const auto named = [](const std::vector<int32_t>& of) {
    return absl::StrCat(of.size() == 1 ? "rank " : "ranks ", FoldRanks(of));
  };
  for (const auto& [bytes, of] : small) {
    verdict->add_blind(absl::StrCat("older calls of ", named(of), ": the ring has only ", bytes >> 10,
                                    " KiB, because its file system is small. Give /dev/shm more room"));
  }
  if (!in_memory.empty()) {
    verdict->add_blind(absl::StrCat("calls of ", named(in_memory),
                                    ", if a process is killed while nothing watches it: the file system had no room, "
                                    "so the ring is in the memory of that process. Give /dev/shm more room"));
  }
}

// A rank whose recording was stopped (by a switch or its budget), or whose process runs another program since (exec).
// What it did after that is unknown, so a missing record proves nothing. How its process ended is known anyway.
bool IsBlind(const Rank& rank) {
  const bool stopped =
      rank.recorder_state == ring::RecorderState::kStopped || rank.recorder_state == ring::RecorderState::kReplaced;
  const bool died =
      rank.process.life == Life::kKilled || (rank.process.life == Life::kExited && rank.process.exit_code != 0);
  return stopped && !died;
}

std::string StoppedText(const Rank& rank) {
  std::string at;
  const time_t seconds = (rank.stopped_ns + rank.real_minus_mono_ns) / 1'000'000'000;
  tm utc{};
  char text[32];
  if (rank.stopped_ns > 0 && gmtime_r(&seconds, &utc) != nullptr &&
      strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc) > 0) {
    at = absl::StrCat(" at ", text);
  }
  return absl::StrCat("recording stopped", at,
                      " because: ", rank.stop_reason.empty() ? "no reason is given" : rank.stop_reason, "; what rank ",
                      rank.rank, " did after that is not known");
}

// The bundle without these ranks, and the reason.
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

// What is stuck, which calls disagree, and which processes ended. Owns what its causes refer to.
class StillSide {
 public:
  StillSide(const Model& model, const AnalyzeOptions& options, bool incomplete) : mismatches(FindMismatches(model)) {
    const std::vector<Rank>& ranks = model.bundle.ranks;
    const bool anyone_ended = std::any_of(ranks.begin(), ranks.end(), [](const Rank& r) {
      return r.process.life == Life::kExited || r.process.life == Life::kKilled;
    });
    const bool disturbed = model.stalled || !mismatches.empty() || anyone_ended;
    if (disturbed || incomplete) divergences_ = FindDivergences(model);
    if (model.stalled) graph.emplace(model, mismatches);
    finder.emplace(model, mismatches, divergences_, graph ? &*graph : nullptr);
    causes = finder->FromSinks();
    AddOneSided(model, options.late_after_ns, &causes);
    finder->AddFromCreations(options.late_after_ns, &causes);
    if (disturbed) Append(finder->FromDisagreement(causes));
    finder->AddFromSplits(&causes);
    finder->AddFromNewestGroups(&causes);
    Append(finder->FromDeaths(causes));
    Append(finder->FromEndsUnderWaits(causes, options.late_after_ns));
    DropDoubtful(&causes);
    Append(finder->FromBeside(causes));
    finder->BlameTheAhead(&causes);
    finder->BlameTheSilent(&causes);
    DropUnseenBesideSeen();
    DropWaitersOutside(&causes);
    JoinStorage(&causes);
    if (causes.empty()) Append(finder->FromAbsence());
    if (causes.empty()) Append(finder->FromHashes());
    PreferReported();
  }
  StillSide(const StillSide&) = delete;
  StillSide& operator=(const StillSide&) = delete;

  void Append(std::vector<Cause> more) {
    for (Cause& c : more) causes.push_back(std::move(c));
  }

  const std::vector<Mismatch> mismatches;
  std::optional<WaitGraph> graph;  // where something is stuck
  std::optional<Causes> finder;
  std::vector<Cause> causes;

 private:
  // An error that NCCL reported is stronger evidence than waits with an unknown reason.
  void PreferReported() {
    if (std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return !c.doubtful || c.grade >= kAnyone; }))
      return;
    if (std::vector<Cause> reported = finder->FromAsyncErrors(); !reported.empty()) causes = std::move(reported);
  }

  // Drops ranks that are named only because their records are gone, where another rank is seen to be stuck.
  void DropUnseenBesideSeen() {
    if (std::none_of(causes.begin(), causes.end(),
                     [](const Cause& c) { return c.beside && !c.doubtful && c.grade >= kProven; }))
      return;
    const size_t before = causes.size();
    std::erase_if(causes, [](const Cause& c) { return c.doubtful && c.grade < kAnyone; });
    if (causes.size() == before || std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return !c.beside; }))
      return;
    for (Cause& c : causes) c.beside = false;
  }

  std::vector<Divergence> divergences_;
};

// What makes the job slow. It uses times alone, independent of what is stuck, and runs in parallel.
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
      verdict.ranks_read() < verdict.ranks_expected() ||
      std::any_of(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& r) { return r.damaged; });
  const bool live = std::any_of(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& r) {
    return r.captured_ns > 0 && r.source != Source::kFlightRecorder &&
           (r.process.life == Life::kRunning || r.process.life == Life::kUnknown);
  });
  // Runs both in parallel. Neither changes the model except its tables of sends, which only the first one builds.
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
  Causes& finder = *still->finder;
  std::vector<Cause>& causes = still->causes;
  if (causes.empty()) still->Append(finder.FromReplays());
  if (causes.empty()) still->Append(finder.FromRendezvous(options.late_after_ns));
  if (causes.empty()) still->Append(finder.FromStacks());
  // If nothing is stuck, no rank waits for a rank that left no data.
  if (causes.empty() && (model.stalled || bundle.known_stalled)) still->Append(finder.FromMissing());
  if (causes.empty()) still->Append(finder.FromUnseenEnds());
  FoldHostsOfFailedGpus(&causes);
  FoldByFactor(model, &causes);
  DoubtUnseenEnd(bundle, options.late_after_ns, &causes);
  const std::vector<std::string> legal =
      bundle.known_stalled ? std::vector<std::string>() : TakeLegalOperations(model, &causes);
  std::stable_sort(causes.begin(), causes.end(), [](const Cause& a, const Cause& b) {
    if (a.beside != b.beside) return b.beside;
    return a.doubtful != b.doubtful ? b.doubtful : FindingFactsOf(a.kind).order < FindingFactsOf(b.kind).order;
  });

  verdict.set_verdict(VerdictOf(causes, bundle, live));
  for (const Cause& c : causes) {
    Finding* finding = verdict.add_findings();
    *finding = finder.ToFinding(c);
    PutIntoWords(finding);
  }
  AddWhatItIsNot(model, causes, &verdict);
  for (const std::string& why : legal) RuleOut(NotTheCause::HANG, why, &verdict);
  SayWatchdogEnds(model, &verdict);
  if (causes.empty() && !legal.empty()) verdict.set_verdict(VERDICT_LATE);
  slow->clocks.Fill(&verdict);
  slow->slowness.Fill(&verdict);
  ExplainStartUp(bundle, &verdict);
  SayWhatIsNotWrapped(bundle, &verdict);
  SayWhatHadNoRoom(bundle.ranks, &verdict);
  if (causes.empty() && !bundle.ranks.empty()) {
    verdict.add_blind(
        "whether all ranks computed the same values: nothing records checksums; compare gradient norms or parameter "
        "checksums per rank");
  }
  if (!causes.empty() && OnlyProcessesKnown(bundle)) {
    verdict.add_blind(
        "what the ranks called: nothing recorded their NCCL calls, so this rests on stacks and states of processes");
    SayWhatWasRefused(bundle, &verdict);
  }
  if (causes.empty()) {
    const bool damaged = std::any_of(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& r) { return r.damaged; });
    if (damaged || verdict.ranks_read() < verdict.ranks_expected()) verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
    for (const Problem& p : bundle.problems) {
      if (!p.note) verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
    }
    SayWhatIsNotSeen(model, options.late_after_ns, &verdict);
  }
  if (look)
    look({model, still->mismatches, still->graph ? &*still->graph : nullptr, slow->timing, slow->clocks, slow->slowness,
          verdict});
  return verdict;
}

}  // namespace

Verdict Analyze(const Bundle& bundle, const AnalyzeOptions& options) {
  return AnalyzeAndLook(bundle, options, {});
}

Verdict AnalyzeAndLook(const Bundle& bundle, const AnalyzeOptions& options,
                       const std::function<void(const AnalysisView&)>& look) {
  if (std::none_of(bundle.ranks.begin(), bundle.ranks.end(), IsBlind)) return AnalyzeSeen(bundle, options, look);
  return AnalyzeSeen(WithoutBlindRanks(bundle), options, look);
}

}  // namespace lockstep
