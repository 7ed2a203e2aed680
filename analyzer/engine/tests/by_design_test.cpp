// Tests differences between communicators of one kind that are by design: each has its own sizes and numbers of rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/by_design.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using ::testing::ElementsAre;

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

  Bundle Load() const { return fr_test::LoadDumps(dumps_); }

  std::vector<int32_t> First() const {
    const Verdict v = Analyze(Load());
    if (v.findings_size() == 0) return {};
    const auto& ranks = v.findings(0).culprit_ranks();
    return {ranks.begin(), ranks.end()};
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

// Rank 0 differs from rank 1: `own` and `sibling` are the indexes of the calls that they made at one point.
Divergence Differs(const Bundle& bundle, Divergence::Type type, size_t own, size_t sibling) {
  Divergence d;
  d.rank = 0;
  d.sibling_rank = 1;
  d.type = type;
  d.own = &bundle.ranks[0].ops[own];
  d.sibling = &bundle.ranks[1].ops[sibling];
  return d;
}

TEST(ByDesign, AMemberThatMakesLaterCallsInStepSkippedNone) {
  Heads job(4, 2);
  for (int r = 0; r < job.size(); ++r) {
    for (const int64_t elements : {10, 20, 30}) job.Add(r, 0, elements);
  }
  const Bundle bundle = job.Load();
  EXPECT_TRUE(IsByDesign(Model(bundle, {}), Differs(bundle, Divergence::Type::kSkipped, 1, 0), true));
}

TEST(ByDesign, TheFirstRecordedCallOfACommunicatorTellsHowManyCameBefore) {
  Heads job(8, 4);
  for (int r = 0; r < job.size(); ++r) {
    const int first = job.HeadOf(r) == 0 ? 0 : 1;
    for (const int group : {first, 1 - first}) job.Add(r, group, 10 + group);
  }
  const Bundle bundle = job.Load();
  EXPECT_TRUE(IsByDesign(Model(bundle, {}), Differs(bundle, Divergence::Type::kChanged, 0, 0), true));
}

TEST(ByDesign, ARankThatCallsWithAMissingPeerInsteadIsAlone) {
  Heads job(8, 4);
  for (int r = 0; r < job.size(); ++r) {
    if (job.HeadOf(r) == 0) job.Add(r, 1, 10, false);
    if (job.HeadOf(r) != 0) job.Add(r, 0, 10, false);
  }
  job.Leave(4);
  const Bundle bundle = job.Load();
  EXPECT_TRUE(IsAlone(Model(bundle, {}), Differs(bundle, Divergence::Type::kSkipped, 0, 0)));
}

}  // namespace
}  // namespace lockstep
