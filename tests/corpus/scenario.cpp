#include "tests/corpus/scenario.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/corpus/faults.h"
#include "tests/corpus/held.h"
#include "tests/corpus/process_facts.h"
#include "tests/corpus/shown.h"

namespace lockstep::corpus {
namespace {

constexpr uint32_t kShortDepth = 48;  // records per rank in the largest jobs

int32_t DefaultSteps(int32_t ranks) { return ranks >= 8192 ? 3 : ranks >= 1024 ? 4 : 6; }

const char* MarksName(Marks marks) {
  static constexpr const char* kNames[] = {"off", "done", "full", "timed"};
  return kNames[static_cast<size_t>(marks)];
}

// Applies variants that change the data but not the job.
void ApplyVariant(const Request& request, Plan* plan) {
  Random random(Mix(request.seed, 303));
  Job& job = plan->job;
  const std::string& variant = request.variant;
  if (variant == "missing1" || variant == "missing10") {
    const int32_t count = std::max(1, job.ranks / (variant == "missing1" ? 100 : 10));
    while (static_cast<int32_t>(plan->dump.missing.size()) < count)
      plan->dump.missing.insert(static_cast<int32_t>(random.Below(job.ranks)));
  } else if (variant == "overwritten") {
    plan->dump.capture.depth = 32;
  } else if (variant == "skew" || variant == "skewstep" || request.scenario == 32) {
    for (Host& host : job.hosts) {
      host.real_offset += random.Between(-5 * kSecond, 5 * kSecond);
      if (variant == "skew" || !random.Chance(0.25)) continue;
      host.step_at = random.Between(kSecond, 3 * kSecond);
      host.step_ns = random.Between(kSecond, 5 * kSecond) * (random.Chance(0.5) ? 1 : -1);
    }
  } else if (variant == "cut") {
    const int32_t count = std::max(1, job.ranks / 128);
    for (int32_t i = 0; i < count; ++i) {
      const auto rank = static_cast<int32_t>(random.Below(job.ranks));
      plan->dump.cut.insert(rank);
      if (request.fr) continue;
      // Lockstep's own files each contain all ranks of a host.
      for (int32_t r = rank / job.gpus_per_host * job.gpus_per_host;
           r < std::min(job.ranks, (rank / job.gpus_per_host + 1) * job.gpus_per_host); ++r)
        plan->dump.cut.insert(r);
    }
  } else if (variant == "shuffled") {
    plan->dump.shuffle = true;
  }
}

// Adjusts the truth to the files that remain. The fault itself is unchanged.
void SettleTruth(const Request& request, Outcome* outcome) {
  Truth& truth = outcome->truth;
  const DumpOptions& dump = outcome->dump;
  if (request.variant == "missing1" || request.variant == "missing10" || request.variant == "cut" ||
      request.scenario == 30)
    truth.verdicts_allowed.push_back("INCOMPLETE_DATA");
  if (truth.healthy) return;
  // Without start markers a stuck network and a stuck GPU leave the same record.
  auto& kinds = truth.kinds_allowed;
  if (request.variant == "nostart" && std::find(kinds.begin(), kinds.end(), "COLLECTIVE_STUCK") != kinds.end())
    kinds.push_back("GPU_STALL");
  const std::set<int32_t> unreadable = Unreadable(*outcome->run, dump, request.fr);
  bool lost = false;
  for (int32_t r : truth.culprit_ranks) {
    truth.culprit_data_lost |= dump.missing.count(r) > 0 || dump.cut.count(r) > 0;
    lost |= unreadable.count(r) > 0;
  }
  // If one member's sizes are missing, the sums prove nothing.
  if (request.scenario == 6 && request.fr && !dump.cut.empty()) kinds.push_back("COLLECTIVE_STUCK");
  // Sizes of an all-to-all may legally differ everywhere. A wrong row is visible only next to its peer's row.
  if (request.scenario == 6 && truth.identifiable) {
    for (int32_t r : truth.set_allowed.back()) {
      if (unreadable.count(r) == 0 || r == truth.culprit_ranks[0]) continue;
      truth.identifiable = false;
      truth.needs = "the dump of rank " + std::to_string(r) + ", whose sizes do not match the culprit's";
      truth.kinds_allowed.push_back("COLLECTIVE_STUCK");
    }
  }
  // A process that has exited or hangs writes no framework dump, so only the missing dump is known.
  if (request.fr && lost) truth.verdicts_allowed.push_back("INCOMPLETE_DATA");
  if (truth.culprit_data_lost)
    truth.kinds_allowed.insert(truth.kinds_allowed.end(), {"RANK_NO_DATA", "RANK_NOT_ARRIVED"});
  const std::set<int32_t> unseen = WaitedForUnseen(*outcome->run, unreadable);
  const std::vector<int32_t> waited_for(unseen.begin(), unseen.end());
  truth.unseen_ranks = waited_for;
  // Slowness is visible only in comparison with other ranks that do the same work.
  if (request.scenario == 33 || request.scenario == 42) {
    const auto& programs = outcome->job.programs;
    bool siblings = false;
    for (int32_t r = 0; r < outcome->job.ranks; ++r) {
      const bool culprit = std::count(truth.culprit_ranks.begin(), truth.culprit_ranks.end(), r) > 0;
      siblings |= !culprit && unreadable.count(r) == 0 &&
                  programs[static_cast<size_t>(r)] == programs[static_cast<size_t>(truth.culprit_ranks[0])];
    }
    if (!siblings && truth.identifiable) {
      truth.identifiable = false;
      truth.needs = "the dumps of the ranks that do the same work: all of them are missing or damaged";
      truth.verdicts_allowed.push_back("HEALTHY");
    }
  }
  if (!lost || !truth.identifiable) return;
  // The job continues, so a rank that waits at the capture waits for another reason. Only the culprit's record has the
  // culprit's arguments.
  const bool all_lost = std::all_of(truth.culprit_ranks.begin(), truth.culprit_ranks.end(),
                                    [&](int32_t r) { return unreadable.count(r) > 0; });
  if (request.scenario == 5 || ((request.scenario == 33 || request.scenario == 42) && all_lost)) {
    truth.identifiable = false;
    truth.needs = "the culprit's own dump, which is " +
                  std::string(dump.cut.count(truth.culprit_ranks[0]) > 0 ? "damaged" : "missing") +
                  ": no rank is stuck because of it";
    return;
  }
  // If the culprit reached the others' operation, its arguments there are unreadable.
  const std::vector<Standing> standing = outcome->run->StandingStill();
  const int32_t culprit = truth.culprit_ranks[0];
  const auto waits_for = [&](const Standing& s) {
    return std::find(s.absent.begin(), s.absent.end(), culprit) != s.absent.end();
  };
  const auto holds = [&](const Standing& s) {
    return std::find(s.inside.begin(), s.inside.end(), culprit) != s.inside.end();
  };
  const bool cut_inside = request.scenario <= 6 && dump.cut.count(culprit) > 0;
  if (cut_inside && std::any_of(standing.begin(), standing.end(), holds))
    truth.kinds_allowed.push_back("COLLECTIVE_STUCK");
  if (cut_inside && std::none_of(standing.begin(), standing.end(), waits_for)) {
    truth.identifiable = false;
    truth.needs = "the culprit's own dump, which is damaged: its arguments of the call that all ranks are in";
    return;
  }
  // A truncated host file keeps its first ranks. If the host has several culprits, only the first ones may be readable.
  if (!request.fr) {
    std::vector<int32_t> whole, front;
    for (int32_t r : truth.culprit_ranks) (dump.cut.count(r) > 0 ? front : whole).push_back(r);
    for (; !front.empty(); front.pop_back()) {
      std::vector<int32_t> named = whole;
      named.insert(named.end(), front.begin(), front.end());
      std::sort(named.begin(), named.end());
      truth.set_allowed.push_back(named);
    }
  }
  // The peers' records identify the rank if they are in an operation that nothing else delays. If several ranks have no
  // data, the records only show that one of them is the culprit.
  if (waited_for == truth.culprit_ranks) return;
  truth.identifiable = false;
  // If several ranks are culprits, those without data have no record. An answer that names all other culprits has named
  // every visible culprit.
  std::vector<int32_t> seen;
  for (int32_t r : truth.culprit_ranks) {
    if (unreadable.count(r) == 0) seen.push_back(r);
  }
  if (!seen.empty()) truth.set_allowed.push_back(seen);
  truth.needs = "the culprit's own dump, which is " +
                std::string(dump.cut.count(truth.culprit_ranks[0]) > 0 ? "damaged" : "missing") +
                (unseen.empty() ? "" : ": ranks also wait for others without data");
}

// If a switch fails, the record shows the ranks that are stuck at it: they are in operations that all members reached
// and that do not end. The record does not show which other ranks are connected to the switch.
void AddWhatStandsAtTheSwitch(Outcome* outcome) {
  std::set<int32_t> inside;
  for (const Standing& standing : outcome->run->StandingStill()) {
    if (standing.absent.empty()) inside.insert(standing.inside.begin(), standing.inside.end());
  }
  if (!inside.empty()) outcome->truth.set_allowed.emplace_back(inside.begin(), inside.end());
}

// A GPU that fails inside an operation leaves the same record as its peers, which are in the operation too. The record
// does not distinguish the members.
void AddStuckOperation(const Simulator& run, const Job& job, Truth* truth) {
  const int32_t rank = truth->culprit_ranks[0];
  const RankRun& state = run.ranks()[static_cast<size_t>(rank)];
  for (uint8_t slot = 0; slot < kSlots; ++slot) {
    const Progress& progress = state.progress[slot];
    const Comm* comm = job.CommOf(rank, static_cast<Slot>(slot));
    if (comm == nullptr || slot == kPp || progress.launches_started <= progress.launches_done) continue;
    if (comm->members.size() < static_cast<size_t>(job.ranks)) truth->set_allowed.push_back(comm->members);
  }
}

}  // namespace

const std::vector<std::string>& Variants() {
  static const std::vector<std::string> kVariants{"plain",    "missing1", "missing10", "overwritten", "skew",
                                                  "skewstep", "cut",      "shuffled",  "nostart",     "firstfile",
                                                  "rank0",    "lastrank", "twofaults", "shared"};
  return kVariants;
}

bool Applies(const Request& request, std::string* why) {
  if (request.variant != "shared") return true;
  if (request.scenario == 23) *why = "on one stream, GPUs start operations in the order of the calls";
  if (request.scenario == 37 || request.layout == "graph") *why = "operations in a graph are on separate streams";
  return why->empty();
}

bool Play(const Request& asked, Outcome* outcome, std::string* error) {
  Request request = asked;
  if (request.scenario < 1 || request.scenario > kScenarios) {
    *error = "no scenario " + std::to_string(request.scenario) + "; there are 1 to " + std::to_string(kScenarios);
    return false;
  }
  if (request.ranks < 8 || request.ranks > 131072) {
    *error = "ranks must be 8 to 131072";
    return false;
  }
  if (std::find(Variants().begin(), Variants().end(), request.variant) == Variants().end()) {
    *error = "unknown variant '" + request.variant + "'";
    return false;
  }
  // Variants without start markers. Lockstep's dumps alternate between done markers and no markers. Flight Recorder
  // dumps keep their default.
  if (request.variant == "nostart") request.marks = request.fr || request.seed % 2 == 0 ? Marks::kDone : Marks::kOff;
  if (request.scenario == 39 && request.variant == "plain") request.variant = "twofaults";
  for (uint64_t attempt = 0; attempt < 24; ++attempt) {
    const uint64_t seed = Mix(Mix(request.seed, static_cast<uint64_t>(request.scenario)),
                              attempt * 1000 + static_cast<uint64_t>(request.ranks));
    Random random(Mix(seed, 1));
    std::string layout_name = request.layout;
    if (layout_name.empty() || layout_name == "auto") {
      std::vector<std::string> names = LayoutsFor(request.scenario, request.ranks);
      if (request.variant == "shared") std::erase(names, "graph");
      layout_name = names[static_cast<size_t>(random.Below(static_cast<int64_t>(names.size())))];
    }
    Layout layout;
    if (!MakeLayout(layout_name, request.ranks, seed, &layout, error)) return false;
    layout.shared_stream = request.variant == "shared";
    if (request.scenario == 27) layout.split = true;
    if (request.scenario == 21) layout.names = 0;
    int32_t steps = request.steps > 0 ? request.steps : DefaultSteps(request.ranks);
    auto plan = std::make_unique<Plan>();
    plan->job = MakeJob(layout, request.ranks, steps, seed);
    if (request.depth > 0 && request.steps == 0) {
      // Runs enough steps to fill rings of the requested depth.
      size_t longest = 1;
      for (int32_t r = 0; r < plan->job.ranks; r += std::max(1, plan->job.ranks / 64))
        longest =
            std::max(longest, plan->job.programs[static_cast<size_t>(r)]->size() / 3 / static_cast<size_t>(steps) + 1);
      const auto wanted = static_cast<int32_t>(static_cast<size_t>(request.depth) * 5 / 4 / longest) + 2;
      if (wanted > steps) {
        steps = wanted;
        plan->job = MakeJob(layout, request.ranks, steps, seed);
      }
    }
    plan->dump.capture.depth = request.depth > 0       ? static_cast<uint32_t>(request.depth)
                               : request.ranks >= 8192 ? kShortDepth
                               : request.fr            ? 2000
                                                       : 1024;
    error->clear();
    const std::vector<std::shared_ptr<const Program>> base = plan->job.programs;
    FaultMaker maker(request, seed, plan.get());
    if (!maker.Make(error)) {
      if (request.layout.empty() || request.layout == "auto") continue;
      return false;
    }
    std::vector<std::shared_ptr<const Program>> before_second = plan->job.programs;
    if (request.variant == "twofaults" && !plan->truth.culprit_ranks.empty() && !plan->live && !maker.MakeSecond(error))
      continue;
    if (!plan->second_of_program) before_second.clear();
    plan->job.NameComms();
    ApplyVariant(request, plan.get());
    if (request.depth > 0 && request.variant != "overwritten" && request.scenario != 31)
      plan->dump.capture.depth = static_cast<uint32_t>(request.depth);
    // A running job continues while its ranks are captured one after another. Its work in the meantime must not
    // overwrite the evidence.
    plan->sim.ring_depth = plan->dump.capture.depth + (!plan->live ? 64 : request.ranks >= 8192 ? 256 : 2048);
    // A Flight Recorder dump does not contain its time; its file's modification time is used. Half of the running jobs
    // are captured after their end.
    if (request.fr && plan->live && (request.seed % 2 == 1 || request.scenario == 40)) {
      if (request.scenario == 40) {
        plan->truth.identifiable = false;
        plan->truth.needs =
            "the time when the dumps were taken: they do not show how long the operation has been running";
      } else {
        plan->live = false;
        plan->ends = true;
        plan->sim.live_step = -1;
      }
    }

    outcome->job = std::move(plan->job);
    outcome->run = std::make_unique<Simulator>(outcome->job, plan->sim);
    outcome->dump = std::move(plan->dump);
    outcome->truth = std::move(plan->truth);
    Simulator& run = *outcome->run;
    run.Run();
    bool struck = true;
    for (int fault = 0; fault < plan->faults; ++fault) struck &= run.Struck(fault);
    if (plan->may_hang && !run.finished() && run.horizon() == kNever) plan->live = plan->ends = false;
    const bool as_meant = struck && (plan->live ? run.horizon() != kNever : run.finished() == plan->ends);
    if (!as_meant) {
      *error = "the fault had no effect in this job; another seed or layout will do";
      continue;
    }
    error->clear();
    if (request.scenario == 17 && !outcome->truth.identifiable) AddStuckOperation(run, outcome->job, &outcome->truth);
    // The capture is at the horizon if the job is observed live. Otherwise it is after a while in which nothing moves.
    DumpOptions& dump = outcome->dump;
    dump.capture.marks = request.marks;
    dump.gloo = request.gloo;
    dump.timing = request.marks == Marks::kFull || request.marks == Marks::kTimed;
    if (plan->live) {
      dump.capture.jitter = request.ranks >= 8192 ? kMilli : 3 * kMilli;
      dump.capture.at = run.horizon() - dump.capture.jitter;
    } else {
      dump.capture.at = run.stop_time() + (request.fr && !plan->ends ? 600 * kSecond : 0) +
                        random.Between(15 * kSecond, 50 * kSecond);
      dump.known_stalled = request.scenario != 10 && !plan->ends;
    }
    const std::map<int32_t, ProcessFacts> facts = plan->facts;
    const bool all_stacks = request.ranks <= 1024;
    const Job* job = &outcome->job;
    std::set<int32_t> looked_at;
    for (const auto& [rank, fact] : facts) looked_at.insert(job->HostOf(rank));
    dump.facts = [facts, all_stacks, looked_at, job](int32_t rank, HostStatus status) {
      if (auto it = facts.find(rank);
          it != facts.end() && status != HostStatus::kRunning && status != HostStatus::kInCall)
        return it->second;
      ProcessFacts fact = status == HostStatus::kInCall   ? InitFacts()
                          : status == HostStatus::kFrozen ? StoppedFacts()
                                                          : WaitingFacts();
      if (all_stacks || looked_at.count(job->HostOf(rank)) > 0 || rank % 16 == 0) return fact;
      fact.stack.clear();
      fact.stack_later.clear();
      fact.python_stack.clear();
      return fact;
    };
    if (request.scenario == 20) AddWhatStandsAtTheSwitch(outcome);
    if (outcome->truth.second_ranks.empty()) {
      SettleTruth(request, outcome);
      // The rings of the largest jobs are short unless the request says otherwise, so they may have lost the evidence.
      // A job that continues overwrites its own records.
      if (request.variant == "overwritten" || request.scenario == 31 || request.scenario == 5 ||
          outcome->dump.capture.depth <= kShortDepth)
        SettleOverwritten(request, base, outcome);
    } else {
      Truth& truth = outcome->truth;
      if (request.scenario == 30) truth.verdicts_allowed.push_back("INCOMPLETE_DATA");
      if (dump.cut.count(truth.second_ranks[0]) + dump.other_run.count(truth.second_ranks[0]) > 0)
        truth.second_kinds.insert(truth.second_kinds.end(), {"RANK_NO_DATA", "RANK_NOT_ARRIVED"});
      const std::set<int32_t> unreadable = Unreadable(run, dump, request.fr);
      for (const auto* ranks : {&truth.culprit_ranks, &truth.second_ranks}) {
        if (request.fr && std::any_of(ranks->begin(), ranks->end(), [&](int32_t r) { return unreadable.count(r) > 0; }))
          truth.verdicts_allowed.push_back("INCOMPLETE_DATA");
      }
      SettleTwoFaults(request, base, before_second, plan->sim, outcome);
    }
    // In a framework's dump, an idle job looks like one that hangs outside NCCL.
    auto& allowed = outcome->truth.verdicts_allowed;
    if (request.fr && std::find(allowed.begin(), allowed.end(), "HEALTHY") != allowed.end())
      allowed.push_back("INCOMPLETE_DATA");
    return true;
  }
  if (error->empty()) *error = "this scenario cannot be generated with these options";
  *error =
      "scenario " + std::to_string(request.scenario) + " with " + std::to_string(request.ranks) + " ranks: " + *error;
  return false;
}

std::string TruthJson(const Request& request, const Outcome& outcome) {
  const Truth& truth = outcome.truth;
  nlohmann::ordered_json json;
  auto hosts = [&](const std::vector<int32_t>& ranks) {
    std::vector<std::string> names;
    for (int32_t r : ranks) {
      const std::string& name = outcome.job.hosts[static_cast<size_t>(outcome.job.HostOf(r))].name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  };
  json["scenario"] = request.scenario;
  json["name"] = Info(request.scenario).name;
  json["ranks"] = request.ranks;
  json["seed"] = request.seed;
  json["format"] = request.fr ? "fr" : "lsd";
  json["marks"] = MarksName(outcome.dump.capture.marks);
  json["variant"] = request.variant;
  json["layout"] = outcome.job.layout.Text();
  json["what"] = truth.what;
  json["healthy"] = truth.healthy;
  json["verdicts_allowed"] = truth.verdicts_allowed;
  json["culprit_ranks"] = truth.culprit_ranks;
  json["culprit_hosts"] = hosts(truth.culprit_ranks);
  // Naming a host counts as naming all of its ranks.
  const auto on_host = static_cast<size_t>(std::min(outcome.job.gpus_per_host, outcome.job.ranks));
  json["host_is_culprit"] = truth.culprit_ranks.size() == on_host && hosts(truth.culprit_ranks).size() == 1;
  json["set_allowed"] = truth.set_allowed;
  json["kinds_allowed"] = truth.kinds_allowed;
  // The state of the culprit's process is in its own record.
  if (!truth.culprit_data_lost && !truth.activity_allowed.empty()) {
    json["activity_allowed"] = truth.activity_allowed;
    json["moving_allowed"] = truth.moving_allowed;
  }
  json["identifiable"] = truth.identifiable;
  json["needs"] = truth.needs;
  json["unseen_ranks"] = truth.unseen_ranks;
  json["culprit_data_lost"] = truth.culprit_data_lost;
  json["missing_ranks"] = outcome.dump.missing;
  json["damaged_ranks"] = outcome.dump.cut;
  if (!truth.second_ranks.empty()) {
    json["second_fault"] = {{"what", "rank " + std::to_string(truth.second_ranks[0]) + " " + truth.second_what},
                            {"culprit_ranks", truth.second_ranks},
                            {"culprit_hosts", hosts(truth.second_ranks)},
                            {"kinds_allowed", truth.second_kinds},
                            {"identifiable", truth.second_shown},
                            {"needs", truth.second_needs}};
  }
  return json.dump(1) + "\n";
}

bool Generate(const Request& request, const std::string& folder, std::string* error) {
  Outcome outcome;
  if (!Play(request, &outcome, error)) return false;
  std::error_code code;
  const std::string data = folder + "/data";
  std::filesystem::remove_all(data, code);
  std::filesystem::create_directories(data, code);
  if (code) {
    *error = data + ": " + code.message();
    return false;
  }
  const bool written = request.fr ? WriteFlightRecorderFolder(*outcome.run, outcome.dump, data, error)
                                  : WriteLsdFolder(*outcome.run, outcome.dump, data, error);
  return written && WriteFile(folder + "/truth.json", TruthJson(request, outcome), error);
}

}  // namespace lockstep::corpus
