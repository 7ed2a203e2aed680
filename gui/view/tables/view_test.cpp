#include "gui/view/tables/view.h"

#include <gtest/gtest.h>

#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>
#include <QTest>
#include <QToolButton>

#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

struct ShownTable {
  explicit ShownTable(TableKind kind, DocumentPtr document)
      : view(std::make_unique<TableView>(&navigator, std::move(kind))) {
    view->resize(1280, 300);
    view->show();
    view->SetDocument(std::move(document));
    EXPECT_TRUE(testing::Settles(*view));
  }
  void Click(int row, int column, Qt::KeyboardModifiers with = {}) {
    const QModelIndex index = view->model()->index(row, column);
    view->table()->scrollTo(index);
    QTest::mouseClick(view->table()->viewport(), Qt::LeftButton, with, view->table()->visualRect(index).center());
  }
  QString Cell(int row, int column) const { return view->model()->index(row, column).data().toString(); }
  std::vector<int> Selected() const {
    std::vector<int> rows;
    for (const QModelIndex& index : view->table()->selectionModel()->selectedRows()) rows.push_back(index.row());
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  Navigator navigator;
  std::unique_ptr<TableView> view;
};

TEST(TablesTest, RanksSelectBothWays) {
  ShownTable shown(RankTable(), testing::Hang());
  shown.Click(0, 1);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(5, 5));
  QTest::keyClick(shown.view->table(), Qt::Key_Down);
  EXPECT_EQ(shown.navigator.selection().ranks.front(), shown.Cell(1, 0).toInt());
  QTest::keyClick(shown.view->table(), Qt::Key_Down, Qt::ShiftModifier);
  EXPECT_EQ(shown.navigator.selection().ranks.size(), 2);
  QTest::keyClick(shown.view->table(), Qt::Key_A, Qt::ControlModifier);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(0, 7));
  EXPECT_EQ(shown.view->CopyText().count('\n'), 9);
  shown.navigator.Back();
  EXPECT_EQ(shown.Selected().size(), 2u);

  Selection selection;
  selection.ranks = Ranks::Between(6, 7);
  shown.navigator.Select(selection);
  ASSERT_EQ(shown.Selected().size(), 2u);
  const QString copied = shown.view->CopyText();
  EXPECT_TRUE(copied.startsWith("Rank\tHost\tGPU")) << copied.toStdString();
  EXPECT_TRUE(copied.contains("\n6\tnode100\t6"));
  EXPECT_EQ(shown.navigator.selection(), selection) << "scrolling to a row must not select it";
}

TEST(TablesTest, FilterAndSortKeepTheSelection) {
  ShownTable shown(RankTable(), testing::Hang());
  Selection selection;
  selection.ranks = Ranks::Between(3, 3);
  shown.navigator.Select(selection);
  QLineEdit* filter = shown.view->filter();
  filter->setFocus();
  QTest::keyClicks(filter, "40003");
  ASSERT_TRUE(testing::Settles(*shown.view));
  EXPECT_EQ(shown.view->model()->rowCount(), 1);
  EXPECT_EQ(shown.view->findChild<QLabel*>("count")->text(), "1 of 8");
  EXPECT_EQ(shown.Selected(), std::vector<int>{0});
  filter->clear();
  QTest::keyClicks(filter, "40001");
  ASSERT_TRUE(testing::Settles(*shown.view));
  EXPECT_TRUE(shown.Selected().empty());
  EXPECT_EQ(shown.navigator.selection(), selection) << "a filtered row must stay selected";
  QTest::keyClick(filter, Qt::Key_Escape);
  ASSERT_TRUE(testing::Settles(*shown.view));
  EXPECT_EQ(shown.Selected().size(), 1u);
  QTest::keyClick(filter, Qt::Key_Down);
  // A click on the header's first section sorts by ranks.
  QHeaderView* header = shown.view->table()->horizontalHeader();
  QTest::mouseClick(header->viewport(), Qt::LeftButton, {},
                    QPoint(header->sectionViewportPosition(0) + 10, header->height() / 2));
  ASSERT_TRUE(testing::Settles(*shown.view));
  const int row = shown.Selected().at(0);
  EXPECT_EQ(shown.Cell(row, 0), "3");
  EXPECT_TRUE(shown.Cell(0, 0) == "0" || shown.Cell(0, 0) == "7");
  EXPECT_EQ(shown.navigator.selection(), selection);

  Place place = shown.navigator.place();
  place.filters = {"rank:2-4"};
  place.filtered = Ranks::Between(2, 4);
  shown.navigator.Go(place);
  ASSERT_TRUE(testing::Settles(*shown.view));
  EXPECT_EQ(shown.view->model()->rowCount(), 3);
}

TEST(TablesTest, CommunicatorsAndInFlightSelectTheirPlace) {
  const DocumentPtr document = testing::Hang();
  ShownTable comms(CommTable(), document);
  comms.Click(0, 0);
  EXPECT_EQ(comms.navigator.selection().comm, comms.view->model()->Source(0));
  EXPECT_GE(comms.navigator.selection().seq_first, 0);
  Selection other;
  other.comm = 2;
  comms.navigator.Select(other);
  ASSERT_EQ(comms.Selected().size(), 1u);
  EXPECT_EQ(comms.view->model()->Source(comms.Selected()[0]), 2);

  ShownTable flight(InFlightTable(), document);
  ASSERT_GT(flight.view->model()->rowCount(), 1);
  flight.Click(1, 1);
  const Selection& selection = flight.navigator.selection();
  ASSERT_GE(selection.record, 0);
  const IndexOp op = document->OpAt(document->RowOf(selection.record_rank), selection.record);
  EXPECT_EQ(op.seq, selection.seq_first);
  EXPECT_EQ(document->CommOf(op), selection.comm);
  testing::Grab(comms.view.get(), "table_comms");
  testing::Grab(flight.view.get(), "table_flight");
}

TEST(TablesTest, ColumnsHideAndCsvIsWhatIsShown) {
  ShownTable shown(RankTable(), testing::Hang());
  const QString all = shown.view->Csv();
  EXPECT_EQ(all.count('\n'), 9);
  EXPECT_TRUE(all.startsWith("Rank,Host,GPU,"));
  const QList<QAction*> actions = shown.view->findChild<QToolButton*>("columns")->menu()->actions();
  ASSERT_EQ(actions.size(), shown.view->model()->columnCount());
  actions[1]->trigger();
  EXPECT_TRUE(shown.view->table()->isColumnHidden(1));
  EXPECT_TRUE(shown.view->Csv().startsWith("Rank,GPU,"));
  actions[1]->trigger();
  EXPECT_EQ(shown.view->Csv(), all);
}

TEST(TablesTest, HostileNamesAreOnlyText) {
  Bundle bundle = testing::OnHosts(lockstep::testing::Job(2, 2, 2, 6).Run());
  for (Communicator& comm : bundle.comms) comm.name = "=cmd()|<b>x</b>\t\u202e" + std::string(500, 'N');
  for (Rank& rank : bundle.ranks) rank.host = "h\n\x1b[31m<img src=x>";
  ShownTable shown(CommTable(), testing::Made(bundle));
  EXPECT_FALSE(shown.Cell(0, 0).contains(QChar(0x202e)));
  EXPECT_LE(shown.Cell(0, 0).size(), 130);
  shown.Click(0, 0);
  EXPECT_EQ(shown.view->CopyText().split('\n')[1].count('\t'), shown.view->model()->columnCount() - 1);
  EXPECT_TRUE(shown.view->Csv().contains("'=cmd()"));
  ShownTable ranks(RankTable(), testing::Made(bundle));
  EXPECT_EQ(ranks.Cell(0, 1), "h ?[31m<img src=x>");
}

TEST(TablesTest, EmptyDarkAndLongTablesArePainted) {
  for (TableKind (*make)() : {CommTable, RankTable, MismatchTable, InFlightTable}) {
    ShownTable shown(make(), testing::Made(Bundle()));
    EXPECT_EQ(shown.view->CopyText(), "");
    shown.view->SetDocument(nullptr);
    EXPECT_EQ(shown.view->Csv(), "");
    for (const QWidget* widget : std::initializer_list<const QWidget*>{
             shown.view->filter(), shown.view->table(), shown.view->findChild<QToolButton*>("columns")}) {
      EXPECT_FALSE(widget->accessibleName().isEmpty()) << widget->objectName().toStdString();
      EXPECT_FALSE(widget->accessibleDescription().isEmpty()) << widget->objectName().toStdString();
    }
  }
  Bundle many;
  many.ranks.resize(1024);
  for (size_t r = 0; r < many.ranks.size(); ++r) many.ranks[r].rank = static_cast<int32_t>(r);
  ShownTable dark(RankTable(), testing::Made(testing::OnHosts(many)));
  dark.view->setPalette(testing::DarkPalette());
  Selection selection;
  std::vector<int32_t> odd;
  for (int32_t rank = 1; rank < 1024; rank += 2) odd.push_back(rank);
  selection.ranks = Ranks::Of(odd);
  dark.navigator.Select(selection);
  EXPECT_EQ(dark.view->CopyText().count('\n'), 513) << "more ranges than the table's own selection may get";
  testing::Grab(dark.view.get(), "table_ranks_dark");
}

}  // namespace
}  // namespace lockstep::gui
