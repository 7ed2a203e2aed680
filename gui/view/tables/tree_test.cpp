#include "gui/view/tables/tree.h"

#include <gtest/gtest.h>

#include <QLineEdit>
#include <QTest>
#include <QTreeView>

#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

struct ShownTree {
  explicit ShownTree(DocumentPtr document) : pane(&navigator) {
    tree = pane.findChild<QTreeView*>("tree");
    filter = pane.findChild<QLineEdit*>("filter");
    pane.resize(300, 700);
    pane.show();
    pane.SetDocument(std::move(document));
    EXPECT_TRUE(testing::Settles(pane));
  }
  Navigator navigator;
  TreePane pane;
  QTreeView* tree = nullptr;
  QLineEdit* filter = nullptr;
};

TEST(TreePaneTest, SelectsBothWays) {
  const DocumentPtr document = testing::Hang(4, 2, 2);
  ShownTree shown(document);
  const QModelIndex hosts = shown.tree->model()->index(0, 0);
  ASSERT_EQ(shown.tree->model()->rowCount(hosts), 2);
  const QModelIndex host = shown.tree->model()->index(1, 0, hosts);
  shown.tree->scrollTo(host);
  QTest::mouseClick(shown.tree->viewport(), Qt::LeftButton, {}, shown.tree->visualRect(host).center());
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(8, 15));
  QTest::keyClick(shown.tree, Qt::Key_Right);
  QTest::keyClick(shown.tree, Qt::Key_Down);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(8, 8));
  EXPECT_EQ(shown.pane.CopyText().section('\t', 0, 0), "rank 8");

  shown.navigator.Select(document->AnomalyAt(0));
  EXPECT_EQ(shown.tree->currentIndex().data().toString(), "rank 5");
  EXPECT_TRUE(shown.tree->isExpanded(shown.tree->currentIndex().parent()));
  EXPECT_EQ(shown.navigator.selection(), document->AnomalyAt(0)) << "scrolling to a line must not select it";
  testing::Grab(&shown.pane, "tree");

  Selection comm;
  comm.comm = 1;
  shown.navigator.Select(comm);
  EXPECT_EQ(shown.tree->currentIndex().data().toString(), document->CommName(1));
  QTest::keyClick(shown.tree, Qt::Key_Right);
  QTest::keyClick(shown.tree, Qt::Key_Down);
  EXPECT_EQ(shown.navigator.selection().comm, 1);
  EXPECT_EQ(shown.navigator.selection().ranks.size(), 1);
  EXPECT_TRUE(shown.tree->currentIndex().parent().isValid());
  EXPECT_EQ(shown.tree->currentIndex().parent().data().toString(), document->CommName(1))
      << "the clicked member must stay the current line";
  shown.pane.setPalette(testing::DarkPalette());
  testing::Grab(&shown.pane, "tree_dark");
}

TEST(TreePaneTest, FilterByKeys) {
  ShownTree shown(testing::Hang(4, 2, 2));
  shown.filter->setFocus();
  QTest::keyClicks(shown.filter, "12");
  ASSERT_TRUE(testing::Settles(shown.pane));
  const QAbstractItemModel* model = shown.tree->model();
  EXPECT_EQ(model->rowCount(model->index(0, 0)), 1);
  EXPECT_EQ(model->index(0, 0, model->index(0, 0)).data().toString(), "node101");
  QTest::keyClick(shown.filter, Qt::Key_Escape);
  ASSERT_TRUE(testing::Settles(shown.pane));
  EXPECT_EQ(model->rowCount(model->index(0, 0)), 2);
  shown.pane.SetDocument(nullptr);
  EXPECT_EQ(model->rowCount(), 0);
  EXPECT_EQ(shown.pane.CopyText(), "");
}

}  // namespace
}  // namespace lockstep::gui
