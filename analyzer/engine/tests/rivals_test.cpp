// Tests that, of two explanations for the same record, the one with fewer faults comes first.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using testing::Culprits;
using testing::ExpectOnly;
using testing::Show;

// A job whose ranks are all in "world". Tests add further groups.
class DumpedJob {
 public:
  explicit DumpedJob(int ranks, std::string backend = "nccl") : backend_(std::move(backend)) {
    std::vector<int32_t> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    for (int r = 0; r < ranks; ++r) {
      FrDump dump;
      dump.groups = {FrGroup{.name = "0", .desc = "world", .ranks = all}};
      dumps_.push_back(dump);
    }
  }

  void AddGroup(const std::string& name, const std::string& desc, const std::vector<int32_t>& ranks) {
    for (const int32_t r : ranks) {
      auto& groups = dumps_[static_cast<size_t>(r)]->groups;
      groups.push_back(
          FrGroup{.name = name, .desc = desc, .ranks = ranks, .pg_id = static_cast<int64_t>(groups.size())});
    }
  }
  // The rank calls `op` on its group with this description, from line `site`.
  void Call(int rank, const std::string& desc, const std::string& op, bool done, int64_t elements = 16, int site = 10) {
    FrDump& dump = *dumps_[static_cast<size_t>(rank)];
    for (FrGroup& group : dump.groups) {
      if (group.desc != desc) continue;
      group.enqueued = std::max<int64_t>(group.enqueued, 0) + 1;
      if (done) group.completed = group.enqueued;
      FrEntry entry;
      entry.op = backend_ + ":" + op;
      entry.seq = group.enqueued;
      entry.pg = group.name;
      entry.desc = desc;
      entry.pg_id = group.pg_id;
      const auto members = static_cast<int64_t>(group.ranks.size());
      entry.input = {{op == "_reduce_scatter_base" ? elements * members : elements}};
      entry.output = {{op == "_all_gather_base" ? elements * members : elements}};
      entry.state = done && backend_ == "nccl" ? "completed" : "scheduled";
      entry.retired = done;
      if (done && backend_ == "nccl") entry.completed_ns = fr_test::kFirstEntryNs + 1'000'000'000;
      entry.frames = {{.name = "step", .filename = "/opt/train.py", .line = site}};
      dump.entries.push_back(entry);
    }
  }
  void Lose(int rank) { dumps_[static_cast<size_t>(rank)].reset(); }
  FrDump* dump(int rank) { return &*dumps_[static_cast<size_t>(rank)]; }
  Verdict Analyzed() const { return Analyze(fr_test::LoadDumps(dumps_)); }

 private:
  std::string backend_;
  std::vector<std::optional<FrDump>> dumps_;
};

TEST(Rivals, AnExtraCallIsLikelierThanAFaultOfAllOthers) {
  DumpedJob job(4);
  for (int r = 0; r < 4; ++r) job.Call(r, "world", "all_reduce", true);
  job.Call(2, "world", "all_reduce", false);
  const Verdict v = job.Analyzed();
  ExpectOnly(v, RANK_AHEAD, {2});
  ASSERT_GE(v.findings(0).alternatives_size(), 1);
  EXPECT_NE(v.findings(0).alternatives(0).find("stuck outside NCCL"), std::string::npos);
  // With two ranks missing and two waiting, neither side is a minority.
  job.Call(3, "world", "all_reduce", false);
  ExpectOnly(job.Analyzed(), RANK_NOT_ARRIVED, {0, 1});
}

// One rank's dump is missing. gloo records no sends, so there the idle ranks may wait for that rank.
TEST(Rivals, AnExtraCallIsLikelierAlsoWhereAFileIsMissing) {
  for (const char* backend : {"gloo", "nccl"}) {
    DumpedJob job(6, backend);
    for (int r = 0; r < 6; ++r) job.Call(r, "world", "all_reduce", true);
    job.Call(2, "world", "all_reduce", false);
    job.Lose(5);
    const Verdict v = job.Analyzed();
    ASSERT_GE(v.findings_size(), 1) << Show(v);
    const bool told = std::string(backend) == "nccl";
    EXPECT_EQ(v.findings(0).kind() == RANK_AHEAD, told) << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{told ? 2 : 5})) << Show(v);
    EXPECT_LE(v.findings(0).confidence(), 0.75);
  }
}

// The buffer no longer contains the first call that rank 2 made on its own.
TEST(Rivals, AnExtraCallWhoseRecordWasOverwrittenIsNamed) {
  DumpedJob job(6);
  for (int r = 0; r < 6; ++r) {
    for (int i = 0; i < 3; ++i) job.Call(r, "world", "all_reduce", true);
  }
  for (int i = 0; i < 4; ++i) job.Call(2, "world", "all_reduce", false);
  FrDump& dump = *job.dump(2);
  dump.entries.erase(dump.entries.begin(), dump.entries.begin() + 4);
  const Verdict v = job.Analyzed();
  ExpectOnly(v, RANK_AHEAD, {2});
  for (const ChainLink& link : v.findings(0).chain()) EXPECT_NE(link.what(), ChainLink::SET_UP) << Show(v);
}

TEST(Rivals, TheOnlyRankThatCompletedTheOthersCallIsOdd) {
  DumpedJob job(4);
  for (int r = 0; r < 4; ++r) job.Call(r, "world", "all_reduce", r == 3);
  job.Call(3, "world", "all_reduce", false);
  ExpectOnly(job.Analyzed(), SILENT_DESYNC, {3});
}

// gloo records no sends and no barriers. An idle rank may be waiting for the rank whose process ended.
TEST(Rivals, ARankWithoutADumpIsLikelierThanIdleRanksWithUnrecordedWaits) {
  for (const char* backend : {"gloo", "nccl"}) {
    DumpedJob job(4, backend);
    job.AddGroup("1", "pair", {1, 2});
    for (int r = 0; r < 4; ++r) job.Call(r, "world", "all_reduce", true);
    for (const int r : {1, 2}) job.Call(r, "pair", "all_reduce", true);
    for (const int r : {0, 2}) job.Call(r, "world", "all_reduce", false);
    job.Lose(3);
    const Verdict v = job.Analyzed();
    ASSERT_GE(v.findings_size(), 1) << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{std::string(backend) == "gloo" ? 3 : 1})) << Show(v);
  }
}

// The rank without data is not a member of the pair, so it does not explain why the pair's collective is stuck.
TEST(Rivals, ACallThatAllMembersAreInComesBeforeAnAbsenceFromALaterCall) {
  DumpedJob job(4);
  job.AddGroup("1", "pair", {0, 1});
  for (int r = 0; r < 4; ++r) job.Call(r, "world", "all_reduce", true);
  for (const int r : {0, 1}) job.Call(r, "pair", "all_reduce", true);
  for (const int r : {0, 1}) job.Call(r, "pair", "all_reduce", false);
  for (int r = 0; r < 4; ++r) job.Call(r, "world", "all_reduce", false);
  job.Lose(3);
  ExpectOnly(job.Analyzed(), COLLECTIVE_STUCK, {0, 1});
}

TEST(Rivals, SendsAndReceivesOfDifferentSizesAreAMismatch) {
  DumpedJob job(2);
  for (const int r : {0, 1}) {
    FrEntry entry;
    entry.op = r == 0 ? "nccl:send 0->1" : "nccl:recv 1<-0";
    entry.is_p2p = true;
    entry.p2p_seq = 1;
    entry.seq = 0;
    entry.desc = "world";
    entry.input = entry.output = {{r == 0 ? 5 : 4, 4}};
    job.dump(r)->entries.push_back(entry);
    job.dump(r)->groups[0].enqueued = 1;
  }
  ExpectOnly(job.Analyzed(), MISMATCH_COUNT, {0, 1});
}

TEST(Rivals, SeveralSkippedCallsAreNotAnExtraCall) {
  DumpedJob job(4);
  for (int step = 0; step < 3; ++step) {
    for (int r = 0; r < 4; ++r) {
      const bool skips = step == 2 && r == 1;
      job.Call(r, "world", "all_reduce", true, 1, 10);
      for (int bucket = 0; bucket < 5 && !skips; ++bucket)
        job.Call(r, "world", "all_reduce", step < 2, 100 + bucket, 20);
      job.Call(r, "world", "all_reduce", step < 2, 1, 30);
    }
  }
  const Verdict v = job.Analyzed();
  ExpectOnly(v, RANK_NOT_ARRIVED, {1});
  EXPECT_NE(v.findings(0).summary().find("skipped"), std::string::npos) << Show(v);
}

// The pairs have different numbers and sizes of micro-batches. Equal sequence numbers therefore mean different calls,
// but a reduce-scatter always follows an all-gather.
TEST(Rivals, TheFollowingCallDecidesIfNumbersOfSimilarRanksDiffer) {
  DumpedJob job(6);
  for (const int first : {0, 2, 4}) job.AddGroup(std::to_string(1 + first / 2), "pair", {first, first + 1});
  for (int r = 0; r < 6; ++r) {
    const int batches = 3 + r / 2;
    for (int b = 0; b < batches; ++b) {
      const int64_t elements = 64 * (7 * (r / 2) + b + 1);
      job.Call(r, "pair", "_all_gather_base", true, elements);
      job.Call(r, "pair", "_reduce_scatter_base", true, elements);
    }
  }
  // In the next batch rank 3 gathers twice.
  for (const int r : {2, 3}) job.Call(r, "pair", "_all_gather_base", true, 4096);
  job.Call(3, "pair", "_all_gather_base", false, 4096);
  job.Call(2, "pair", "_reduce_scatter_base", false, 4096);
  const Verdict v = job.Analyzed();
  ASSERT_GE(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{3})) << Show(v);
}

// Nothing is in flight, because the backend retires operations when they are issued. Only one rank issued the last
// one.
TEST(Rivals, IfOneRankDiffersFromManyByOneCallItIsNamed) {
  DumpedJob job(6, "gloo");
  for (int r = 0; r < 6; ++r) job.Call(r, "world", "all_reduce", true);
  job.Call(2, "world", "all_reduce", true);
  const Verdict v = job.Analyzed();
  ASSERT_GE(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), RANK_AHEAD) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2}) << Show(v);
  EXPECT_NE(v.findings(0).summary().find("5 other members never called"), std::string::npos) << Show(v);
  // What the other ranks are doing now is not recorded.
  for (const Evidence& evidence : v.findings(0).evidence()) EXPECT_NE(evidence.kind(), Evidence::ENDED_BEFORE);
}

TEST(Rivals, DumpsWithNothingInFlightAreNotCalledHealthy) {
  DumpedJob job(2);
  for (int r = 0; r < 2; ++r) job.Call(r, "world", "all_reduce", true);
  const Verdict v = job.Analyzed();
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA) << Show(v);
  EXPECT_EQ(v.findings_size(), 0);
  ASSERT_GE(v.blind_size(), 1);
  EXPECT_NE(v.blind(0).find("whether the job is still running"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
