// The picture that viewers open on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/testing/job.h"
#include "analyzer/viewdata/facts.h"
#include "analyzer/viewdata/state.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostFault;
using testing::Job;

std::vector<std::string> Labels(const Focus& focus) {
  std::vector<std::string> labels;
  for (const Focus::Row& row : focus.rows()) labels.push_back(absl::StrCat(row.culprit() ? "!" : "", row.label()));
  return labels;
}

const Focus::Cell& FaultOf(const Focus& focus, int row) { return focus.rows(row).cells(focus.fault_column()); }

Bundle Stalled(int stages, int culprit, const char* group) {
  Job job(4, stages, 4, 6);
  job.ranks[static_cast<size_t>(culprit)].host_fault_at = job.Find(culprit, group, 4, 1);
  job.ranks[static_cast<size_t>(culprit)].host_fault = HostFault::kStall;
  return job.Run();
}

TEST(Focus, TheCulpritIsAmongItsPeersAndOtherRanksAreCounted) {
  const ViewFacts facts = BuildViewFacts(Stalled(1, 5, "tp"));
  ASSERT_GE(facts.focuses_size(), 1);
  const Focus& focus = facts.focuses(0);
  EXPECT_EQ(focus.finding(), 0);
  EXPECT_THAT(Labels(focus), ElementsAre("rank 4", "!rank 5", "rank 6", "rank 7", "12 more: waiting"));
  EXPECT_THAT(focus.title(), AllOf(HasSubstr("tp"), HasSubstr(", 4 members")));
  EXPECT_EQ(focus.fault(),
            absl::StrCat(facts.verdict().findings(0).operation(), " #", facts.verdict().findings(0).sequence()));
  EXPECT_EQ(focus.first_sequence() + focus.fault_column(), facts.verdict().findings(0).sequence());
  EXPECT_EQ(FaultOf(focus, 1).state(), static_cast<uint32_t>(ViewState::kMissing));
  EXPECT_THAT(FaultOf(focus, 1).text(), HasSubstr("never enqueued"));
  for (const int peer : {0, 2, 3}) {
    EXPECT_EQ(FaultOf(focus, peer).state(), static_cast<uint32_t>(ViewState::kWaiting));
    EXPECT_EQ(focus.rows(peer).cells(focus.fault_column() - 1).state(), static_cast<uint32_t>(ViewState::kCompleted));
  }
  EXPECT_TRUE(focus.rows(4).cells().empty());
  EXPECT_EQ(focus.rows(4).kind(), WaitClass::VICTIM);
}

// A group's state fits all its ranks: it names no single communicator and no peer of a send.
TEST(Focus, TheStateOfAGroupFitsAllItsRanks) {
  Bundle bundle = Stalled(1, 5, "tp");
  bundle.ranks[5].process.python_stack = {"wait (/usr/lib/python3.11/selectors.py:415)", "load (data.py:64)"};
  const ViewFacts facts = BuildViewFacts(bundle);
  ASSERT_GE(facts.focuses_size(), 1);
  const Focus& focus = facts.focuses(0);
  ASSERT_EQ(focus.rows_size(), 5);
  EXPECT_EQ(focus.rows(1).state(), "elsewhere: load (data.py:64)");
  EXPECT_EQ(focus.rows(1).site(), "load (data.py:64)");
  EXPECT_THAT(focus.rows(4).state(), HasSubstr("waiting in "));
  EXPECT_THAT(focus.rows(4).state(), ::testing::Not(HasSubstr("(ranks")));
  EXPECT_EQ(focus.rows(4).site(), "");
}

// Dumps may name sends in their own way, "isend 0->1".
TEST(Focus, SendsAreRecognizedByTheirRecordsNotByTheirNames) {
  Bundle bundle = Stalled(4, 21, "pp");
  bundle.strings.push_back("isend");
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) {
      if (op.kind == ring::CallKind::kSend) op.name = static_cast<uint32_t>(bundle.strings.size() - 1);
    }
  }
  const ViewFacts facts = BuildViewFacts(bundle);
  ASSERT_GE(facts.focuses_size(), 1);
  ASSERT_EQ(facts.verdict().findings(0).operation(), "isend");
  EXPECT_EQ(facts.focuses(0).first_sequence(), -1);
  EXPECT_EQ(facts.anomalies(0).sequence(), -1);
}

TEST(Focus, SendsAndReceivesAreInEachRanksOrder) {
  const Bundle bundle = Stalled(4, 21, "pp");
  const ViewFacts facts = BuildViewFacts(bundle);
  ASSERT_GE(facts.focuses_size(), 1);
  const Focus& focus = facts.focuses(0);
  ASSERT_TRUE(facts.verdict().findings(0).operation() == "Send" || facts.verdict().findings(0).operation() == "Recv")
      << facts.verdict().findings(0).operation();
  EXPECT_EQ(focus.first_sequence(), -1);
  ASSERT_THAT(Labels(focus), ElementsAre("rank 5", "!rank 21", "rank 37", "rank 53", "60 more: waiting"));
  EXPECT_THAT(focus.rows(4).state(), HasSubstr(" of them: "));
  EXPECT_EQ(FaultOf(focus, 1).state(), static_cast<uint32_t>(ViewState::kMissing));
  int waiting = 0;
  for (const int peer : {0, 2, 3})
    waiting += FaultOf(focus, peer).state() == static_cast<uint32_t>(ViewState::kWaiting);
  EXPECT_GE(waiting, 1);
}

TEST(Focus, ALargeCommunicatorKeepsEightPeersAndOneRowForTheOthers) {
  Job job(1, 1, 64, 6);
  job.ranks[30].host_fault_at = job.Find(30, "dp", 4, 0);
  job.ranks[30].host_fault = HostFault::kStall;
  const ViewFacts facts = BuildViewFacts(job.Run());
  ASSERT_GE(facts.focuses_size(), 1);
  EXPECT_THAT(Labels(facts.focuses(0)), ElementsAre("rank 26", "rank 27", "rank 28", "rank 29", "!rank 30", "rank 31",
                                                    "rank 32", "rank 33", "rank 34", "55 more members"));
  EXPECT_EQ(FaultOf(facts.focuses(0), 9).state(), static_cast<uint32_t>(ViewState::kWaiting));
}

TEST(Focus, AllPeersOfASmallCommunicatorHaveARow) {
  Job job(1, 1, 8, 6);
  job.ranks[7].host_fault_at = job.Find(7, "dp", 4, 0);
  job.ranks[7].host_fault = HostFault::kStall;
  const ViewFacts facts = BuildViewFacts(job.Run());
  ASSERT_GE(facts.focuses_size(), 1);
  EXPECT_THAT(Labels(facts.focuses(0)),
              ElementsAre("rank 0", "rank 1", "rank 2", "rank 3", "rank 4", "rank 5", "rank 6", "!rank 7"));
}

TEST(Focus, AJobWithoutAFindingShowsItsNewestCalls) {
  Job job(1, 1, 4, 3);
  const ViewFacts facts = BuildViewFacts(job.Run());
  ASSERT_EQ(facts.verdict().findings_size(), 0);
  ASSERT_EQ(facts.focuses_size(), 1);
  EXPECT_EQ(facts.focuses(0).finding(), -1);
  EXPECT_EQ(facts.focuses(0).fault(), "");
  EXPECT_THAT(Labels(facts.focuses(0)), ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));
  EXPECT_EQ(FaultOf(facts.focuses(0), 0).state(), static_cast<uint32_t>(ViewState::kCompleted));
}

}  // namespace
}  // namespace lockstep
