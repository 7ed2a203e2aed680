// Tests Flight Recorder dumps that are truncated or damaged: data missing from a file blames no rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::LoadFiles;
using fr_test::ToPickle;

// Ranks 0 and 1, and ranks 2 and 3, exchange along a pipeline; ranks 0 and 2, and ranks 1 and 3, reduce gradients.
// Rank 3 stopped before its second send. Rank 2 waits for that send; the others wait in a reduction that ranks 2 and
// 3 never reached.
FrDump DumpOf(int rank) {
  const int pp = rank / 2, dp = rank % 2;
  FrDump dump;
  dump.groups = {{.name = "1", .desc = "PP", .ranks = {2 * pp, 2 * pp + 1}, .pg_id = 1},
                 {.name = "3", .desc = "DP", .ranks = {dp, dp + 2}, .pg_id = 3}};
  auto exchange = [&](int number, bool ends) {
    const bool sends = rank % 2 == 1;
    const std::string op = sends ? "nccl:send 1->0" : "nccl:recv 0<-1", done = ends ? "completed" : "scheduled";
    for (const auto& [name, state] :
         {std::pair(op, std::string("scheduled")), std::pair(std::string("nccl:coalesced"), done)}) {
      dump.entries.push_back({.op = name,
                              .seq = 0,
                              .pg = "1",
                              .desc = "PP",
                              .pg_id = 1,
                              .state = state,
                              .retired = ends && name != op,
                              .is_p2p = true,
                              .p2p_seq = number});
    }
    dump.groups[0].enqueued = number;
    if (ends) dump.groups[0].completed = number;
  };
  auto reduce = [&](int number, bool ends) {
    dump.entries.push_back({.op = "nccl:all_reduce",
                            .seq = number,
                            .pg = "3",
                            .desc = "DP",
                            .pg_id = 3,
                            .state = ends ? "completed" : "scheduled",
                            .retired = ends});
    dump.groups[1].enqueued = number;
    if (ends) dump.groups[1].completed = number;
  };
  exchange(1, true);
  reduce(1, true);
  if (rank == 2) exchange(2, false);
  if (rank < 2) exchange(2, true), reduce(2, false);
  return dump;
}

void ExpectRank3(const Bundle& bundle) {
  const Verdict v = Analyze(bundle);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  ASSERT_EQ(v.findings(0).culprit_ranks_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).culprit_ranks(0), 3) << v.DebugString();
}

TEST(DamagedDumps, ARankIsNotBlamedForTheLostEndOfItsFile) {
  const std::string whole = ToPickle(DumpOf(2));
  // Truncates the file after each of its entries.
  for (size_t at = whole.find("record_id"); at < whole.size(); at += (whole.size() - at) / 8 + 1) {
    DumpFolder folder;
    for (int rank : {0, 1, 3}) folder.WriteRank(rank, ToPickle(DumpOf(rank)));
    folder.WriteRank(2, whole.substr(0, at));
    SCOPED_TRACE(at);
    ExpectRank3(LoadFiles(folder.Files()));
  }
}

// This file's entries were written in no order, and then the file was truncated. One member of a batch is left.
// Whether there were others, and whether the batch ended, is unknown.
TEST(DamagedDumps, APartlyLostBatchShowsNothingAboutItsGpu) {
  FrDump dump;
  dump.groups.clear();
  const auto add = [&](const char* op, int64_t number, int64_t id, const char* state) {
    const bool p2p = std::string(op) != "nccl:all_reduce";
    FrEntry entry{.op = op,
                  .seq = p2p ? 0 : number,
                  .pg = p2p ? "1" : "3",
                  .desc = p2p ? "PP" : "DP",
                  .pg_id = p2p ? 1 : 3,
                  .state = state,
                  .retired = std::string(state) == "completed",
                  .is_p2p = p2p,
                  .p2p_seq = p2p ? number : 0};
    entry.record_id = id;
    if (!p2p) entry.started_ns = 1'758'000'000'900'000'000;
    dump.entries.push_back(entry);
  };
  add("nccl:all_reduce", 4, 40, "completed");
  add("nccl:recv 0<-1", 2, 20, "scheduled");
  add("nccl:all_reduce", 7, 71, "completed");
  for (const bool damaged : {true, false}) {
    for (const bool whole : {false, true}) {
      FrDump other = dump;
      if (whole) other.entries[0].record_id = 21, other.entries[2].record_id = 22;
      FrEntry garbage;
      garbage.op = "";
      garbage.record_id = 90;
      if (damaged) other.entries.push_back(garbage);
      DumpFolder folder;
      folder.WriteRank(0, ToPickle(other));
      const Bundle bundle = LoadFiles(folder.Files());
      ASSERT_EQ(bundle.ranks[0].damaged, damaged);
      ASSERT_EQ(bundle.ranks[0].ops.size(), 3u);
      ASSERT_TRUE(ring::IsPointToPoint(bundle.ranks[0].ops[0].kind));
      EXPECT_EQ(bundle.ranks[0].ops[0].state, damaged && !whole ? OpState::kUnknown : OpState::kEnqueued)
          << damaged << whole;
    }
  }
}

// Rank 7 is stuck; its dump and rank 2's are missing. Complete records wait for rank 7. Only damaged records wait for
// rank 2, which may itself wait for rank 7.
TEST(DamagedDumps, ARankThatOnlyDamagedRecordsWaitForIsNotNamedBesideOthers) {
  testing::Job job(2, 2, 2, 6);
  job.ranks[7].host_fault = testing::HostFault::kStall;
  job.ranks[7].host_fault_at = job.Find(7, "tp", 3);
  Bundle b = job.Run();
  b.ranks_expected = 8;
  for (Rank& rank : b.ranks) rank.damaged = rank.rank < 2 || rank.rank == 3;
  std::erase_if(b.ranks, [](const Rank& rank) { return rank.rank == 2 || rank.rank == 7; });
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA);
  EXPECT_EQ(std::vector<int32_t>(v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end()),
            std::vector<int32_t>{7})
      << v.DebugString();
}

TEST(DamagedDumps, ABatchWithoutItsEndIsInFlightIfTheStatusSaysSo) {
  FrDump dump = DumpOf(2);
  dump.entries.pop_back();  // removes the end of the rank's second exchange
  FrEntry garbage;
  garbage.op = "";
  dump.entries.push_back(garbage);
  DumpFolder folder;
  for (int rank : {0, 1, 3}) folder.WriteRank(rank, ToPickle(DumpOf(rank)));
  folder.WriteRank(2, ToPickle(dump));
  const Bundle bundle = LoadFiles(folder.Files());
  EXPECT_TRUE(bundle.ranks[2].damaged);
  EXPECT_EQ(bundle.ranks[2].ops.back().state, OpState::kIncomplete);
  ExpectRank3(bundle);
}

// Ranks 0 and 1 are inside an operation that does not end. Rank 2 is in an operation with rank 1, which rank 1 issued
// later. Only rank 1's status was read: its GPU had begun the first operation but not the second.
TEST(DamagedDumps, AGpuIsInTheOperationThatItHasBegun) {
  auto dump_of = [](int rank) {
    FrDump dump;
    dump.groups.clear();
    auto add = [&](const char* name, const char* desc, std::vector<int32_t> ranks, int id, bool begun) {
      dump.groups.push_back({.name = name,
                             .desc = desc,
                             .ranks = std::move(ranks),
                             .pg_id = id,
                             .enqueued = 2,
                             .started = begun ? 2 : 1,
                             .completed = 1});
      for (int seq : {1, 2}) {
        const std::string state = seq == 1 ? "completed" : begun ? "started" : "scheduled";
        dump.entries.push_back(
            {.seq = seq, .pg = name, .desc = desc, .pg_id = id, .state = state, .retired = seq == 1});
      }
    };
    if (rank < 2) add("1", "S", {0, 1}, 1, true);
    if (rank > 0) add("2", "R", {1, 2}, 2, rank == 2);
    if (rank == 1) std::swap(dump.entries[1], dump.entries[2]);  // S 1, R 1, S 2, R 2
    return dump;
  };
  const std::string whole = ToPickle(dump_of(1));
  for (const std::string& file : {whole, whole.substr(0, whole.size() * 2 / 3)}) {
    DumpFolder folder;
    for (int rank : {0, 2}) folder.WriteRank(rank, ToPickle(dump_of(rank)));
    folder.WriteRank(1, file);
    const Verdict v = Analyze(LoadFiles(folder.Files()));
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), COLLECTIVE_STUCK) << v.DebugString();
    const std::vector<int32_t> ranks(v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end());
    EXPECT_EQ(ranks, (std::vector<int32_t>{0, 1})) << v.DebugString();
  }
}

TEST(DamagedDumps, ACallOnlyInADamagedFileIsNotASecondCause) {
  std::vector<std::optional<FrDump>> dumps;
  for (int rank = 0; rank < 4; ++rank) {
    FrDump dump;
    dump.groups = {
        {.name = "0", .desc = "all", .ranks = {0, 1, 2, 3}, .pg_id = 0, .enqueued = rank == 3 ? 1 : 2, .completed = 1}};
    dump.entries.push_back({.seq = 1, .desc = "all", .state = "completed", .retired = true});
    if (rank < 3) {
      dump.groups.push_back(
          {.name = "1", .desc = "some", .ranks = {0, 1, 2}, .pg_id = 1, .enqueued = 1, .completed = 1});
      const std::string op = rank == 2 ? "nccl:broadcast" : "nccl:all_reduce";
      dump.entries.push_back(
          {.op = op, .seq = 1, .pg = "1", .desc = "some", .pg_id = 1, .state = "completed", .retired = true});
      dump.entries.push_back({.seq = 2, .desc = "all"});
    }
    dumps.push_back(dump);
  }
  Bundle bundle = fr_test::LoadDumps(dumps);
  EXPECT_EQ(Analyze(bundle).findings_size(), 2);
  bundle.ranks[2].damaged = true;
  ExpectRank3(bundle);
}

// Calls captured into a CUDA graph are recorded like others, but their group's counter does not change.
TEST(DamagedDumps, CapturedCallsHoldUpNoRank) {
  bool counts = true, one_number = false;
  const auto dump_of = [&](int captured) {
    FrDump dump;
    const int64_t counter = counts ? 1 : -1;
    dump.groups = {{.name = "0",
                    .desc = "all",
                    .ranks = {0, 1, 2, 3},
                    .pg_id = 0,
                    .enqueued = counter,
                    .started = counter,
                    .completed = counter},
                   {.name = "1", .desc = "TP", .ranks = {0, 1, 2, 3}, .pg_id = 1}};
    dump.entries.push_back({.seq = 1, .desc = "all", .state = "completed", .retired = true});
    for (int seq = 1; seq <= captured; ++seq)
      dump.entries.push_back({.seq = one_number ? 1 : seq, .pg = "1", .desc = "TP", .pg_id = 1});
    return dump;
  };
  const auto analyze = [&](int captured, int of_rank2, bool rank3) {
    DumpFolder folder;
    for (int rank = 0; rank < (rank3 ? 4 : 3); ++rank)
      folder.WriteRank(rank, ToPickle(dump_of(rank == 2 ? of_rank2 : captured)));
    return Analyze(LoadFiles(folder.Files()));
  };
  Verdict v = analyze(5, 5, true);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  v = analyze(5, 5, false);  // no rank waits for the rank that left no data
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  // One call that the counter does not include is about to be enqueued, or is stuck in NCCL. A rank that is not in
  // the call is missing.
  v = analyze(1, 0, true);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  ASSERT_EQ(v.findings(0).culprit_ranks_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).culprit_ranks(0), 2) << v.DebugString();
  // The same applies to several calls that share a number, and to calls of a process that counts none.
  for (const auto& [own, shared] : {std::pair(true, true), std::pair(false, false)}) {
    counts = own, one_number = shared;
    v = analyze(3, 0, true);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    ASSERT_EQ(v.findings(0).culprit_ranks_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).culprit_ranks(0), 2) << v.DebugString();
  }
}

// If a damaged file has no time, the ages of other ranks' operations show that the job moves. If no file shows an
// age, or one operation is old, the job hangs.
TEST(DamagedDumps, AgesComeFromFilesThatHaveThem) {
  struct Case {
    bool whole;
    int64_t age_s;
    bool stalled;
  };
  for (const Case& c : {Case{true, 1, false}, Case{true, 20, true}, Case{false, 1, true}}) {
    Bundle b;
    b.comms.resize(1);
    b.comms[0].size = 2;
    b.comms[0].members = {0, 1};
    for (int r = 0; r < 2; ++r) {
      Rank rank;
      rank.rank = r;
      rank.damaged = r == 0 || !c.whole;
      rank.captured_ns = rank.damaged ? 0 : 1'000'000'000'000;
      Membership ms;
      ms.comm = 0;
      ms.member_rank = r;
      ms.issued = 2;
      ms.completed = 1;
      rank.memberships.push_back(ms);
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = 2;
      op.state = OpState::kStarted;
      op.enter_ns = 1'000'000'000'000 - c.age_s * 1'000'000'000;
      rank.ops.push_back(op);
      b.ranks.push_back(rank);
    }
    EXPECT_EQ(Model(b, {}).stalled, c.stalled) << c.whole << " " << c.age_s;
    b.known_stalled = true;
    EXPECT_TRUE(Model(b, {}).stalled);
  }
}

// How long the job has been stuck is taken from undamaged files. Rank 0's file is damaged, so the age of its operation
// does not count.
TEST(DamagedDumps, AFirstOperationIsAsOldAsIntactFilesSay) {
  for (int64_t seconds : {20, 500}) {
    Bundle b;
    b.ranks_expected = 4;
    b.comms.resize(1);
    b.comms[0].id = "c";
    b.comms[0].size = 4;
    b.comms[0].members = {0, 1, 2, 3};
    for (int r = 0; r < 3; ++r) {
      Rank rank;
      rank.rank = r;
      rank.damaged = r == 0;
      rank.gpu_marks = ring::GpuMarks::kFull;
      rank.captured_ns = 1'000'000'000'000;
      Membership ms;
      ms.comm = 0;
      ms.member_rank = r;
      ms.issued = ms.launched = ms.started = ms.first_seq = 1;
      ms.completed = 0;
      rank.memberships.push_back(ms);
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = 1;
      op.state = OpState::kStarted;
      op.enter_ns = r == 0 ? 1 : rank.captured_ns - seconds * 1'000'000'000;
      rank.ops.push_back(op);
      b.ranks.push_back(rank);
    }
    Verdict v = Analyze(b);
    EXPECT_EQ(v.findings_size(), seconds == 20 ? 0 : 1) << v.DebugString();
    // No rank's data is missing, and the damaged file has no capture time.
    b.ranks.push_back(b.ranks[2]);
    b.ranks[3].rank = b.ranks[3].memberships[0].member_rank = 3;
    b.ranks[0].captured_ns = 0;
    v = Analyze(b);
    EXPECT_EQ(v.findings_size(), seconds == 20 ? 0 : 1) << v.DebugString();
  }
}

// Rank 0 counts two operations whose records are lost: the first that all ranks wait in, and one with rank 3, which
// left no data. One may come after the other, so nothing shows that a rank waits for rank 3 elsewhere.
TEST(DamagedDumps, LostRecordsAfterAFirstOperationAreNotAHang) {
  Bundle b;
  b.ranks_expected = 4;
  b.comms.resize(2);
  b.comms[0].id = "c", b.comms[0].size = 4, b.comms[0].members = {0, 1, 2, 3};
  b.comms[1].id = "pair", b.comms[1].size = 2, b.comms[1].members = {0, 3};
  for (int r = 0; r < 3; ++r) {
    Rank rank;
    rank.rank = r;
    rank.damaged = r == 0;
    rank.gpu_marks = ring::GpuMarks::kFull;
    rank.captured_ns = 1'000'000'000'000;
    Membership ms;
    ms.comm = 0;
    ms.member_rank = r;
    ms.issued = ms.launched = r == 0 ? kUnknown : 1;
    ms.completed = r == 0 ? kUnknown : kNone;
    rank.memberships.push_back(ms);
    if (r == 0) {
      ms = {};
      ms.comm = 1;
      ms.member_rank = 0;
      ms.issued = ms.launched = 7;
      ms.completed = 3;
      rank.memberships.push_back(ms);
    } else {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = 1;
      op.state = OpState::kStarted;
      op.enter_ns = rank.captured_ns - 20'000'000'000;
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
  }
  const Verdict v = Analyze(b);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
}

// Truncates rank 2's file at many places, and expects that no rank of the four is blamed.
void ExpectNobodyBlamedForACutFile(const std::function<FrDump(int rank)>& dump_of) {
  const std::string whole = ToPickle(dump_of(2));
  int read_in_part = 0;
  for (size_t at = whole.find("record_id"); at < whole.size(); at += 97) {
    DumpFolder folder;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string path = folder.WriteRank(rank, rank == 2 ? whole.substr(0, at) : ToPickle(dump_of(rank)));
      const timespec when = {.tv_sec = 1'758'000'001, .tv_nsec = 0};
      const timespec times[] = {when, when};
      ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    }
    SCOPED_TRACE(at);
    const Bundle bundle = LoadFiles(folder.Files());
    if (bundle.ranks.size() < 4 || bundle.ranks[2].ops.empty()) continue;
    ++read_in_part;
    const Verdict v = Analyze(bundle);
    EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  }
  EXPECT_GT(read_in_part, 4);
}

// All ranks are in the first operation of a communicator and have others queued behind it. Rank 2's file ends after
// the communicator's status, or before it. Rank 2 is stuck where all are, and made its calls in the same order.
TEST(DamagedDumps, ATruncatedFileIsNotBlamedForCallsAfterAFirstOperation) {
  FrDump dump;
  dump.groups = {
      {.name = "0", .desc = "all", .ranks = {0, 1, 2, 3}, .pg_id = 0, .enqueued = 4, .started = 2, .completed = 2},
      {.name = "1", .desc = "new", .ranks = {0, 1, 2, 3}, .pg_id = 1, .enqueued = 1, .started = 1}};
  for (int seq : {1, 2}) dump.entries.push_back({.seq = seq, .desc = "all", .state = "completed", .retired = true});
  dump.entries.push_back(
      {.seq = 1, .pg = "1", .desc = "new", .pg_id = 1, .state = "started", .started_ns = 1'758'000'000'100'000'000});
  for (int seq : {3, 4}) dump.entries.push_back({.seq = seq, .desc = "all"});
  ExpectNobodyBlamedForACutFile([&](int) { return dump; });
}

// As above, with two groups after the first operation. The truncated file lost calls of both groups. They were issued
// after the recorded ones.
TEST(DamagedDumps, LostCallsOfTwoGroupsComeAfterTheRecordedOnes) {
  const auto dump_of = [](int rank) {
    FrDump dump;
    dump.groups = {
        {.name = "0", .desc = "all", .ranks = {0, 1, 2, 3}, .pg_id = 0, .enqueued = 3, .started = 2, .completed = 2},
        {.name = "1", .desc = "new", .ranks = {0, 1, 2, 3}, .pg_id = 1, .enqueued = 1, .started = 1},
        {.name = "2",
         .desc = "pair",
         .ranks = {rank / 2 * 2, rank / 2 * 2 + 1},
         .pg_id = 2,
         .enqueued = 2,
         .started = 1,
         .completed = 1}};
    for (int seq : {1, 2}) dump.entries.push_back({.seq = seq, .desc = "all", .state = "completed", .retired = true});
    dump.entries.push_back({.seq = 1, .pg = "2", .desc = "pair", .pg_id = 2, .state = "completed", .retired = true});
    dump.entries.push_back(
        {.seq = 1, .pg = "1", .desc = "new", .pg_id = 1, .state = "started", .started_ns = 1'758'000'000'100'000'000});
    dump.entries.push_back({.seq = 2, .pg = "2", .desc = "pair", .pg_id = 2});
    dump.entries.push_back({.seq = 3, .desc = "all"});
    return dump;
  };
  ExpectNobodyBlamedForACutFile(dump_of);
}

}  // namespace
}  // namespace lockstep
