#include "tests/bench/slow/jobs.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "analyzer/formats/load/load.h"
#include "analyzer/testing/timed_job.h"
#include "tests/corpus/dump.h"

namespace lockstep::slow {
namespace {

using corpus::Act;
using corpus::kMicro;
using corpus::kMilli;

constexpr int64_t kPollNs = 10 * kMilli;

struct Request {
  Form form;
  Fault fault;
  double share;
  int ranks;
  double jitter;
  uint64_t seed;
};

// Rounds times to the moments when a host's agent reads all GPU markers of the host; each host has its own phase.
void Poll(Bundle* bundle, uint64_t seed) {
  for (Rank& rank : bundle->ranks) {
    const auto phase = static_cast<int64_t>(corpus::Mix(seed, std::hash<std::string>()(rank.host)) % kPollNs);
    const auto seen = [&](int64_t t) { return t == 0 ? 0 : (t - phase + kPollNs - 1) / kPollNs * kPollNs + phase; };
    rank.time_source = TimeSource::kSampledMarks;
    rank.time_uncertainty_ns = kPollNs;
    for (Op& op : rank.ops) op.started_ns = seen(op.started_ns), op.completed_ns = seen(op.completed_ns);
  }
}

std::vector<int32_t> HostOf(int rank, int per_host) {
  std::vector<int32_t> ranks(static_cast<size_t>(per_host));
  std::iota(ranks.begin(), ranks.end(), rank / per_host * per_host);
  return ranks;
}

// Makes a job with one stream, in which all operations run in sequence.
Job InStep(const Request& request) {
  corpus::Random random(corpus::Mix(request.seed, 1));
  testing::TimedJob job;
  job.seed = request.seed;
  job.jitter = 0;
  std::vector<corpus::Random> chance;
  for (int r = 0; r < request.ranks; ++r)
    chance.emplace_back(corpus::Mix(request.seed, 100 + static_cast<uint64_t>(r)));
  job.compute_factor = [&](int rank, int) {
    return 1 + request.jitter * (2 * chance[static_cast<size_t>(rank)].Unit() - 1);
  };
  job.tp = static_cast<int>(random.Chance(0.5) ? 2 : 4);
  job.pp = static_cast<int>(request.ranks >= 16 && random.Chance(0.4) ? 2 : 1);
  job.dp = request.ranks / job.tp / job.pp;
  job.gpus_per_host = job.tp;
  job.steps = static_cast<int>(random.Between(5, 24));
  const bool polled = request.form == Form::kPolled;
  job.compute_ns = random.Between(polled ? 10 : 2, polled ? 60 : 20) * kMilli;
  job.transfer_ns = job.compute_ns / random.Between(4, 12);
  job.host_runs_ahead = request.form == Form::kEvents || request.form == Form::kPolled ? random.Chance(0.6) : false;
  job.record_started = request.form != Form::kHosts;
  Job out;
  const auto culprit = static_cast<int>(random.Below(request.ranks));
  const int64_t operation_ns = job.compute_ns + job.transfer_ns;
  const auto later = static_cast<int64_t>(request.share * static_cast<double>(operation_ns));
  if (request.fault == Fault::kRank) out.culprits = {culprit};
  if (request.fault == Fault::kSpot) out.culprits = {culprit};
  if (request.fault == Fault::kHost) out.culprits = HostOf(culprit, job.gpus_per_host);
  if (request.fault == Fault::kLink) out.culprits = HostOf(culprit, job.tp);
  const std::vector<int32_t>& slow = out.culprits;
  const auto is_slow = [&](int rank) { return std::binary_search(slow.begin(), slow.end(), rank); };
  const int64_t operations = 4 * job.micro_batches + 1;
  job.delay_ns = [&](int rank, int step, int nth) -> int64_t {
    if (step == 0 && nth == 0)
      return static_cast<int64_t>(corpus::Mix(request.seed, static_cast<uint64_t>(rank)) %
                                  static_cast<uint64_t>(job.compute_ns));
    if (request.fault == Fault::kSpot) return is_slow(rank) && nth == 2 ? operations * later : 0;
    return request.fault == Fault::kRank || request.fault == Fault::kHost ? (is_slow(rank) ? later : 0) : 0;
  };
  job.transfer_factor = [&](const std::vector<int>& members, int) {
    const bool here = request.fault == Fault::kLink && members.size() == slow.size() &&
                      std::equal(members.begin(), members.end(), slow.begin());
    return here ? 1 + static_cast<double>(later) / static_cast<double>(job.transfer_ns) : 1.0;
  };
  out.bundle = job.Run();
  if (polled) Poll(&out.bundle, request.seed);
  if (request.form == Form::kDurations) {
    for (Rank& rank : out.bundle.ranks) {
      rank.host.clear();
      rank.time_source = TimeSource::kFrameworkDurations;
    }
  }
  return out;
}

// Makes pairs of ranks. Each pair runs an all-reduce in parallel with CPU work, then an all-reduce across the pairs,
// then waits for the GPU. The ranks of a pair start at different times and stay shifted.
void MakePairs(corpus::Job* job, const std::vector<int32_t>& slow, const Request& request) {
  corpus::Random random(corpus::Mix(request.seed, 3));
  const int64_t work = random.Between(3, 60) * kMilli;
  const bool world = random.Chance(0.5);
  for (int32_t r = 0; r < job->ranks; ++r) {
    corpus::Program* program = job->Own(r);
    const auto begin =
        std::find_if(program->begin(), program->end(), [](const auto& in) { return in.act == Act::kStep; });
    program->erase(begin, program->end());
    const auto push = [&](Act act, corpus::Slot slot, corpus::CallKind kind, int64_t ns) {
      corpus::Instr in{.act = act, .slot = slot, .kind = kind, .datatype = 7, .reduction = 0};
      in.count = act == Act::kCall ? 256 : 0;
      in.ns = ns;
      program->push_back(in);
    };
    const auto call = [&](corpus::Slot slot) {
      push(Act::kCall, slot, corpus::CallKind::kAllReduce, 0);
      push(Act::kJoin, slot, corpus::CallKind::kNone, 0);
    };
    const int64_t shift =
        r % 2 == 1 ? static_cast<int64_t>(corpus::Mix(request.seed, 5) % static_cast<uint64_t>(work)) : 0;
    push(Act::kHostWork, corpus::kWorld, corpus::CallKind::kNone, shift);
    const bool is_slow = std::binary_search(slow.begin(), slow.end(), r);
    for (int32_t step = 0; step < job->steps; ++step) {
      push(Act::kStep, corpus::kWorld, corpus::CallKind::kNone, 0);
      program->back().count = static_cast<uint64_t>(step);
      call(corpus::kTp);
      call(corpus::kTp);
      // The simulator lengthens HostWork by at most an eighth, so the requested jitter is added here.
      const double chance = request.jitter * (2 * random.Unit() - 1) + (is_slow ? request.share : 0);
      push(Act::kHostWork, corpus::kWorld, corpus::CallKind::kNone,
           static_cast<int64_t>(static_cast<double>(work) * (1 + chance)));
      call(corpus::kDp);
      push(Act::kHostWait, corpus::kWorld, corpus::CallKind::kStreamSynchronize, 0);
      if (world && step % 5 == 4) call(corpus::kWorld);
    }
  }
}

std::optional<Job> Asynchronous(const Request& request) {
  corpus::Random random(corpus::Mix(request.seed, 2));
  static const char* const kLayouts[] = {"3d", "fsdp", "hsdp", "ddp", "interleaved"};
  const bool pairs = request.form == Form::kPairs, recorder = request.form == Form::kRecorder;
  const std::string name = pairs ? "tp2-cp1-pp1-dp" + std::to_string(request.ranks / 2) : kLayouts[random.Below(5)];
  corpus::Layout layout;
  std::string error;
  if (!corpus::MakeLayout(name, request.ranks, request.seed, &layout, &error)) return std::nullopt;
  if (pairs) layout.shared_stream = true;
  const auto steps = static_cast<int32_t>(pairs ? random.Between(12, 60) : random.Between(6, 14));
  corpus::Job job = corpus::MakeJob(layout, request.ranks, steps, request.seed);
  corpus::SimOptions sim;
  sim.compute_jitter = request.jitter;
  sim.live_step = steps - 2;
  sim.live_after = random.Between(kMilli, 5 * kMilli);
  corpus::DumpOptions dump;
  dump.capture.depth = 2000;
  sim.ring_depth = dump.capture.depth + 2048;
  Job out;
  const auto culprit = static_cast<int32_t>(random.Below(request.ranks));
  if (request.fault == Fault::kRank || request.fault == Fault::kSpot) out.culprits = {culprit};
  if (request.fault == Fault::kHost) out.culprits = HostOf(culprit, job.gpus_per_host);
  if (pairs) {
    if (request.fault == Fault::kLink || request.fault == Fault::kSpot) return std::nullopt;
    MakePairs(&job, out.culprits, request);
  } else if (request.fault == Fault::kLink) {
    const corpus::Comm* comm = job.CommOf(culprit, corpus::kTp);
    if (comm == nullptr || comm->members.size() * 2 > static_cast<size_t>(request.ranks)) return std::nullopt;
    out.culprits.assign(comm->members.begin(), comm->members.end());
    sim.slow.push_back({0, 1 + 8 * request.share, {static_cast<int32_t>(comm - job.comms.data())}});
  } else if (request.fault == Fault::kSpot) {
    // One computation per step gets the extra time of the whole step.
    corpus::Program* program = job.Own(culprit);
    int64_t all = 0;
    for (const corpus::Instr& in : *program) all += in.act == Act::kCompute ? in.ns : 0;
    bool first = false;
    for (corpus::Instr& in : *program) {
      first |= in.act == Act::kStep;
      if (in.act != Act::kCompute || !first) continue;
      in.ns += static_cast<int64_t>(request.share * static_cast<double>(all) / static_cast<double>(steps));
      first = false;
    }
  } else {
    for (int32_t r : out.culprits) job.compute_factor[static_cast<size_t>(r)] = 1 + request.share;
  }
  corpus::Simulator run(job, sim);
  run.Run();
  if (run.horizon() == corpus::kNever) return std::nullopt;
  dump.capture.marks = corpus::Marks::kTimed;
  dump.timing = true;
  dump.frames = false;
  dump.processes = false;
  dump.facts = [](int32_t, corpus::HostStatus) { return corpus::ProcessFacts(); };
  dump.capture.jitter = 3 * kMilli;
  dump.capture.at = run.horizon() - dump.capture.jitter;
  std::string folder = std::filesystem::temp_directory_path() / "lockstep-slow-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return std::nullopt;
  const bool written =
      recorder ? WriteFlightRecorderFolder(run, dump, folder, &error) : WriteLsdFolder(run, dump, folder, &error);
  absl::StatusOr<Bundle> bundle = LoadPaths({folder});
  std::error_code code;
  std::filesystem::remove_all(folder, code);
  if (!written || !bundle.ok()) return std::nullopt;
  out.bundle = *std::move(bundle);
  if (pairs) Poll(&out.bundle, request.seed);
  return out;
}

}  // namespace

const char* FormName(Form form) {
  static constexpr const char* kNames[] = {"events",          "polled marks",           "hosts in step", "durations",
                                           "own dump, async", "Flight Recorder, async", "shifted pairs"};
  return kNames[static_cast<size_t>(form)];
}

const char* FaultName(Fault fault) {
  static constexpr const char* kNames[] = {"healthy", "rank", "host", "link", "one spot"};
  return kNames[static_cast<size_t>(fault)];
}

std::optional<Job> MakeJob(Form form, Fault fault, double share, int ranks, double jitter, uint64_t seed) {
  const Request request{form, fault, share, ranks, jitter, seed};
  return form < Form::kOwnDump ? InStep(request) : Asynchronous(request);
}

}  // namespace lockstep::slow
