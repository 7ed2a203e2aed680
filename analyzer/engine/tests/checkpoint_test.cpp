// Ranks in a checkpoint: on which mount, since when, and which rank does the least I/O.
#include "analyzer/engine/checkpoint.h"

#include <gtest/gtest.h>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/testing/job.h"
#include "analyzer/util/time_units.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

Rank Writing(int32_t number, const char* host, int64_t since_s, int64_t bytes_in_2s) {
  Rank rank;
  rank.rank = number;
  rank.host = host;
  rank.captured_ns = 1000 * kSecond;
  rank.threads.emplace_back().last_call_ns = rank.captured_ns - since_s * kSecond;
  rank.process.python_stack = {"write_data (torch/distributed/checkpoint/filesystem.py:598)"};
  rank.process.written_files = {"/var/log/train.log", "/lustre/ckpt/" + std::to_string(number) + ".distcp"};
  rank.process.written_mounts = {"/ (overlay)", "/lustre (lustre)"};
  rank.process.sample_gap_ns = 2 * kSecond;
  rank.process.io_bytes_between_samples = bytes_in_2s;
  return rank;
}

TEST(Checkpoint, MountsAreReportedWithTheirSlowestRank) {
  Bundle bundle;
  bundle.ranks = {Writing(0, "n1", 30, 4000), Writing(1, "n1", 41, 2000), Writing(2, "n2", 31, 6000),
                  Writing(3, "n2", 30, 4000)};
  bundle.ranks[3].process.written_mounts.clear();  // from an agent that did not record them
  bundle.ranks.push_back(Writing(4, "n3", 1, 0));
  bundle.ranks[4].process.python_stack = {"forward (train.py:10)"};
  bundle.ranks[4].process.written_files.pop_back();
  Verdict verdict;
  AddCheckpoints(bundle, &verdict);
  ASSERT_EQ(verdict.checkpoint_size(), 2) << verdict.DebugString();
  const CheckpointMount& lustre = verdict.checkpoint(0);
  EXPECT_EQ(lustre.mount(), "/lustre (lustre)");
  EXPECT_EQ(lustre.ranks(), 3);
  EXPECT_EQ(lustre.hosts(), 2);
  EXPECT_EQ(lustre.longest_ns(), 41 * kSecond);
  EXPECT_EQ(lustre.longest_rank(), 1);
  EXPECT_EQ(lustre.median_ns(), 31 * kSecond);
  EXPECT_EQ(lustre.bytes_per_s(), 6000);
  EXPECT_EQ(lustre.sampled(), 3);
  EXPECT_EQ(lustre.slowest_bytes_per_s(), 1000);
  EXPECT_EQ(lustre.slowest_rank(), 1);
  EXPECT_EQ(lustre.slowest_host(), "n1");
  EXPECT_EQ(lustre.slowest_file(), "/lustre/ckpt/1.distcp");
  EXPECT_EQ(verdict.checkpoint(1).mount(), "") << "the record does not have it";
  EXPECT_EQ(verdict.checkpoint(1).ranks(), 1);
}

TEST(Checkpoint, TheFindingNamesTheMount) {
  Bundle bundle;
  bundle.ranks = {Writing(0, "n1", 30, 0)};
  Finding finding;
  DescribeStall(bundle, {0}, &finding);
  EXPECT_EQ(finding.activity_mount(), "/lustre (lustre)");
}

TEST(Checkpoint, ARankThatWaitsForItsPeersSavesNothing) {
  Bundle bundle;
  bundle.ranks = {Writing(0, "n1", 30, 0)};
  bundle.ranks[0].process.python_stack = {"barrier (torch/distributed/distributed_c10d.py:4800)",
                                          "save_checkpoint (train.py:9)"};
  Verdict verdict;
  AddCheckpoints(bundle, &verdict);
  EXPECT_EQ(verdict.checkpoint_size(), 0) << verdict.DebugString();
}

TEST(Checkpoint, WhatWasNotSampledIsUnknown) {
  Bundle bundle;
  bundle.ranks = {Writing(0, "", 0, 0)};
  bundle.ranks[0].threads[0].call = ring::CallKind::kAllReduce;
  bundle.ranks[0].process.sample_gap_ns = 0;
  bundle.ranks[0].process.io_bytes_between_samples = -1;
  // The stack shows a checkpoint, but no checkpoint file is open, so its mount is unknown.
  bundle.ranks[0].process.written_files = {"/var/log/train.log"};
  Verdict verdict;
  AddCheckpoints(bundle, &verdict);
  ASSERT_EQ(verdict.checkpoint_size(), 1);
  EXPECT_EQ(verdict.checkpoint(0).mount(), "");
  EXPECT_EQ(verdict.checkpoint(0).hosts(), 0);
  EXPECT_EQ(verdict.checkpoint(0).longest_ns(), 0);
  EXPECT_EQ(verdict.checkpoint(0).longest_rank(), -1);
  EXPECT_EQ(verdict.checkpoint(0).bytes_per_s(), -1);
  EXPECT_EQ(verdict.checkpoint(0).slowest_rank(), -1);
}

TEST(RanksRead, ARankMayBeKnownOnlyByItsEnd) {
  lockstep::testing::Job job(2, 1, 2, 4);
  Bundle bundle = job.Run();
  EXPECT_EQ(Analyze(bundle).ranks_only_ended(), 0);
  Rank& rank = bundle.ranks[3];
  rank.memberships.clear();
  rank.ops.clear();
  rank.threads.clear();
  rank.process = Process();
  EXPECT_EQ(Analyze(bundle).ranks_only_ended(), 0);
  rank.process.life = Life::kExited;
  const Verdict verdict = Analyze(bundle);
  EXPECT_EQ(verdict.ranks_read(), 4);
  EXPECT_EQ(verdict.ranks_only_ended(), 1);
  ProcessEvidence log;  // the host's kernel log, read after the end
  log.set_taken_ns(1);
  rank.process.evidence = std::make_shared<ProcessEvidence>(log);
  EXPECT_EQ(Analyze(bundle).ranks_only_ended(), 1);
}

TEST(RanksRead, EndsAloneShowACrashButNotAHealthyJob) {
  Bundle bundle;
  for (int32_t r = 0; r < 4; ++r) {
    Rank& rank = bundle.ranks.emplace_back();
    rank.rank = r;
    rank.host = "n1";
    rank.process.life = Life::kExited;
    rank.process.ended_mono_ns = 1000 + r;
  }
  EXPECT_EQ(Analyze(bundle).verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(Analyze(Bundle()).verdict(), VERDICT_INCOMPLETE_DATA);
  bundle.ranks[2].process.life = Life::kKilled;
  bundle.ranks[2].process.signal = 9;
  bundle.ranks[3].process.exit_code = 1;
  bundle.ranks[3].process.consequence = true;
  const Verdict verdict = Analyze(bundle);
  EXPECT_EQ(verdict.verdict(), VERDICT_CRASHED);
  ASSERT_EQ(verdict.findings_size(), 1) << verdict.DebugString();
  EXPECT_EQ(verdict.findings(0).culprit_ranks(0), 2);
  EXPECT_EQ(verdict.unmeasured_size() + verdict.not_seen_size(), 0) << verdict.DebugString();
}

}  // namespace
}  // namespace lockstep
