// Tests the tables that find mismatches and matching calls by number. They must find the same as a comparison of all
// calls, even if a record contains hostile numbers.
#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/timing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using ring::CallKind;

constexpr int32_t kMembers = 4;

// One communicator of four ranks with the given calls. Every call has ended, one microsecond after it began.
Bundle BundleOf(const std::vector<std::vector<Op>>& calls) {
  Bundle bundle;
  bundle.ranks_expected = kMembers;
  Communicator comm;
  comm.id = "00000000000000aa";
  comm.name = "tp_0";
  comm.size = kMembers;
  for (int32_t r = 0; r < kMembers; ++r) comm.members.push_back(r);
  bundle.comms.push_back(comm);
  for (int32_t r = 0; r < kMembers; ++r) {
    Rank rank;
    rank.rank = r;
    rank.world_size = kMembers;
    rank.captured_ns = 1'000'000'000'000;
    Membership membership;
    membership.comm = 0;
    membership.member_rank = r;
    rank.memberships.push_back(membership);
    int64_t at = 1'000'000;
    for (Op op : calls[static_cast<size_t>(r)]) {
      op.membership = 0;
      op.thread = 0;
      op.index = static_cast<int64_t>(rank.ops.size());
      op.state = OpState::kCompleted;
      op.enter_ns = op.started_ns = at;
      op.completed_ns = at + 1000;
      at += 10'000;
      rank.ops.push_back(op);
    }
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

Op AllReduce(int64_t seq, int64_t count) {
  Op op;
  op.kind = CallKind::kAllReduce;
  op.seq = seq;
  op.count = count;
  op.datatype = 7;
  op.reduction = 0;
  return op;
}

std::vector<std::pair<int64_t, FindingKind>> MismatchesOf(const Bundle& bundle) {
  std::vector<std::pair<int64_t, FindingKind>> found;
  for (const Mismatch& m : FindMismatches(Model(bundle, AnalyzeOptions()))) found.push_back({m.seq, m.kind});
  return found;
}

// Returns the sequence number and kind of the first mismatch; empty if there is none. Compares every pair of calls that
// have the same number and position.
std::vector<std::pair<int64_t, FindingKind>> ByComparingAll(const Bundle& bundle) {
  std::map<std::pair<int64_t, int>, std::vector<const Op*>> at;
  for (const Rank& rank : bundle.ranks) {
    std::map<int64_t, int> nth;
    for (const Op& op : rank.ops) at[{op.seq, nth[op.seq]++}].push_back(&op);
  }
  for (const auto& [place, ops] : at) {
    for (const Op* a : ops) {
      for (const Op* b : ops) {
        if (CompareCalls(bundle, *a, *b, nullptr, nullptr) != FINDING_UNSPECIFIED)
          return {{place.first, CompareCalls(bundle, *a, *b, nullptr, nullptr)}};
      }
    }
  }
  return {};
}

TEST(Tables, FindTheSameFirstMismatchAsComparingAllCalls) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int with = 0, without = 0;
  for (int round = 0; round < 400; ++round) {
    // Numbers that a table contains and numbers that it does not, missing numbers, repeated numbers, unknown counts.
    const int64_t stride = below(4) == 0 ? int64_t{1} << below(58) : 1;
    std::vector<std::vector<Op>> calls(kMembers);
    for (auto& own : calls) {
      for (int64_t seq = 0; seq < 12; ++seq) {
        if (below(8) == 0) continue;
        Op op = AllReduce(seq * stride, 100 + seq);
        if (below(150) == 0) op.count += 1;
        if (below(150) == 0) op.reduction = 1;
        if (below(20) == 0) op.count = -1;
        own.push_back(op);
        if (below(60) == 0) own.push_back(op);
      }
    }
    const Bundle bundle = BundleOf(calls);
    const auto expected = ByComparingAll(bundle), found = MismatchesOf(bundle);
    ASSERT_EQ(found.size(), expected.size()) << "round " << round;
    if (!found.empty()) {
      EXPECT_EQ(found[0].first, expected[0].first) << "round " << round;
      EXPECT_NE(found[0].second, FINDING_UNSPECIFIED) << "round " << round;
    }
    ++(found.empty() ? without : with);
  }
  EXPECT_GT(with, 50);
  EXPECT_GT(without, 50);
}

TEST(Tables, IfHalfDisagreesEachCallIsReportedForARankThatMadeIt) {
  std::vector<std::vector<Op>> calls(kMembers);
  for (int32_t r = 0; r < kMembers; ++r) calls[static_cast<size_t>(r)].push_back(AllReduce(1, r < 2 ? 100 : 200));
  const Bundle bundle = BundleOf(calls);
  const std::vector<Mismatch> found = FindMismatches(Model(bundle, AnalyzeOptions()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].majority);
  EXPECT_EQ(found[0].odd_ranks, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(found[0].odd_op, &bundle.ranks[static_cast<size_t>(found[0].odd_rank)].ops[0]);
  EXPECT_EQ(found[0].usual_op, &bundle.ranks[static_cast<size_t>(found[0].usual_rank)].ops[0]);
  EXPECT_NE(found[0].odd_op->count, found[0].usual_op->count);
  const Verdict verdict = Analyze(bundle, AnalyzeOptions());
  ASSERT_FALSE(verdict.findings().empty());
  EXPECT_THAT(verdict.findings(0).evidence(0).text(),
              ::testing::HasSubstr("rank 2: AllReduce of 200 x float32, sum; rank 0: AllReduce of 100 x float32, sum"));
}

TEST(Tables, UnmatchedSplitsAreFoundAfterMatchedOnes) {
  std::vector<std::vector<Op>> calls(kMembers);
  for (int64_t seq = 1; seq <= 6; ++seq) {
    for (int32_t r = 0; r < kMembers; ++r) {
      Op op = AllReduce(seq, -1);
      op.kind = CallKind::kAlltoAll;
      op.reduction = ring::kNoReduction;
      op.input_elements = 100 + r;  // uneven sizes, as routing makes them
      op.output_elements = 100 + (kMembers - 1 - r);
      if (seq == 5 && r == 2) op.output_elements += 7;
      calls[static_cast<size_t>(r)].push_back(op);
    }
  }
  EXPECT_EQ(MismatchesOf(BundleOf(calls)), (std::vector<std::pair<int64_t, FindingKind>>{{5, MISMATCH_SPLITS}}));
}

TEST(Tables, ACallThatContradictsItselfIsFoundEvenIfAllMakeIt) {
  std::vector<std::vector<Op>> calls(kMembers);
  for (int64_t seq = 1; seq <= 4; ++seq) {
    for (auto& own : calls) {
      own.push_back(AllReduce(seq, -1));
      own.back().input_elements = 64;
      own.back().output_elements = seq == 3 ? 65 : 64;
    }
  }
  EXPECT_EQ(MismatchesOf(BundleOf(calls)), (std::vector<std::pair<int64_t, FindingKind>>{{3, MISMATCH_COUNT}}));
}

TEST(Tables, MatchingCallsHaveEqualNumbersAndTheirOrder) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const int64_t stride = below(3) == 0 ? int64_t{1} << below(58) : 1;
    std::vector<std::vector<Op>> calls(kMembers);
    std::map<int64_t, std::map<uint32_t, uint32_t>> expected;  // number -> rank -> its last call with that number
    for (uint32_t r = 0; r < kMembers; ++r) {
      for (int64_t seq = 0; seq < 10; ++seq) {
        for (int n = below(8) == 0 ? 0 : below(20) == 0 ? 2 : 1; n > 0; --n) {
          expected[seq * stride][r] = static_cast<uint32_t>(calls[r].size());
          calls[r].push_back(AllReduce(seq * stride, 100));
        }
      }
    }
    std::erase_if(expected, [](const auto& of) { return of.second.size() < 2; });
    const Bundle bundle = BundleOf(calls);
    const Model model(bundle, AnalyzeOptions());
    const Timing timing(model);
    ASSERT_EQ(timing.meetings.size(), expected.size()) << "round " << round;
    auto want = expected.begin();
    for (const Meeting& meeting : timing.meetings) {
      EXPECT_EQ(meeting.seq, want->first);
      std::map<uint32_t, uint32_t> got;
      for (uint32_t a = 0; a < meeting.count; ++a) {
        const Attendance& who = timing.attendance.at(meeting.first + a);
        got[who.rank] = timing.At(who).op;
      }
      EXPECT_EQ(got, want->second) << "round " << round << ", number " << meeting.seq;
      EXPECT_EQ(got.size(), meeting.count);
      ++want;
    }
  }
}

// A group's calls run as one operation on the GPU. Its times show how long the slowest call took. For a group with
// several peers, they show nothing about a single pair.
TEST(Tables, AGroupWithSeveralPeersMeasuresNoPair) {
  const auto exchange = [](CallKind kind, int32_t peer, uint32_t group) {
    Op op = AllReduce(1, 100);
    op.kind = kind;
    op.reduction = ring::kNoReduction;
    op.root_or_peer = peer;
    op.group = group;
    return op;
  };
  const auto pairs = [&](uint32_t first_group, uint32_t second_group) {
    std::vector<std::vector<Op>> calls(kMembers);
    calls[0] = {exchange(CallKind::kSend, 1, 0)};
    calls[1] = {exchange(CallKind::kRecv, 0, first_group), exchange(CallKind::kSend, 2, second_group)};
    calls[2] = {exchange(CallKind::kRecv, 1, 0)};
    const Bundle bundle = BundleOf(calls);
    const Model model(bundle, AnalyzeOptions());
    return Timing(model).handovers.size();
  };
  EXPECT_EQ(pairs(0, 0), 2u) << "each alone";
  EXPECT_EQ(pairs(1, 2), 2u) << "each is in its own group";
  EXPECT_EQ(pairs(3, 3), 0u) << "both are in one group";
}

// After many searches, a table replaces the scan of the records. Both must find the same records.
TEST(Tables, SendsAreTheSameAfterManySearches) {
  std::mt19937 random(5);
  std::vector<std::vector<Op>> calls(kMembers);
  for (int32_t r = 0; r < kMembers; ++r) {
    std::map<std::pair<CallKind, int32_t>, int64_t> numbers;
    for (int i = 0; i < 400; ++i) {
      Op op;
      op.kind = random() % 2 == 0 ? CallKind::kSend : CallKind::kRecv;
      op.root_or_peer = static_cast<int32_t>(random() % kMembers);
      op.seq = ++numbers[{op.kind, op.root_or_peer}] + 100;
      calls[static_cast<size_t>(r)].push_back(op);
    }
  }
  for (const Source source : {Source::kRing, Source::kFlightRecorder}) {
    Bundle bundle = BundleOf(calls);
    for (Rank& rank : bundle.ranks) {
      rank.source = source;
      for (Op& op : rank.ops) {
        op.record_id = op.index;
        if (op.index > 300) op.state = OpState::kEnqueued;
      }
    }
    const Model model(bundle, {});
    std::vector<std::vector<const Op*>> rounds(3);
    for (auto& found : rounds) {
      for (int64_t seq = 90; seq < 180; ++seq) {
        for (int32_t peer = -1; peer <= kMembers; ++peer) {
          for (const CallKind kind : {CallKind::kSend, CallKind::kRecv})
            found.push_back(model.FindPointToPoint(model.comms[0].members[1], kind, peer, seq));
        }
      }
    }
    size_t at = 0, known = 0;
    for (int64_t seq = 90; seq < 180; ++seq) {
      for (int32_t peer = -1; peer <= kMembers; ++peer) {
        for (const CallKind kind : {CallKind::kSend, CallKind::kRecv}) {
          const Model fresh(bundle, {});  // has not searched yet
          const Op* found = fresh.FindPointToPoint(fresh.comms[0].members[1], kind, peer, seq);
          known += found != nullptr;
          for (const auto& round : rounds) EXPECT_EQ(round[at], found) << seq << " with " << peer;
          ++at;
        }
      }
    }
    EXPECT_GT(known, 100u);
  }
}

}  // namespace
}  // namespace lockstep
