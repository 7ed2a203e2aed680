// Tests differences between communicators of one kind that are by design: each has its own sizes and numbers of rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

constexpr int64_t kOfBackward = 100;  // calls of at least this size are made by the thread of the backward pass

// Every rank is in the world and in one of several groups of ranks with the same remainder ("head").
class Heads {
 public:
  Heads(int ranks, int heads, bool backward = true) : heads_(heads), backward_(backward) {
    FrGroup world{.enqueued = 0, .completed = 0};
    world.ranks.clear();
    for (int r = 0; r < ranks; ++r) world.ranks.push_back(r);
    for (int r = 0; r < ranks; ++r) {
      FrGroup head{.name = std::to_string(1 + HeadOf(r)),
                   .desc = "head",
                   .ranks = {},
                   .pg_id = 1,
                   .enqueued = 0,
                   .completed = 0};
      for (int other = HeadOf(r); other < ranks; other += heads) head.ranks.push_back(other);
      FrDump d;
      d.AsVersion("2.9");
      d.groups = {world, head};
      dumps_.emplace_back(d);
    }
  }

  int size() const { return static_cast<int>(dumps_.size()); }
  int HeadOf(int rank) const { return rank % heads_; }

  // Adds a call in the world (0) or in the rank's head (1).
  void Add(int rank, int group, int64_t elements, bool done = true, const std::string& op = "nccl:all_reduce") {
    FrGroup& g = dumps_[rank]->groups[group];
    FrEntry e{.op = op, .seq = ++g.enqueued, .pg = g.name, .desc = g.desc, .pg_id = g.pg_id};
    e.input = e.output = {{elements}};
    e.state = done ? "completed" : "scheduled";
    e.retired = done;
    if (done) g.completed = e.seq;
    if (backward_ && elements >= kOfBackward) e.thread_id = "2", e.thread_name = "pt_autograd_0";
    dumps_[rank]->entries.push_back(e);
  }
  void Leave(int rank) { dumps_[rank].reset(); }

  std::vector<int32_t> First() const {
    const Verdict v = Analyze(fr_test::LoadDumps(dumps_));
    if (v.findings_size() == 0) return {};
    const auto& ranks = v.findings(0).culprit_ranks();
    return {ranks.begin(), ranks.end()};
  }

  // Returns the ranks whose programs differ from those of ranks with the same role, and not by design.
  std::vector<int32_t> Divergent() const {
    const Bundle bundle = fr_test::LoadDumps(dumps_);
    const Model model(bundle, {});
    std::vector<int32_t> ranks;
    for (const Divergence& d : FindDivergences(model)) ranks.push_back(bundle.ranks[d.rank].rank);
    return ranks;
  }

 private:
  const int heads_;
  const bool backward_;
  std::vector<std::optional<FrDump>> dumps_;
};

TEST(ByDesign, SizesOfOtherPairsDoNotAccuseARankWhosePeerLeftNoData) {
  Heads job(8, 4);
  for (int r = 0; r < job.size(); ++r) {
    for (int step = 0; step < 2; ++step) {
      for (const int64_t trunk : {1000, 500, 2000}) job.Add(r, 0, trunk);
      job.Add(r, 1, kOfBackward * (1 + job.HeadOf(r)));
      job.Add(r, 0, 4, step == 0);
      if (step == 0 && job.HeadOf(r) % 2 == 1) job.Add(r, 1, 1);
    }
  }
  job.Leave(4);
  EXPECT_THAT(job.First(), ElementsAre(4));
}

TEST(ByDesign, RanksThatMakeTheFirstCallOfTheirCommunicatorTogetherSkippedNothing) {
  Heads job(12, 4);
  for (int r = 0; r < job.size(); ++r) {
    const int head = job.HeadOf(r);
    for (int start = 1; start < 8; ++start) job.Add(r, 0, start);
    for (int step = 0; step < 3; ++step) {
      for (const int64_t trunk : {1000, 500, 2000}) job.Add(r, 0, trunk, step < 2);
      if (head > 0) job.Add(r, 1, kOfBackward * (1 + head));
      job.Add(r, 0, 4, step < 2);
      for (int round = 0; round < step % 2 + head % 2 && step < 2; ++round) job.Add(r, 1, 1, head > 0);
      if (head == 0 && step == 1) break;  // rank 4 is missing
    }
  }
  job.Leave(4);
  EXPECT_THAT(job.Divergent(), Not(Contains(0)));
}

TEST(ByDesign, ACommunicatorWithAnExtraRoundSkippedNoCallOfTheWorld) {
  Heads job(12, 4, /*backward=*/false);
  for (int r = 0; r < job.size(); ++r) {
    for (int step = 0; step < 4; ++step) {
      const bool last = step == 3;
      job.Add(r, 0, 1000, !last, last && r == 5 ? "nccl:broadcast" : "nccl:all_reduce");
      job.Add(r, 0, 500, !last);
      job.Add(r, 0, 4, !last);
      const int rounds = step % 2 + job.HeadOf(r) % 2 + (step == 1 && job.HeadOf(r) == 3);
      for (int round = 0; round < rounds && !last; ++round) job.Add(r, 1, 1);
    }
  }
  job.Leave(1);
  EXPECT_THAT(job.First(), ElementsAre(5));
}

TEST(ByDesign, ALongerRoundWithAPeerWithoutDataIsNoSkippedCall) {
  Heads job(8, 4);  // pairs generate different numbers of tokens, then receive weights
  constexpr int kTokens[3][4] = {{30, 6, 6, 7}, {10, 8, 8, 9}, {9, 7, 7, 8}};
  for (int r = 0; r < job.size(); ++r) {
    for (int step = 0; step < 3; ++step) {
      const bool stuck = step == 2 && job.HeadOf(r) == 0;
      for (int token = 0; token < kTokens[step][job.HeadOf(r)]; ++token) job.Add(r, 1, 8, !stuck);
      if (!stuck) job.Add(r, 0, 50, step < 2, "nccl:broadcast");
    }
  }
  job.Leave(4);
  EXPECT_THAT(job.Divergent(), Not(Contains(0)));
}

}  // namespace
}  // namespace lockstep
