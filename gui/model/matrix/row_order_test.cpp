#include "gui/model/matrix/row_order.h"

#include <gtest/gtest.h>

#include <set>

#include "analyzer/testing/job.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

class RowOrderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Bundle bundle = testing::HangBundle(2, 2, 2, 4);
    for (Rank& rank : bundle.ranks) rank.host = rank.rank % 3 == 0 ? "b" : rank.rank % 3 == 1 ? "a" : "";
    document_ = testing::Made(bundle);
    ASSERT_NE(document_, nullptr);
    matrix_ = BuildJobMatrix(*document_);
  }
  // Every line occurs once, and groups cover all lines without gaps, each with the worst state of its rows.
  void Check(const RowOrder& order) const {
    std::set<uint32_t> rows(order.rows.begin(), order.rows.end());
    EXPECT_EQ(rows.size(), order.rows.size());
    int line = 0;
    for (const RowGroup& group : order.groups) {
      EXPECT_EQ(group.first, line);
      EXPECT_GT(group.count, 0);
      ViewState worst = ViewState::kOutside;
      for (int i = 0; i < group.count; ++i) {
        const int row = static_cast<int>(order.rows[static_cast<size_t>(line + i)]);
        for (int c = 0; c < matrix_->columns; ++c) worst = std::max(worst, matrix_->At(row, c));
      }
      EXPECT_EQ(group.worst, worst) << group.name.toStdString();
      line += group.count;
    }
    EXPECT_EQ(line, order.lines());
    const std::vector<int32_t> lines = LineOfRow(order, matrix_->rows);
    for (size_t row = 0; row < lines.size(); ++row) {
      if (lines[row] >= 0) {
        EXPECT_EQ(order.rows[static_cast<size_t>(lines[row])], row);
      } else {
        EXPECT_EQ(rows.count(static_cast<uint32_t>(row)), 0u);
      }
    }
  }
  DocumentPtr document_;
  std::shared_ptr<const CellMatrix> matrix_;
};

TEST_F(RowOrderTest, EveryGrouping) {
  for (const RowGrouping grouping :
       {RowGrouping::kRank, RowGrouping::kHost, RowGrouping::kStage, RowGrouping::kCommunicator, RowGrouping::kState}) {
    const RowOrder order = BuildRowOrder(*document_, *matrix_, grouping, nullptr, {});
    EXPECT_EQ(order.lines(), matrix_->rows);
    EXPECT_EQ(order.pinned, 0);
    Check(order);
    EXPECT_STRNE(RowGroupingName(grouping), "");
  }
  const RowOrder plain = BuildRowOrder(*document_, *matrix_, RowGrouping::kRank, nullptr, {});
  for (size_t i = 0; i < plain.rows.size(); ++i) EXPECT_EQ(plain.rows[i], i);
  EXPECT_EQ(plain.groups.size(), 1u);
  EXPECT_TRUE(plain.groups[0].name.isEmpty());
}

TEST_F(RowOrderTest, HostsAreOrderedByTheirFirstRank) {
  const RowOrder order = BuildRowOrder(*document_, *matrix_, RowGrouping::kHost, nullptr, {});
  ASSERT_EQ(order.groups.size(), 3u);
  EXPECT_EQ(order.groups[0].name, "b");
  EXPECT_EQ(order.groups[1].name, "a");
  EXPECT_EQ(order.groups[2].name, "no name");
  EXPECT_EQ(order.rows, (std::vector<uint32_t>{0, 3, 6, 1, 4, 7, 2, 5}));
}

TEST_F(RowOrderTest, TheWorstStateComesFirst) {
  const RowOrder order = BuildRowOrder(*document_, *matrix_, RowGrouping::kState, nullptr, {});
  ASSERT_GE(order.groups.size(), 2u);
  EXPECT_EQ(order.groups[0].name, "never enqueued");
  EXPECT_EQ(order.rows[0], 5u);
  for (size_t i = 1; i < order.groups.size(); ++i) EXPECT_LT(order.groups[i].worst, order.groups[i - 1].worst);
}

TEST_F(RowOrderTest, FiltersAndPins) {
  const Ranks left = Ranks::Between(2, 5);
  const RowOrder order = BuildRowOrder(*document_, *matrix_, RowGrouping::kHost, &left, Ranks::Of({4, 7}));
  Check(order);
  EXPECT_EQ(order.pinned, 2);
  EXPECT_EQ(order.groups[0].name, "pinned");
  EXPECT_EQ(order.rows, (std::vector<uint32_t>{4, 7, 2, 5, 3}));
  const Ranks none;
  EXPECT_EQ(BuildRowOrder(*document_, *matrix_, RowGrouping::kRank, &none, {}).lines(), 0);
}

}  // namespace
}  // namespace lockstep::gui
