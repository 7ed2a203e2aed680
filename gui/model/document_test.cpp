#include "gui/model/document.h"

#include <gtest/gtest.h>

#include "analyzer/engine_test_job.h"

namespace lockstep::gui {
namespace {

TEST(DocumentTest, AHangFromABundle) {
  testing::Job job(2, 2, 2, 6);
  job.ranks[5].host_fault_at = job.Find(5, "dp", 4);
  job.ranks[5].host_fault = testing::HostFault::kStall;
  auto document = Document::FromBundle(job.Run());
  ASSERT_TRUE(document.ok()) << document.status();
  const Document& d = **document;
  EXPECT_EQ(d.rank_count(), 8);
  EXPECT_EQ(d.facts().ranks_size(), 8);
  EXPECT_EQ(d.RowOf(5), 5);
  EXPECT_EQ(d.RowOf(99), -1);
  EXPECT_EQ(d.verdict().verdict(), VERDICT_HUNG);
  ASSERT_GE(d.anomaly_count(), 1);
  EXPECT_EQ(d.AnomalyAt(0).ranks, RankIntervals::Of(5, 5));
  const int32_t comm = d.AnomalyAt(0).comm;
  ASSERT_GE(comm, 0);
  EXPECT_NE(d.MembershipOf(5, comm), nullptr);
  ASSERT_GT(d.OpCount(5), 0);
  const IndexOp last = d.OpAt(5, d.OpCount(5) - 1);
  EXPECT_TRUE(d.OpText(last).contains(" of ")) << d.OpText(last).toStdString();
  EXPECT_EQ(d.EvidenceLink(0, -1), d.AnomalyAt(0));
}

}  // namespace
}  // namespace lockstep::gui
