#include "analyzer/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::HostFault;
using testing::Job;

constexpr int kSteps = 6, kFaultStep = 3;

std::string Describe(const Verdict& v) { return v.DebugString(); }

void ExpectOne(const Verdict& v, FindingKind kind, std::vector<int32_t> ranks) {
  ASSERT_GE(v.findings_size(), 1) << Describe(v);
  const Finding& f = v.findings(0);
  EXPECT_EQ(FindingKind_Name(f.kind()), FindingKind_Name(kind)) << Describe(v);
  EXPECT_EQ(std::vector<int32_t>(f.culprit_ranks().begin(), f.culprit_ranks().end()), ranks) << Describe(v);
  for (const Finding& other : v.findings()) {
    for (int32_t r : other.culprit_ranks()) {
      EXPECT_NE(std::find(ranks.begin(), ranks.end(), r), ranks.end()) << "blames healthy rank " << r << "\n"
                                                                       << Describe(v);
    }
  }
}

struct Place {
  int rank;
  std::string comm;
};

void PrintTo(const Place& place, std::ostream* out) { *out << "rank " << place.rank << " on " << place.comm; }

class EngineFault : public ::testing::TestWithParam<Place> {
 protected:
  Job job{2, 2, 2, kSteps};
  int rank() const { return GetParam().rank; }
  size_t At(int nth = 0) const { return job.Find(rank(), GetParam().comm, kFaultStep, nth); }
  bool P2p() const { return GetParam().comm == "pp"; }
  // Returns the place of the n-th collective of that kind.
  size_t AtKind(CallKind kind) const {
    for (int nth = 0;; ++nth) {
      const size_t i = At(nth);
      if (i == SIZE_MAX || job.ranks[rank()].program[i].kind == kind) return i;
    }
  }
};

TEST_P(EngineFault, AStalledCpuThreadIsNamed) {
  job.ranks[rank()].host_fault = HostFault::kStall;
  job.ranks[rank()].host_fault_at = At();
  const Verdict v = Analyze(job.Run());
  ExpectOne(v, HOST_STALL, {rank()});
  EXPECT_EQ(v.verdict(), VERDICT_HUNG);
  EXPECT_EQ(v.findings(0).victim_count(), 7) << Describe(v);
}

TEST_P(EngineFault, AStalledGpuIsNamed) {
  job.ranks[rank()].gpu_stall_at = At();
  ExpectOne(Analyze(job.Run()), GPU_STALL, {rank()});
}

TEST_P(EngineFault, AKilledRankIsNamed) {
  job.ranks[rank()].host_fault = HostFault::kDie;
  job.ranks[rank()].host_fault_at = At();
  const Verdict v = Analyze(job.Run());
  ExpectOne(v, RANK_DEAD, {rank()});
  EXPECT_EQ(v.verdict(), VERDICT_CRASHED);
}

// The CPU thread runs ahead of the GPU, so the process ends after issuing calls that its GPU has not finished.
TEST_P(EngineFault, ARankThatEndedWithWorkInFlightIsNamed) {
  for (HostFault how : {HostFault::kDie, HostFault::kStop, HostFault::kExit}) {
    Job ended = job;
    const size_t at = At();
    ended.ranks[rank()].host_fault = how;
    ended.ranks[rank()].host_fault_at = at + 2;
    ended.ranks[rank()].gpu_stall_at = at;
    const Verdict v = Analyze(ended.Run());
    ExpectOne(v, how == HostFault::kStop ? HOST_STALL : RANK_DEAD, {rank()});
    EXPECT_EQ(v.findings_size(), 1) << Describe(v);
  }
}

TEST_P(EngineFault, AStoppedRankIsNamed) {
  job.ranks[rank()].host_fault = HostFault::kStop;
  job.ranks[rank()].host_fault_at = At();
  const Verdict v = Analyze(job.Run());
  ExpectOne(v, HOST_STALL, {rank()});
  EXPECT_EQ(v.findings(0).culprits(0).state(), "stopped (T)");
}

TEST_P(EngineFault, ARankThatExitedEarlyIsNamed) {
  job.ranks[rank()].host_fault = HostFault::kExit;
  job.ranks[rank()].host_fault_at = At();
  ExpectOne(Analyze(job.Run()), RANK_DEAD, {rank()});
}

// A rank that leaves a group open waits for none of the calls that it issues from then on. It may be anywhere, or may
// have run to its end.
TEST_P(EngineFault, AGroupLeftOpenIsNamed) {
  for (HostFault how : {HostFault::kStall, HostFault::kExit, HostFault::kDie}) {
    Job open = job;
    open.ranks[rank()].host_fault = how;
    open.ranks[rank()].host_fault_at = At();
    Bundle b = open.Run();
    b.ranks[rank()].threads[0].group_depth = 1;
    ExpectOne(Analyze(b), how == HostFault::kDie ? RANK_DEAD : GROUP_LEFT_OPEN, {rank()});
  }
}

TEST_P(EngineFault, ASkippedCallIsNamed) {
  auto& program = job.ranks[rank()].program;
  const size_t at = At();
  const testing::Call skipped = program[at];
  program.erase(program.begin() + static_cast<ptrdiff_t>(at));
  const Verdict v = Analyze(job.Run());
  ExpectOne(v, RANK_NOT_ARRIVED, {rank()});
  EXPECT_EQ(v.findings(0).operation(), ring::CallName(skipped.kind)) << Describe(v);
  EXPECT_NE(v.findings(0).summary().find("skipped"), std::string::npos) << Describe(v);
}

TEST_P(EngineFault, AnExtraCallIsNamed) {
  auto& program = job.ranks[rank()].program;
  const size_t at = At();
  program.insert(program.begin() + static_cast<ptrdiff_t>(at), program[at]);
  program[at].site = 99;
  ExpectOne(Analyze(job.Run()), RANK_AHEAD, {rank()});
}

TEST_P(EngineFault, WrongArgumentsAreNamed) {
  if (P2p()) {
    for (const bool datatype : {false, true}) {
      Job changed = job;
      testing::Call& call = changed.ranks[rank()].program[At(1)];
      datatype ? static_cast<void>(call.datatype = 9) : static_cast<void>(call.count *= 2);
      ExpectOne(Analyze(changed.Run()), datatype ? MISMATCH_DATATYPE : MISMATCH_COUNT, {rank()});
    }
    return;
  }
  struct Case {
    FindingKind kind;
    CallKind call;
    void (*change)(testing::Call*);
  };
  const Case cases[] = {
      {MISMATCH_COUNT, CallKind::kAllReduce, [](testing::Call* c) { c->count *= 2; }},
      {MISMATCH_DATATYPE, CallKind::kAllReduce, [](testing::Call* c) { c->datatype = 8; }},
      {MISMATCH_REDUCTION, CallKind::kAllReduce, [](testing::Call* c) { c->reduction = 2; }},
      {MISMATCH_ROOT, CallKind::kBroadcast, [](testing::Call* c) { c->root_or_peer = 1; }},
      {MISMATCH_KIND, CallKind::kAllReduce,
       [](testing::Call* c) {
         c->kind = CallKind::kAllGather;
         c->reduction = ring::kNoReduction;
       }},
  };
  for (const Case& c : cases) {
    for (bool hangs : {true, false}) {
      SCOPED_TRACE(absl::StrCat(FindingKind_Name(c.kind), hangs ? " hangs" : " completes"));
      Job changed = job;
      size_t at = AtKind(c.call);
      if (at == SIZE_MAX && c.call == CallKind::kAllReduce) at = AtKind(CallKind::kReduceScatter);
      ASSERT_NE(at, SIZE_MAX);
      changed.mismatch_hangs = hangs;
      c.change(&changed.ranks[rank()].program[at]);
      const Verdict v = Analyze(changed.Run());
      ExpectOne(v, c.kind, {rank()});
      EXPECT_EQ(v.verdict(), VERDICT_DESYNC);
    }
  }
}

std::vector<Place> Places() {
  std::vector<Place> all;
  for (int rank : {0, 5, 7}) {
    for (const char* comm : {"tp", "dp", "pp", "world"}) all.push_back({rank, comm});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, EngineFault, ::testing::ValuesIn(Places()),
                         [](const auto& info) { return absl::StrCat("rank", info.param.rank, "_", info.param.comm); });

TEST(Engine, HealthyJobHasNoFinding) {
  for (bool marks : {true, false}) {
    Job job(2, 2, 2, kSteps);
    job.full_marks = marks;
    const Verdict v = Analyze(job.Run());
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << Describe(v);
    EXPECT_EQ(v.findings_size(), 0);
  }
}

TEST(Engine, AStalledJobWithoutAFindingIsNotCalledHealthy) {
  for (bool marks : {true, false}) {
    Job job(2, 2, 2, kSteps);
    job.full_marks = marks;
    Bundle b = job.Run();
    for (Rank& r : b.ranks) r.process.life = Life::kRunning;
    b.known_stalled = true;
    for (Rank& r : b.ranks) r.gpu_marks = marks ? ring::GpuMarks::kFull : ring::GpuMarks::kOff;
    const Verdict v = Analyze(b);
    EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA) << Describe(v);
    EXPECT_EQ(v.findings_size(), 0);
    const std::string blind = absl::StrJoin(v.blind(), "; ");
    EXPECT_NE(blind.find("whether the job is still running"), std::string::npos) << blind;
    EXPECT_EQ(blind.find("GPU progress markers are off") != std::string::npos, !marks) << blind;
    b.known_stalled = false;
    EXPECT_EQ(Analyze(b).verdict(), VERDICT_HEALTHY);
  }
}

TEST(Engine, ASkippedAndAnExtraCallOfOnePairAreDistinguished) {
  Job skip(2, 2, 2, kSteps);
  auto& p4 = skip.ranks[4].program;
  p4.erase(p4.begin() + static_cast<ptrdiff_t>(skip.Find(4, "tp", kFaultStep, 4)));
  ExpectOne(Analyze(skip.Run()), RANK_NOT_ARRIVED, {4});

  Job extra(2, 2, 2, kSteps);
  auto& p5 = extra.ranks[5].program;
  const size_t at = extra.Find(5, "tp", kFaultStep, 4);
  p5.insert(p5.begin() + static_cast<ptrdiff_t>(at), p5[at]);
  ExpectOne(Analyze(extra.Run()), RANK_AHEAD, {5});
}

TEST(Engine, AnExtraCallAfterAllOthersEndedIsNamed) {
  for (int rank : {0, 5}) {
    Job job(2, 2, 2, kSteps);
    auto& program = job.ranks[rank].program;
    program.push_back(program[job.Find(rank, "world", kSteps - 1, 1)]);
    program.push_back({});
    const Verdict v = Analyze(job.Run());
    ExpectOne(v, RANK_AHEAD, {rank});
    EXPECT_NE(v.verdict(), VERDICT_CRASHED);
  }
}

// The call is the last one before the CPU thread waits, so no record contains the next one. Only earlier steps show it.
TEST(Engine, TheLastCallOfAStepIsSkippedOrRepeated) {
  for (int rank : {0, 5, 7}) {
    Job skip(2, 2, 2, kSteps);
    auto& shorter = skip.ranks[rank].program;
    const size_t at = skip.Find(rank, "world", kFaultStep, 1);
    ASSERT_EQ(shorter[at].kind, CallKind::kAllReduce);
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(at));
    ExpectOne(Analyze(skip.Run()), RANK_NOT_ARRIVED, {rank});

    Job extra(2, 2, 2, kSteps);
    auto& longer = extra.ranks[rank].program;
    longer.insert(longer.begin() + static_cast<ptrdiff_t>(at), longer[at]);
    ExpectOne(Analyze(extra.Run()), RANK_AHEAD, {rank});
  }
}

// Every call blocks, as with gloo: a rank's record ends with the call that it is stuck in.
TEST(Engine, SkippedAndExtraBlockingCallsAreNamed) {
  for (int rank : {0, 5, 7}) {
    for (const char* comm : {"tp", "dp", "world"}) {
      for (bool skip : {true, false}) {
        SCOPED_TRACE(absl::StrCat(comm, " rank ", rank, skip ? " skip" : " extra"));
        Job job(2, 2, 2, kSteps);
        for (auto& r : job.ranks) {
          std::vector<testing::Call> blocking;
          for (const testing::Call& c : r.program) {
            if (c.comm < 0) continue;
            blocking.push_back(c);
            if (c.kind != CallKind::kSend) blocking.push_back({});
          }
          r.program = blocking;
        }
        const int index = job.CommOf(rank, comm);
        auto& program = job.ranks[rank].program;
        auto at =
            std::find_if(program.begin() + static_cast<ptrdiff_t>(program.size() / 2), program.end(),
                         [&](const testing::Call& c) { return c.comm == index && c.kind == CallKind::kAllReduce; });
        if (at == program.end()) {
          at = std::find_if(program.begin() + static_cast<ptrdiff_t>(program.size() / 2), program.end(),
                            [&](const testing::Call& c) { return c.comm == index; });
        }
        ASSERT_NE(at, program.end());
        if (skip) {
          program.erase(at, at + 2);
        } else {
          const std::vector<testing::Call> again = {*at, {}};
          program.insert(at, again.begin(), again.end());
        }
        const Verdict v = Analyze(job.Run());
        // If a step has the same call twice in a row, and again after another call, a repeated call looks like a
        // skipped other call. The rank is certain, the kind is not.
        const bool told_apart = comm != std::string("tp");
        ASSERT_GE(v.findings_size(), 1);
        ExpectOne(v, told_apart ? (skip ? RANK_NOT_ARRIVED : RANK_AHEAD) : v.findings(0).kind(), {rank});
      }
    }
  }
}

// Each rank has records saved when hashes first differed, and records left at the end. Each rank has a different gap
// in between.
TEST(Engine, GapsInTheRecordAreNotADifference) {
  Job job(2, 2, 2, 12);
  job.mismatch_hangs = false;
  job.ranks[5].program[job.Find(5, "tp", 3, 2)].reduction = 2;
  Bundle b = job.Run();
  for (Rank& r : b.ranks) {
    const auto from = static_cast<ptrdiff_t>(r.ops.size() * 4 / 10 + static_cast<size_t>(r.rank));
    const auto to = static_cast<ptrdiff_t>(r.ops.size() * 7 / 10 + static_cast<size_t>(3 * r.rank));
    r.ops.erase(r.ops.begin() + from, r.ops.begin() + to);
  }
  b.known_stalled = false;
  ExpectOne(Analyze(b), MISMATCH_REDUCTION, {5});
}

TEST(Engine, TwoStalledRanksAreBothNamed) {
  Job job(2, 2, 2, kSteps);
  for (int r : {2, 5}) {
    job.ranks[r].host_fault = HostFault::kStall;
    job.ranks[r].host_fault_at = job.Find(r, "tp", kFaultStep);
  }
  ExpectOne(Analyze(job.Run()), HOST_STALL, {2, 5});
}

TEST(Engine, ARankWithoutDataIsNamedButNotAsProven) {
  Job job(2, 2, 2, kSteps);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", kFaultStep);
  Bundle b = job.Run();
  b.ranks.erase(b.ranks.begin() + 5);
  const Verdict v = Analyze(b);
  ExpectOne(v, RANK_NO_DATA, {5});
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_LE(v.findings(0).confidence(), 0.6);
  EXPECT_EQ(v.ranks_read(), 7);
  EXPECT_EQ(v.ranks_expected(), 8);
}

// Operations that have been in flight for a moment are not a hang. The missing data is reported, and no rank is
// named.
TEST(Engine, ARankWithoutDataOfAMovingJobIsNotAFinding) {
  Job job(2, 2, 2, kSteps);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", kFaultStep);
  Bundle b = job.Run();
  b.ranks.erase(b.ranks.begin() + 5);
  int64_t newest = 0;
  for (const Rank& r : b.ranks) {
    for (const Op& op : r.ops) newest = std::max(newest, op.enter_ns);
  }
  for (Rank& r : b.ranks) {
    r.captured_ns = newest + 1'000'000;
    for (Op& op : r.ops) op.enter_ns = newest;
  }
  b.known_stalled = false;
  const Verdict v = Analyze(b);
  EXPECT_EQ(v.findings_size(), 0) << Describe(v);
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(v.ranks_read(), 7);
}

// The first operation of a communicator takes time to connect. A rank without data may be in it like the rest.
TEST(Engine, ARankWithoutDataMayBeInARecentFirstOperation) {
  for (const int step : {0, kFaultStep}) {
    Job job(2, 1, 1, kSteps);
    job.ranks[1].host_fault = HostFault::kStall;
    job.ranks[1].host_fault_at = job.Find(1, "tp", step);
    Bundle b = job.Run();
    b.ranks.pop_back();
    b.known_stalled = false;
    const Verdict seen = Analyze(b);
    EXPECT_EQ(seen.verdict(), VERDICT_INCOMPLETE_DATA);
    if (step > 0) {
      ExpectOne(seen, RANK_NO_DATA, {1});
      continue;
    }
    EXPECT_EQ(seen.findings_size(), 0) << Describe(seen);
    ASSERT_GE(seen.ruled_out_size(), 1) << Describe(seen);
    EXPECT_NE(seen.ruled_out(seen.ruled_out_size() - 1).why().find("all members that left data are in"),
              std::string::npos)
        << Describe(seen);
    b.known_stalled = true;
    ExpectOne(Analyze(b), RANK_NO_DATA, {1});
    b.known_stalled = false;
    b.ranks[0].captured_ns += 60'000'000'000;
    ExpectOne(Analyze(b), RANK_NO_DATA, {1});
  }
}

// Four ranks, all members of two communicators, without any data.
Bundle TwoGroups() {
  Bundle b;
  b.ranks_expected = 4;
  b.comms.resize(2);
  for (Communicator& comm : b.comms) comm.size = 4, comm.members = {0, 1, 2, 3};
  b.comms[0].id = b.comms[0].name = "world";
  b.comms[1].id = b.comms[1].name = "data";
  return b;
}

// The records of the unfinished calls are overwritten, so only the hashes show that rank 2 made another call.
TEST(Engine, HashesShowACallWhoseRecordIsGone) {
  constexpr int64_t kNow = 5'000'000'000'000, kSecond = 1'000'000'000;
  Bundle b = TwoGroups();
  for (int r = 0; r < 4; ++r) {
    Rank rank;
    rank.rank = r;
    rank.source = Source::kDump;
    rank.captured_ns = kNow;
    rank.records_lost = 30;
    rank.gpu_marks = ring::GpuMarks::kFull;
    rank.memberships.resize(2);
    for (uint32_t comm = 0; comm < 2; ++comm) {
      Membership& ms = rank.memberships[comm];
      ms.comm = comm;
      ms.member_rank = r;
      ms.issued = 20;
      ms.checkpoints = {{16, 7}};
    }
    ring::StreamSnapshot& stream = rank.streams.emplace_back();
    stream.marked = true;
    stream.issued = 40, stream.started = 31, stream.completed = 30;
    for (int64_t ticket = 35; ticket <= 40; ++ticket) {
      Op op;
      op.membership = static_cast<uint32_t>(ticket % 2);
      op.kind = CallKind::kAllReduce;
      op.seq = (ticket + 1) / 2;
      op.record_id = op.ticket = ticket;
      op.stream = 0;
      op.state = OpState::kEnqueued;
      op.enter_ns = kNow - (80 - ticket) * kSecond;
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
  }
  ExpectOne(Analyze(b), COLLECTIVE_STUCK, {0, 1, 2, 3});
  b.ranks[2].memberships[0].checkpoints = {{16, 8}};
  ExpectOne(Analyze(b), SILENT_DESYNC, {2});
}

// The job continued, so the record of the operation is overwritten. Counters show that it is the first.
TEST(Engine, ARankWithoutDataMayBeInAnUnrecordedFirstOperation) {
  constexpr int64_t kNow = 5'000'000'000'000, kSecond = 1'000'000'000;
  Bundle b = TwoGroups();
  for (int r = 0; r < 3; ++r) {
    Rank rank;
    rank.rank = r;
    rank.source = Source::kFlightRecorder;
    rank.captured_ns = kNow;
    rank.records_lost = 9;
    Membership world, data;
    world.comm = 0, data.comm = 1;
    world.member_rank = data.member_rank = r;
    world.issued = 30, world.completed = 29;
    data.issued = 1, data.completed = kNone;
    rank.memberships = {world, data};
    for (int64_t seq = 11; seq <= 30; ++seq) {
      Op op;
      op.membership = 0;
      op.kind = CallKind::kAllReduce;
      op.seq = seq;
      op.record_id = 20 + seq;
      op.state = seq < 30 ? OpState::kCompleted : OpState::kEnqueued;
      op.enter_ns = kNow - (50 - seq) * kSecond;
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
  }
  const Verdict seen = Analyze(b);
  EXPECT_EQ(seen.findings_size(), 0) << Describe(seen);
  EXPECT_EQ(seen.verdict(), VERDICT_INCOMPLETE_DATA);
  ASSERT_GE(seen.ruled_out_size(), 1) << Describe(seen);
  EXPECT_NE(seen.ruled_out(0).why().find("all members that left data are in the first operation of data"),
            std::string::npos)
      << Describe(seen);
  for (Rank& rank : b.ranks) rank.captured_ns += 180 * kSecond;
  ExpectOne(Analyze(b), RANK_NO_DATA, {3});
}

TEST(Engine, ARankMissingFromAMismatchedCallIsNamedToo) {
  for (const HostFault fault : {HostFault::kDie, HostFault::kStall, HostFault::kStop}) {
    Job job(2, 2, 2, kSteps);
    size_t at[8];
    for (int r = 0; r < 8; ++r) {
      int nth = 0;
      while (job.ranks[r].program[job.Find(r, "world", kFaultStep, nth)].kind != CallKind::kAllReduce) ++nth;
      at[r] = job.Find(r, "world", kFaultStep, nth);
    }
    job.ranks[2].program[at[2]].count *= 2;
    job.ranks[5].host_fault = fault;
    job.ranks[5].host_fault_at = at[5];
    const Verdict v = Analyze(job.Run());
    ASSERT_EQ(v.findings_size(), 2) << Describe(v);
    std::map<FindingKind, std::vector<int32_t>> named;
    for (const Finding& f : v.findings()) named[f.kind()].assign(f.culprit_ranks().begin(), f.culprit_ranks().end());
    EXPECT_EQ(named[MISMATCH_COUNT], std::vector<int32_t>{2}) << Describe(v);
    EXPECT_EQ(named[fault == HostFault::kDie ? RANK_DEAD : HOST_STALL], std::vector<int32_t>{5}) << Describe(v);
  }
}

// All ranks make a rare call, as before a checkpoint. One rank never reaches it; another skips it, continues with the
// next step and waits there for the first. The second rank is not just a victim.
TEST(Engine, ARankThatSkipsARareCallIsNamedBesideARankStuckBeforeIt) {
  for (const bool skips : {false, true}) {
    Job job(2, 1, 4, kSteps);
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      auto& program = job.ranks[r].program;
      const size_t at = job.Find(static_cast<int>(r), "world", kFaultStep, 1) + 1;
      if (r == 2) job.ranks[r].host_fault_at = at, job.ranks[r].host_fault = HostFault::kStall;
      if (skips && r == 5) continue;
      program.insert(program.begin() + static_cast<std::ptrdiff_t>(at), {0, CallKind::kAllReduce, 5, 7, 0, -1, 77});
    }
    const Verdict v = Analyze(job.Run());
    std::map<int32_t, FindingKind> named;
    for (const Finding& f : v.findings()) {
      for (const int32_t rank : f.culprit_ranks()) named[rank] = f.kind();
    }
    EXPECT_EQ(named.size(), skips ? 2u : 1u) << Describe(v);
    EXPECT_EQ(named[2], HOST_STALL) << Describe(v);
    EXPECT_EQ(named.contains(5), skips) << Describe(v);
  }
}

TEST(Engine, WithoutStartMarkersAStuckGpuIsNotDistinguishedFromItsPeer) {
  Job job(2, 2, 2, kSteps);
  job.full_marks = false;
  job.ranks[5].gpu_stall_at = job.Find(5, "tp", kFaultStep);
  const Verdict v = Analyze(job.Run());
  ExpectOne(v, COLLECTIVE_STUCK, {4, 5});
}

TEST(Engine, IfNoGpuReachesTheOperationOtherWorkIsBeforeIt) {
  Job job(2, 1, 1, kSteps);
  for (int r : {0, 1}) job.ranks[r].gpu_stall_at = job.Find(r, "tp", kFaultStep);
  Bundle b = job.Run();
  b.known_stalled = true;
  const Verdict hung = Analyze(b);
  ExpectOne(hung, GPU_STALL, {0, 1});
  EXPECT_EQ(hung.verdict(), VERDICT_HUNG);
  EXPECT_NE(hung.findings(0).summary().find("an earlier kernel does not finish"), std::string::npos) << Describe(hung);
  // With a single observation, this work may be a long computation.
  b.known_stalled = false;
  const Verdict seen = Analyze(b);
  EXPECT_EQ(seen.findings_size(), 0) << Describe(seen);
  EXPECT_EQ(seen.verdict(), VERDICT_LATE);
  ASSERT_GE(seen.ruled_out_size(), 1);
  EXPECT_NE(seen.ruled_out(seen.ruled_out_size() - 1).why().find("no GPU has started"), std::string::npos)
      << Describe(seen);
  for (Rank& r : b.ranks) r.captured_ns += 60'000'000'000;
  ExpectOne(Analyze(b), GPU_STALL, {0, 1});
}

TEST(Engine, OppositeOrdersAreAnInversion) {
  // Half of the ranks reduce on dp before they broadcast on tp. Four ranks wait in a cycle. In earlier steps, all had
  // the order of the other half.
  Job job(2, 1, 2, kSteps);
  for (int r : {0, 3}) {
    auto& p = job.ranks[r].program;
    const size_t a = job.Find(r, "tp", kFaultStep, 12), b = job.Find(r, "dp", kFaultStep, 0);
    ASSERT_EQ(p[a].kind, CallKind::kBroadcast);
    std::swap(p[a], p[b]);
  }
  ExpectOne(Analyze(job.Run()), ORDER_INVERSION, {0, 3});
}

TEST(Engine, RingsOfAKilledHealthyJobNameNoHang) {
  Job job(2, 2, 2, kSteps);
  Bundle gone = job.Run();
  for (Rank& r : gone.ranks) {
    r.source = Source::kRing;
    r.process = Process();
    r.process.life = Life::kGone;
    r.recorder_state = ring::RecorderState::kRecording;
  }
  gone.known_stalled = false;
  gone.ranks[6].recorder_state = ring::RecorderState::kCleanExit;
  Verdict v = Analyze(gone);
  ExpectOne(v, RANK_DEAD, {0, 1, 2, 3, 4, 5, 7});
  EXPECT_EQ(v.verdict(), VERDICT_CRASHED);
  EXPECT_NE(v.findings(0).summary().find("ended without a clean exit"), std::string::npos) << Describe(v);
  // A rank that still runs may continue. A rank whose end is not visible here may be running elsewhere.
  for (const Life life : {Life::kRunning, Life::kUnknown}) {
    Bundle partly = gone;
    partly.ranks[0].process.life = life;
    EXPECT_EQ(Analyze(partly).findings_size(), 0);
  }
  for (Rank& r : gone.ranks) r.recorder_state = ring::RecorderState::kCleanExit;
  EXPECT_EQ(Analyze(gone).verdict(), VERDICT_HEALTHY);
}

// exit() closes the ring, so the ring shows that its process ended even if nobody saw that.
TEST(Engine, ARingClosedByExitIsThatOfAnEndedProcess) {
  for (const Life life : {Life::kGone, Life::kUnknown}) {
    Job job(2, 2, 2, kSteps);
    job.ranks[5].host_fault = HostFault::kExit;
    job.ranks[5].host_fault_at = job.Find(5, "tp", kFaultStep);
    Bundle b = job.Run();
    for (Rank& r : b.ranks) {
      r.source = Source::kRing;
      r.process.life = life;
      r.recorder_state = r.rank == 5 ? ring::RecorderState::kCleanExit : ring::RecorderState::kRecording;
    }
    b.ranks[0].process.life = Life::kRunning;
    const Verdict v = Analyze(b);
    ExpectOne(v, RANK_DEAD, {5});
    EXPECT_NE(v.findings(0).summary().find("exited; the exit status is unknown"), std::string::npos) << Describe(v);
  }
}

TEST(Engine, AGpuThatJustFinishedAnOperationIsNotStalled) {
  for (const int64_t seconds : {1, 30}) {
    Job job(2, 2, 2, kSteps);
    job.ranks[5].gpu_stall_at = job.Find(5, "dp", kFaultStep);
    Bundle b = job.Run();
    b.known_stalled = false;
    Rank& rank = b.ranks[5];
    Op* done = nullptr;
    for (Op& op : rank.ops) {
      if (op.state == OpState::kCompleted) done = &op;
    }
    ASSERT_NE(done, nullptr);
    done->completed_ns = rank.captured_ns - seconds * 1'000'000'000;
    const Verdict v = Analyze(b);
    EXPECT_EQ(v.verdict(), VERDICT_LATE);
    if (seconds == 1) {
      EXPECT_EQ(v.findings_size(), 0) << Describe(v);
    } else {
      ExpectOne(v, GPU_STALL, {5});
    }
  }
}

TEST(Engine, RingsOfAKilledHungJobGiveAHypothesis) {
  Job job(2, 2, 2, kSteps);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", kFaultStep);
  Bundle gone = job.Run();  // known to be stuck, even if the rings do not show it
  for (Rank& r : gone.ranks) {
    r.source = Source::kRing;
    r.process.life = Life::kGone;
  }
  gone.known_stalled = false;
  // When the processes ended is unknown. A healthy job that is killed leaves such rings too, unless one rank shows
  // activity long afterwards.
  Verdict v = Analyze(gone);
  ExpectOne(v, HOST_STALL, {5});
  EXPECT_TRUE(v.findings(0).hypothesis());
  EXPECT_LE(v.findings(0).confidence(), 0.6);
  EXPECT_TRUE(v.findings(0).culprits(0).ended());
  EXPECT_NE(v.DebugString().find("or its processes were ended"), std::string::npos);
  EXPECT_EQ(v.DebugString().find(" for 3"), std::string::npos) << "the duration is unknown";
  int64_t newest = 0;
  for (const Rank& r : gone.ranks) {
    for (const Op& op : r.ops) newest = std::max(newest, op.enter_ns);
  }
  ASSERT_FALSE(gone.ranks[3].threads.empty());
  gone.ranks[3].threads[0].last_call_ns = newest + 60'000'000'000;
  v = Analyze(gone);
  ExpectOne(v, HOST_STALL, {5});
  EXPECT_FALSE(v.findings(0).hypothesis());
  Bundle ended = job.Run();
  for (Rank& r : ended.ranks) {
    r.process.life = Life::kKilled;
    r.process.signal = 15;
    r.process.consequence = true;
  }
  ExpectOne(Analyze(ended), HOST_STALL, {5});
}

TEST(Engine, ResultDoesNotDependOnClocks) {
  Job job(2, 2, 2, kSteps);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "dp", kFaultStep);
  Bundle b = job.Run();
  const Verdict straight = Analyze(b);
  for (Rank& r : b.ranks) r.real_minus_mono_ns = (r.rank % 3) * 5'000'000'000;
  const Verdict skewed = Analyze(b);
  EXPECT_EQ(straight.findings(0).kind(), skewed.findings(0).kind());
  EXPECT_EQ(straight.findings(0).culprit_ranks(0), skewed.findings(0).culprit_ranks(0));
}

TEST(Engine, AnEmptyBundleGivesNoFinding) {
  const Verdict v = Analyze(Bundle{});
  EXPECT_EQ(v.findings_size(), 0);
  EXPECT_EQ(v.ranks_read(), 0);
}

}  // namespace
}  // namespace lockstep
