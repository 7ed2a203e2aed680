#include "gui/model/matrix/cell_text.h"

#include <gtest/gtest.h>

#include "analyzer/testing/job.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

class CellTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Bundle bundle = testing::HangBundle();
    for (Rank& rank : bundle.ranks) rank.host = "a\tb,c";
    document_ = testing::Made(bundle);
    ASSERT_NE(document_, nullptr);
    culprit_ = document_->AnomalyAt(0);
    matrix_ = BuildCommMatrix(*document_, culprit_.comm);
    const CellRange cells = CellsOfSelection(*document_, *matrix_, culprit_);
    ASSERT_EQ(cells.rows.size(), 1u);
    row_ = cells.rows[0];
    column_ = cells.column_first;
  }
  DocumentPtr document_;
  Selection culprit_;
  std::shared_ptr<const CellMatrix> matrix_;
  int row_ = 0, column_ = 0;
};

TEST_F(CellTextTest, ACellNamesTheRankAndTheCallItDidNotMake) {
  const QStringList lines = CellLines(*document_, *matrix_, row_, column_);
  ASSERT_GE(lines.size(), 3);
  EXPECT_LE(lines.size(), 6);
  EXPECT_TRUE(lines[0].startsWith("rank 5 (")) << lines[0].toStdString();
  EXPECT_EQ(lines[1], QString("#%1 on %2").arg(culprit_.seq_first).arg(document_->CommName(culprit_.comm)));
  EXPECT_EQ(lines[2], "never enqueued: peers made this call, but the rank did not");
  EXPECT_EQ(CellSpoken(*document_, *matrix_, row_, column_),
            QString("rank 5, sequence number %1, never enqueued").arg(culprit_.seq_first));
  const QStringList before = CellLines(*document_, *matrix_, row_, column_ - 1);
  EXPECT_TRUE(before[1].contains(" on ")) << "must name the operation and its kind";
  EXPECT_EQ(before[2], "completed");
}

TEST_F(CellTextTest, EveryCellHasAtMostSixLines) {
  for (const auto& matrix : {matrix_, BuildJobMatrix(*document_)}) {
    for (int row = 0; row < matrix->rows; ++row) {
      for (int column = 0; column < matrix->columns; ++column) {
        const QStringList lines = CellLines(*document_, *matrix, row, column);
        ASSERT_GE(lines.size(), 2);
        ASSERT_LE(lines.size(), 6);
        ASSERT_FALSE(CellSpoken(*document_, *matrix, row, column).isEmpty());
      }
    }
    EXPECT_TRUE(CellLines(*document_, *matrix, -1, 0).isEmpty());
    EXPECT_TRUE(CellLines(*document_, *matrix, 0, matrix->columns).isEmpty());
    EXPECT_TRUE(CellSpoken(*document_, *matrix, matrix->rows, 0).isEmpty());
  }
}

TEST_F(CellTextTest, ATableHasItsFieldsAndIsBounded) {
  const QString text = CellsAsTsv(*document_, *matrix_, {row_, row_}, column_ - 1, column_, 3);
  const QStringList lines = text.split('\n');
  ASSERT_EQ(lines.size(), 6);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lines[i].count('\t'), 5) << "a tab in a host name must not add a column";
  EXPECT_TRUE(lines[2].endsWith("\tnever enqueued"));
  EXPECT_EQ(lines[4], ".. 3 of 4 cells");
}

}  // namespace
}  // namespace lockstep::gui
