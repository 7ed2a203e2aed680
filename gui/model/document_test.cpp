#include "gui/model/document.h"

#include <gtest/gtest.h>

#include <functional>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/testing/job.h"
#include "analyzer/viewdata/facts.h"
#include "gui/testing/samples.h"
#include "tests/support/files.h"

namespace lockstep::gui {
namespace {

TEST(DocumentTest, AHangFromABundle) {
  auto document = Document::FromBundle(testing::HangBundle());
  ASSERT_TRUE(document.ok()) << document.status();
  const Document& d = **document;
  EXPECT_EQ(d.rank_count(), 8);
  EXPECT_EQ(d.facts().ranks_size(), 8);
  EXPECT_EQ(d.RowOf(5), 5);
  EXPECT_EQ(d.RowOf(99), -1);
  EXPECT_EQ(d.verdict().verdict(), VERDICT_HUNG);
  ASSERT_GE(d.anomaly_count(), 1);
  EXPECT_EQ(d.AnomalyAt(0).ranks, Ranks::Between(5, 5));
  const int32_t comm = d.AnomalyAt(0).comm;
  ASSERT_GE(comm, 0);
  EXPECT_NE(d.MembershipOf(5, comm), nullptr);
  ASSERT_GT(d.OpCount(5), 0);
  const IndexOp last = d.OpAt(5, d.OpCount(5) - 1);
  EXPECT_TRUE(d.OpText(last).contains(" on ")) << d.OpText(last).toStdString();
  EXPECT_EQ(d.EvidenceLink(0, -1), d.AnomalyAt(0));
}

TEST(DocumentTest, AnUnnamedCommunicatorIsCalledByItsRanks) {
  Bundle bundle = lockstep::testing::Job(2, 2, 2, 3).Run();
  const std::string id = bundle.comms[1].id;
  bundle.comms[0].name.clear();
  bundle.comms[1].name.clear();
  bundle.comms[0].members = {0, 1, 2, 3};
  bundle.comms[0].size = 4;
  bundle.comms[1].members.clear();
  const auto document = Document::FromBundle(bundle);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)->CommName(0), "group of ranks 0-3");
  EXPECT_EQ((*document)->CommName(1).toStdString(), id) << "its members are unknown";
}

// Every kind of damage to the facts is refused with a reason, even with a valid checksum.
TEST(DocumentTest, FactsThatDoNotBelongToTheIndexAreRefused) {
  lockstep::testing::Job job(2, 1, 2, 3);
  job.ranks[1].host_fault_at = job.Find(1, "dp", 2);
  job.ranks[1].host_fault = lockstep::testing::HostFault::kStall;
  const Bundle bundle = job.Run();
  const ViewFacts good = BuildViewFacts(bundle, Analyze(bundle));
  const lockstep::support::TempFolder folder;
  const std::string path = folder.path() + "/facts.lsi";
  auto opens = [&](const std::function<void(ViewFacts*)>& damage) {
    ViewFacts facts = good;
    damage(&facts);
    EXPECT_TRUE(WriteIndex(bundle, 1, path, facts.SerializeAsString()).ok());
    const auto document = Document::Open(path, {path});
    if (!document.ok()) {
      EXPECT_NE(document.status().message().find("/facts.lsi: "), std::string_view::npos) << document.status();
    }
    return document.ok();
  };
  EXPECT_TRUE(opens([](ViewFacts*) {}));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->Clear(); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_ranks()->RemoveLast(); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_ranks(2)->set_rank(77); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_ranks(2)->set_wait_class(f->classes_size()); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_ranks(2)->set_stage(-2); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_ranks(2)->set_host_state(static_cast<RankFacts::Host>(99)); }));
  EXPECT_FALSE(
      opens([](ViewFacts* f) { f->mutable_ranks(0)->mutable_evidence()->add_threads()->add_frames()->set_module(1); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_anomalies(0)->set_comm(1000); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_anomalies(0)->set_finding(1000); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_anomalies(0)->mutable_ranks()->add_bounds(3); }));
  EXPECT_FALSE(opens([](ViewFacts* f) {
    f->mutable_anomalies(0)->mutable_ranks()->add_bounds(0);
    f->mutable_anomalies(0)->mutable_ranks()->add_bounds(INT32_MAX);
  }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->add_edges()->set_to(1000); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->add_stacks()->set_parent(f->stacks_size()); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->add_bandwidths()->add_points()->set_comm(1000); }));
  EXPECT_FALSE(opens([](ViewFacts* f) { f->mutable_verdict()->set_verdict(static_cast<VerdictKind>(99)); }));
  EXPECT_FALSE(opens([](ViewFacts* f) {
    for (int i = 0; i < 5'000'000; ++i) f->add_edges();  // ten megabytes that would take a gigabyte in memory
  }));
}

}  // namespace
}  // namespace lockstep::gui
