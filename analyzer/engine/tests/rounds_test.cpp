// Tests which rank is named when ranks are at different calls of several groups. The Flight Recorder dumps contain
// completed calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using testing::Culprits;

// Dumps of ranks that all-reduce in several groups, in order of their calls.
class RoundDumps {
 public:
  struct GroupOf {
    std::string desc;
    std::vector<int32_t> ranks;
  };

  RoundDumps(size_t ranks, std::vector<GroupOf> groups) : groups_(std::move(groups)), dumps_(ranks) {
    for (size_t r = 0; r < ranks; ++r) {
      dumps_[r].AsVersion("2.9");
      dumps_[r].groups.clear();
      for (size_t g = 0; g < groups_.size(); ++g) {
        const bool member = std::ranges::count(groups_[g].ranks, static_cast<int32_t>(r)) > 0;
        dumps_[r].groups.push_back({.name = std::to_string(g),
                                    .desc = groups_[g].desc,
                                    .ranks = groups_[g].ranks,
                                    .pg_id = static_cast<int64_t>(g),
                                    .in_config = member,
                                    .in_status = member});
      }
    }
  }

  // Adds the rank's next call on that group.
  void Call(size_t rank, size_t group, int64_t count, bool done = true) {
    FrGroup& g = dumps_[rank].groups[group];
    g.enqueued = std::max<int64_t>(g.enqueued, 0) + 1;
    if (done) g.completed = g.enqueued;
    Record(rank, g, "all_reduce", done);
    dumps_[rank].entries.back().input = dumps_[rank].entries.back().output = {{count}};
  }
  // Adds sends and receives that start and end together.
  void Batch(size_t rank, size_t group, const std::vector<std::string>& ops, bool done = true) {
    FrGroup& g = dumps_[rank].groups[group];
    g.enqueued = std::max<int64_t>(g.enqueued, 0) + 1;
    if (done) g.completed = g.enqueued;
    for (const std::string& op : ops) Record(rank, g, op, false);
    Record(rank, g, "coalesced", done);
    dumps_[rank].entries.back().input = dumps_[rank].entries.back().output = {};
  }
  // Records that the watchdog saw this call of the group start.
  void Start(size_t rank, size_t group, int64_t number) { dumps_[rank].groups[group].started = number; }
  // The GPU is in the rank's last call.
  void Enter(size_t rank) {
    FrEntry& e = dumps_[rank].entries.back();
    e.state = "started";
    e.started_ns = fr_test::kFirstEntryNs + 1'000'000'000;
  }
  // Keeps the rank's newest records only.
  void Overwrite(size_t rank, size_t keep) {
    std::vector<FrEntry>& entries = dumps_[rank].entries;
    for (size_t i = 0; i < entries.size(); ++i) entries[i].record_id = static_cast<int64_t>(i);
    if (entries.size() > keep) entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(keep));
  }
  // The rank leaves no dump.
  void Leave(size_t rank) { gone_ = rank; }
  Bundle Load() const {
    std::vector<std::optional<FrDump>> dumps(dumps_.begin(), dumps_.end());
    if (gone_) dumps[*gone_].reset();
    return fr_test::LoadDumps(dumps);
  }
  Verdict Judge() const { return Analyze(Load()); }

 private:
  void Record(size_t rank, const FrGroup& group, const std::string& op, bool done) {
    FrEntry e;
    e.op = "nccl:" + op;
    e.pg = group.name;
    e.desc = group.desc;
    e.pg_id = group.pg_id;
    e.is_p2p = op != "all_reduce";
    e.seq = e.is_p2p ? 0 : group.enqueued;
    e.p2p_seq = e.is_p2p ? group.enqueued : 0;
    e.op_id = group.enqueued;
    if (done) e.state = "completed", e.retired = true;
    dumps_[rank].entries.push_back(e);
  }

  std::vector<GroupOf> groups_;
  std::vector<FrDump> dumps_;
  std::optional<size_t> gone_;
};

std::string NamedBy(const Verdict& v) {
  if (v.findings().empty()) return "nobody";
  std::string named = FindingKind_Name(v.findings(0).kind());
  for (int32_t r : v.findings(0).culprit_ranks()) named += " " + std::to_string(r);
  return named;
}

// Ranks 0 to 3 decode in pairs, each pair for as long as its answers take. Ranks 0 and 2 then share a call with rank 4.
// Ranks 4 and 5 train.
TEST(Rounds, APairWithItsOwnNumberOfRoundsIsNotNamed) {
  RoundDumps job(
      6, {{"world", {0, 1, 2, 3, 4, 5}}, {"pair", {0, 1}}, {"pair", {2, 3}}, {"lead", {0, 2, 4}}, {"train", {4, 5}}});
  constexpr int kRounds[2][5] = {{20, 26, 12, 24, 20}, {20, 18, 18, 12, 26}};
  for (size_t r = 0; r < 6; ++r) {
    for (int step = 0; step < 5; ++step) {
      const bool last = step == 4;
      for (int i = 0; r < 4 && i < kRounds[r / 2][step]; ++i) {
        job.Call(r, 1 + r / 2, 8);
        if (i % 8 == 7) job.Call(r, 1 + r / 2, 4);
      }
      if (r >= 4) job.Call(r, 4, 32, !last);
      if (r >= 4 && last) continue;
      if (r % 2 == 0) job.Call(r, 3, 16, !last);
      job.Call(r, 0, 1, !last);
    }
  }
  EXPECT_EQ(NamedBy(job.Judge()), "COLLECTIVE_STUCK 4 5");
}

// Four pairs, whose first ranks are a group too.
RoundDumps FourPairs() {
  return RoundDumps(8, {{"world", {0, 1, 2, 3, 4, 5, 6, 7}},
                        {"pair", {0, 1}},
                        {"pair", {2, 3}},
                        {"pair", {4, 5}},
                        {"pair", {6, 7}},
                        {"lead", {0, 2, 4, 6}}});
}

// Pair 2, 3 makes two rounds in a step, and the others make one. All members of its group made the same calls.
TEST(Rounds, AGroupThatAgreesSkippedNothing) {
  RoundDumps job = FourPairs();
  for (size_t r = 0; r < 8; ++r) {
    const bool behind = r / 2 == 3;
    job.Call(r, 0, 64);
    if (r % 2 == 0) job.Call(r, 5, 32);
    for (int step = 0; step < 5; ++step) {
      const bool done = !behind || step < 4;
      for (int i = 0; i < (r / 2 == 1 ? 2 : 1); ++i) {
        for (const int64_t count : {8, 8, 16, 16}) job.Call(r, 1 + r / 2, count, done);
      }
      job.Call(r, 1 + r / 2, 1, done);
    }
    if (!behind && r % 2 == 0) job.Call(r, 5, 32, false);
    if (!behind) job.Call(r, 1 + r / 2, 64, false);
  }
  EXPECT_EQ(NamedBy(job.Judge()), "COLLECTIVE_STUCK 6 7");
}

// Rank 7 is in a call that no other rank makes, and rank 6 waits for rank 7. The others have finished.
TEST(Rounds, ARankAloneInACallIsAheadAlthoughItHoldsAnother) {
  RoundDumps job = FourPairs();
  for (size_t r = 0; r < 8; ++r) {
    job.Call(r, 0, 64);
    if (r % 2 == 0) job.Call(r, 5, 8);
    for (int step = 0; step < (r == 7 ? 4 : 6); ++step) {
      for (const int64_t count : {8, 16, 1}) job.Call(r, 1 + r / 2, count, r < 6 || step < 4);
    }
    if (r == 7) job.Call(r, 0, 100, false);
  }
  const Verdict v = job.Judge();
  ASSERT_FALSE(v.findings().empty());
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{7}) << v.DebugString();
}

// Rank 2 skipped a call of the second group, so its later calls there matched earlier ones of the other ranks.
TEST(Rounds, AnOlderCallOfAnotherGroupExplainsACallThatAllAreIn) {
  RoundDumps job(4, {{"world", {0, 1, 2, 3}}, {"sparse", {0, 1, 2, 3}}});
  for (size_t r = 0; r < 4; ++r) {
    job.Call(r, 0, 64);
    int made = 0;
    for (int step = 0; step < 6; ++step) {
      if (r != 2 || step != 2) job.Call(r, 1, 4, ++made <= 5);
      for (const int64_t count : {16, 32}) job.Call(r, 0, count, step < 5);
    }
  }
  EXPECT_EQ(NamedBy(job.Judge()), "RANK_NOT_ARRIVED 2");
}

// Rank 3 is in a collective on the group of all ranks that no other rank calls. The records of the other ranks' current
// operations are overwritten.
TEST(Rounds, ARankThatLeftIsNamedIfTheRecordsOfTheOthersAreOverwritten) {
  RoundDumps job(4, {{"world", {0, 1, 2, 3}}, {"pair", {0, 1}}, {"pair", {2, 3}}, {"across", {0, 2}}});
  for (size_t r = 0; r < 4; ++r) {
    job.Call(r, 0, 64);
    job.Start(r, 0, 1);
    for (int step = 0; r < 3 && step < 6; ++step) {
      job.Call(r, 1 + r / 2, 8, r < 2 && step == 0);
      if (r % 2 == 0) job.Call(r, 3, 8, false);
      job.Call(r, 1 + r / 2, 8, false);
    }
    job.Overwrite(r, 6);
  }
  job.Call(3, 0, 100, false);
  job.Start(3, 0, 1);
  job.Enter(3);
  job.Start(0, 1, 1);
  job.Start(0, 3, 1);
  job.Start(1, 1, 2);
  job.Start(2, 2, 1);
  EXPECT_EQ(NamedBy(job.Judge()), "DEADLOCK_CYCLE 3");
}

// Rank 1's records of its first exchanges are overwritten. What rank 0 sent for its unfinished batch has arrived.
TEST(Rounds, SendsAndReceivesAreCountedFromTheLastCallOfBoth) {
  RoundDumps job(3, {{"world", {0, 1, 2}}, {"pipe", {0, 1, 2}}});
  for (size_t r = 0; r < 3; ++r) job.Call(r, 0, 1);
  for (const bool done : {true, true, false}) {
    for (int i = 0; i < 2; ++i) job.Batch(0, 1, {"send 0->1"});
    for (int i = 0; i < 2; ++i) job.Batch(0, 1, {"recv 0<-1"}, done);
    job.Batch(1, 1, {"recv 1<-0"});
    job.Batch(1, 1, {"recv 1<-0", "send 1->2"}, done);
    for (int i = 0; i < 2; ++i) job.Batch(1, 1, {"send 1->0"}, done);
    if (done) job.Batch(2, 1, {"recv 2<-1"});
    for (size_t r = 0; r < 3; ++r) job.Call(r, 0, 1, done);
  }
  job.Overwrite(1, 24);
  const Bundle bundle = job.Load();
  const Model model(bundle, {});
  const std::vector<Op>& ops = bundle.ranks[1].ops;
  const auto recv = std::ranges::find_if(
      ops, [](const Op& op) { return op.kind == ring::CallKind::kRecv && op.state != OpState::kCompleted; });
  ASSERT_NE(recv, ops.end());
  bool counted = false;
  const Member& peer = model.comms[model.CommOf(bundle.ranks[1], *recv)].members[0];
  const Op* send = model.OtherSide(1, *recv, peer, &counted);
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(send->state, OpState::kCompleted);
  EXPECT_TRUE(counted);
}

// Rank 0 collects from the others and answers them, twice. Rank `late` leaves out its second call, and the first
// `done[r]` exchanges of rank r are complete.
RoundDumps Hub(int late, const std::vector<int>& done) {
  RoundDumps job(4, {{"world", {0, 1, 2, 3}}, {"hub", {0, 1, 2, 3}}});
  for (size_t r = 0; r < 4; ++r) {
    int made = 0;
    for (int step = 0; step < 2; ++step) {
      for (const bool answer : {false, true}) {
        for (int leaf = 1; leaf < 4; ++leaf) {
          if (r != 0 && static_cast<int>(r) != leaf) continue;
          if (static_cast<int>(r) == late && step == 1 && !answer) continue;
          const std::string peers = r == 0 ? std::to_string(leaf) : "0";
          const bool sends = (r == 0) == answer;
          job.Batch(r, 1, {(sends ? "send " : "recv ") + std::to_string(r) + (sends ? "->" : "<-") + peers},
                    made++ < done[r]);
        }
      }
      job.Call(r, 0, 1, step == 0);
    }
  }
  return job;
}

// Rank 0 waits for rank 2 before it receives from rank 3 and answers.
TEST(Rounds, ARankThatReceivesInTurnTookNoWrongPeer) {
  EXPECT_THAT(NamedBy(Hub(2, {7, 3, 2, 2}).Judge()), ::testing::HasSubstr(" 2"));
}

// The record of the operation that rank 0 waits in is overwritten, and rank 3 left no dump.
TEST(Rounds, AMemberWithoutDataIsLikelierThanARankWhoseRecordIsGone) {
  RoundDumps job = Hub(-1, {8, 3, 3, 2});
  job.Leave(3);
  job.Overwrite(0, 4);
  const Verdict v = job.Judge();
  EXPECT_EQ(NamedBy(v), "RANK_NO_DATA 3") << v.DebugString();
}

// Each rank sends to the next one in a ring. In the last step, rank 1 sends to the one after its neighbor.
TEST(Rounds, RanksOfARingHaveOneRole) {
  RoundDumps job(4, {{"world", {0, 1, 2, 3}}, {"ring", {0, 1, 2, 3}}});
  for (size_t r = 0; r < 4; ++r) {
    job.Call(r, 0, 64);
    for (int step = 0; step < 6; ++step) {
      const bool last = step == 5;
      const size_t to = (r + (last && r == 1 ? 2 : 1)) % 4, from = (r + 3) % 4;
      const std::string me = std::to_string(r);
      job.Batch(r, 1, {"send " + me + "->" + std::to_string(to), "recv " + me + "<-" + std::to_string(from)}, !last);
    }
    job.Call(r, 0, 1, false);
  }
  EXPECT_EQ(NamedBy(job.Judge()), "P2P_UNMATCHED 1");
}

// Two pipelines of two stages. Rank 3 skips the first call on the group of all ranks, and waits for its neighbor's next
// send. Rank 3 continued in the same way in earlier steps, so only the ranks that wait for it show the skipped call.
TEST(Rounds, OfTwoRanksWithOneRoleTheAwaitedRankLeft) {
  RoundDumps job(4, {{"world", {0, 1, 2, 3}}, {"pipe", {0, 1}}, {"pipe", {2, 3}}});
  for (size_t r = 0; r < 4; ++r) {
    const std::vector<std::string> calls = r % 2 == 0 ? std::vector<std::string>{"send 0->1", "recv 0<-1"}
                                                      : std::vector<std::string>{"recv 1<-0", "send 1->0"};
    for (int step = 0; step < 12; ++step) {
      for (const std::string& call : calls) job.Batch(r, 1 + r / 2, {call});
    }
    if (r != 3) job.Call(r, 0, 1, false);
    if (r == 3) job.Batch(r, 2, {calls[0]}, false);
  }
  EXPECT_EQ(NamedBy(job.Judge()), "RANK_NOT_ARRIVED 3");
}

}  // namespace
}  // namespace lockstep
