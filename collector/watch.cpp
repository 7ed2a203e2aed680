#include "collector/watch.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine.h"
#include "analyzer/report.h"
#include "analyzer/ring_loader.h"
#include "collector/environment.h"
#include "collector/proc.h"
#include "collector/say.h"

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kShortTick = 100 * kMs;
constexpr int64_t kIdleTick = 250 * kMs;
constexpr int64_t kLongestTick = 1000 * kMs;
// Sampling takes at most this part of one core.
constexpr int64_t kCostShare = 100;
// A little over the least gap between two samples of a process, so that each judgement has a new pair.
constexpr int64_t kJudgementEvery = 1050 * kMs;
// A verdict does not wait longer for stacks that are being taken.
constexpr int64_t kEvidenceWait = 2000 * kMs;
constexpr int64_t kRecoverySettle = 1000 * kMs;

size_t CountAlive(const std::vector<DigestView>& views) {
  return static_cast<size_t>(
      std::count_if(views.begin(), views.end(), [](const DigestView& view) { return view.alive; }));
}

uint64_t CommNumber(const std::string& id) {
  uint64_t number = 0;
  return id.size() == 16 && absl::SimpleHexAtoi(id, &number) ? number : 0;
}

}  // namespace

Watch::Watch(const WatchOptions& options, Agent* agent) : options_(options), agent_(agent), detector_(options.limits) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  host_ = name;
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
    Process& process = found->second.process;
    process.life = end.life;
    process.exit_code = end.exit_code;
    process.signal = end.signal;
    process.ended_mono_ns = end.mono_ns;
  }
}

void Watch::Ending(int64_t now) {
  if (ending_since_ == 0) ending_since_ = now;
}

void Watch::Rebase(int64_t now) {
  detector_.Rebase(now);
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
  if (!inputs.empty()) {
    // A rank that ended, or hangs, before its first NCCL call has no ring; it counts all the same.
    for (const StartedRank* started : WithoutRing()) {
      RingInput input;
      input.process = started->process;
      input.path = absl::StrCat("process ", started->pid, " (no ring)");
      ring::ProcessInfo& info = input.snapshot.process;
      const ring::ProcessInfo& sample = inputs[0].snapshot.process;
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
  }
  std::vector<Process*> processes;
  for (RingInput& input : inputs) processes.push_back(&input.process);
  MarkConsequences({options_.launcher, ending_since_}, processes);

  Gathered gathered;
  gathered.bundle = BundleFromRings(std::move(inputs));
  gathered.bundle.ranks_expected = std::max(gathered.bundle.ranks_expected, options_.ranks_expected);
  if (gathered.bundle.job.empty()) gathered.bundle.job = options_.job;
  gathered.bundle.known_stalled = stalled;
  gathered.bundle.stalled_ns = stalled_ns;
  for (const Rank& rank : gathered.bundle.ranks) gathered.slots[rank.rank] = agent_->SlotOf(rank.path);
  if (whole) {
    // The rings are gone when people read this; their records are in the incident.
    gathered.folder = IncidentFolder();
    for (Rank& rank : gathered.bundle.ranks) rank.path = absl::StrCat(gathered.folder, "/", DumpFileName(rank.host));
  }
  // All these rings are this host's.
  const RackAndSwitch place = PlaceOf(CurrentEnvironment());
  if (!gathered.bundle.ranks.empty() && (!place.rack.empty() || !place.leaf_switch.empty())) {
    gathered.bundle.places = {{gathered.bundle.ranks[0].host, place.rack, place.leaf_switch}};
  }
  AnalyzeOptions options;
  options.late_after_ns = options_.limits.late_after;
  gathered.verdict = Analyze(gathered.bundle, options);
  return gathered;
}

std::string Watch::IncidentFolder() const {
  if (options_.out.empty()) return DefaultIncidentFolder(options_.job, RealtimeNs());
  return incidents_ == 0 ? options_.out : absl::StrCat(options_.out, ".", incidents_ + 1);
}

RootFinding Watch::FindRoot(const Gathered& gathered) {
  RootFinding root;
  if (gathered.verdict.findings().empty()) return root;
  const Finding& finding = gathered.verdict.findings(0);
  root.kind = finding.kind();
  root.comm = CommNumber(finding.communicator().id());
  std::map<int32_t, const Rank*> ranks;
  for (const Rank& rank : gathered.bundle.ranks) ranks[rank.rank] = &rank;
  const auto slot_of = [&](int32_t number) {
    const auto found = gathered.slots.find(number);
    return found == gathered.slots.end() ? -1 : found->second;
  };
  const std::vector<DigestView> views = agent_->Views();
  std::set<int32_t> involved;
  for (int32_t number : finding.culprit_ranks()) {
    const auto found = ranks.find(number);
    if (found == ranks.end()) continue;
    RootView view;
    view.slot = slot_of(number);
    const Process& process = found->second->process;
    view.ended = process.life == Life::kExited || process.life == Life::kKilled || process.life == Life::kGone;
    view.stopped = process.state == "T" || process.state == "t";
    view.sample_gap_ns = process.sample_gap_ns;
    view.cpu_ns = process.cpu_ns_between_samples;
    view.io_bytes = process.io_bytes_between_samples;
    if (view.slot >= 0) {
      involved.insert(view.slot);
      const auto seen =
          std::find_if(views.begin(), views.end(), [&](const DigestView& v) { return v.slot == view.slot; });
      view.in_recorded_call = finding.kind() != HOST_STALL && seen != views.end() && seen->blocked_since_ns != 0;
    }
    root.roots.push_back(view);
  }
  for (const ChainLink& link : finding.chain()) {
    for (int32_t number : link.ranks()) involved.insert(slot_of(number));
    for (int32_t number : link.waits_for()) involved.insert(slot_of(number));
  }
  involved.erase(-1);
  root.involved.assign(involved.begin(), involved.end());
  return root;
}

void Watch::LookForDesync() {
  for (const Desync& desync : desync_.Look(agent_->Digests())) {
    // Every rank's records, not the members' alone: in a communicator of two only the siblings tell who is wrong.
    std::vector<int32_t> slots(agent_->Digests().size());
    std::iota(slots.begin(), slots.end(), 0);
    agent_->Keep(slots);
    if (!desync.confirmed) continue;
    Say(absl::StrCat("the ranks of communicator ",
                     desync.name.empty() ? absl::StrCat(absl::Hex(desync.comm)) : desync.name, " (size ", desync.size,
                     ") issued different operations by collective #", CountText(desync.seq),
                     "; the job runs on, the records are kept"));
  }
}

void Watch::TellLate(int64_t now) {
  int32_t slot = -1;
  std::string doing;
  const int64_t longest = detector_.LongestWait(now, &slot, &doing);
  if (longest < options_.limits.late_after) {
    if (late_told_) Say(absl::StrCat("moving again after ", DurationText(now - late_since_)));
    late_told_ = false;
    return;
  }
  if (late_told_ || hung_ || slot < 0) return;
  late_told_ = true;
  late_since_ = now - longest;
  const ring::ProcessInfo& process = agent_->digest(slot).process;
  Say(absl::StrCat("late: rank ", process.rank, doing.empty() ? " waits" : " is ", doing, " for ",
                   DurationText(longest), "; looking for the cause"));
}

void Watch::Judge(int64_t now) {
  next_judgement_ = now + kJudgementEvery;
  agent_->Inspect(suspects_);
  for (StartedRank* rank : WithoutRing()) {
    if (rank->process.life != Life::kRunning) continue;
    rank->sampler.Sample(rank->pid, &rank->process);
    rank->look.Continue(rank->pid, 0, &rank->process);
  }
  const std::vector<DigestView> views = agent_->Views();
  bool all_stopped = true;
  for (const DigestView& view : views) {
    const std::string& state = agent_->process(view.slot).state;
    if (view.alive && state != "T" && state != "t") all_stopped = false;
  }
  // Somebody suspended the whole job: nothing is held against it.
  if (all_stopped && CountAlive(views) > 0) {
    detector_.Rebase(now);
    return;
  }
  // Only a job of which no part moves may be taken to stand still as a whole.
  const bool stands = now - detector_.LastProgress({}) >= options_.limits.dead_settle;
  const Gathered gathered = Gather(false, stands, stands ? now - detector_.LastProgress({}) : 0);
  const RootFinding finding = FindRoot(gathered);
  std::vector<int32_t> suspects;
  for (const RootView& root : finding.roots) {
    if (root.slot >= 0) suspects.push_back(root.slot);
  }
  if (suspects != suspects_) {
    suspects_ = suspects;
    agent_->Inspect(suspects_);
  }
  const Decision decision = detector_.Judge(now, finding);
  if (decision.hung) Declare(now, decision);
}

void Watch::Declare(int64_t now, const Decision& decision) {
  agent_->FinishInspection(suspects_, kEvidenceWait);
  const Gathered gathered = Gather(true, true, std::max<int64_t>(decision.stalled_ns, 1));
  const RootFinding finding = FindRoot(gathered);
  // Whole rings tell more than digests do: the root may turn out to be one that is given longer. Reading them is not
  // cheap, so the next look waits until that time may have come.
  const Decision again = finding.kind == FINDING_UNSPECIFIED ? decision : detector_.Judge(now, finding);
  if (!again.hung) {
    next_judgement_ = now + std::clamp(again.limit_ns - again.stalled_ns, kJudgementEvery, 10 * kJudgementEvery);
    return;
  }
  hung_ = true;
  ever_declared_ = true;
  declared_ = gathered.verdict.verdict();
  declared_ns_ = now;
  stall_began_ns_ = now - decision.stalled_ns;
  moved_again_ns_ = 0;
  hung_slots_ = finding.involved;
  alive_at_declaration_ = CountAlive(agent_->Views());
  WriteAndTell(gathered, true);
}

void Watch::LookForRecovery(int64_t now) {
  const int64_t last = detector_.LastProgress(hung_slots_);
  if (last <= declared_ns_ || ending_since_ != 0) return;
  // Processes that end, and communicators that are torn down, move too: that is no recovery.
  if (CountAlive(agent_->Views()) != alive_at_declaration_) return;
  if (moved_again_ns_ == 0) moved_again_ns_ = last;
  if (now - moved_again_ns_ < kRecoverySettle || last <= moved_again_ns_) return;
  const int64_t stalled = moved_again_ns_ - stall_began_ns_;
  Say(absl::StrCat("recovered after ", DurationText(stalled), ": the job moves again"));
  detector_.Recovered(stalled);
  hung_ = false;
  late_told_ = false;
  suspects_.clear();
}

void Watch::Tick(int64_t now) {
  sample_cost_ = agent_->Sample();
  std::vector<DigestView> views = agent_->Views();
  if (!views.empty()) {
    // Peers may wait for a rank that ended before it had a ring.
    for (const StartedRank* rank : WithoutRing()) {
      if (rank->process.life == Life::kRunning) continue;
      DigestView view;
      view.slot = -2 - rank->rank;
      view.alive = false;
      views.push_back(view);
    }
  }
  const int64_t before = detector_.LastProgress({});
  detector_.Observe(now, views);
  const bool moved = detector_.LastProgress({}) != before;
  next_tick_ = now + std::clamp(kCostShare * sample_cost_, moved ? kShortTick : kIdleTick, kLongestTick);
  if (views.empty()) return;
  LookForDesync();
  if (hung_) {
    LookForRecovery(now);
    return;
  }
  if (ending_since_ != 0) return;
  TellLate(now);
  if (detector_.Suspicious(now)) {
    if (now >= next_judgement_) Judge(now);
  } else {
    suspects_.clear();
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
  IncidentFacts facts;
  facts.job = gathered.bundle.job;
  facts.command = options_.command;
  facts.exits = Exits();
  facts.captured_real_ns = RealtimeNs();
  ++incidents_;
  // The verdict first: a full disk must not keep it from the screen.
  if (tell) SayBlock(ReportText(gathered.verdict, gathered.bundle));
  const absl::Status status = WriteIncident(gathered.folder, gathered.bundle, gathered.verdict, facts);
  if (!status.ok()) {
    Say(absl::StrCat("the incident folder is not complete: ", status.message()));
  } else if (tell) {
    Say(absl::StrCat("incident written to ", gathered.folder, " (lockstep analyze ", gathered.folder, ")"));
  }
}

void Watch::Finish(const std::string& unrecorded) {
  // The last digests: a job may have differed in its last operations.
  agent_->Sample();
  for (int look = 0; look < 3; ++look) LookForDesync();
  if (ever_declared_) return;
  const Gathered gathered = Gather(true, false, 0);
  if (agent_->readable() == 0) {
    Say(absl::StrCat("nothing was recorded: ", unrecorded));
    if (!options_.out.empty()) WriteAndTell(gathered, false);
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
