
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/traces.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::LoadDumps;
using fr_test::LoadFiles;
using fr_test::MemberIn;
using ring::CallKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Returns everything in a bundle except paths, as text that can be compared.
std::string Say(const Bundle& bundle) {
  std::string out = "expected " + std::to_string(bundle.ranks_expected) + "\n";
  auto text = [&](const std::vector<std::string>& table, uint32_t at) { return at == kNoIndex ? "-" : table[at]; };
  auto add = [&](auto... values) { ((out += std::to_string(values) + " "), ...); };
  for (const Communicator& comm : bundle.comms) {
    out += comm.id + " " + comm.name + " " + std::to_string(comm.members_inferred) + ":";
    for (int32_t member : comm.members) add(member);
    out += "\n";
  }
  for (const Rank& rank : bundle.ranks) {
    out += "rank " + rank.host + " ";
    add(rank.rank, rank.world_size, rank.damaged, rank.only_active, rank.start_recorded, rank.nccl_version,
        rank.records_lost);
    out += "\n";
    for (const Membership& m : rank.memberships) {
      add(m.comm, m.member_rank, m.issued, m.started, m.completed, m.p2p_issued, m.p2p_started, m.p2p_completed,
          m.first_seq, m.lost_records, m.issued_ns);
      out += m.local_name + "\n";
    }
    for (const Op& op : rank.ops) {
      add(op.membership, int(op.kind), int(op.state), op.in_batch, op.batch_end, op.retired, op.root_or_peer, op.seq,
          op.thread, op.index, op.group, op.enter_ns, op.started_ns, op.completed_ns, op.input_elements,
          op.output_elements, op.record_id);
      out += text(bundle.shapes, op.input_shape) + " " + text(bundle.shapes, op.output_shape) + " " +
             text(bundle.strings, op.dtypes) + " " + text(bundle.strings, op.name) + " " +
             text(bundle.strings, op.call_site) + "\n";
    }
  }
  for (const Problem& problem : bundle.problems) out += std::to_string(problem.rank) + " " + problem.text + "\n";
  return out;
}

std::string NameOf(const Bundle& bundle, const Op& op) { return bundle.strings[op.name]; }

TEST(FrLoader, AnEntryBecomesAnOperation) {
  FrDump dump;
  dump.groups[0].enqueued = 1;
  FrEntry entry;
  entry.op = "nccl:_all_gather_base";
  entry.input = {{4, 4}};
  entry.output = {{8, 4}};
  entry.input_dtypes = {"BFloat16"};
  entry.output_dtypes = {"Float"};
  entry.record_id = 7;
  entry.frames = {{"all_gather", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 10},
                  {"wrapper", "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", 83},
                  {"forward", "/app/train.py", 812},
                  {"main", "/app/main.py", 3}};
  dump.entries.push_back(entry);
  Bundle bundle = LoadDumps({dump, dump});
  EXPECT_THAT(bundle.problems, IsEmpty());
  ASSERT_THAT(bundle.ranks, SizeIs(2));
  EXPECT_EQ(bundle.ranks_expected, 2);
  ASSERT_THAT(bundle.comms, SizeIs(1));
  EXPECT_EQ(bundle.comms[0].name, "default_pg");
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 1));
  EXPECT_FALSE(bundle.comms[0].members_inferred);
  const Rank& rank = bundle.ranks[1];
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world_size, 2);
  EXPECT_EQ(rank.source, Source::kFlightRecorder);
  EXPECT_EQ(rank.nccl_version, 22703);
  EXPECT_EQ(rank.captured_ns, fr_test::kFirstEntryNs + 1'000'000 + fr_test::kTimeoutNs + 1'000'000'000);
  ASSERT_THAT(rank.memberships, SizeIs(1));
  EXPECT_EQ(rank.memberships[0].member_rank, 1);
  EXPECT_EQ(rank.memberships[0].issued, 1);
  EXPECT_EQ(rank.memberships[0].started, kUnknown);
  EXPECT_EQ(rank.memberships[0].completed, kNone);
  EXPECT_EQ(rank.memberships[0].first_seq, 1);
  ASSERT_THAT(rank.ops, SizeIs(1));
  const Op& op = rank.ops[0];
  EXPECT_EQ(op.kind, CallKind::kAllGather);
  EXPECT_EQ(NameOf(bundle, op), "_all_gather_base");
  EXPECT_EQ(op.seq, 1);
  EXPECT_EQ(op.record_id, 7);
  EXPECT_EQ(op.state, OpState::kIncomplete);
  EXPECT_EQ(bundle.shapes[op.input_shape], "[[4,4]]");
  EXPECT_EQ(bundle.shapes[op.output_shape], "[[8,4]]");
  EXPECT_EQ(op.input_elements, 16);
  EXPECT_EQ(op.output_elements, 32);
  EXPECT_EQ(bundle.strings[op.dtypes], "BFloat16 -> Float");
  EXPECT_EQ(bundle.strings[op.call_site], "train.py:812 forward");
  EXPECT_EQ(op.thread, 0u);
  EXPECT_EQ(op.index, 0);
  EXPECT_EQ(op.completed_ns, 0);
  EXPECT_GT(op.enter_ns, 0);
}

TEST(FrLoader, ACallSiteIsTheInnermostFrameIfAllFramesAreInPyTorch) {
  FrDump dump;
  FrEntry entry;
  entry.frames = {{"all_reduce", "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", 10},
                  {"step", "/venv/lib/python3.11/site-packages/torch/optim/sgd.py", 20}};
  dump.entries.push_back(entry);
  Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(bundle.strings[bundle.ranks[0].ops[0].call_site], "c10d.py:10 all_reduce");
}

TEST(FrLoader, MeasuredDurationsAreUsedAndTimesOfNoticingAreNot) {
  FrDump dump;
  for (int i = 1; i <= 6; i++) {
    dump.entries.push_back({.seq = i,
                            .state = "completed",
                            .started_ns = 1'758'000'000'500'000'000,
                            .completed_ns = 1'758'000'000'500'000'000 + i * 100'000'000,
                            .duration_ms = i == 4 ? -1 : 1.5 * i});
  }
  const Bundle bundle = LoadDumps({dump});
  ASSERT_EQ(bundle.ranks[0].ops.size(), 6u);
  EXPECT_EQ(bundle.ranks[0].time_source, TimeSource::kFrameworkDurations);
  for (int i = 1; i <= 6; i++) {
    const Op& op = bundle.ranks[0].ops[static_cast<size_t>(i - 1)];
    EXPECT_EQ(op.started_ns, i == 4 ? 0 : op.completed_ns - 1'500'000 * i)
        << i;  // without a duration, the start is unknown
  }
}

TEST(FrLoader, BothPickleProtocolsAndJsonGiveTheSameBundle) {
  FrDump dump;
  dump.groups = {{.enqueued = 5, .completed = 3},
                 {.name = "9f3ab2c0", .desc = "TP", .ranks = {0, 1}, .pg_id = 1, .enqueued = 2, .completed = 2}};
  for (int i = 1; i <= 5; i++) {
    dump.entries.push_back({.seq = i,
                            .state = i <= 3 ? "completed" : "scheduled",
                            .retired = i <= 3,
                            .completed_ns = i <= 3 ? 1'758'000'000'500'000'000 + i : 0});
  }
  dump.entries.push_back({.op = "nccl:send 0->1",
                          .seq = 0,
                          .pg = "9f3ab2c0",
                          .desc = "TP",
                          .pg_id = 1,
                          .state = "completed",
                          .is_p2p = true,
                          .p2p_seq = 1});
  dump.entries.push_back({.op = "nccl:recv 0<-1",
                          .seq = 0,
                          .pg = "9f3ab2c0",
                          .desc = "TP",
                          .pg_id = 1,
                          .state = "completed",
                          .is_p2p = true,
                          .p2p_seq = 2,
                          .thread_id = "77"});
  FrDump idle = dump;
  idle.entries.clear();
  DumpFolder pickle, resaved, json;
  int rank = 0;
  for (const FrDump& one : {dump, idle}) {
    pickle.WriteRank(rank, fr_test::ToPickle(one, 2));
    resaved.WriteRank(rank, fr_test::ToPickle(one, 4));
    json.WriteRank(rank, fr_test::ToJson(one));
    rank++;
  }
  std::string said = Say(LoadFiles(pickle.Files()));
  EXPECT_THAT(said, HasSubstr("9f3ab2c0"));
  EXPECT_THAT(LoadFiles(pickle.Files()).problems, IsEmpty());
  EXPECT_EQ(Say(LoadFiles(resaved.Files())), said);
  EXPECT_EQ(Say(LoadFiles(json.Files())), said);
}

TEST(FrLoader, DumpsOfEveryVersionLoad) {
  for (const char* version : {"1.5", "2.0", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10"}) {
    SCOPED_TRACE(version);
    FrDump dump;
    dump.AsVersion(version);
    dump.groups[0].enqueued = 2;
    dump.groups[0].completed = 1;
    dump.entries.push_back({.seq = 1, .state = "completed", .retired = true});
    dump.entries.push_back({.seq = 2});
    for (bool json : {false, true}) {
      Bundle bundle = LoadDumps({dump, dump}, json);
      EXPECT_THAT(bundle.problems, IsEmpty());
      ASSERT_THAT(bundle.ranks, SizeIs(2));
      ASSERT_THAT(bundle.comms, SizeIs(1));
      EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 1));
      EXPECT_EQ(bundle.comms[0].members_inferred, !dump.pg_config);
      const Rank& rank = bundle.ranks[0];
      ASSERT_THAT(rank.ops, SizeIs(2));
      EXPECT_EQ(rank.ops[1].seq, 2);
      EXPECT_EQ(rank.ops[0].state, OpState::kCompleted);
      EXPECT_EQ(rank.ops[1].state, OpState::kIncomplete);
      EXPECT_EQ(rank.ops[1].thread, dump.thread ? 0u : kNoIndex);
      EXPECT_EQ(rank.memberships[0].issued, 2);
      EXPECT_EQ(rank.memberships[0].completed, 1);
      EXPECT_EQ(rank.nccl_version, dump.library_version ? 22703 : 0);
    }
  }
}

TEST(FrLoader, ScheduledMeansNotStartedOnlyIfStartsAreRecorded) {
  FrDump dump;
  dump.groups[0].enqueued = 3;
  dump.entries = {{.seq = 1, .state = "completed"}, {.seq = 2}, {.seq = 3}};
  Bundle plain = LoadDumps({dump});
  EXPECT_FALSE(plain.ranks[0].start_recorded);
  EXPECT_EQ(plain.ranks[0].ops[1].state, OpState::kIncomplete);
  dump.entries[1].state = "started";
  dump.entries[1].started_ns = 1'758'000'000'900'000'000;
  Bundle timed = LoadDumps({dump});
  EXPECT_TRUE(timed.ranks[0].start_recorded);
  EXPECT_EQ(timed.ranks[0].ops[1].state, OpState::kStarted);
  EXPECT_EQ(timed.ranks[0].ops[2].state, OpState::kEnqueued);
  EXPECT_EQ(timed.ranks[0].memberships[0].started, kNone);
}

TEST(FrLoader, RetiredWithoutCompletionMeansTimedOut) {
  FrDump dump;
  dump.groups[0] = {.enqueued = 2, .completed = 1};
  dump.entries = {{.seq = 1, .state = "completed", .retired = true}, {.seq = 2, .retired = true}};
  Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(bundle.ranks[0].ops[0].state, OpState::kCompleted);
  EXPECT_EQ(bundle.ranks[0].ops[1].state, OpState::kIncomplete);
  EXPECT_TRUE(bundle.ranks[0].ops[1].retired);
}

TEST(FrLoader, BatchMembersHaveTheStateOfTheirEnd) {
  FrDump dump;
  dump.groups[0] = {.enqueued = 8, .completed = 7};
  for (int batch = 7; batch <= 8; batch++) {
    for (const char* op : {"nccl:send 0->1", "nccl:recv 0<-1"}) {
      dump.entries.push_back({.op = op, .seq = 0, .is_p2p = true, .p2p_seq = batch, .op_id = batch * 3});
    }
    dump.entries.push_back({.op = "nccl:coalesced",
                            .seq = 0,
                            .input = {},
                            .output = {},
                            .state = batch == 7 ? "completed" : "scheduled",
                            .is_p2p = true,
                            .p2p_seq = batch});
  }
  Bundle bundle = LoadDumps({dump, dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  ASSERT_THAT(ops, SizeIs(6));
  for (size_t i = 0; i < 6; i++) {
    bool end = i % 3 == 2;
    EXPECT_EQ(ops[i].in_batch, !end) << i;
    EXPECT_EQ(ops[i].batch_end, end) << i;
    EXPECT_EQ(ops[i].group, i < 3 ? 1u : 2u) << i;
    EXPECT_EQ(ops[i].state, i < 3 ? OpState::kCompleted : OpState::kIncomplete) << i;
  }
  EXPECT_EQ(ops[2].kind, CallKind::kGroup);  // a batch of sends and receives, so not a collective
}

TEST(FrLoader, AnEndIncludesOnlyMembersThatItsOperationCreates) {
  FrDump dump;
  dump.entries = {
      {.seq = 0, .state = "completed"},
      {.op = "nccl:_reduce_oop", .seq = 0, .state = "completed"},
      {.op = "nccl:_reduce_oop", .seq = 0, .state = "completed"},
      {.op = "nccl:REDUCE_SCATTER_coalesced", .seq = 0, .input = {{}}, .output = {{}}, .state = "completed"},
      {.op = "nccl:allreduce_coalesced", .seq = 1, .state = "completed"}};
  Bundle bundle = LoadDumps({dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  EXPECT_FALSE(ops[0].in_batch);
  EXPECT_TRUE(ops[1].in_batch);
  EXPECT_TRUE(ops[2].in_batch);
  EXPECT_TRUE(ops[3].batch_end);
  EXPECT_EQ(ops[3].kind, CallKind::kReduceScatter);
  EXPECT_EQ(ops[3].output_elements, -1);
  EXPECT_FALSE(ops[4].batch_end);
  EXPECT_EQ(ops[4].kind, CallKind::kAllReduce);
}

TEST(FrLoader, CallsOfAnotherThreadInAnOpenBatchAreQueuedToo) {
  FrDump dump;
  dump.groups[0] = {.enqueued = 8, .started = 8, .completed = 8};
  dump.groups.push_back({.name = "1", .desc = "tp", .pg_id = 1, .enqueued = 3, .started = 3, .completed = 3});
  const auto autograd = [](int64_t seq, const char* state) {
    return FrEntry{.seq = seq,
                   .pg = "1",
                   .desc = "tp",
                   .pg_id = 1,
                   .state = state,
                   .retired = seq <= 3,
                   .completed_ns = seq <= 3 ? 1'700'000'000'000'000'000 + seq : 0,
                   .thread_id = "140000000000002",
                   .thread_name = "pt_autograd_0"};
  };
  dump.entries.push_back(autograd(3, "completed"));
  dump.entries.push_back({.op = "nccl:send 0->1", .seq = 0, .is_p2p = true, .p2p_seq = 9});
  dump.entries.push_back({.op = "nccl:recv 0<-1", .seq = 0, .is_p2p = true, .p2p_seq = 9});
  dump.entries.push_back(autograd(4, "scheduled"));
  dump.entries.push_back(autograd(5, "scheduled"));
  dump.entries.push_back(autograd(6, "scheduled"));
  const Bundle bundle = LoadDumps({dump, dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  ASSERT_EQ(ops.size(), 6u);
  EXPECT_EQ(ops[0].state, OpState::kCompleted);
  EXPECT_EQ(ops[3].state, OpState::kQueued);
  EXPECT_EQ(ops[4].state, OpState::kQueued);
  // The newest operation may have been recorded just before it was enqueued.
  EXPECT_NE(ops[5].state, OpState::kQueued);
}

TEST(FrLoader, ABatchWithoutItsEndIsRecognized) {
  // A dump of active operations omits the completed end of a batch, but contains its members, which are never marked
  // complete.
  FrDump dump;
  dump.groups[0] = {.enqueued = 9, .completed = 7};
  for (int batch = 7; batch <= 8; batch++) {
    dump.entries.push_back({.op = "nccl:send 0->1", .seq = 0, .is_p2p = true, .p2p_seq = batch});
    dump.entries.push_back({.op = "nccl:recv 0<-1", .seq = 0, .is_p2p = true, .p2p_seq = batch});
  }
  dump.entries.push_back({.op = "nccl:coalesced", .seq = 0, .input = {}, .output = {}, .is_p2p = true, .p2p_seq = 8});
  // The batch has not ended yet: the CPU thread is still inside the group.
  dump.entries.push_back({.op = "nccl:send 0->1", .seq = 0, .is_p2p = true, .p2p_seq = 10});
  dump.entries.push_back({.op = "nccl:recv 0<-1", .seq = 0, .is_p2p = true, .p2p_seq = 10});
  Bundle bundle = LoadDumps({dump, dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  EXPECT_TRUE(bundle.ranks[0].only_active);
  EXPECT_EQ(ops[0].state, OpState::kCompleted);
  EXPECT_EQ(ops[1].state, OpState::kCompleted);
  EXPECT_EQ(ops[2].state, OpState::kIncomplete);
  EXPECT_EQ(ops[4].state, OpState::kIncomplete);
  EXPECT_EQ(ops[5].state, OpState::kQueued);
  EXPECT_EQ(ops[6].state, OpState::kQueued);
}

TEST(FrLoader, OnlyUnknownBackendsAreProblems) {
  FrDump dump;
  dump.entries = {{.op = "nccl2:all_reduce", .seq = 1},
                  {.op = "custom:all_reduce", .seq = 2},
                  {.op = "unknown_backend:all_reduce", .seq = 3},
                  {.op = "unknown_backend:all_reduce", .seq = 4},
                  {.op = "nccl:brand_new_op", .seq = 5}};
  Bundle bundle = LoadDumps({dump});
  ASSERT_THAT(bundle.ranks[0].ops, SizeIs(3));
  EXPECT_EQ(bundle.ranks[0].ops[0].kind, CallKind::kAllReduce);
  EXPECT_EQ(bundle.ranks[0].ops[1].kind, CallKind::kAllReduce);
  EXPECT_EQ(bundle.ranks[0].ops[2].kind, CallKind::kOtherCollective);
  EXPECT_EQ(NameOf(bundle, bundle.ranks[0].ops[2]), "brand_new_op");
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("entry 2"));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("unknown_backend:all_reduce"));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("1 more"));
  EXPECT_EQ(bundle.problems[0].rank, 0);
}

TEST(FrLoader, DamagedNamesAreNotOtherCalls) {
  FrDump dump;
  dump.entries = {{.op = "nccl:all_reduce", .seq = 1},
                  {.op = "nccl:all\x07reduce", .seq = 2},
                  {.op = "nccl:all_red\xff\xfe", .seq = 3},
                  {.op = "nccl:all_reduce", .seq = 4, .desc = "default\x01pg"},
                  {.op = "nccl:all_reduce", .seq = 5, .input_dtypes = {"Fl\xc3("}},
                  {.op = "nccl:all_reduce", .seq = 6}};
  Bundle bundle = LoadDumps({dump});
  ASSERT_THAT(bundle.ranks[0].ops, SizeIs(2));
  EXPECT_EQ(bundle.ranks[0].ops[0].seq, 1);
  EXPECT_EQ(bundle.ranks[0].ops[1].seq, 6);
  EXPECT_TRUE(bundle.ranks[0].damaged);
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text,
              HasSubstr("entry 1 skipped: the text of its operation, group or types is damaged"));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("3 more"));
  // Names may be in any language.
  dump.entries = {{.op = "nccl:all_reduce", .seq = 1, .desc = "gruppe_\xc3\xa4"}};
  EXPECT_TRUE(LoadDumps({dump}).problems.empty());
}

TEST(FrLoader, ACollectiveWithoutANumberIsNotCompared) {
  FrDump dump;
  dump.entries = {{.op = "nccl:all_reduce", .seq = 1},
                  {.op = "nccl:all_reduce", .seq = -1},
                  {.op = "nccl:all_reduce", .seq = 3},
                  {.op = "nccl:broadcast", .seq = INT64_MIN}};
  for (bool old : {false, true}) {
    if (old) dump.AsVersion("1.5");
    Bundle bundle = LoadDumps({dump, dump});
    ASSERT_THAT(bundle.ranks[0].ops, SizeIs(2)) << old;
    EXPECT_EQ(bundle.ranks[0].ops[1].seq, 3);
    EXPECT_TRUE(bundle.ranks[0].damaged);
    ASSERT_THAT(bundle.problems, SizeIs(2));
    EXPECT_THAT(bundle.problems[0].text,
                HasSubstr("entry 1 skipped: a collective without a sequence number (and 1 more such entries)"));
  }
}

// A dump without collectives contains only its groups' counters. The rank's current operation is unknown.
TEST(FrLoader, ADumpWithoutAListOfEntriesIsNotAnIdleRank) {
  FrDump dump;
  dump.groups = {{.enqueued = 40, .started = 21, .completed = 20}};
  dump.write_entries = false;
  Bundle bundle = LoadDumps({dump, dump});
  ASSERT_THAT(bundle.problems, SizeIs(2));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("contains no list of entries"));
  EXPECT_TRUE(bundle.ranks[0].damaged);
  EXPECT_FALSE(bundle.ranks[0].only_active);
  EXPECT_EQ(bundle.ranks[0].memberships.at(0).issued, 40);
  dump.write_entries = true;
  EXPECT_TRUE(LoadDumps({dump, dump}).problems.empty());
}

TEST(FrLoader, AFullRingWithoutCompletionsIsNotADumpOfActiveOperations) {
  FrDump dump;
  dump.groups = {{.enqueued = 40, .started = 21, .completed = 20}};
  for (int seq = 21; seq <= 40; ++seq) dump.entries.push_back({.seq = seq, .record_id = 100 + seq});
  Bundle bundle = LoadDumps({dump});
  EXPECT_TRUE(bundle.ranks[0].only_active);
  EXPECT_EQ(bundle.ranks[0].records_lost, 0u);
  dump.entries.erase(dump.entries.begin(),
                     // Entries 31 to 40: operations 21 to 30 are in flight but not in the dump.
                     dump.entries.begin() + 10);
  bundle = LoadDumps({dump});
  EXPECT_FALSE(bundle.ranks[0].only_active);
  EXPECT_EQ(bundle.ranks[0].records_lost, 131u);
}

TEST(FrLoader, AStartedOperationThatIsMissingWasOverwritten) {
  FrDump dump;
  dump.groups = {{.enqueued = 28, .started = 21, .completed = 20}};
  for (int seq = 23; seq <= 28; ++seq) dump.entries.push_back({.seq = seq, .record_id = 100 + seq});
  EXPECT_FALSE(LoadDumps({dump}).ranks[0].only_active);
  // Without recorded starts, the watchdog may not have counted the newest completions yet.
  dump.groups[0].started = -1;
  EXPECT_TRUE(LoadDumps({dump}).ranks[0].only_active);
}

TEST(FrLoader, ACounterOfCompletedCollectivesLeavesNoBatchOpen) {
  // The group's only collective completed after its batches, so the dump of active operations omits it.
  FrDump dump;
  dump.groups[0] = {.enqueued = 1, .completed = 1};
  for (int batch = 1; batch <= 3; batch++) {
    dump.entries.push_back({.op = "nccl:send 0->1", .seq = 0, .is_p2p = true, .p2p_seq = batch});
    dump.entries.push_back({.op = "nccl:recv 0<-1", .seq = 0, .is_p2p = true, .p2p_seq = batch});
  }
  const Bundle bundle = LoadDumps({dump, dump});
  EXPECT_TRUE(bundle.ranks[0].only_active);
  for (const Op& op : bundle.ranks[0].ops) EXPECT_NE(op.state, OpState::kQueued);
}

TEST(FrLoader, TheNewerOfTwoDumpsOfARankIsKept) {
  FrDump old_dump, new_dump;
  old_dump.entries = {{.seq = 1, .created_ns = 100}};
  new_dump.entries = {{.seq = 2, .created_ns = 200}};
  for (bool swapped : {false, true}) {
    DumpFolder folder;
    folder.Write(swapped ? "a_rank_0" : "z_rank_0", fr_test::ToPickle(old_dump));
    std::string newer = folder.Write(swapped ? "z_rank_0" : "a_rank_0", fr_test::ToPickle(new_dump));
    Bundle bundle = LoadFiles(folder.Files());
    ASSERT_THAT(bundle.ranks, SizeIs(1));
    EXPECT_EQ(bundle.ranks[0].path, newer);
    EXPECT_EQ(bundle.ranks[0].ops[0].seq, 2);
    ASSERT_THAT(bundle.problems, SizeIs(1));
    EXPECT_THAT(bundle.problems[0].text, HasSubstr("another file of rank 0"));
    EXPECT_TRUE(bundle.problems[0].note);
  }
}

// If both folders contain a hang, analyzing one must not make the other look healthy.
TEST(FrLoader, OneOfTwoFoldersIsSkippedWithAProblem) {
  FrDump dump;
  dump.entries = {{.seq = 1}};
  const DumpFolder first, second;
  const Bundle bundle =
      LoadFiles({first.WriteRank(0, fr_test::ToPickle(dump)), second.WriteRank(0, fr_test::ToPickle(dump))});
  ASSERT_THAT(bundle.ranks, SizeIs(1));
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("analyze each folder separately"));
  EXPECT_FALSE(bundle.problems[0].note);
}

// Only the file's time shows when a dump was taken. A later copy does not show it. Nor does a file older than its last
// record, because the clock was set back in between. File times may be whole seconds.
TEST(FrLoader, TheFilesTimeShowsWhenADumpWasTaken) {
  constexpr int64_t kSecond = 1'000'000'000, kEntry = 1'758'000'000 * kSecond + kSecond / 2;
  const auto load = [](int64_t last_ns, int64_t written_ns) {
    FrDump dump;
    dump.entries = {{.seq = 1, .created_ns = kEntry}, {.seq = 2, .created_ns = last_ns}};
    DumpFolder folder;
    const std::string path = folder.Write("a_rank_0", fr_test::ToPickle(dump));
    const timespec when = {.tv_sec = written_ns / kSecond, .tv_nsec = written_ns % kSecond};
    const timespec times[] = {when, when};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return LoadFiles(folder.Files());
  };
  struct Case {
    int64_t written_ns, captured_ns;
    bool set_back;
  };
  for (const int64_t last :
       {kEntry, kEntry - 3600 * kSecond}) {  // with one clock, and with a clock that was set back in between
    for (const Case& c :
         {Case{last - 4 * kSecond, 0, true}, Case{last - kSecond / 2, last, false}, Case{last, last, false},
          Case{last + 2 * kSecond, last + 2 * kSecond, false}, Case{last + 4000 * kSecond, 0, false}}) {
      const Bundle bundle = load(last, c.written_ns);
      ASSERT_THAT(bundle.ranks, SizeIs(1));
      EXPECT_EQ(bundle.ranks[0].captured_ns, c.captured_ns) << c.written_ns - last;
      EXPECT_EQ(bundle.ranks[0].set_back, c.set_back) << c.written_ns - last;
    }
  }
}

TEST(FrLoader, AFileWithoutARankInItsNameMustBeRenamed) {
  DumpFolder folder;
  FrDump dump;
  dump.entries = {{.seq = 1}};
  const Bundle bundle = LoadFiles({folder.Write("dump", fr_test::ToPickle(dump))});
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("rename the file"));
}

TEST(FrLoader, EntriesAreInRecordOrderAndThreadsAreCounted) {
  FrDump dump;
  dump.entries = {{.seq = 3, .record_id = 12, .thread_id = "b"},
                  {.seq = 1, .record_id = 10, .thread_id = "a"},
                  {.seq = 2, .record_id = 11, .thread_id = "b"}};
  Bundle bundle = LoadDumps({dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  EXPECT_EQ(ops[0].seq, 1);
  EXPECT_EQ(ops[0].thread, 0u);
  EXPECT_EQ(ops[1].thread, 1u);
  EXPECT_EQ(ops[2].thread, 1u);
  EXPECT_EQ(ops[1].index, 0);
  EXPECT_EQ(ops[2].index, 1);
  EXPECT_EQ(bundle.ranks[0].records_lost, 10u);
}

TEST(FrLoader, SizesAndTypesOfSeveralTensorsAreAdded) {
  FrDump dump;
  dump.entries = {
      {.input = {{4, 4}, {2}}, .output = {{}}, .input_dtypes = {"Float", "Half"}, .output_dtypes = {"Half"}},
      {.input = {}, .output = {{INT64_MAX, 2}}, .input_dtypes = {}, .output_dtypes = {"Float", "Float"}}};
  Bundle bundle = LoadDumps({dump});
  const std::vector<Op>& ops = bundle.ranks[0].ops;
  EXPECT_EQ(bundle.shapes[ops[0].input_shape], "[[4,4],[2]]");
  EXPECT_EQ(ops[0].input_elements, 18);
  EXPECT_EQ(ops[0].output_elements, 1);  // a scalar
  EXPECT_EQ(bundle.strings[ops[0].dtypes], "Float,Half -> Half");
  EXPECT_EQ(bundle.shapes[ops[1].input_shape], "[]");
  EXPECT_EQ(ops[1].input_elements, -1);
  EXPECT_EQ(ops[1].output_elements, -1);  // an impossible number
  EXPECT_EQ(bundle.strings[ops[1].dtypes], " -> Float");
}

class RealTraces : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> Files() const {
    std::filesystem::path folder = lockstep::testing::TracesFolder() / GetParam();
    std::vector<std::string> files;
    if (!std::filesystem::is_directory(folder)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".log") files.push_back(entry.path().string());
    }
    return files;
  }
};

TEST_P(RealTraces, LoadCompletelyInAnyOrderAndUnderAnyName) {
  std::vector<std::string> files = Files();
  if (files.empty()) GTEST_SKIP() << "LOCKSTEP_TRACES names no folder of recorded traces";
  Bundle bundle = LoadFiles(files);
  EXPECT_THAT(bundle.problems, IsEmpty());
  EXPECT_EQ(bundle.ranks.size(), files.size());
  EXPECT_EQ(bundle.ranks_expected, static_cast<int32_t>(files.size()));
  std::string said = Say(bundle);
  std::reverse(files.begin(), files.end());
  EXPECT_EQ(Say(LoadFiles(files)), said);
  DumpFolder renamed;
  for (const std::string& file : files) {
    std::string rank = file.substr(file.rfind('_') + 1);
    std::filesystem::copy_file(file,
                               renamed.path() + "/x" + std::to_string(100 - std::stoi(rank)) + "-" + rank + ".pickle");
  }
  EXPECT_EQ(Say(LoadFiles(renamed.Files())), said);
}

INSTANTIATE_TEST_SUITE_P(Sets, RealTraces,
                         ::testing::Values("megatron-16/gpu_error_1st", "megatron-16/lock_gil_1st", "torch-gloo-8/none",
                                           "torch-gloo-8/sleep5"));

class MegatronTraces : public RealTraces {};

TEST_P(MegatronTraces, EveryStatusIsMatchedToItsGroup) {
  std::vector<std::string> files = Files();
  if (files.empty()) GTEST_SKIP() << "LOCKSTEP_TRACES names no folder of recorded traces";
  Bundle bundle = LoadFiles(files);
  bool gil = std::string(GetParam()).find("lock_gil") != std::string::npos;
  size_t ops = 0;
  for (const Rank& rank : bundle.ranks) {
    ops += rank.ops.size();
    EXPECT_TRUE(rank.only_active);
    EXPECT_FALSE(rank.start_recorded);
    EXPECT_EQ(rank.world_size, 16);
    EXPECT_GE(rank.memberships.size(), 12u);  // inner pipeline stages have no embedding group
    for (const Membership& member : rank.memberships) {
      bool any = member.issued >= 0 || member.p2p_issued >= 0;
      EXPECT_TRUE(any) << rank.rank << " " << bundle.comms[member.comm].name;
      EXPECT_GE(member.member_rank, 0);
      EXPECT_FALSE(bundle.comms[member.comm].members_inferred);
    }
    EXPECT_GE(MemberIn(bundle, rank, "PIPELINE_MODEL_PARALLEL_GROUP")->p2p_issued, 10000);
  }
  EXPECT_EQ(ops, gil ? 142u : 289u);
  if (gil) {
    EXPECT_THAT(bundle.ranks[9].ops, IsEmpty());
    EXPECT_THAT(bundle.ranks[14].ops, IsEmpty());
    // pg_status alone shows that these ranks are behind their peers in the tensor group.
    for (int32_t rank : {9, 14}) {
      const Membership* own = MemberIn(bundle, bundle.ranks[rank], "TENSOR_MODEL_PARALLEL_GROUP");
      for (int32_t peer : bundle.comms[own->comm].members) {
        if (peer == rank) continue;
        const Membership* other = MemberIn(bundle, bundle.ranks[peer], "TENSOR_MODEL_PARALLEL_GROUP");
        EXPECT_LT(own->issued, other->issued) << rank << " " << peer;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, MegatronTraces,
                         ::testing::Values("megatron-16/gpu_error_1st", "megatron-16/lock_gil_1st"));

// Work on groups may take quadratic time, so their number is limited.
TEST(FrLoader, MoreGroupsThanAnyJobHasAreIgnored) {
  FrDump dump;
  dump.groups.clear();
  for (int64_t i = 0; i < 9000; i++) {
    dump.groups.push_back({.name = std::to_string(i), .desc = "d", .pg_id = i, .enqueued = 1, .completed = 0});
    dump.entries.push_back({.pg = std::to_string(i), .desc = "d", .pg_id = i});
  }
  const Bundle bundle = LoadDumps({dump, dump});
  ASSERT_EQ(bundle.ranks.size(), 2u);
  EXPECT_EQ(bundle.ranks[0].memberships.size(), 8192u);
  EXPECT_EQ(bundle.ranks[0].ops.size(), 8192u);
  EXPECT_TRUE(bundle.ranks[0].damaged);
  EXPECT_EQ(bundle.problems.size(), 4u);
}

}  // namespace
}  // namespace lockstep
