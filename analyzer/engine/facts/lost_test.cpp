// Tests what counters and tickets still show if rings overwrote the records of current operations, or if files were
// truncated.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::FrEntry;
using testing::HostFault;
using testing::Job;

// Puts tensor-parallel calls on a separate stream, as frameworks do.
void OwnStreamForTensorParallelism(Job* job) {
  for (size_t r = 0; r < job->ranks.size(); ++r) {
    const int tp = job->CommOf(static_cast<int>(r), "tp");
    for (testing::Call& call : job->ranks[r].program) call.stream = call.comm == tp ? 1 : 0;
  }
}

// Adds tickets of each stream, as in rings. Keeps only each rank's newest `keep` calls.
void Overwrite(size_t keep, Bundle* b) {
  for (Rank& rank : b->ranks) {
    std::map<uint32_t, int64_t> issued;
    for (ring::StreamSnapshot& stream : rank.streams) stream.marked = true;
    for (Op& op : rank.ops) {
      ring::StreamSnapshot& stream = rank.streams[op.stream];
      op.ticket = ++issued[op.stream];
      stream.issued = static_cast<uint64_t>(op.ticket);
      if (op.state == OpState::kCompleted) stream.completed = stream.started = stream.issued;
      if (op.state == OpState::kStarted) stream.started = stream.issued;
    }
    for (Membership& ms : rank.memberships) ms.lost_records = 1;
    const size_t lost = rank.ops.size() - std::min(keep, rank.ops.size());
    rank.ops.erase(rank.ops.begin(), rank.ops.begin() + static_cast<std::ptrdiff_t>(lost));
    rank.records_lost = lost;
  }
}

// One GPU completed everything that it began, and did not begin an operation that its tensor-parallel peer has begun.
TEST(Lost, AGpuThatDidNotStartItsPeersOperationIsNamedWithoutARecord) {
  for (int rank : {0, 2, 5}) {
    for (const bool one : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "rank " << rank << (one ? "" : " and its peer"));
      Job job(2, 1, 4, 4);
      OwnStreamForTensorParallelism(&job);
      job.ranks[rank].gpu_stall_at = job.Find(rank, "tp", 2);
      if (!one) job.ranks[rank ^ 1].gpu_stall_at = job.Find(rank ^ 1, "tp", 2);
      Bundle b = job.Run();
      Overwrite(8, &b);
      const Verdict v = Analyze(b);
      ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
      if (one) {
        EXPECT_EQ(v.findings(0).kind(), GPU_STALL) << v.DebugString();
        EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{rank}) << v.DebugString();
        EXPECT_NE(v.findings(0).summary().find("collective #"), std::string::npos) << v.DebugString();
      } else {
        // Neither GPU began the operation, so nothing distinguishes the ranks.
        EXPECT_NE(Culprits(v.findings(0)), std::vector<int32_t>{rank}) << v.DebugString();
        EXPECT_NE(Culprits(v.findings(0)), std::vector<int32_t>{rank ^ 1}) << v.DebugString();
      }
    }
  }
}

// Two pipeline neighbors exchange once more than all others, each sending before it receives, and get stuck. One rank's
// remaining records show an extra receive, whose counterpart is the other's extra send.
TEST(Lost, TwoRanksWithAnExtraExchangeAreNamedTogether) {
  int named = 0;
  for (size_t keep = 2; keep <= 16; ++keep) {
    Job job(1, 2, 6, 6);
    const int a = 1, b = 7, pp = job.CommOf(a, "pp");
    for (const int r : {a, b}) {
      auto& program = job.ranks[r].program;
      const size_t at = job.Find(r, "pp", 3);
      for (const ring::CallKind kind : {ring::CallKind::kRecv, ring::CallKind::kSend}) {
        testing::Call call = program[at];
        call.kind = kind;
        call.root_or_peer = r == a ? 1 : 0;
        call.group = 0;
        call.comm = pp;
        program.insert(program.begin() + static_cast<std::ptrdiff_t>(at), call);
      }
    }
    Bundle bundle = job.Run();
    Overwrite(keep, &bundle);
    const Verdict v = Analyze(bundle);
    ASSERT_GE(v.findings_size(), 1) << keep;
    const std::vector<int32_t> culprits = Culprits(v.findings(0));
    named += culprits == std::vector<int32_t>{a, b};
    EXPECT_TRUE(culprits == (std::vector<int32_t>{a, b}) || v.findings(0).confidence() < 0.8)
        << keep << " " << v.DebugString();
  }
  EXPECT_GE(named, 10);
}

// Rank 5 crashed. Rank 4, its tensor-parallel peer on the same host, gave up while it waited for rank 5 in a call whose
// record is lost.
Bundle PeerThatGaveUp() {
  Job job(2, 1, 4, 4);
  OwnStreamForTensorParallelism(&job);
  job.ranks[5].host_fault = HostFault::kDie;
  job.ranks[5].signal = SIGSEGV;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2);
  Bundle b = job.Run();
  Overwrite(8, &b);
  for (Rank& rank : b.ranks) rank.host = "node" + std::to_string(rank.rank / 2);
  b.ranks[5].process.ended_mono_ns = 50'000'000'000;
  b.ranks[4].process.life = Life::kKilled;
  b.ranks[4].process.signal = SIGABRT;
  b.ranks[4].process.ended_mono_ns = 51'000'000'000;
  return b;
}

TEST(Lost, ARankThatGaveUpWaitingForADeadRankIsNotACauseWithoutTheCallsRecord) {
  Bundle b = PeerThatGaveUp();
  b.ranks[4].host = "another";  // only the wait shows which process ended first, not the times of two hosts
  const Model model(b, {});
  EXPECT_NE(model.ranks[4].host, HostState::kDead) << "its end must count";
  EXPECT_EQ(model.ranks[5].host, HostState::kDead);
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
}

// Rank 5 aborted. Its peer, rank 4, waits for rank 5 in a call whose record is lost. Rank 2 gave up while it waited for
// rank 4.
TEST(Lost, GivingUpInAChainOfWaitsThroughALostCallIsNotACause) {
  for (size_t keep = 2; keep <= 12; ++keep) {
    Job job(2, 1, 4, 4);
    OwnStreamForTensorParallelism(&job);
    job.ranks[5].host_fault = HostFault::kDie;
    job.ranks[5].signal = SIGABRT;
    job.ranks[5].host_fault_at = job.Find(5, "tp", 2);
    Bundle b = job.Run();
    Overwrite(keep, &b);
    b.ranks[2].process.life = Life::kKilled;
    b.ranks[2].process.signal = SIGABRT;
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1) << keep;
    EXPECT_EQ(v.findings(0).kind(), RANK_DEAD) << keep;
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << keep << v.DebugString();
  }
}

// Rank 4 gave up in a wait, after another process on its host crashed. The record does not show which rank it waited
// for.
TEST(Lost, GivingUpInAWaitAfterACrashOnTheHostIsNotACause) {
  const auto consequence = [](const std::function<void(Bundle*)>& change) {
    Bundle b = PeerThatGaveUp();
    b.ranks[4].ops.clear();
    change(&b);
    const Model model(b, {});
    EXPECT_EQ(model.ranks[5].host, HostState::kDead);
    return model.ranks[4].host != HostState::kDead;
  };
  EXPECT_TRUE(consequence([](Bundle*) {}));
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].process.ended_mono_ns = 49'000'000'000; }))
      << "it ended before the crash";
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].host = "another"; })) << "the clocks of two hosts differ";
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].boot_id = "earlier"; })) << "it ended before the host's reboot";
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].threads[0].wait = ring::CallKind::kNone; }))
      << "it ended in its own code";
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].streams[0].first_error = 719; })) << "its own GPU had failed";
  EXPECT_FALSE(consequence([](Bundle* b) { b->ranks[4].process.signal = SIGSEGV; })) << "a crash";
  // The first process to abort in its own code is a cause, too. A process that aborts in a wait is not.
  EXPECT_TRUE(consequence([](Bundle* b) { b->ranks[5].process.signal = SIGABRT; }));
  EXPECT_FALSE(consequence([](Bundle* b) {
    b->ranks[5].process.signal = SIGABRT;
    b->ranks[5].threads[0].wait = b->ranks[4].threads[0].wait;
  }));
}

TEST(Lost, EachEndIsReportedAsItHappened) {
  Bundle b = PeerThatGaveUp();
  b.ranks[4].process.signal = SIGBUS;
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1);
  ASSERT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{4, 5})) << v.DebugString();
  EXPECT_NE(
      v.findings(0).summary().find("rank 4 was killed by signal 7 (SIGBUS); rank 5 was killed by signal 11 (SIGSEGV)"),
      std::string::npos)
      << v.findings(0).summary();
  b.ranks[4].process.signal = SIGSEGV;
  EXPECT_EQ(Analyze(b).findings(0).summary().find("differently"), std::string::npos);
}

// There are two pairs. In the pair of ranks 0 and 1, the GPU of rank 0 has begun the second operation. The file of rank
// 1 contains only its status: its GPU has not begun.
TEST(Lost, TheStatusOfATruncatedFileShowsAGpuThatDidNotStart) {
  for (const int begun : {1, 2}) {
    auto dump_of = [&](int rank) {
      FrDump dump;
      const bool starts = rank == 0 || (rank == 1 && begun == 2);
      dump.groups = {{.name = "1",
                      .desc = "S",
                      .ranks = {0, 1},
                      .pg_id = 1,
                      .enqueued = 9,
                      .started = starts ? 9 : 8,
                      .completed = 8}};
      for (int seq = 1; seq <= 9; ++seq) {
        dump.entries.push_back({.seq = seq,
                                .pg = "1",
                                .desc = "S",
                                .pg_id = 1,
                                .state = seq < 9  ? "completed"
                                         : starts ? "started"
                                                  : "scheduled",
                                .retired = seq < 9});
      }
      return dump;
    };
    const std::string whole = fr_test::ToPickle(dump_of(1));
    DumpFolder folder;
    folder.WriteRank(0, fr_test::ToPickle(dump_of(0)));
    folder.WriteRank(1, whole.substr(0, whole.size() * 2 / 3));
    const Verdict v = Analyze(fr_test::LoadFiles(folder.Files()));
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), begun == 1 ? GPU_STALL : COLLECTIVE_STUCK) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), begun == 1 ? std::vector<int32_t>{1} : (std::vector<int32_t>{0, 1}))
        << v.DebugString();
  }
}

// Four ranks reduce in "S" twice a round, and in "R" once. One rank skipped its last call of S; its file was truncated
// after the status.
TEST(Lost, TheStatusOfATruncatedFileShowsASkippedCall) {
  for (const bool left_out : {true, false}) {
    auto dump_of = [&](int rank) {
      FrDump dump;
      const bool odd = left_out && rank == 2;
      dump.groups = {
          {.name = "1",
           .desc = "S",
           .ranks = {0, 1, 2, 3},
           .pg_id = 1,
           .enqueued = odd ? 15 : 16,
           .started = 14,
           .completed = 13},
          {.name = "2", .desc = "R", .ranks = {0, 1, 2, 3}, .pg_id = 2, .enqueued = 8, .started = 6, .completed = 6}};
      for (int round = 1; round <= 8; ++round) {
        for (int k : {1, 0}) {
          const int seq = 2 * round - k;
          if (!odd || seq < 16)
            dump.entries.push_back({.seq = seq,
                                    .pg = "1",
                                    .desc = "S",
                                    .pg_id = 1,
                                    .state = seq < 14    ? "completed"
                                             : seq == 14 ? "started"
                                                         : "scheduled",
                                    .retired = seq < 14});
        }
        dump.entries.push_back({.seq = round,
                                .pg = "2",
                                .desc = "R",
                                .pg_id = 2,
                                .state = round < 7 ? "completed" : "scheduled",
                                .retired = round < 7});
      }
      return dump;
    };
    DumpFolder folder;
    for (int rank : {0, 1, 3}) folder.WriteRank(rank, fr_test::ToPickle(dump_of(rank)));
    const std::string whole = fr_test::ToPickle(dump_of(2));
    folder.WriteRank(2, whole.substr(0, whole.size() / 2));
    const Verdict v = Analyze(fr_test::LoadFiles(folder.Files()));
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), left_out ? SILENT_DESYNC : COLLECTIVE_STUCK) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), left_out ? std::vector<int32_t>{2} : (std::vector<int32_t>{0, 1, 2, 3}))
        << v.DebugString();
    EXPECT_LT(v.findings(0).confidence(), 0.7);
  }
}

// Ranks 0 and 1, and ranks 2 and 3, reduce in pairs; then all reduce together. Rank 0 is in its pair's reduction, which
// rank 1 counts as completed. If rank 1's record shows the same call, rank 0's GPU is stuck. If the record is
// truncated, rank 1 may have made another call, so both ranks are named.
TEST(Lost, ACompletedCallWithoutARecordMayHaveBeenAnotherCall) {
  auto dump_of = [](int rank) {
    const int first = rank / 2 * 2;
    FrDump dump;
    dump.groups = {{.name = rank < 2 ? "1" : "2",
                    .desc = "E",
                    .ranks = {first, first + 1},
                    .pg_id = rank < 2 ? 1 : 2,
                    .enqueued = 8,
                    .started = 8,
                    .completed = rank == 0 ? 7 : 8},
                   {.name = "3",
                    .desc = "M",
                    .ranks = {0, 1, 2, 3},
                    .pg_id = 3,
                    .enqueued = 8,
                    .started = rank == 0 ? 7 : 8,
                    .completed = 7}};
    for (int seq = 1; seq <= 8; ++seq) {
      const bool last = seq == 8;
      const char* pair = !last || rank > 0 ? "completed" : "started";
      const char* all = !last ? "completed" : rank == 0 ? "scheduled" : "started";
      dump.entries.push_back({.seq = seq,
                              .pg = rank < 2 ? "1" : "2",
                              .desc = "E",
                              .pg_id = rank < 2 ? 1 : 2,
                              .state = pair,
                              .retired = !last || rank > 0});
      dump.entries.push_back({.seq = seq, .pg = "3", .desc = "M", .pg_id = 3, .state = all, .retired = !last});
    }
    return dump;
  };
  for (const bool cut : {false, true}) {
    DumpFolder folder;
    for (int rank : {0, 2, 3}) folder.WriteRank(rank, fr_test::ToPickle(dump_of(rank)));
    const std::string whole = fr_test::ToPickle(dump_of(1));
    folder.WriteRank(1, cut ? whole.substr(0, whole.size() / 2) : whole);
    for (const std::string& file : folder.Files())
      fr_test::SetFileTime(file, fr_test::kFirstEntryNs + fr_test::kTimeoutNs + 1'000'000'000);
    const Verdict v = Analyze(fr_test::LoadFiles(folder.Files()));
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), GPU_STALL) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), cut ? (std::vector<int32_t>{0, 1}) : std::vector<int32_t>{0}) << v.DebugString();
    EXPECT_EQ(v.findings(0).confidence() <= 0.5, cut);
    EXPECT_EQ(v.findings(0).alternatives_size() > 0, cut) << v.DebugString();
  }
}

// All four ranks reduce together. Rank 1, whose file is truncated, counts the others' current reduction as completed
// and is in the next. So rank 1 made another call, and the other ranks are not at fault.
TEST(Lost, TheOnlyRankThatCompletedTheOthersCallIsNamedDespiteATruncatedFile) {
  auto dump_of = [](int rank) {
    const int64_t done = rank == 1 ? 8 : 7;
    FrDump dump;
    dump.groups = {{.name = "1",
                    .desc = "E",
                    .ranks = {0, 1, 2, 3},
                    .pg_id = 1,
                    .enqueued = done + 1,
                    .started = done + 1,
                    .completed = done}};
    for (int seq = 1; seq <= done + 1; ++seq) {
      dump.entries.push_back({.seq = seq,
                              .pg = "1",
                              .desc = "E",
                              .pg_id = 1,
                              .state = seq <= done ? "completed" : "started",
                              .retired = seq <= done});
    }
    return dump;
  };
  DumpFolder folder;
  for (int rank : {0, 2, 3}) folder.WriteRank(rank, fr_test::ToPickle(dump_of(rank)));
  const std::string whole = fr_test::ToPickle(dump_of(1));
  folder.WriteRank(1, whole.substr(0, whole.size() / 2));
  const Verdict v = Analyze(fr_test::LoadFiles(folder.Files()));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), SILENT_DESYNC) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{1}) << v.DebugString();
  EXPECT_EQ(v.findings(0).grade(), GRADE_FAIR);
}

// A framework does not count by peer. Rank 1 of four in a line sends to rank 0, which has no receive for it, while rank
// 2 waits for the data. Then ranks 0 and 1 wait for each other in sends.
TEST(Lost, ARankInACircleThatChoseAnUnusualPeerIsNamed) {
  for (const bool met : {false, true}) {
    std::vector<FrDump> dumps(4);
    for (FrDump& dump : dumps) dump.groups = {{.name = "1", .desc = "PP", .ranks = {0, 1, 2, 3}, .pg_id = 1}};
    const auto batch = [&](int rank, bool send, int peer, bool done) {
      FrDump& dump = dumps[static_cast<size_t>(rank)];
      const int number = static_cast<int>(dump.groups[0].enqueued < 0 ? 1 : dump.groups[0].enqueued + 1);
      const std::string op = "nccl:" + std::string(send ? "send " : "recv ") + std::to_string(rank) +
                             (send ? "->" : "<-") + std::to_string(peer);
      for (const auto& [name, state] :
           {std::pair(op, std::string("scheduled")),
            std::pair(std::string("nccl:coalesced"), std::string(done ? "completed" : "started"))}) {
        FrEntry e{.op = name,
                  .seq = 0,
                  .pg = "1",
                  .desc = "PP",
                  .pg_id = 1,
                  .state = state,
                  .is_p2p = true,
                  .p2p_seq = number};
        e.retired = done && name != op;
        e.record_id = 100 + static_cast<int64_t>(dump.entries.size());
        dump.entries.push_back(e);
      }
      dump.groups[0].enqueued = dump.groups[0].started = number;
      if (done) dump.groups[0].completed = number;
    };
    const auto pass = [&](int from, int to) {
      batch(from, true, to, true);
      batch(to, false, from, true);
    };
    // The records of ranks 0 and 1 show what they exchanged with their other neighbors: 0 with 3, 1 with 2, 2 with 3.
    for (int n = 0; n < 9; ++n) {
      pass(3, 0);
      pass(1, 2);
      pass(2, 3);
    }
    if (met) pass(1, 0);
    batch(1, true, 0, false);
    batch(0, true, 3, false);
    batch(3, true, 1, false);
    batch(2, false, 1, false);
    const Verdict v = Analyze(fr_test::LoadDumps({dumps[0], dumps[1], dumps[2], dumps[3]}));
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    if (met) {
      EXPECT_NE(Culprits(v.findings(0)), std::vector<int32_t>{1}) << v.DebugString();
    } else {
      EXPECT_EQ(v.findings(0).kind(), P2P_UNMATCHED) << v.DebugString();
      EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{1}) << v.DebugString();
    }
  }
}

// A rank did not reach an operation, and its last call, with a rank without data, has completed. So this rank is stuck
// by itself.
TEST(Lost, ACompletedCallDoesNotBlameItsPeerWithoutData) {
  for (const bool ended : {true, false}) {
    std::vector<std::optional<FrDump>> dumps(4);
    for (int rank : {0, 1, 2}) {
      FrDump dump;
      dump.groups = {{.ranks = {0, 1, 2, 3}, .enqueued = rank == 2 ? 1 : 2, .completed = 1},
                     {.name = "1",
                      .desc = "DP",
                      .ranks = rank == 2 ? std::vector<int32_t>{2, 3} : std::vector<int32_t>{0, 1},
                      .pg_id = 1,
                      .enqueued = 1,
                      .completed = rank != 2 || ended ? 1 : 0}};
      dump.entries = {{.seq = 1, .state = "completed", .retired = true},
                      {.seq = 1,
                       .pg = "1",
                       .desc = "DP",
                       .pg_id = 1,
                       .state = rank != 2 || ended ? "completed" : "scheduled",
                       .retired = rank != 2 || ended}};
      for (FrEntry& entry : dump.entries) entry.completed_ns = entry.retired ? 1'758'000'000'500'000'000 : 0;
      if (rank != 2) dump.entries.push_back({.seq = 2});
      dumps[static_cast<size_t>(rank)] = dump;
    }
    const Verdict v = Analyze(fr_test::LoadDumps(dumps));
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{ended ? 2 : 3}) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), ended ? RANK_NOT_ARRIVED : RANK_NO_DATA) << v.DebugString();
  }
}

}  // namespace
}  // namespace lockstep
