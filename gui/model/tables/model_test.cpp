#include "gui/model/tables/model.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

#include <random>
#include <set>

#include "gui/model/tables/columns.h"
#include "gui/model/tables/kinds.h"
#include "gui/testing/facts.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

using testing::Settles;

QString Cell(const TableModel& model, int row, int column) { return model.index(row, column).data().toString(); }

int ColumnOf(const TableModel& model, const QString& title) {
  for (int c = 0; c < model.columnCount(); ++c) {
    if (model.headerData(c, Qt::Horizontal, Qt::DisplayRole).toString() == title) return c;
  }
  ADD_FAILURE() << title.toStdString();
  return 0;
}

TEST(TableModelTest, NaturalOrder) {
  EXPECT_TRUE(NaturalLess("tp_2", "tp_10"));
  EXPECT_FALSE(NaturalLess("tp_10", "tp_2"));
  EXPECT_TRUE(NaturalLess("a", "B"));
  EXPECT_TRUE(NaturalLess("node007", "node10"));
  EXPECT_TRUE(NaturalLess("", "a"));
  EXPECT_FALSE(NaturalLess("x1", "x1"));
  std::mt19937 random(3);
  std::vector<QString> texts;
  for (int i = 0; i < 60; ++i) {
    QString text;
    for (int k = 0; k < 4; ++k) text += QString("ab01")[static_cast<int>(random() % 4)];
    texts.push_back(text);
  }
  for (const QString& a : texts) {
    for (const QString& b : texts) {
      EXPECT_FALSE(NaturalLess(a, b) && NaturalLess(b, a));
      for (const QString& c : texts) EXPECT_TRUE(!NaturalLess(a, b) || !NaturalLess(b, c) || NaturalLess(a, c));
    }
  }
}

TEST(TableModelTest, ModelsStayConsistentThroughResets) {
  const std::vector<DocumentPtr> documents = {testing::Hang(), testing::Mismatch(), testing::Healthy(),
                                              testing::Made(Bundle()), testing::Hang(4, 2, 2)};
  Bundle one = lockstep::testing::Job(1, 1, 1, 3).Run();
  for (TableKind kind : {CommTable(), RankTable(), MismatchTable(), InFlightTable()}) {
    TableModel model(kind.columns, kind.make);
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    for (DocumentPtr document :
         {documents[0], documents[3], documents[1], testing::Made(one), DocumentPtr(), documents[2], documents[4]}) {
      model.SetDocument(document);
      ASSERT_TRUE(Settles(model));
      const int all = model.rowCount();
      EXPECT_EQ(all, model.total());
      QList<QPersistentModelIndex> kept;
      std::vector<int> sources;
      for (int row = 0; row < all; ++row) {
        kept.append(model.index(row, 1));
        sources.push_back(model.Source(row));
      }
      for (int column = 0; column < model.columnCount(); ++column) {
        for (Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
          model.sort(column, order);
          ASSERT_TRUE(Settles(model));
          ASSERT_EQ(model.rowCount(), all);
          std::set<int> seen;
          for (int row = 0; row < all; ++row) seen.insert(model.Source(row));
          EXPECT_EQ(static_cast<int>(seen.size()), all) << "every row must appear once";
          for (int row = 0; row < all; ++row) {
            EXPECT_EQ(model.Source(kept[row].row()), sources[static_cast<size_t>(row)])
                << "a persistent index must keep its row";
            if (row == 0 || kind.columns[static_cast<size_t>(column)].number) continue;
            const QString a = Cell(model, row - 1, column), b = Cell(model, row, column);
            EXPECT_FALSE(!a.isEmpty() && !b.isEmpty() &&
                         (order == Qt::AscendingOrder ? NaturalLess(b, a) : NaturalLess(a, b)));
          }
        }
      }
      model.SetFilter({"no-such-word-anywhere", {}});
      ASSERT_TRUE(Settles(model));
      EXPECT_EQ(model.rowCount(), 0);
      model.SetFilter({"", Ranks::Between(5, 5)});
      ASSERT_TRUE(Settles(model));
      EXPECT_LE(model.rowCount(), all);
      model.SetFilter({"", {}});
      ASSERT_TRUE(Settles(model));
      EXPECT_EQ(model.rowCount(), all);
      for (int row = 0; row < all; ++row) {
        const int source[] = {model.Source(row)};
        EXPECT_TRUE(model.rows()->Shows(source[0], model.rows()->Select(source)) ||
                    model.rows()->Select(source).empty());
      }
    }
  }
}

TEST(TableModelTest, CommunicatorsShowTheMissingRanks) {
  const DocumentPtr document = testing::Hang();
  TableKind kind = CommTable();
  TableModel model(kind.columns, kind.make);
  model.sort(kind.sort_column, kind.sort_order);
  model.SetDocument(document);
  ASSERT_TRUE(Settles(model));
  const Anomaly& cause = document->facts().anomalies(0);
  bool seen = false;
  for (int row = 0; row < model.rowCount(); ++row) {
    if (model.Source(row) != cause.comm()) continue;
    seen = true;
    EXPECT_EQ(Cell(model, row, ColumnOf(model, "Missing ranks")), "5");
    EXPECT_EQ(Cell(model, row, ColumnOf(model, "In flight")), QString("#%1").arg(cause.sequence()));
    EXPECT_FALSE(Cell(model, row, ColumnOf(model, "Oldest in flight")).isEmpty());
  }
  EXPECT_TRUE(seen);
  EXPECT_FALSE(Cell(model, 0, ColumnOf(model, "Oldest in flight")).isEmpty()) << "the oldest must come first";
  // Among equal rows, those that the verdict names come first.
  for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
    const int missing = ColumnOf(model, "Missing");
    model.sort(missing, order);
    ASSERT_TRUE(Settles(model));
    int row = 0;
    while (model.Source(row) != cause.comm()) ++row;
    for (int before = 0; before < row; ++before)
      EXPECT_NE(Cell(model, before, missing), Cell(model, row, missing)) << before;
  }
}

TEST(TableModelTest, RanksAndInFlight) {
  const DocumentPtr document = testing::Hang();
  TableKind kind = RankTable();
  TableModel ranks(kind.columns, kind.make);
  ranks.sort(kind.sort_column, kind.sort_order);
  ranks.SetDocument(document);
  ASSERT_TRUE(Settles(ranks));
  ASSERT_EQ(ranks.rowCount(), 8);
  EXPECT_EQ(Cell(ranks, 0, 0), "5") << "the cause must come first";
  EXPECT_EQ(Cell(ranks, 0, ColumnOf(ranks, "Host")), "node100");
  EXPECT_EQ(Cell(ranks, 0, ColumnOf(ranks, "PID")), "40005");
  ranks.SetFilter({"NODE100 40003", {}});
  ASSERT_TRUE(Settles(ranks));
  EXPECT_EQ(ranks.rowCount(), 1);
  ranks.SetFilter({"-40003", {}});
  ASSERT_TRUE(Settles(ranks));
  EXPECT_EQ(ranks.rowCount(), 7);
  ranks.SetFilter({"", Ranks::Between(2, 4)});
  ASSERT_TRUE(Settles(ranks));
  EXPECT_EQ(ranks.rowCount(), 3);

  kind = InFlightTable();
  TableModel flight(kind.columns, kind.make);
  flight.SetDocument(document);
  ASSERT_TRUE(Settles(flight));
  ASSERT_GT(flight.rowCount(), 0);
  bool waits_for_it = false;
  for (int row = 0; row < flight.rowCount(); ++row) {
    EXPECT_NE(Cell(flight, row, 0), "");
    waits_for_it |= Cell(flight, row, ColumnOf(flight, "Waits for")) == "rank 5";
  }
  EXPECT_TRUE(waits_for_it);
}

TEST(TableModelTest, MismatchesNameTheOddOnes) {
  const DocumentPtr document = testing::Mismatch();
  ASSERT_GT(document->facts().mismatches_size(), 0);
  TableKind kind = MismatchTable();
  TableModel model(kind.columns, kind.make);
  model.SetDocument(document);
  ASSERT_TRUE(Settles(model));
  ASSERT_GE(model.rowCount(), 1);
  EXPECT_EQ(Cell(model, 0, ColumnOf(model, "Field")), "count");
  EXPECT_TRUE(Cell(model, 0, ColumnOf(model, "Groups")).contains("2,048"))
      << Cell(model, 0, ColumnOf(model, "Groups")).toStdString();
}

// If neither value is the reference, the analysis does not know which ranks are wrong.
TEST(TableModelTest, WithoutAReferenceAllRanksAreOdd) {
  const Bundle bundle = testing::OnHosts(lockstep::testing::Job(2, 2, 2, 6).Run());
  ViewFacts facts;
  CallMismatch* mismatch = facts.add_mismatches();
  for (const int32_t rank : {4, 5}) {
    RankRuns* ranks = mismatch->add_groups()->mutable_ranks();
    ranks->add_bounds(rank);
    ranks->add_bounds(rank);
  }
  TableKind kind = MismatchTable();
  TableModel model(kind.columns, kind.make);
  model.SetDocument(testing::OpenWith(bundle, facts));
  ASSERT_TRUE(Settles(model));
  EXPECT_EQ(Cell(model, 0, ColumnOf(model, "Odd ranks")), "4-5");
}

// Sort requests arrive faster than they are carried out: the last one counts, and nothing else remains.
TEST(TableModelTest, TheLastOrderCounts) {
  const DocumentPtr hang = testing::Hang(4, 2, 2), healthy = testing::Healthy();
  TableKind kind = RankTable();
  for (int round = 0; round < 30; ++round) {
    TableModel model(kind.columns, kind.make);
    for (int i = 0; i < 5; ++i) {
      model.SetDocument(i % 2 == 0 ? hang : healthy);
      model.sort(i % 3, Qt::DescendingOrder);
      model.SetFilter({QString::number(i), {}});
    }
    model.SetFilter({"", {}});
    model.sort(0, Qt::DescendingOrder);
    if (round % 2 == 0) continue;  // destroyed while it works
    ASSERT_TRUE(Settles(model));
    ASSERT_EQ(model.rowCount(), 16);
    EXPECT_EQ(Cell(model, 0, 0), "15");
    model.SetDocument(nullptr);
    EXPECT_EQ(model.rowCount(), 0);
  }
}

TEST(TableModelTest, ColumnsOfADocumentAreShared) {
  DocumentPtr document = testing::Healthy();
  const auto first = IncidentColumns::Of(document);
  EXPECT_EQ(first, IncidentColumns::Of(document));
  std::atomic<bool> cancelled{true};
  EXPECT_EQ(IncidentColumns::Of(testing::Hang(), &cancelled), nullptr);
  EXPECT_EQ(first->in_flight_total(), 0) << "nothing is in flight in a job that has ended";
}

}  // namespace
}  // namespace lockstep::gui
