#include "gui/model/tables/tree.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

using testing::Settles;

void FetchAll(IncidentTree* model, const QModelIndex& parent, int* nodes) {
  if (model->canFetchMore(parent)) model->fetchMore(parent);
  for (int row = 0; row < model->rowCount(parent); ++row) {
    const QModelIndex index = model->index(row, 0, parent);
    ASSERT_EQ(model->parent(index), parent);
    ++*nodes;
    FetchAll(model, index, nodes);
  }
}

TEST(IncidentTreeTest, StaysConsistentThroughResets) {
  Bundle one = lockstep::testing::Job(1, 1, 1, 3).Run();
  Bundle nameless = testing::OnHosts(lockstep::testing::Job(2, 2, 2, 3).Run());
  for (Rank& rank : nameless.ranks) rank.host.clear();
  for (Communicator& comm : nameless.comms) comm.members.clear();
  IncidentTree model;
  QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  tester.setUseFetchMore(false);  // otherwise the tester fetches before the reset ends
  for (DocumentPtr document : {testing::Hang(), testing::Made(Bundle()), testing::Mismatch(), DocumentPtr(),
                               testing::Made(one), testing::Made(nameless), testing::Hang(4, 2, 2)}) {
    model.SetDocument(document);
    ASSERT_TRUE(Settles(model));
    if (document == nullptr) {
      EXPECT_EQ(model.rowCount(), 0);
      continue;
    }
    int nodes = 0;
    FetchAll(&model, {}, &nodes);
    EXPECT_GE(nodes, 2 + document->rank_count() + document->comm_count());
    for (int row = 0; row < document->rank_count(); ++row) {
      const QModelIndex index = model.FindRank(document->RankAt(row));
      ASSERT_TRUE(index.isValid());
      EXPECT_EQ(model.NodeOf(index).rank, document->RankAt(row));
    }
    for (const char* words : {"5", "rank 3", "node100", "dp", "no-such-name", "5 dp_3", "99"}) {
      model.SetFilter({words, {}});
      ASSERT_TRUE(Settles(model));
      nodes = 0;
      FetchAll(&model, {}, &nodes);
    }
    model.SetFilter({"", Ranks::Between(0, 1)});
    ASSERT_TRUE(Settles(model));
    nodes = 0;
    FetchAll(&model, {}, &nodes);
    EXPECT_FALSE(model.FindRank(5).isValid());
    model.SetFilter({"", {}});
    ASSERT_TRUE(Settles(model));
  }
}

TEST(IncidentTreeTest, ANumberIsARank) {
  const DocumentPtr document = testing::Hang();
  IncidentTree model;
  model.SetDocument(document);
  model.SetFilter({"5", {}});
  ASSERT_TRUE(Settles(model));
  const QModelIndex hosts = model.index(0, 0), comms = model.index(1, 0);
  ASSERT_EQ(model.rowCount(hosts), 1);
  const QModelIndex host = model.index(0, 0, hosts);
  model.fetchMore(host);
  ASSERT_EQ(model.rowCount(host), 1);
  EXPECT_EQ(model.index(0, 0, host).data().toString(), "rank 5");
  EXPECT_EQ(static_cast<ViewState>(model.index(0, 0, host).data(IncidentTree::kMark).toInt()), ViewState::kMissing);
  for (int row = 0; row < model.rowCount(comms); ++row) {
    const int32_t comm = model.NodeOf(model.index(row, 0, comms)).comm;
    EXPECT_NE(document->MembershipOf(5, comm), nullptr);
  }
  EXPECT_EQ(model.SelectionOf(host).ranks, Ranks::Between(0, 7)) << "a host must select all of its ranks";
}

}  // namespace
}  // namespace lockstep::gui
