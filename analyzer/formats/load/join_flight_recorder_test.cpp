#include "analyzer/formats/load/join_flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using ring::CallKind;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kEpoch = 1'758'000'000'000'000'000;  // wall clock of the job's start
constexpr int64_t kBoot = 1'757'000'000'000'000'000;   // wall clock minus monotonic clock

// The calls of a job, from which both formats are generated.
struct Event {
  int group = 0;
  CallKind kind = CallKind::kAllReduce;
  int64_t count = 16;
  int batch = 0;  // number of calls coalesced into one launch
  std::string site = "train.py:1 step";
};
struct Group {
  std::string name, desc;
  std::vector<int32_t> members;
  std::string comm_name = {};  // the communicator's name in Lockstep's records
};
struct Job {
  std::vector<Group> groups;
  std::vector<Event> events;     // events of every member rank
  std::vector<size_t> stops_at;  // indexed by rank: number of events that it calls; the last one hangs
  std::vector<bool> own, dump;   // indexed by rank: whether the rank has this source
  size_t own_keeps = SIZE_MAX, dump_keeps = SIZE_MAX;  // number of newest calls and entries to keep
  int64_t dump_time_shift_ns = 0;

  explicit Job(int32_t ranks) : stops_at(ranks, SIZE_MAX), own(ranks, true), dump(ranks, true) {}
  int32_t ranks() const { return static_cast<int32_t>(own.size()); }
  bool IsMember(int group, int32_t rank) const {
    const std::vector<int32_t>& members = groups[group].members;
    return std::find(members.begin(), members.end(), rank) != members.end();
  }
};

std::string OpText(CallKind kind) {
  switch (kind) {
    case CallKind::kAllGather: return "_all_gather_base";
    case CallKind::kReduceScatter: return "_reduce_scatter_base";
    case CallKind::kAlltoAll: return "all_to_all";
    default: return "all_reduce";
  }
}

Bundle OwnForm(const Job& job) {
  Bundle bundle;
  bundle.job = "train";
  for (size_t g = 0; g < job.groups.size(); g++) {
    Communicator comm;
    comm.id = absl::StrCat("00000000000000a", g);
    comm.name = job.groups[g].comm_name;
    comm.size = static_cast<int32_t>(job.groups[g].members.size());
    comm.members = job.groups[g].members;
    comm.origin = CallKind::kCommInitRank;
    bundle.comms.push_back(comm);
  }
  for (int32_t r = 0; r < job.ranks(); r++) {
    if (!job.own[r]) continue;
    Rank rank;
    rank.rank = r;
    rank.world_size = job.ranks();
    rank.host = absl::StrCat("node", r / 2, ".cluster");
    rank.job = "train";
    rank.pid = 100 + r;
    rank.real_minus_mono_ns = kBoot;
    rank.captured_ns = kEpoch - kBoot + 600'000'000'000;
    rank.source = Source::kDump;
    rank.threads.emplace_back();
    std::vector<int> place(job.groups.size(), -1);
    for (size_t g = 0; g < job.groups.size(); g++) {
      if (!job.IsMember(static_cast<int>(g), r)) continue;
      place[g] = static_cast<int>(rank.memberships.size());
      Membership member;
      member.comm = static_cast<uint32_t>(g);
      const auto& members = job.groups[g].members;
      member.member_rank = static_cast<int32_t>(std::find(members.begin(), members.end(), r) - members.begin());
      member.state = ring::CommState::kReady;
      member.issued = 0;
      rank.memberships.push_back(member);
    }
    int64_t index = 0;
    for (size_t e = 0; e < std::min(job.stops_at[r], job.events.size()); e++) {
      const Event& event = job.events[e];
      if (place[event.group] < 0) continue;
      for (int i = 0; i < std::max(1, event.batch); i++) {
        Op op;
        op.membership = static_cast<uint32_t>(place[event.group]);
        op.kind = event.kind;
        op.count = event.kind == CallKind::kReduceScatter ? event.count / 4 : event.count;
        op.datatype = 7;
        op.thread = 0;
        op.index = ++index;
        op.seq = ++rank.memberships[op.membership].issued;
        op.enter_ns = kEpoch - kBoot + static_cast<int64_t>(e) * 1'000'000'000;
        op.return_ns = op.enter_ns + 10;
        rank.ops.push_back(op);
      }
    }
    for (Membership& member : rank.memberships) member.launched = member.issued;
    const size_t lost = rank.ops.size() - std::min(rank.ops.size(), job.own_keeps);
    for (size_t i = 0; i < lost; i++) rank.memberships[rank.ops[i].membership].lost_records++;
    rank.ops.erase(rank.ops.begin(), rank.ops.begin() + static_cast<ptrdiff_t>(lost));
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

FrDump DumpForm(const Job& job, int32_t r) {
  FrDump dump;
  dump.groups.clear();
  std::vector<int64_t> launches(job.groups.size()), calls(job.groups.size()), local(job.groups.size(), -1);
  int64_t made = 0;
  for (size_t g = 0; g < job.groups.size(); g++) {
    if (job.IsMember(static_cast<int>(g), r)) local[g] = made++;
  }
  for (size_t e = 0; e < std::min(job.stops_at[r], job.events.size()); e++) {
    const Event& event = job.events[e];
    if (local[event.group] < 0) continue;
    const Group& group = job.groups[event.group];
    launches[event.group]++;
    const bool last = e + 1 == std::min(job.stops_at[r], job.events.size());
    for (int i = 0; i < event.batch + 1; i++) {
      FrEntry entry;
      entry.op = "nccl:" + (event.batch > 0 && i == event.batch ? "coalesced" : OpText(event.kind));
      entry.seq = launches[event.group];
      entry.op_id = ++calls[event.group];
      entry.pg = group.name;
      entry.desc = group.desc;
      entry.pg_id = local[event.group];
      entry.input = {{event.count}};
      entry.output = {{event.kind == CallKind::kReduceScatter ? event.count / 4
                       : event.kind == CallKind::kAllGather   ? event.count * 4
                                                              : event.count}};
      if (event.batch > 0 && i == event.batch) entry.input = entry.output = {};
      entry.state = last ? "scheduled" : "completed";
      entry.created_ns = kEpoch + static_cast<int64_t>(e) * 1'000'000'000 + job.dump_time_shift_ns;
      const size_t colon = event.site.find(':'), blank = event.site.find(' ');
      entry.frames = {{event.site.substr(blank + 1), "/job/" + event.site.substr(0, colon),
                       std::stoll(event.site.substr(colon + 1))}};
      dump.entries.push_back(entry);
    }
  }
  int64_t record = 0;
  for (FrEntry& entry : dump.entries) entry.record_id = record++;
  const size_t lost = dump.entries.size() - std::min(dump.entries.size(), job.dump_keeps);
  dump.entries.erase(dump.entries.begin(), dump.entries.begin() + static_cast<ptrdiff_t>(lost));
  for (size_t g = 0; g < job.groups.size(); g++) {
    if (local[g] < 0) continue;
    fr_test::FrGroup group;
    group.name = job.groups[g].name;
    group.desc = job.groups[g].desc;
    group.ranks = job.groups[g].members;
    group.pg_id = local[g];
    group.enqueued = launches[g] > 0 ? launches[g] : -1;
    group.completed = launches[g] > 0 ? launches[g] - 1 : -1;
    dump.groups.push_back(group);
  }
  return dump;
}

// Loads files as users have them: Lockstep's dumps and Flight Recorder dumps in one folder.
Bundle Load(const Job& job) {
  fr_test::DumpFolder folder;
  const Bundle own = OwnForm(job);
  std::vector<size_t> ranks;
  for (size_t i = 0; i < own.ranks.size(); i++) ranks.push_back(i);
  DumpHeader header;
  EXPECT_TRUE(WriteLsd(own, ranks, header, folder.path() + "/node.lsd").ok());
  for (int32_t r = 0; r < job.ranks(); r++) {
    if (job.dump[r]) folder.WriteRank(r, ToPickle(DumpForm(job, r)));
  }
  absl::StatusOr<Bundle> bundle = LoadPaths({folder.path()});
  EXPECT_TRUE(bundle.ok()) << bundle.status().message();
  return bundle.ok() ? *std::move(bundle) : Bundle();
}

std::vector<std::string> Texts(const Bundle& bundle) {
  std::vector<std::string> out;
  for (const Problem& problem : bundle.problems) out.push_back(problem.text);
  return out;
}

std::string SiteOf(const Bundle& bundle, const Op& op) {
  return op.call_site == kNoIndex ? "" : bundle.strings[op.call_site];
}

const Op* FindOp(const Bundle& bundle, int32_t rank, const std::string& comm, int64_t seq) {
  for (const Rank& one : bundle.ranks) {
    if (one.rank != rank) continue;
    for (const Op& op : one.ops) {
      if (op.membership != kNoIndex && bundle.comms[one.memberships[op.membership].comm].id == comm && op.seq == seq)
        return &op;
    }
  }
  return nullptr;
}

// Two pairs and the world in repeated steps; rank 3 never reaches the last world call.
Job Training(int steps = 6) {
  Job job(4);
  job.groups = {{"0", "default_pg", {0, 1, 2, 3}}, {"1", "tp", {0, 1}}, {"2", "tp", {2, 3}}};
  for (int i = 0; i < steps; i++) {
    for (int tp : {1, 2}) {
      job.events.push_back({tp, CallKind::kAllGather, 64, 0, "model.py:10 forward"});
      job.events.push_back({tp, CallKind::kReduceScatter, 64, 0, "model.py:20 backward"});
    }
    job.events.push_back({0, CallKind::kAllReduce, 100, 0, "train.py:30 reduce"});
  }
  job.stops_at[3] = job.events.size() - 1;
  return job;
}

TEST(JoinFlightRecorder, AddsCallSitesShapesAndNamesToOwnRecords) {
  const Bundle bundle = Load(Training());
  EXPECT_THAT(Texts(bundle), IsEmpty());
  ASSERT_EQ(bundle.ranks.size(), 4u);
  EXPECT_EQ(bundle.comms.size(), 3u);
  EXPECT_EQ(bundle.comms[0].name, "default_pg");
  for (const Rank& rank : bundle.ranks) {
    EXPECT_EQ(rank.source, Source::kDump);
    EXPECT_EQ(rank.ops.size(), rank.rank == 3 ? 17u : 18u);
    for (const Op& op : rank.ops) {
      EXPECT_EQ(SiteOf(bundle, op), op.kind == CallKind::kAllReduce   ? "train.py:30 reduce"
                                    : op.kind == CallKind::kAllGather ? "model.py:10 forward"
                                                                      : "model.py:20 backward");
      EXPECT_EQ(op.record_id, kUnknown);
    }
  }
  const Op* op = FindOp(bundle, 1, "00000000000000a1", 1);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(bundle.shapes[op->output_shape], "[[256]]");
  EXPECT_EQ(bundle.strings[op->dtypes], "Float -> Float");
  // Lockstep recorded no completions, but the framework did.
  EXPECT_EQ(op->state, OpState::kCompleted);
  EXPECT_EQ(FindOp(bundle, 1, "00000000000000a0", 6)->state, OpState::kUnknown);
  for (const Rank& rank : bundle.ranks)
    EXPECT_EQ(rank.memberships[0].completed, rank.memberships[0].issued - (rank.rank == 3 ? 0 : 1));
}

TEST(JoinFlightRecorder, AddsOperationsThatTheRingHasOverwritten) {
  Job job = Training();
  job.own_keeps = 5;
  const Bundle bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  for (const Rank& rank : bundle.ranks) {
    ASSERT_EQ(rank.ops.size(), rank.rank == 3 ? 17u : 18u);
    for (size_t i = 1; i < rank.ops.size(); i++) {
      EXPECT_EQ(rank.ops[i].index, rank.ops[i - 1].index + 1);
      EXPECT_GE(rank.ops[i].enter_ns, rank.ops[i - 1].enter_ns);
    }
    for (const Membership& member : rank.memberships) EXPECT_EQ(member.lost_records, 0);
  }
  EXPECT_EQ(FindOp(bundle, 0, "00000000000000a0", 1)->enter_ns, kEpoch - kBoot + 4'000'000'000);
}

TEST(JoinFlightRecorder, RanksWithOneSourceAreKept) {
  Job job = Training();
  job.own[2] = false;
  job.dump[0] = job.dump[1] = false;
  const Bundle bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  ASSERT_EQ(bundle.ranks.size(), 4u);
  EXPECT_EQ(bundle.ranks[2].source, Source::kFlightRecorder);
  EXPECT_EQ(bundle.comms.size(), 3u);
  const Op* alone = FindOp(bundle, 2, "00000000000000a0", 6);
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(SiteOf(bundle, *alone), "train.py:30 reduce");
  EXPECT_EQ(SiteOf(bundle, *FindOp(bundle, 0, "00000000000000a0", 6)), "");
}

TEST(JoinFlightRecorder, ABatchCountsAsItsCalls) {
  Job job(2);
  job.groups = {{"0", "default_pg", {0, 1}}};
  for (int i = 0; i < 12; i++) {
    job.events.push_back({0, CallKind::kAllGather, 8 + i % 5, i % 3 == 1 ? 4 : 0, absl::StrCat("a.py:", i + 1, " f")});
    job.events.push_back({0, CallKind::kAllReduce, 100 + i, 0, absl::StrCat("b.py:", i + 1, " g")});
  }
  job.dump_keeps = 30;
  for (int32_t missing : {-1, 0}) {
    if (missing >= 0) job.own[missing] = false;
    const Bundle bundle = Load(job);
    EXPECT_THAT(Texts(bundle), IsEmpty());
    for (const Rank& rank : bundle.ranks) {
      const Op& last = rank.ops.back();
      EXPECT_EQ(last.seq, 36) << rank.rank;
      EXPECT_EQ(rank.memberships[0].issued, 36);
      EXPECT_EQ(SiteOf(bundle, last), "b.py:12 g");
      EXPECT_EQ(SiteOf(bundle, *FindOp(bundle, rank.rank, "00000000000000a0", 30)), "a.py:11 f");
    }
  }
}

TEST(JoinFlightRecorder, RepeatedCallsDoNotDetermineTheShift) {
  Job job(2);
  job.groups = {{"0", "default_pg", {0, 1}}};
  // One early batch makes the numbers incomparable, and each later call looks the same as the next.
  job.events.push_back({0, CallKind::kAllReduce, 8, 3});
  for (int i = 0; i < 60; i++) job.events.push_back({0, CallKind::kAllReduce, 8, i % 2 == 0 ? 2 : 0});
  job.dump_keeps = 40;
  job.own_keeps = 60;
  Bundle bundle = Load(job);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("its calls repeat"));
  for (const Op& op : bundle.ranks[0].ops) EXPECT_EQ(op.call_site, kNoIndex);
  EXPECT_EQ(bundle.ranks[0].source, Source::kDump);

  // The ranks stopped at different places in the two records, so only one shift fits all of them.
  job.stops_at[1] = job.events.size() - 2;
  bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  EXPECT_EQ(SiteOf(bundle, bundle.ranks[1].ops.back()), "train.py:1 step");
}

TEST(JoinFlightRecorder, GroupsWithTheSameMembersAreDistinguishedByCallsOrNames) {
  Job job(2);
  job.groups = {{"0", "default_pg", {0, 1}}, {"1", "grads", {0, 1}}};
  for (int i = 0; i < 5; i++) {
    job.events.push_back({0, CallKind::kAllReduce, 8, 0, "a.py:1 f"});
    job.events.push_back({1, CallKind::kAllReduce, 9, 0, "b.py:1 g"});
  }
  Bundle bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  EXPECT_EQ(SiteOf(bundle, *FindOp(bundle, 0, "00000000000000a1", 2)), "b.py:1 g");

  for (Event& event : job.events) event.count = 8;
  bundle = Load(job);
  EXPECT_THAT(Texts(bundle), ::testing::SizeIs(2));
  EXPECT_THAT(Texts(bundle), Each(HasSubstr("2 communicators have the same members and calls")));
  for (const Rank& rank : bundle.ranks) {
    for (const Op& op : rank.ops) EXPECT_EQ(op.call_site, kNoIndex);
  }

  job.groups[1].comm_name = "grads";
  job.groups[0].comm_name = "default_pg";
  bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  EXPECT_EQ(SiteOf(bundle, *FindOp(bundle, 0, "00000000000000a1", 2)), "b.py:1 g");
}

TEST(JoinFlightRecorder, AnotherStartOfTheJobIsLeftOut) {
  Job job = Training();
  job.dump_time_shift_ns = -3'600'000'000'000;
  const Bundle bundle = Load(job);
  ASSERT_EQ(bundle.problems.size(), 4u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("another start of the job"));
  for (const Rank& rank : bundle.ranks) {
    for (const Op& op : rank.ops) EXPECT_EQ(op.call_site, kNoIndex);
  }
}

TEST(JoinFlightRecorder, DifferentCallsAreAContradiction) {
  Job job = Training();
  Job other = job;
  for (Event& event : other.events) event.count++;
  Bundle bundle = OwnForm(job);
  std::vector<std::optional<FrDump>> dumps;
  for (int32_t r = 0; r < 4; r++) dumps.push_back(DumpForm(other, r));
  JoinFlightRecorder(fr_test::LoadDumps(dumps), &bundle);
  EXPECT_EQ(bundle.comms.size(), 3u);
  EXPECT_EQ(bundle.ranks.size(), 4u);
  ASSERT_EQ(bundle.problems.size(), 3u);
  EXPECT_THAT(Texts(bundle), Each(HasSubstr("do not match in the same order")));

  // Only one rank's dump is from another process.
  bundle = OwnForm(job);
  dumps.clear();
  for (int32_t r = 0; r < 4; r++) dumps.push_back(DumpForm(r == 2 ? other : job, r));
  JoinFlightRecorder(fr_test::LoadDumps(dumps), &bundle);
  ASSERT_FALSE(bundle.problems.empty());
  EXPECT_TRUE(std::any_of(bundle.problems.begin(), bundle.problems.end(), [](const Problem& problem) {
    return problem.rank == 2 && absl::StrContains(problem.text, "different calls");
  })) << ::testing::PrintToString(Texts(bundle));
  for (const Op& op : bundle.ranks[2].ops) EXPECT_EQ(op.call_site, kNoIndex);
  EXPECT_NE(FindOp(bundle, 1, "00000000000000a0", 2)->call_site, kNoIndex);
}

TEST(JoinFlightRecorder, ContradictingHostsKeepRanksSeparate) {
  Bundle bundle = OwnForm(Training());
  Bundle dumps = fr_test::LoadDumps({DumpForm(Training(), 0), DumpForm(Training(), 1)});
  dumps.ranks[0].host = "NODE0";
  dumps.ranks[1].host = "node7.cluster";
  JoinFlightRecorder(dumps, &bundle);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("belongs to host node7.cluster"));
  EXPECT_EQ(bundle.problems[0].rank, 1);
  EXPECT_NE(bundle.ranks[0].ops[0].call_site, kNoIndex);
  EXPECT_EQ(bundle.ranks[1].ops[0].call_site, kNoIndex);
}

TEST(JoinFlightRecorder, TheVerdictNamesTheSameRankWhateverTheSources) {
  for (int without = -1; without < 4; without++) {
    for (bool own : {true, false}) {
      Job job = Training();
      if (without >= 0) (own ? job.own : job.dump)[without] = false;
      Bundle bundle = Load(job);
      bundle.known_stalled = true;
      const Verdict verdict = Analyze(bundle);
      ASSERT_GE(verdict.findings_size(), 1) << without << own;
      ASSERT_EQ(verdict.findings(0).culprits_size(), 1) << without << own;
      EXPECT_EQ(verdict.findings(0).culprits(0).rank(), 3) << without << own;
    }
  }
}

TEST(JoinFlightRecorder, GroupsUnknownToOwnRecordsAreAdded) {
  Job job = Training();
  job.own[2] = job.own[3] = false;
  const Bundle bundle = Load(job);
  EXPECT_THAT(Texts(bundle), IsEmpty());
  ASSERT_EQ(bundle.ranks.size(), 4u);
  ASSERT_EQ(bundle.ranks[2].memberships.size(), 2u);
  EXPECT_EQ(bundle.comms.size(), 3u);
  EXPECT_EQ(bundle.ranks_expected, 4);
}

}  // namespace
}  // namespace lockstep
