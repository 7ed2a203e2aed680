#include "collector/service/core/open_incident.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const DesyncFacts kPair = {
    "the ranks of communicator tp_2 (size 2) made different calls between collectives #1,424 and #1,440; "
    "ranks 4-5 differ from the others, but the hashes alone do not show which side is wrong",
    0x94bd,
    1440,
    "tp_2",
    2,
    {4, 5},
    true,
    "the ranks of communicator tp_2 (size 2) made different calls between collectives #1,424 and #1,440"};

Finding Skipped(const char* comm, int64_t seq, int32_t rank) {
  Finding finding;
  finding.set_kind(RANK_NOT_ARRIVED);
  finding.mutable_communicator()->set_id(comm);
  finding.set_sequence(seq);
  finding.add_culprit_ranks(rank);
  finding.set_confidence(0.75);
  return finding;
}

TEST(AddDesyncTest, IfTheRingsShowNothingTheHashesNameTheRank) {
  Verdict verdict;
  AddDesync(kPair, &verdict);
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), SILENT_DESYNC);
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ElementsAre(4, 5));
  EXPECT_EQ(verdict.verdict(), VERDICT_DESYNC);
}

TEST(AddDesyncTest, ARankThatTheRingsNameComesFirstAndOnlyOnce) {
  Verdict verdict;
  *verdict.add_findings() = Skipped("0000000000000001", 7, 9);
  *verdict.add_findings() = Skipped("00000000000094bd", 1425, 5);
  AddDesync(kPair, &verdict);
  ASSERT_EQ(verdict.findings_size(), 2);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_NOT_ARRIVED);
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ElementsAre(5));
  ASSERT_EQ(verdict.findings(0).evidence_size(), 1);
  EXPECT_THAT(verdict.findings(0).evidence(0).text(), HasSubstr("between collectives #1,424 and #1,440"));
  EXPECT_THAT(verdict.findings(0).evidence(0).text(), Not(HasSubstr("do not show")));
  EXPECT_THAT(verdict.findings(1).culprit_ranks(), ElementsAre(9));
  EXPECT_EQ(verdict.verdict(), VERDICT_DESYNC);
}

// Another communicator, a later call, ranks outside the pair, and a hypothesis do not belong to this desync.
TEST(AddDesyncTest, OtherFindingsComeAfterThisDesync) {
  Finding guess = Skipped("00000000000094bd", 1425, 5);
  guess.set_hypothesis(true);
  for (const Finding& other : {Skipped("0000000000000001", 7, 5), Skipped("00000000000094bd", 1441, 5),
                               Skipped("00000000000094bd", 1425, 6), guess}) {
    Verdict verdict;
    verdict.set_verdict(VERDICT_HUNG);
    *verdict.add_findings() = other;
    AddDesync(kPair, &verdict);
    ASSERT_EQ(verdict.findings_size(), 2) << other.ShortDebugString();
    EXPECT_EQ(verdict.findings(0).kind(), SILENT_DESYNC) << other.ShortDebugString();
    EXPECT_EQ(verdict.verdict(), VERDICT_HUNG);
  }
}

}  // namespace
}  // namespace lockstep
