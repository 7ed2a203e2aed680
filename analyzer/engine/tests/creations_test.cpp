// Tests communicators that are being created: which rank did not arrive, which arrived with another id, which split
// differently; and which phase of a job's start took how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/startup.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/testing/findings.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

using lockstep::testing::ExpectOnly;
using ::testing::HasSubstr;

using ring::CallKind;
using ring::CommState;

// A job of `n` ranks, 4 on each host, that only creates communicators. Times are given on the first host's clock; each
// further host's clock is ahead of the previous one by `skew`.
class Start {
 public:
  explicit Start(int n, int64_t skew = 0) {
    b.ranks_expected = n;
    for (int i = 0; i < n; ++i) {
      Rank r;
      r.rank = i;
      r.world_size = n;
      r.host = absl::StrCat("node", i / 4);
      r.captured_ns = 100 * kSecond + skew * (i / 4);
      r.real_minus_mono_ns = 0;
      r.host_waits = true;
      r.process.life = Life::kRunning;
      ring::ThreadSnapshot thread;
      thread.calls = 1;
      r.threads.push_back(thread);
      b.ranks.push_back(r);
    }
    skew_ = skew;
  }

  uint32_t Comm(const std::string& id, int size, CallKind origin, const std::string& parent = "",
                uint32_t ordinal = 0) {
    for (uint32_t c = 0; c < b.comms.size(); ++c) {
      if (b.comms[c].id == id) return c;
    }
    Communicator comm;
    comm.id = id;
    comm.size = size;
    comm.members.assign(static_cast<size_t>(size), -1);
    comm.origin = origin;
    comm.parent_id = parent;
    comm.ordinal = ordinal;
    b.comms.push_back(comm);
    return static_cast<uint32_t>(b.comms.size() - 1);
  }

  Membership& Enter(int rank, uint32_t comm, int member, int64_t enter, int64_t leave) {
    Membership ms;
    ms.comm = comm;
    ms.member_rank = member;
    ms.origin = b.comms[comm].origin;
    ms.state = leave > 0 ? CommState::kReady : CommState::kInitializing;
    ms.issued = ms.launched = kNone;
    ms.created_ns = enter + skew_ * (rank / 4);
    ms.ready_ns = leave > 0 ? leave + skew_ * (rank / 4) : 0;
    if (member >= 0 && static_cast<size_t>(member) < b.comms[comm].members.size()) b.comms[comm].members[member] = rank;
    Rank& r = b.ranks[rank];
    r.memberships.push_back(ms);
    if (leave == 0) {
      r.threads[0].call = origin_call(comm);
      r.threads[0].comm = static_cast<uint32_t>(r.memberships.size() - 1);
      r.threads[0].since_ns = ms.created_ns;
    }
    return r.memberships.back();
  }
  CallKind origin_call(uint32_t comm) const { return b.comms[comm].origin; }

  // All ranks enter at once.
  void World(int64_t at = kSecond) {
    const uint32_t world = Comm("world", static_cast<int>(b.ranks.size()), CallKind::kCommInitRankConfig);
    for (int r = 0; r < static_cast<int>(b.ranks.size()); ++r) Enter(r, world, r, at, at + kSecond);
  }

  // Split number `ordinal` of the world. Colors are by rank; -1 means no color. Keys are the ranks unless given.
  void Split(uint32_t ordinal, const std::vector<int>& colors, std::vector<int> keys = {}, int64_t at = 3 * kSecond) {
    std::map<int, std::vector<int>> groups;
    for (int r = 0; r < static_cast<int>(colors.size()); ++r) groups[colors[r]].push_back(r);
    if (keys.empty()) {
      for (int r = 0; r < static_cast<int>(colors.size()); ++r) keys.push_back(r);
    }
    for (auto& [color, members] : groups) {
      std::stable_sort(members.begin(), members.end(), [&](int x, int y) { return keys[x] < keys[y]; });
      const int size = color < 0 ? 0 : static_cast<int>(members.size());
      const uint32_t c = Comm(absl::StrCat("s", ordinal, "/", color), size, CallKind::kCommSplit, "world", ordinal);
      for (size_t m = 0; m < members.size(); ++m) {
        Membership& ms = Enter(members[m], c, color < 0 ? -1 : static_cast<int>(m), at, at + kSecond);
        ms.color = color;
        ms.key = keys[members[m]];
        if (color < 0) ms.state = CommState::kNotMember, ms.ready_ns = 0, ms.ended_ns = ms.created_ns + kSecond;
      }
    }
  }

  Bundle b;

 private:
  int64_t skew_ = 0;
};

TEST(Creations, ARankThatNeverCalledInitIsNamed) {
  for (int missing : {0, 3, 7}) {
    for (const bool with_data : {true, false}) {
      Start start(8);
      const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
      for (int r = 0; r < 8; ++r) {
        if (r != missing) start.Enter(r, world, r, kSecond, 0);
      }
      if (!with_data) start.b.ranks.erase(start.b.ranks.begin() + missing);
      const Verdict v = Analyze(start.b);
      ExpectOnly(v, INIT_INCOMPLETE, {missing});
      EXPECT_EQ(v.verdict(), VERDICT_LATE);
      EXPECT_EQ(v.findings(0).victim_count(), 7);
      EXPECT_EQ(v.findings(0).operation(), "ncclCommInitRankConfig");
      EXPECT_EQ(v.findings(0).confidence() >= 0.9, with_data);
      start.b.known_stalled = true;
      EXPECT_EQ(Analyze(start.b).verdict(), VERDICT_HUNG);
    }
  }
}

// Another rank's data is missing too. It may or may not have arrived, but the rank that is elsewhere certainly has
// not.
TEST(Creations, ARankWithoutDataIsNotBlamedIfAnotherIsSeenElsewhere) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 8; ++r) {
    if (r != 5) start.Enter(r, world, r, kSecond, 0);
  }
  start.b.ranks.erase(start.b.ranks.begin() + 2);
  start.b.comms[world].members[2] = -1;
  ExpectOnly(Analyze(start.b), INIT_INCOMPLETE, {5});
}

TEST(Creations, ADamagedRecordIsNotBlamedIfAnotherRankIsSeenElsewhere) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 8; ++r) {
    if (r != 5 && r != 2) start.Enter(r, world, r, kSecond, 0);
  }
  start.b.ranks[2].damaged = true;
  ExpectOnly(Analyze(start.b), INIT_INCOMPLETE, {5});
}

// A damaged record may only show that a communicator is being created. This counts if a thread is inside the call.
TEST(Creations, ACreationOnlyInADamagedRecordIsBelievedIfItsThreadIsInside) {
  for (const bool inside : {true, false}) {
    Start start(8);
    start.World();
    const uint32_t pair = start.Comm("pair", 2, CallKind::kCommInitRankConfig);
    start.Enter(2, pair, 0, 3 * kSecond, 0);
    start.b.comms[pair].members = {2, 3};
    start.b.ranks.erase(start.b.ranks.begin() + 3);
    start.b.ranks[2].damaged = true;
    if (!inside) start.b.ranks[2].threads.clear();
    EXPECT_EQ(Analyze(start.b).findings_size(), inside ? 1 : 0);
  }
}

TEST(Creations, ADifferentUniqueIdIsNamed) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  const uint32_t other = start.Comm("elsewhere", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 8; ++r) start.Enter(r, r == 6 ? other : world, r, kSecond, 0);
  const Verdict v = Analyze(start.b);
  ExpectOnly(v, INIT_INCOMPLETE, {6});
  EXPECT_NE(v.findings(0).summary().find("a different unique id"), std::string::npos);
  EXPECT_EQ(v.findings(0).communicator().id(), "world");

  // With two members and two ids, nothing shows which id is right.
  Start pair(2);
  pair.Enter(0, pair.Comm("a", 2, CallKind::kCommInitRank), 0, kSecond, 0);
  pair.Enter(1, pair.Comm("b", 2, CallKind::kCommInitRank), 1, kSecond, 0);
  ExpectOnly(Analyze(pair.b), INIT_INCOMPLETE, {0, 1});
}

TEST(Creations, ARankThatWaitsElsewhereIsNotTheCause) {
  // Rank 3 never arrives at the pair {2, 3}. Rank 2 waits there, so it does not arrive at the trio {0, 1, 2}.
  Start start(4);
  start.World();
  const uint32_t pair = start.Comm("pair", 2, CallKind::kCommInitRank),
                 trio = start.Comm("trio", 3, CallKind::kCommInitRank);
  start.b.comms[pair].members = {2, 3};
  start.b.comms[trio].members = {0, 1, 2};
  start.Enter(2, pair, 0, 5 * kSecond, 0);
  start.Enter(0, trio, 0, 5 * kSecond, 0);
  start.Enter(1, trio, 1, 5 * kSecond, 0);
  ExpectOnly(Analyze(start.b), INIT_INCOMPLETE, {3});
}

// Without GPU progress markers, the operation that rank 2 waits for is unknown. Another rank may delay it.
TEST(Creations, ARankInAGpuWaitWithoutMarksMayBeHeld) {
  for (const bool marks : {false, true}) {
    Start start(4);
    start.World();
    start.b.known_stalled = true;
    const uint32_t trio = start.Comm("trio", 3, CallKind::kCommInitRank);
    start.b.comms[trio].members = {0, 1, 2};
    for (const int r : {0, 1}) start.Enter(r, trio, r, 5 * kSecond, 0);
    for (Rank& r : start.b.ranks) r.gpu_marks = marks ? ring::GpuMarks::kFull : ring::GpuMarks::kOff;
    start.b.ranks[2].threads[0].wait = CallKind::kStreamSynchronize;
    start.b.ranks[2].threads[0].wait_since_ns = 5 * kSecond;
    const Verdict v = Analyze(start.b);
    ASSERT_GE(v.findings_size(), 1);
    EXPECT_EQ(v.findings(0).confidence() > 0.9, marks) << v.DebugString();
  }
}

// All ranks have created the world and made five collectives on it. No list names the members of a pair.
class Pair : public Start {
 public:
  explicit Pair(int n) : Start(n) {
    World();
    for (Rank& r : b.ranks) {
      r.memberships[0].issued = r.memberships[0].launched = 5;
      r.gpu_marks = ring::GpuMarks::kDone;
      r.streams.resize(1);
      r.streams[0].marked = true;
    }
    pair_ = Comm("pair", 2, CallKind::kCommInitRank);
  }
  void Make(int rank, int member) { Enter(rank, pair_, member, 6 * kSecond, 0); }
  // The rank's GPU is in collective 6 of the world, or in its first receive from a rank, and its CPU thread waits for
  // that.
  void Wait(int rank, int from = -1) {
    Rank& r = b.ranks[static_cast<size_t>(rank)];
    Op op;
    op.membership = 0;
    op.kind = from < 0 ? CallKind::kAllReduce : CallKind::kRecv;
    op.state = OpState::kIncomplete;
    op.root_or_peer = from;
    op.seq = from < 0 ? 6 : 1;
    op.count = 1024;
    op.thread = op.stream = 0;
    op.ticket = 1;
    op.enter_ns = op.return_ns = 6 * kSecond;
    r.ops.push_back(op);
    r.streams[0].issued = r.streams[0].given = 1;
    if (from < 0) {
      r.memberships[0].issued = r.memberships[0].launched = 6;
    } else {
      r.memberships[0].peers.push_back({from, 0, 1});
    }
    r.threads[0].wait = CallKind::kStreamSynchronize;
    r.threads[0].wait_stream = 0;
    r.threads[0].wait_ticket = 1;
    r.threads[0].wait_since_ns = 6 * kSecond;
  }

 private:
  uint32_t pair_ = 0;
};

TEST(Creations, APairThatNobodyCanEnterIsACycle) {
  Pair job(4);
  job.Make(0, 0);
  job.Wait(1, 0);
  for (int r : {2, 3}) job.Wait(r);
  ExpectOnly(Analyze(job.b), DEADLOCK_CYCLE, {1, 2, 3});
}

TEST(Creations, APairMayStillBeCreatedByARankThatDoesNotWait) {
  Pair job(4);
  job.Make(0, 0);
  for (int r : {1, 2}) job.Wait(r);
  ExpectOnly(Analyze(job.b), HOST_STALL, {3});
}

TEST(Creations, APairWhoseOtherMemberMayHaveLeftNoDataIsNoCycle) {
  Pair job(4);
  job.Make(0, 0);
  for (int r : {1, 2}) job.Wait(r);
  job.b.ranks.pop_back();
  const Verdict v = Analyze(job.b);
  for (const Finding& finding : v.findings()) EXPECT_NE(finding.kind(), DEADLOCK_CYCLE);
}

TEST(Creations, ASplitThatOneRankDidNotEnterIsNamed) {
  Start start(8);
  start.World();
  for (int r = 0; r < 8; ++r) {
    if (r == 4) continue;
    const uint32_t c = start.Comm(absl::StrCat("tp", r / 2), 0, CallKind::kCommSplit, "world", 1);
    start.Enter(r, c, -1, 3 * kSecond, 0);
  }
  const Verdict v = Analyze(start.b);
  ExpectOnly(v, INIT_INCOMPLETE, {4});
  EXPECT_EQ(v.findings(0).operation(), "ncclCommSplit");
  EXPECT_EQ(v.findings(0).victim_count(), 7);
}

TEST(Creations, IfAllRanksAreInsideNoneIsBlamed) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 8; ++r) start.Enter(r, world, r, 70 * kSecond, 0);
  EXPECT_EQ(Analyze(start.b).findings_size(), 0);  // 30 s is within the limit
  start.b.known_stalled = true;
  ExpectOnly(Analyze(start.b), INIT_INCOMPLETE, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(Creations, RecentCallsAreLegal) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 7; ++r) start.Enter(r, world, r, 98 * kSecond, 0);
  EXPECT_EQ(Analyze(start.b).findings_size(), 0);
}

TEST(Splits, RegularSplitsAreHealthy) {
  Start start(16);
  start.World();
  std::vector<int> tp, dp, pp, emb, uneven;
  for (int r = 0; r < 16; ++r) {
    tp.push_back(r / 4);
    dp.push_back(r / 8 * 4 + r % 4);
    pp.push_back(r % 8);
    emb.push_back(r % 8 < 2 ? r % 8 : -1);
    uneven.push_back(r < 10 ? 0 : 1);
  }
  for (const auto& colors : {tp, dp, pp, emb, uneven}) start.Split(static_cast<uint32_t>(start.b.comms.size()), colors);
  const Verdict v = Analyze(start.b);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  EXPECT_EQ(v.verdict(), VERDICT_HEALTHY);
}

TEST(Splits, ADifferentColorIsNamed) {
  for (const int odd : {0, 5, 15}) {
    for (const int other : {-1, 1, 77}) {
      Start start(16);
      start.World();
      std::vector<int> tp, dp;
      for (int r = 0; r < 16; ++r) {
        tp.push_back(r / 2);
        dp.push_back(r % 4);
      }
      if (tp[odd] == other) continue;
      tp[odd] = other;
      start.Split(1, tp);
      start.Split(2, dp);
      const Verdict v = Analyze(start.b);
      ExpectOnly(v, SPLIT_MISMATCH, {odd});
      EXPECT_EQ(v.verdict(), VERDICT_DESYNC);
    }
  }
}

// A group has three members by design, and one rank left no data. That rank fits into another group.
TEST(Splits, AnUnevenGroupIsHealthyIfARankLeftNoData) {
  for (const int missing : {1, 3}) {
    Start start(7);
    start.World();
    start.Split(1, {0, 0, 1, 1, 2, 2, 2});
    for (Communicator& comm : start.b.comms) {
      if (comm.id != "world") std::replace(comm.members.begin(), comm.members.end(), missing, -1);
    }
    start.b.ranks.erase(start.b.ranks.begin() + missing);
    const Verdict v = Analyze(start.b);
    EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  }
}

// Rank 3 left no data. The only free place in all groups is in the group of ranks 4 and 5.
TEST(Splits, ARankWithoutDataIsPlacedByElimination) {
  Start start(8);
  start.World();
  start.Split(1, {0, 0, 1, 2, 2, 2, 3, 3});
  for (Communicator& comm : start.b.comms) {
    if (comm.id != "world") std::replace(comm.members.begin(), comm.members.end(), 3, -1);
  }
  start.b.ranks.erase(start.b.ranks.begin() + 3);
  const Verdict v = Analyze(start.b);
  ExpectOnly(v, SPLIT_MISMATCH, {3});
  EXPECT_LT(v.findings(0).confidence(), 0.9);
  EXPECT_EQ(v.findings(0).culprits(0).state(), "no data");
}

// Ranks 4 to 6 pass no color: they are inside the call, but create no communicator. Rank 7 is not inside.
TEST(Creations, RanksWithoutAColorAreInsideTheSplit) {
  for (const bool parent_told : {true, false}) {
    Start start(8);
    start.World();
    const uint32_t ends = start.Comm("s1/0", 4, CallKind::kCommSplit, "world", 1);
    for (int r = 0; r < 4; ++r) start.Enter(r, ends, r, 3 * kSecond, 0);
    for (int r = 4; r < 7; ++r) {
      ring::ThreadSnapshot& thread = start.b.ranks[r].threads[0];
      thread.call = CallKind::kCommSplit;
      thread.comm = parent_told ? 0 : UINT32_MAX;
      thread.since_ns = 3 * kSecond;
    }
    const Verdict v = Analyze(start.b);
    ExpectOnly(v, INIT_INCOMPLETE, {7});
    EXPECT_EQ(v.findings(0).victim_count(), 7);
  }
}

// All lists agree here: the job created uneven groups, and only the pattern of the other groups shows that. If no
// call is stuck or differs, or only another rank is at fault, that may be intended, and the finding is uncertain.
TEST(Splits, AnUnevenGroupOfADescriptionIsNamed) {
  const std::vector<std::vector<std::vector<int32_t>>> layouts = {{{0, 1}, {2, 3}, {4, 5, 6}, {7}},
                                                                  {{0, 1}, {2, 3}, {4, 5, 6}, {7}},
                                                                  {{0, 1}, {2, 3}, {4, 5}, {6, 7}},
                                                                  {{0, 1}, {2, 3}, {4, 5, 6}, {7}}};
  for (size_t layout = 0; layout < layouts.size(); ++layout) {
    SCOPED_TRACE(layout);
    const bool odd = layout < 2;
    const size_t absent = layout == 3 ? 5 : 6;
    int32_t ranks = 0;
    for (const auto& members : layouts[layout]) ranks += static_cast<int32_t>(members.size());
    Start start(ranks);
    for (Rank& r : start.b.ranks) r.source = Source::kFlightRecorder, r.threads.clear();
    for (const auto& members : layouts[layout]) {
      const uint32_t c =
          start.Comm(absl::StrCat("tp", members[0], "/x"), static_cast<int>(members.size()), CallKind::kNone);
      start.b.comms[c].name = "TENSOR_MODEL_PARALLEL_GROUP";
      start.b.comms[c].members = members;
      for (size_t m = 0; m < members.size(); ++m) {
        Membership ms;
        ms.comm = c;
        ms.member_rank = static_cast<int32_t>(m);
        start.b.ranks[members[m]].memberships.push_back(ms);
      }
    }
    if (layout != 1) {
      // Rank 6 or 5 does not arrive at the others' call.
      for (const size_t r : {size_t{4}, size_t{5}, size_t{6}}) {
        if (r == absent) continue;
        Op op;
        op.membership = 0;
        op.kind = CallKind::kAllReduce;
        op.seq = 1;
        op.state = OpState::kIncomplete;
        start.b.ranks[r].ops = {op};
        start.b.ranks[r].memberships[0].issued = 1;
      }
    }
    const Verdict v = Analyze(start.b);
    if (odd) {
      ASSERT_GE(v.findings_size(), 1);
      EXPECT_EQ(v.findings(0).kind(), SPLIT_MISMATCH) << v.DebugString();
      EXPECT_EQ(v.findings(0).culprit_ranks(0), 6);
      EXPECT_EQ(v.findings(0).confidence() <= 0.5, layout == 1) << v.DebugString();
    } else if (layout == 3) {
      ASSERT_GE(v.findings_size(), 1);
      EXPECT_EQ(v.findings(0).kind(), RANK_NOT_ARRIVED) << v.DebugString();
      EXPECT_EQ(v.findings(0).culprit_ranks(0), 5);
    } else {
      for (const Finding& finding : v.findings()) EXPECT_NE(finding.kind(), SPLIT_MISMATCH) << v.DebugString();
    }
  }
}

TEST(StartUp, NamesTheLastRankAndTheSerialParts) {
  for (const int64_t skew : {int64_t{0}, 3 * kSecond, -3 * kSecond}) {
    SCOPED_TRACE(skew);
    Start start(8, skew);
    const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
    // Rank 6 arrives 40 s after the others; set-up then takes 5 s.
    for (int r = 0; r < 8; ++r) start.Enter(r, world, r, r == 6 ? 51 * kSecond : 11 * kSecond, 56 * kSecond);
    std::vector<int> halves;
    for (int r = 0; r < 8; ++r) halves.push_back(r / 4);
    // Two splits of the same parent follow each other, but neither needs the other.
    start.Split(1, halves, {}, 56 * kSecond);
    start.Split(2, halves, {}, 57 * kSecond);
    const Verdict v = Analyze(start.b);
    const StartUp& s = v.start_up();
    EXPECT_EQ(s.creations_total(), 3);
    EXPECT_EQ(s.creations(0).communicator().id(), "world");
    EXPECT_EQ(s.creations(0).last_rank(), 6);
    EXPECT_EQ(s.creations(0).members_entered(), 8);
    EXPECT_FALSE(s.creations(0).serial());
    EXPECT_NEAR(static_cast<double>(s.serial_ns()) / 1e9, 1.0, skew == 0 ? 0.01 : 0.6);
    EXPECT_EQ(s.creations(1).serial() + s.creations(2).serial(), 1);
    // The calls limit how exactly the hosts' clocks are known.
    EXPECT_NEAR(static_cast<double>(s.creations(0).last_by_ns()) / 1e9, 40.0, skew == 0 ? 0.01 : 3.1);
    EXPECT_NEAR(static_cast<double>(s.waiting_ns()) / 1e9, 35.0, skew == 0 ? 0.01 : 3.1);
    EXPECT_NEAR(static_cast<double>(s.total_ns()) / 1e9, 47.0, skew == 0 ? 0.01 : 3.1);
    EXPECT_NE(s.text().find("Rank 6 (node1) arrived last"), std::string::npos) << s.text();
  }
}

TEST(StartUp, ListsThePhasesOfEachRank) {
  Start start(8);
  const uint32_t world = start.Comm("world", 8, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 8; ++r)
    start.Enter(r, world, r, r == 6 ? 51 * kSecond : (r == 2 ? 12 : 11) * kSecond, 56 * kSecond);
  // Rank 5 enters the split four seconds after the others, which wait for it.
  for (int r = 0; r < 8; ++r) {
    const uint32_t c = start.Comm("s1/0", 8, CallKind::kCommSplit, "world", 1);
    start.Enter(r, c, r, (r == 5 ? 61 : 57) * kSecond, 63 * kSecond);
  }
  // Rank 3 connects for four seconds in its first operation, the others for one. Rank 0's record of that operation is
  // overwritten, and rank 1 issued it in a group.
  for (Rank& rank : start.b.ranks) {
    Membership& ms = rank.memberships[0];
    ms.issued = 1;
    if (rank.rank == 0) ms.lost_records = 1;
    for (int i = 0; i < 2; ++i) {
      Op op;
      op.kind = CallKind::kAllReduce;
      op.membership = 0;
      op.seq = i + 1;
      op.group = rank.rank == 1 ? 1 : 0;
      op.enter_ns = (64 + 10 * i) * kSecond;
      op.return_ns = op.enter_ns + (rank.rank == 3 ? 4 : 1) * kSecond;
      rank.ops.push_back(op);
    }
  }
  Verdict v;
  ExplainStartUp(Model(start.b, AnalyzeOptions()), &v);
  PutIntoWords(&v);
  const StartUp& s = v.start_up();
  ASSERT_EQ(s.phases_size(), 6);
  struct Want {
    const char* name;
    int ranks, median, longest, longest_rank, last_rank, last_by;
  };
  const Want wants[] = {{"before", 8, 0, 40, 6, 6, 40},  {"waiting", 8, 44, 44, 0, -1, 0},
                        {"creating", 8, 5, 5, 0, 6, 40}, {"splitting", 8, 2, 2, 0, 5, 4},
                        {"between", 8, 1, 5, 5, -1, 0},  {"first operations", 6, 1, 4, 3, -1, 0}};
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(wants[i].name);
    const StartUpPhase& p = s.phases(i);
    EXPECT_EQ(p.name(), wants[i].name);
    EXPECT_EQ(p.ranks(), wants[i].ranks);
    EXPECT_EQ(p.median_ns(), wants[i].median * kSecond);
    EXPECT_EQ(p.longest_ns(), wants[i].longest * kSecond);
    EXPECT_EQ(p.longest_rank(), wants[i].longest_rank);
    EXPECT_EQ(p.last_rank(), wants[i].last_rank);
    EXPECT_EQ(p.last_by_ns(), wants[i].last_by * kSecond);
  }
  ASSERT_EQ(s.ranks_size(), 8);
  EXPECT_EQ(s.ranks(0).rank(), 6);
  EXPECT_EQ(s.ranks(0).last(), 1);
  EXPECT_EQ(s.ranks(0).creations(), 2);
  EXPECT_EQ(s.ranks(0).last_by_ns(), 40 * kSecond);
  const std::vector<int64_t> six(s.ranks(0).phases_ns().begin(), s.ranks(0).phases_ns().end());
  EXPECT_EQ(six, (std::vector<int64_t>{40 * kSecond, 4 * kSecond, 5 * kSecond, 2 * kSecond, kSecond, kSecond}));
  EXPECT_EQ(s.ranks(1).rank(), 5);
  EXPECT_EQ(s.ranks(1).last_by_ns(), 4 * kSecond);
  for (const StartUpRank& rank : s.ranks()) {
    int64_t sum = 0;
    for (int i = 0; i < 5; ++i) sum += rank.phases_ns(i);
    EXPECT_EQ(sum, s.total_ns());
    EXPECT_EQ(rank.phases_ns(5) == -1, rank.rank() < 2);
  }
  EXPECT_NE(s.text().find("by phase: waiting for other ranks 44.0 s, creating communicators 5.0 s, splitting "
                          "communicators 2.0 s, between "
                          "creations 1.0 s, first operations 1.0 s."),
            std::string::npos)
      << s.text();
}

// Months of training between two creations are not part of the start. A creation that no rank has left counts until
// the last rank arrived.
TEST(StartUp, PhasesExcludeTraining) {
  Start start(4);
  start.World();
  const uint32_t late = start.Comm("late", 4, CallKind::kCommInitRankConfig);
  for (int r = 0; r < 4; ++r) start.Enter(r, late, r, (1000 + 5 * r) * kSecond, 0);
  Verdict v;
  ExplainStartUp(Model(start.b, AnalyzeOptions()), &v);
  PutIntoWords(&v);
  ASSERT_EQ(v.start_up().phases_size(), 6);
  EXPECT_EQ(v.start_up().phases(4).longest_ns(), 0);
  EXPECT_EQ(v.start_up().phases(1).longest_ns(), 15 * kSecond);
  EXPECT_EQ(v.start_up().phases(2).longest_ns(), kSecond);
}

TEST(StartUp, AStartThatWasNotRecordedIsReportedAsNotMeasured) {
  Start start(2);
  Verdict v;
  ExplainStartUp(Model(start.b, AnalyzeOptions()), &v);
  PutIntoWords(&v);
  EXPECT_FALSE(v.has_start_up());
  ASSERT_EQ(v.not_measured_size(), 1);
  Verdict nothing;
  ExplainStartUp(Model(Bundle(), AnalyzeOptions()), &nothing);
  EXPECT_EQ(nothing.not_measured_size(), 0);
}

}  // namespace
}  // namespace lockstep
