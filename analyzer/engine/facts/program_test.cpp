#include "analyzer/engine/facts/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/facts/program_read.h"

namespace lockstep {
namespace {

// The ranks form pairs ("tp"), and all belong to one "world". Each rank makes the calls of its text in order. a, b and
// c all-reduce 16, 32 and 64 numbers in the pair; v and w all-reduce 32 and 16 in the world; g gathers in the pair.
// Calls in capitals are captured into a CUDA graph but not launched.
Bundle Programs(const std::vector<std::string>& texts) {
  Bundle b;
  const size_t ranks = texts.size();
  b.ranks_expected = static_cast<int32_t>(ranks);
  b.comms.resize(ranks / 2 + 1);
  for (size_t c = 0; c < b.comms.size(); ++c) {
    const bool world = c == ranks / 2;
    Communicator& comm = b.comms[c];
    comm.name = world ? "world" : "tp_" + std::to_string(c);
    comm.id = comm.name;
    comm.size = world ? static_cast<int32_t>(ranks) : 2;
    for (int32_t m = 0; m < comm.size; ++m) comm.members.push_back(world ? m : static_cast<int32_t>(2 * c) + m);
  }
  const std::map<char, int64_t> counts = {{'a', 16}, {'b', 32}, {'c', 64}, {'g', 16}, {'v', 32}, {'w', 16}};
  for (size_t r = 0; r < ranks; ++r) {
    Rank rank;
    rank.rank = static_cast<int32_t>(r);
    rank.memberships.resize(2);
    rank.memberships[0].comm = static_cast<uint32_t>(r / 2);
    rank.memberships[0].member_rank = static_cast<int32_t>(r % 2);
    rank.memberships[1].comm = static_cast<uint32_t>(ranks / 2);
    rank.memberships[1].member_rank = static_cast<int32_t>(r);
    for (Membership& ms : rank.memberships) ms.issued = 0;
    for (const char letter : texts[r]) {
      const bool captured = letter < 'a';
      const char call = captured ? static_cast<char>(letter + 'a' - 'A') : letter;
      Op op;
      op.membership = call == 'v' || call == 'w' ? 1 : 0;
      op.kind = call == 'g' ? ring::CallKind::kAllGather : ring::CallKind::kAllReduce;
      op.datatype = 7;
      op.reduction = call == 'g' ? ring::kNoReduction : 0;
      op.count = counts.at(call);
      op.seq = captured ? kUnknown : ++rank.memberships[op.membership].issued;
      op.state = captured ? OpState::kCaptured : OpState::kCompleted;
      op.enter_ns = 1'000 + static_cast<int64_t>(rank.ops.size());
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
  }
  return b;
}

struct Told {
  int32_t rank;
  Divergence::Type type;
  int32_t agreeing;
  bool by_history = false;
  bool operator==(const Told&) const = default;
};

void PrintTo(const Told& told, std::ostream* out) {
  *out << "rank " << told.rank << " type " << static_cast<int>(told.type) << " agreeing " << told.agreeing
       << (told.by_history ? " by history" : "");
}

std::vector<Told> Find(const std::vector<std::string>& texts) {
  const Bundle b = Programs(texts);
  const Model model(b, {});
  std::vector<Told> told;
  for (const Divergence& d : FindDivergences(model)) {
    EXPECT_EQ(d.family_size, static_cast<int32_t>(texts.size()));
    told.push_back({d.rank, d.type, d.siblings_agreeing, d.by_history});
  }
  return told;
}

using enum Divergence::Type;

// All ranks are stuck at one place. Captured calls are not compared, but the calls of their replays are.
TEST(Program, CapturedCallsAreNotCompared) {
  EXPECT_TRUE(Find({"wABGagabw", "wABGagabw", "wABGagabw", "wABGagabw"}).empty());
  EXPECT_TRUE(Find({"wABGagabw", "wGABagabw", "wABGagabw", "wAGagabw"}).empty());
  EXPECT_EQ(Find({"wABGaabwaabw", "wABGaabwaabw", "wABGaabwagbw", "wABGaabwaabw"}),
            (std::vector<Told>{{2, kChanged, 3}}));
}

TEST(Program, ARankThatStoppedEarlierIsNoReference) {
  // Ranks that got less far agree with rank 0 and with rank 4.
  EXPECT_EQ(Find({"aabwaabw", "aabwaa", "aabwaabw", "aabwaa", "aabwaag", "aabwaa"}),
            (std::vector<Told>{{4, kChanged, 2}}));
  EXPECT_TRUE(Find({"aabwaabw", "aabwaabw", "aabwaag", "aabwaa", "aabwaa", "aabwaa"}).empty()) << "a pair against one";
  EXPECT_TRUE(Find({"aabwaabw", "aabwaa", "aabwaag", "aabwaa", "aabwaa", "aabwaa"}).empty()) << "one against one";
  EXPECT_TRUE(Find({"aabwaab", "aabwaab", "aabwaag", "aabwaag", "aabwaa", "aabwaa", "aabwaa", "aabwaa"}).empty())
      << "two against two";
}

TEST(Program, AReferenceThatMostContradictIsTheOddRank) {
  // Rank 0 is the reference, because its record reaches farthest. Four of six ranks agree with rank 0, itself included.
  EXPECT_EQ(Find({"aabwaagww", "aabwaab", "aabwaab", "aabwaa", "aabwaa", "aabwaa"}),
            (std::vector<Told>{{0, kChanged, 2}}));
  EXPECT_EQ(Find({"aabwaabww", "aabwaag", "aabwaab", "aabwaab", "aabwaa", "aabwaa"}),
            (std::vector<Told>{{1, kChanged, 3}}));
}

TEST(Program, BetweenTwoRanksEarlierStepsDecide) {
  // After eight equal steps, one of ranks 0 and 2 makes a call that neither has made at that place before.
  std::string steps;
  for (int i = 0; i < 8; ++i) steps += "aabw";
  EXPECT_EQ(Find({steps + "aabw", steps + "aa", steps + "aag", steps + "aa"}),
            (std::vector<Told>{{2, kChanged, 1, true}}));
  EXPECT_EQ(Find({steps + "aagw", steps + "aa", steps + "aab", steps + "aa"}),
            (std::vector<Told>{{0, kChanged, 1, true}}));
}

TEST(Program, ADifferenceInTheFirstCallHasNoPrecedent) { EXPECT_TRUE(Find({"abab", "gbab"}).empty()); }

TEST(Program, AFewCallsAreEnoughContextAfterAnIrregularStep) {
  const std::string steps = "cabcwcabcwcabcwggg";
  EXPECT_EQ(Find({steps + "cabcw", steps + "cabcc"}), (std::vector<Told>{{1, kExtra, 1, true}}));
}

// One pair repeats "ab" more often than the other. Earlier rounds of the loop do not show when it should end.
TEST(Program, TheEndOfALoopOverTwoCallsHasNoPrecedentInTheLoop) {
  const std::string more = "wabababababab", fewer = "wababababw";
  EXPECT_TRUE(Find({more, more, fewer, "wabababab"}).empty());
}

// Two pairs make two more calls in each step, as ranks that save a checkpoint do. The record of rank 1 is missing, so
// four ranks without these calls, among them rank 7 with a fault of its own, outvote three.
TEST(Program, CallsThatOnlySomePairsAddAreLegal) {
  const std::string saves = "aabwggvaabwggvaabw", other = "aabwvaabwvaabw", odd = "aabwvaabwvagbw";
  Bundle b = Programs({saves, saves, saves, saves, other, other, other, odd});
  b.ranks.erase(b.ranks.begin() + 1);
  for (const Divergence& d : FindDivergences(Model(b, {}))) EXPECT_EQ(b.ranks[d.rank].rank, 7);
}

TEST(Program, ReplicasWithDifferentRoundsAreNotCompared) {
  const std::string own = "aabwaaabaabw", other = "aabwaabw";
  EXPECT_TRUE(Find({own, own, other, other, other, other}).empty());
  EXPECT_EQ(Find({own, other, other, other, other, other}), (std::vector<Told>{{0, kExtra, 5}}));
  // A replica is not compared if one of its members has no record.
  Bundle b = Programs({own, own, other, other, other, other});
  b.ranks.erase(b.ranks.begin() + 1);
  EXPECT_TRUE(FindDivergences(Model(b, {})).empty());
}

// Each pair has its own number of rounds, and how often a call was repeated earlier is no precedent.
TEST(Program, MembersOfAPairMakeItsCallsTogether) {
  const std::string more = "aaaaaaaaaawaaaaaaaaaaaa", fewer = "aaaaaaawaaaaa", odd = "aaaaaaawaawaaa";
  for (const Told& told : Find({more, more, fewer, odd})) EXPECT_NE(told.rank, 2);
  // Both ranks of the other pair count as one piece of evidence.
  Bundle b = Programs({more, more, fewer, fewer});
  b.ranks.pop_back();
  EXPECT_TRUE(FindDivergences(Model(b, {})).empty());
}

// Each pair runs its own number of rounds in each step, so the sequence numbers of its calls prove nothing. Most ranks
// call w after v in every step; in the third step, three ranks do not call w.
TEST(Program, RanksThatLeaveACallOutBesideTheirOwnRoundsAreNamed) {
  const int rounds[4][4] = {{2, 3, 2, 4}, {4, 2, 3, 2}, {3, 3, 4, 2}, {2, 4, 3, 3}};
  std::vector<std::string> texts(8);
  for (size_t r = 0; r < texts.size(); ++r) {
    const bool leaves = r == 2 || r == 4 || r == 5;
    for (int step = 0; step < 3; ++step)
      texts[r] += std::string(static_cast<size_t>(rounds[r / 2][step]), 'a') + (step == 2 && leaves ? "v" : "vw");
    if (leaves) texts[r] += std::string(static_cast<size_t>(rounds[r / 2][3]), 'a');
  }
  EXPECT_EQ(Find(texts), (std::vector<Told>{{2, kSkipped, 5}, {4, kSkipped, 5}, {5, kSkipped, 5}}));
}

// Ranks 1 and 2 skipped the first w. Only ranks 0 to 2 have complete records, and rank 0 is in the minority. But most
// members of the world made rank 0's call at that number.
TEST(Program, MembersOfTheGroupDecideAgainstRanksWithTheSameRole) {
  const std::string with = "aabwvaabwv", without = "aabvaabwv";
  const std::vector<std::string> texts = {with, without, without, with, with, with, with, with};
  Bundle b = Programs({with, without, without, with});
  b.ranks.pop_back();
  const std::vector<Divergence> alone = FindDivergences(Model(b, {}));
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].rank, 0);
  b = Programs(texts);
  for (size_t r = 3; r < texts.size(); ++r) b.ranks[r].only_active = true;
  EXPECT_TRUE(FindDivergences(Model(b, {})).empty());
}

// There are two pipelines of four stages. One rank began a group and never ended it, so all its later calls are in it.
// Its role is still its place in the pipeline.
TEST(Program, AnOpenGroupIsNoExchangeAmongAllMembers) {
  Bundle b;
  b.comms.resize(2);
  for (int32_t r = 0; r < 8; ++r) {
    Communicator& pipeline = b.comms[static_cast<size_t>(r / 4)];
    pipeline.name = pipeline.id = "pp_" + std::to_string(r / 4);
    pipeline.size = 4;
    pipeline.members.push_back(r);
    Rank rank;
    rank.rank = r;
    rank.memberships.resize(1);
    rank.memberships[0].comm = static_cast<uint32_t>(r / 4);
    rank.memberships[0].member_rank = r % 4;
    for (int step = 1; step <= 4; ++step) {
      for (const int peer : {(r + 3) % 4, (r + 1) % 4}) {
        Op op;
        op.membership = 0;
        op.kind = peer == (r + 1) % 4 ? ring::CallKind::kSend : ring::CallKind::kRecv;
        op.root_or_peer = peer;
        op.seq = step;
        op.state = OpState::kCompleted;
        op.enter_ns = static_cast<int64_t>(rank.ops.size()) + 1;
        op.group = r == 1 ? 1 : static_cast<uint32_t>(step);
        rank.ops.push_back(op);
      }
    }
    b.ranks.push_back(rank);
  }
  const Model model(b, {});
  for (const auto& [role, programs] : ReadPrograms(model)) {
    ASSERT_EQ(programs.size(), 2u) << role;
    EXPECT_EQ(programs[0].rank % 4, programs[1].rank % 4) << role;
  }
}

// A hostile dump repeats its records; each copy starts a new segment, and segments are compared in pairs.
TEST(Program, ManySegmentsAreComparedOnlyUpToALimit) {
  Bundle b = Programs({std::string(4, 'a'), std::string(4, 'a')});
  const std::vector<Op> once = b.ranks[0].ops;
  for (int i = 0; i < 5000; ++i) b.ranks[0].ops.insert(b.ranks[0].ops.end(), once.begin(), once.end());
  const Model model(b, {});
  for (const auto& [role, programs] : ReadPrograms(model)) {
    for (const Program& program : programs) EXPECT_LE(program.segments.size(), 64u) << role;
  }
}

}  // namespace
}  // namespace lockstep
