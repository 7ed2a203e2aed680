#include "collector/run/watch.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/report/report.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"
#include "collector/detect/decision_log.h"
#include "collector/evidence/evidence.h"
#include "collector/host/environment.h"
#include "collector/host/host_network.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr int64_t kShortTick = 100 * kMs;
constexpr int64_t kIdleTick = 250 * kMs;
constexpr int64_t kLongestTick = 1000 * kMs;
// Sampling takes about 1/kCostShare of a core, or more if kLongestTick limits the time between ticks.
constexpr int64_t kCostShare = 100;
// Slightly longer than the minimum interval between two samples of a process, so each judgment has new samples.
constexpr int64_t kJudgementEvery = 1050 * kMs;
// Processes without progress for this long are sampled.
constexpr int64_t kSampleAfter = 1500 * kMs;
// A verdict waits at most this long for stacks that are being taken.
constexpr int64_t kEvidenceWait = 2000 * kMs;
// Maximum number of decisions per episode that are kept for the incident folder.
constexpr size_t kMostDecisions = 1000;
// Number of rolling hashes kept per communicator, because members are read at different sequence numbers.
constexpr size_t kHashPoints = 1024;

size_t CountAlive(const std::vector<DigestView>& views) {
  return static_cast<size_t>(
      std::count_if(views.begin(), views.end(), [](const DigestView& view) { return view.alive; }));
}

}  // namespace

Watch::Watch(const WatchOptions& options, Agent* agent)
    : options_(options),
      agent_(agent),
      lateness_(options.limits.late_after),
      detector_(options.limits),
      desync_(kHashPoints) {
  host_ = HostName();
  ThisHostNetwork();  // read now: a broken adapter can make this slow
  if (options.group) shared_.SetGroup(*options.group);
  if (!options.hook.command.empty()) hook_ = std::make_unique<VerdictHook>(options.hook);
}

void Watch::Started(int rank, pid_t pid) {
  StartedRank& started = started_[pid];
  started.rank = rank;
  started.pid = pid;
  started.process.life = Life::kRunning;
}

void Watch::Ended(pid_t pid, const ProcessEnd& end) {
  agent_->Ended(pid, end);
  if (const auto found = started_.find(pid); found != started_.end()) {
    SetEnd(end.wait_status, &found->second.process);
    found->second.process.ended_mono_ns = end.mono_ns;
  }
}

void Watch::Ending(int64_t now) {
  if (ending_since_ == 0) ending_since_ = now;
}

void Watch::Rebase(int64_t now) {
  lateness_.Rebase(now);
  detector_.Rebase(now);
}

int32_t Watch::RankOf(int32_t slot) const {
  if (slot < -1) return -2 - slot;  // the process exited before it had a ring
  const int32_t rank = agent_->digest(slot).process.rank;
  return rank >= 0 ? rank : slot;
}

const Process& Watch::ProcessOf(int32_t slot) const {
  static const Process kNone;
  if (slot >= 0) return agent_->process(slot);
  for (const auto& [pid, started] : started_) {
    if (started.rank == -2 - slot) return started.process;
  }
  return kNone;
}

int64_t Watch::LastProgress(const std::vector<int32_t>& slots) const {
  int64_t last = 0;
  for (int32_t slot : slots.empty() ? slots_ : slots) last = std::max(last, lateness_.ProgressOf(slot));
  return last;
}

std::vector<StartedRank*> Watch::WithoutRing() {
  std::set<int32_t> recorded;
  for (const ring::Snapshot* digest : agent_->Digests()) recorded.insert(digest->process.pid);
  std::vector<StartedRank*> ranks;
  for (auto& [pid, started] : started_) {
    if (started.rank >= 0 && recorded.count(pid) == 0) ranks.push_back(&started);
  }
  return ranks;
}

Watch::Gathered Watch::Gather(bool whole, bool stalled, int64_t stalled_ns) {
  std::vector<RingInput> inputs = agent_->Collect(whole);
  // A rank that exits or hangs before its first NCCL call has no ring, but belongs to the job.
  ring::ProcessInfo sample;
  if (!inputs.empty()) {
    sample = inputs[0].snapshot.process;
  } else {
    sample.boot_id = BootId();
    sample.job = options_.job;
  }
  std::optional<ProcessEvidence> log;
  for (const StartedRank* started : WithoutRing()) {
    RingInput input;
    input.process = started->process;
    if (whole && EndedBadly(input.process)) {
      if (!log) log = ReadLogAfterEnd();
      AddLogAfterEnd(*log, &input.process);
    }
    input.path = absl::StrCat("process ", started->pid, " (no ring)");
    ring::ProcessInfo& info = input.snapshot.process;
    info.boot_id = sample.boot_id;
    info.job = sample.job;
    info.step = sample.step;
    info.restart_count = sample.restart_count;
    info.host = sample.host.empty() ? host_ : sample.host;
    info.pid = started->pid;
    info.rank = info.local_rank = started->rank;
    info.world_size = options_.ranks_expected;
    input.snapshot.read_mono_ns = MonotonicNs();
    inputs.push_back(std::move(input));
  }
  // The wait does not explain exits of a later generation.
  const int64_t follow = detector_.ends_follow_ns();
  std::vector<Process*> waited, others;
  for (RingInput& input : inputs) {
    const bool there = follow != 0 && input.snapshot.process.created_mono_ns < follow;
    (there ? waited : others).push_back(&input.process);
  }
  MarkConsequences({options_.launcher, ending_since_ == 0 ? follow : std::min(follow, ending_since_)}, waited);
  MarkConsequences({options_.launcher, ending_since_}, others);

  Gathered gathered;
  gathered.bundle = BundleFromRings(std::move(inputs));
  gathered.bundle.ranks_expected = std::max(gathered.bundle.ranks_expected, options_.ranks_expected);
  if (gathered.bundle.job.empty()) gathered.bundle.job = options_.job;
  gathered.bundle.known_stalled = stalled;
  gathered.bundle.stalled_ns = stalled_ns;
  for (const Rank& rank : gathered.bundle.ranks) gathered.slots[rank.rank] = agent_->SlotOf(rank.path);
  if (whole) {
    // The rings will be gone, so paths name the incident's file for the host.
    gathered.folder = IncidentFolder();
    for (Rank& rank : gathered.bundle.ranks) rank.path = absl::StrCat(gathered.folder, "/", DumpFileName(rank.host));
  }
  HostRedaction().Redact(&gathered.bundle);
  // All rings are on this host.
  const RackAndSwitch place = PlaceOf(CurrentEnvironment());
  if (!gathered.bundle.ranks.empty())
    gathered.bundle.places = {{gathered.bundle.ranks[0].host, place.rack, place.leaf_switch, ThisHostNetwork()}};
  AnalyzeOptions options;
  options.late_after_ns = options_.limits.late_after;
  gathered.verdict = replay::Conclude(gathered.bundle, options);
  return gathered;
}

std::string Watch::IncidentFolder() const {
  if (options_.out.empty()) return DefaultIncidentFolder(options_.job, RealtimeNs());
  return incidents_ == 0 ? options_.out : absl::StrCat(options_.out, ".", incidents_ + 1);
}

RootFinding Watch::RootOf(int64_t now, const Gathered& gathered) const {
  return FindRoot(gathered.verdict, gathered.bundle, [&](int32_t rank) {
    RankMotion motion;
    const auto found = gathered.slots.find(rank);
    int64_t idle_since = 0;
    if (found != gathered.slots.end() && found->second >= 0) {
      motion.progress_age_ns = now - lateness_.ProgressOf(found->second);
      motion.activity_age_ns = now - lateness_.ActivityOf(found->second);
      idle_since = agent_->IdleSince(found->second);
    } else {
      for (const auto& [pid, started] : started_) {
        if (started.rank == rank) idle_since = started.sampler.idle_since_ns();
      }
    }
    if (idle_since > 0) motion.idle_ns = now - idle_since;
    return motion;
  });
}

void Watch::Refresh(Gathered* gathered) {
  for (Rank& rank : gathered->bundle.ranks) {
    const auto slot = gathered->slots.find(rank.rank);
    if (slot == gathered->slots.end() || slot->second < 0) continue;
    const Process& now = agent_->process(slot->second);
    Process& then = rank.process;
    then.life = now.life;
    then.exit_code = now.exit_code;
    then.signal = now.signal;
    then.state = now.state;
    then.wchan = now.wchan;
    then.threads_in_d = now.threads_in_d;
    then.sample_gap_ns = now.sample_gap_ns;
    then.cpu_ns_between_samples = now.cpu_ns_between_samples;
    then.io_bytes_between_samples = now.io_bytes_between_samples;
  }
}

void Watch::SampleStill(int64_t now) {
  next_sample_ = now + kJudgementEvery;
  std::vector<int32_t> still;
  for (int32_t slot : slots_) {
    if (slot >= 0 && now - lateness_.ProgressOf(slot) >= kSampleAfter) still.push_back(slot);
  }
  std::sort(still.begin(), still.end());
  const ProcessTree tree = still.empty() ? ProcessTree() : ProcessTree::Read();
  agent_->SampleStill(still, tree);
  if (still.empty()) return;
  for (StartedRank* rank : WithoutRing()) {
    if (rank->process.life == Life::kRunning) rank->sampler.Sample(rank->pid, tree, &rank->process);
  }
}

void Watch::LookForDesync() {
  const std::vector<const ring::Snapshot*> digests = agent_->Digests();
  std::vector<RingView> rings;
  for (size_t i = 0; i < digests.size(); ++i) {
    const int32_t rank = digests[i]->process.rank;
    rings.push_back({rank >= 0 ? rank : static_cast<int32_t>(i), digests[i]});
  }
  for (const Desync& desync : desync_.Look(rings)) {
    // Saves every rank's records, not only the members'. In a communicator of two, only ranks with the same role show
    // which member is wrong.
    std::vector<int32_t> slots(digests.size());
    std::iota(slots.begin(), slots.end(), 0);
    agent_->Keep(slots);
    if (desync.confirmed) Say(absl::StrCat(DesyncText(desync), "; the job continues, and its records are kept"));
  }
}

void Watch::Log(const Decision& decision) {
  if (decisions_.size() < kMostDecisions) decisions_.push_back(DecisionJson(decision, options_.job, RealtimeNs()));
}

size_t Watch::RanksOfNewestRestart() const {
  std::map<uint32_t, size_t> ranks;
  for (const ring::Snapshot* digest : agent_->Digests()) ++ranks[digest->process.restart_count];
  return ranks.empty() ? 0 : ranks.rbegin()->second;
}

void Watch::TellLate(int64_t now) {
  if (detector_.level() == Level::kMoving) {
    if (late_told_) Say(absl::StrCat("moving again after ", DurationText(now - late_since_)));
    late_told_ = cause_told_ = false;
    return;
  }
  int32_t waiting = 0;
  std::string doing;
  const int64_t longest = lateness_.LongestWait(now, &waiting, &doing);
  if (late_told_ || hung_ || waiting == 0) return;
  late_told_ = true;
  late_since_ = now - longest;
  // The cause is not known yet, and a waiting rank is most likely a victim, so no rank is blamed.
  Say(absl::StrCat("late: ", waiting, " of ", RanksOfNewestRestart(), " ranks are waiting, the longest for ",
                   DurationText(longest), doing.empty() ? "" : " in ", doing, "; looking for the cause"));
}

void Watch::Judge(int64_t now) {
  next_judgement_ = now + kJudgementEvery;
  agent_->Inspect(suspects_);
  for (StartedRank* rank : WithoutRing()) {
    if (rank->process.life == Life::kRunning) rank->look.Continue(rank->pid, 0, &rank->process);
  }
  const std::vector<DigestView> views = agent_->Views();
  bool all_stopped = true;
  for (const DigestView& view : views) {
    const std::string& state = agent_->process(view.slot).state;
    if (view.alive && state != "T" && state != "t") all_stopped = false;
  }
  // Someone suspended the whole job, so no rank is blamed.
  if (all_stopped && CountAlive(views) > 0) {
    Rebase(now);
    return;
  }
  // The whole job is stalled only if no rank makes progress.
  const int64_t still = now - LastProgress({});
  const bool stands = still >= options_.limits.dead_settle || detector_.ends_follow_ns() != 0;
  if (whole_ && LastProgress({}) > whole_progress_) whole_.reset();
  Gathered digests;
  if (whole_) {
    Refresh(&*whole_);
  } else {
    digests = Gather(false, stands, stands ? still : 0);
  }
  const Gathered& gathered = whole_ ? *whole_ : digests;
  const RootFinding finding = RootOf(now, gathered);
  if (const std::string cause = ProvenCause(gathered.verdict); late_told_ && !cause_told_ && !cause.empty()) {
    cause_told_ = true;
    Say(absl::StrCat("late: ", cause));
  }
  std::vector<int32_t> suspects;
  for (const RootView& root : finding.roots) {
    const auto slot = gathered.slots.find(root.rank);
    if (slot != gathered.slots.end() && slot->second >= 0) suspects.push_back(slot->second);
  }
  if (suspects != suspects_) {
    suspects_ = suspects;
    agent_->Inspect(suspects_);
  }
  const Decision decision = detector_.Consider(now, finding);
  if (decision.hung()) {
    Declare(now, finding, decision);
  } else {
    detector_.Judge(now, finding);
  }
}

void Watch::Declare(int64_t now, const RootFinding& finding, const Decision& decision) {
  agent_->FinishInspection(suspects_, kEvidenceWait);
  Gathered gathered = Gather(true, true, std::max<int64_t>(decision.age_ns, 1));
  const RootFinding whole = RootOf(now, gathered);
  // Whole rings contain more than digests, so they may show another root, or one with a longer limit.
  const Decision again = detector_.Judge(now, whole.kind == FINDING_UNSPECIFIED ? finding : whole);
  if (!again.hung()) {
    if (whole.kind == FINDING_UNSPECIFIED) {
      // Whole rings are read rarely, because reading them is expensive.
      next_judgement_ = now + std::clamp(again.limit_ns - again.age_ns, kJudgementEvery, 10 * kJudgementEvery);
    } else {
      whole_ = std::move(gathered);
      whole_progress_ = LastProgress({});
    }
    return;
  }
  whole_.reset();
  hung_ = true;
  ever_declared_ = true;
  declared_ = gathered.verdict.verdict();
  hung_slots_.clear();
  for (int32_t rank : whole.involved) {
    const auto slot = gathered.slots.find(rank);
    if (slot != gathered.slots.end() && slot->second >= 0) hung_slots_.push_back(slot->second);
  }
  alive_at_declaration_ = CountAlive(agent_->Views());
  Log(again);
  WriteAndTell(gathered, true);
}

void Watch::LookForRecovery(int64_t now) {
  if (ending_since_ != 0) return;
  // A process exit may look like progress, but is not recovery.
  if (CountAlive(agent_->Views()) != alive_at_declaration_) return;
  const std::optional<Decision> recovered = detector_.LookForRecovery(now, LastProgress(hung_slots_));
  if (!recovered) return;
  Log(*recovered);
  Say(absl::StrCat("recovered after ", DurationText(recovered->age_ns), ": the job is moving again"));
  hung_ = late_told_ = cause_told_ = false;
  suspects_.clear();
}

void Watch::Detect(int64_t now, const std::vector<DigestView>& views) {
  slots_.clear();
  std::vector<RingView> rings;
  for (const DigestView& view : views) {
    slots_.push_back(view.slot);
    if (view.slot >= 0) rings.push_back({RankOf(view.slot), &agent_->digest(view.slot)});
    if (!view.alive) detector_.Ended(now, RankOf(view.slot), KindOfEnd(ProcessOf(view.slot)));
  }
  const auto ranks_of = [&](const std::vector<int32_t>& slots) {
    std::vector<int32_t> ranks;
    ranks.reserve(slots.size());
    for (int32_t slot : slots) ranks.push_back(RankOf(slot));
    return Ranks::Of(std::move(ranks));
  };
  const std::vector<LateEvent> events = lateness_.Observe(now, views);
  progress_.Observe(rings);
  for (const CommBeat& beat : progress_.Take(now, lateness_)) detector_.progress().Apply(0, now, beat);
  for (const LateEvent& event : events) {
    LateInput input;
    static_cast<LateFacts&>(input) = event;
    input.waiting = ranks_of(event.waiting);
    input.missing = ranks_of(event.missing);
    input.host = host_;
    detector_.Late(now, input);
  }
  // While the job hangs, LookForRecovery() decides instead.
  if (hung_) return;
  for (const Decision& decision : detector_.Tick(now)) Log(decision);
}

void Watch::Tick(int64_t now) {
  sample_cost_ = agent_->Sample();
  std::vector<DigestView> views = agent_->Views();
  if (!views.empty()) {
    // Peers may wait for a rank that exited before it had a ring.
    for (const StartedRank* rank : WithoutRing()) {
      if (rank->process.life == Life::kRunning) continue;
      DigestView view;
      view.slot = -2 - rank->rank;
      view.alive = false;
      view.ended_badly = rank->process.life != Life::kExited || rank->process.exit_code != 0;
      views.push_back(view);
    }
  }
  for (DigestView& view : views) {
    if (view.slot >= 0) quiet_.AddWait(agent_->digest(view.slot).threads, agent_->process(view.slot), &view);
  }
  const int64_t before = LastProgress({});
  Detect(now, views);
  const bool moved = LastProgress({}) != before;
  next_tick_ = now + std::clamp(kCostShare * sample_cost_, moved ? kShortTick : kIdleTick, kLongestTick);
  if (views.empty()) return;
  LookForDesync();
  if (hung_) {
    LookForRecovery(now);
    return;
  }
  if (ending_since_ != 0) return;
  TellLate(now);
  if (now >= next_sample_) SampleStill(now);
  agent_->Inspect(quiet_.Due(now, views, lateness_));
  if (detector_.Suspicious(now)) {
    if (now >= next_judgement_ || detector_.urgent()) Judge(now);
  } else {
    suspects_.clear();
    whole_.reset();
  }
}

std::vector<ExitRecord> Watch::Exits() const {
  std::vector<ExitRecord> exits;
  for (const auto& [pid, started] : started_) exits.push_back({started.rank, pid, EndText(started.process)});
  std::stable_sort(exits.begin(), exits.end(),
                   [](const ExitRecord& a, const ExitRecord& b) { return a.rank < b.rank; });
  return exits;
}

void Watch::WriteAndTell(const Gathered& gathered, bool tell) {
  tell = tell && options_.tell;
  IncidentFacts facts;
  facts.job = gathered.bundle.job;
  facts.command = HostRedaction().Command(options_.command);
  facts.exits = Exits();
  facts.captured_real_ns = RealtimeNs();
  facts.decisions = decisions_;
  decisions_.clear();
  ++incidents_;
  // Prints the verdict first, because a full disk must not prevent that.
  if (tell) SayBlock(VerdictText(gathered.verdict, gathered.bundle));
  const absl::StatusOr<EarlierIncident> earlier = SetEarlierIncidentAside(gathered.folder);
  if (!earlier.ok()) {
    Say(earlier.status().message());
  } else if (!earlier->moved_to.empty()) {
    Say(absl::StrCat("the incident of an earlier run in ", gathered.folder, " was moved to ", earlier->moved_to));
  } else if (earlier->replaced) {
    Say(absl::StrCat("replaced the result of an earlier, healthy run in ", gathered.folder));
  }
  const bool stored = StoreIncident(gathered.folder, gathered.bundle, gathered.verdict, facts, tell);
  if (const absl::Status shared = stored ? shared_.Add(gathered.folder) : absl::OkStatus(); !shared.ok())
    Say(shared.message());
  for (const std::string& problem : indexes_.TakeProblems()) Say(problem);
  if (stored) indexes_.Start(gathered.folder);
  if (tell && hook_ != nullptr)
    hook_->Run(options_.job, {ReportJson(gathered.verdict), stored ? gathered.folder : "", ""});
}

void Watch::Finish(const std::string& unrecorded) {
  // Reads the last digests, because the ranks' last operations may have differed.
  agent_->Sample();
  for (int look = 0; look < 3; ++look) LookForDesync();
  if (ever_declared_) return;
  // A rank that was killed while all ranks waited had itself been waiting.
  const int64_t follow = detector_.ends_follow_ns();
  const int64_t stood = follow == 0 ? 0 : std::max<int64_t>(1, MonotonicNs() - LastProgress({}));
  const Gathered gathered = Gather(true, follow != 0, stood);
  if (agent_->readable() == 0) {
    if (!unrecorded.empty()) Say(absl::StrCat("nothing was recorded: ", unrecorded));
    // Without -n, the ends of the ranks are unknown, too.
    const bool badly = !gathered.verdict.findings().empty();
    if (badly) declared_ = gathered.verdict.verdict();
    if (badly || !options_.out.empty()) WriteAndTell(gathered, badly);
    return;
  }
  const bool healthy = gathered.verdict.verdict() == VERDICT_HEALTHY;
  if (!healthy) {
    declared_ = gathered.verdict.verdict();
    WriteAndTell(gathered, true);
    return;
  }
  if (!options_.quiet) {
    uint64_t collectives = 0;
    for (const ring::Snapshot* digest : agent_->Digests()) {
      for (const ring::CommSnapshot& comm : digest->comms) collectives += comm.issued_seq;
    }
    Say(absl::StrCat("healthy: ", gathered.bundle.ranks.size(),
                     gathered.bundle.ranks.size() == 1 ? " rank, " : " ranks, ", CountText(collectives),
                     " collectives recorded"));
  }
  if (!options_.out.empty()) WriteAndTell(gathered, false);
}

}  // namespace lockstep
