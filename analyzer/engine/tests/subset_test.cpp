// Tests faults of ranks with different roles: a branch that ranks of both roles take or skip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using ::testing::ElementsAreArray;

// Eight ranks share "world"; ranks 0 to 3 also evaluate together.
class Branches {
 public:
  Branches() {
    FrGroup world{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}, .enqueued = 0, .completed = 0};
    FrGroup eval{.name = "1", .desc = "eval", .ranks = {0, 1, 2, 3}, .pg_id = 1, .enqueued = 0, .completed = 0};
    for (int r = 0; r < 8; ++r) {
      FrDump d;
      d.AsVersion("2.9");
      d.groups = {world};
      if (r < 4) d.groups.push_back(eval);
      dumps_.emplace_back(d);
      for (int step = 0; step < 3; ++step) {
        for (const int64_t elements : {100, 50}) Add(r, 0, elements);
      }
      for (int batch = 0; batch < 3 && r < 4; ++batch) Add(r, 1, 8);
      Add(r, 0, 1);
    }
  }

  void Add(int rank, int group, int64_t elements, bool done = true) {
    FrGroup& g = dumps_[rank]->groups[group];
    FrEntry e{.op = "nccl:all_reduce", .seq = ++g.enqueued, .pg = g.name, .desc = g.desc, .pg_id = g.pg_id};
    e.input = e.output = {{elements}};
    e.state = done ? "completed" : "scheduled";
    e.retired = done;
    if (done) g.completed = e.seq;
    dumps_[rank]->entries.push_back(e);
  }

  void ExpectFirst(FindingKind kind, const std::vector<int32_t>& ranks) const {
    const Verdict v = Analyze(fr_test::LoadDumps(dumps_));
    ASSERT_GT(v.findings_size(), 0);
    EXPECT_EQ(FindingKind_Name(v.findings(0).kind()), FindingKind_Name(kind)) << v.DebugString();
    EXPECT_THAT(v.findings(0).culprit_ranks(), ElementsAreArray(ranks)) << v.DebugString();
  }

 private:
  std::vector<std::optional<FrDump>> dumps_;
};

TEST(Subset, RanksOfAnotherRoleThatAddTheSameCallAreNamedToo) {
  Branches job;
  for (int r = 0; r < 8; ++r) {
    if (r == 1 || r == 3 || r == 7) job.Add(r, 0, 7, false);
    job.Add(r, 0, 100, false);
    job.Add(r, 0, 50, false);
  }
  job.ExpectFirst(RANK_AHEAD, {1, 3, 7});
}

TEST(Subset, RanksOfAnotherRoleThatSkipTheSameCallAreNamedToo) {
  Branches job;
  for (int r = 0; r < 8; ++r) {
    if (r != 1 && r != 3 && r != 7) job.Add(r, 0, 100, false);
    job.Add(r, 0, 50, false);
  }
  job.ExpectFirst(RANK_NOT_ARRIVED, {1, 3, 7});
}

}  // namespace
}  // namespace lockstep
