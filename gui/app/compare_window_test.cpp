#include "gui/app/compare_window.h"

#include "gui/app/app_test_window.h"
#include "gui/app/session/place_mapping.h"
#include "gui/model/matrix/cells.h"
#include "gui/model/timeline/times.h"

namespace lockstep::gui {
namespace {

class CompareTest : public WindowTest {
 protected:
  std::unique_ptr<CompareWindow> MakeBoth(DocumentPtr left, DocumentPtr right) {
    WindowOptions options;
    options.settings = folder_.filePath("viewer.ini");
    auto both = std::make_unique<CompareWindow>(options);
    both->show();
    both->side(0)->ShowDocument(std::move(left));
    both->side(1)->ShowDocument(std::move(right));
    EXPECT_TRUE(Until([&] { return both->Idle(); }));
    return both;
  }
};

TEST_F(CompareTest, BothSidesShowTheSamePlace) {
  const DocumentPtr left = testing::Hang(2, 2, 2), right = testing::Hang(2, 2, 4);
  const auto both = MakeBoth(left, right);
  both->side(0)->SelectAnomaly(0);
  const Selection &a = both->side(0)->navigator()->selection(), &b = both->side(1)->navigator()->selection();
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.seq_first, b.comm >= 0 ? b.seq_first : a.seq_first);
  EXPECT_EQ(b.comm < 0 ? QString() : left->CommName(a.comm), b.comm < 0 ? QString() : right->CommName(b.comm));
  // The second half also leads the first.
  Selection selection;
  selection.ranks = Ranks::Between(1, 2);
  both->side(1)->navigator()->Select(selection);
  EXPECT_EQ(both->side(0)->navigator()->selection().ranks, Ranks::Between(1, 2));
  Place place = both->side(0)->navigator()->place();
  place.grouping = RowGrouping::kHost;
  both->side(0)->navigator()->Go(place);
  EXPECT_EQ(both->side(1)->navigator()->place().grouping, RowGrouping::kHost);
  both->linked()->setChecked(false);
  both->side(0)->navigator()->Select({});
  EXPECT_EQ(both->side(1)->navigator()->selection().ranks, Ranks::Between(1, 2));
  EXPECT_TRUE(both->windowTitle().contains(" and "));
}

TEST_F(CompareTest, ZoomIsSharedAndRelativeToTheStall) {
  const DocumentPtr left = testing::Hang(2, 2, 2), right = testing::Hang(2, 2, 4);
  const auto both = MakeBoth(left, right);
  const MatrixShape a = ShapeOfMatrix(*left, MatrixMode::kJob, -1), b = ShapeOfMatrix(*right, MatrixMode::kJob, -1);
  ASSERT_GT(a.columns, 6);
  Place place = both->side(0)->navigator()->place();
  place.matrix = {a.columns - 6.0, a.columns + 0.0, 1, 3};
  both->side(0)->navigator()->Scroll(place);
  EXPECT_EQ(both->side(1)->navigator()->place().matrix,
            (Viewport{b.columns - 6.0, b.columns + 0.0, 1.0 * b.rows / a.rows, 3.0 * b.rows / a.rows}));
  // In communicator mode, columns map by sequence number.
  place.matrix_mode = MatrixMode::kCommunicator;
  place.matrix_comm = 0;
  place.matrix = {};
  both->side(0)->navigator()->Go(place);
  const int32_t there = both->side(1)->navigator()->place().matrix_comm;
  ASSERT_GE(there, 0);
  const MatrixShape c = ShapeOfMatrix(*left, MatrixMode::kCommunicator, 0),
                    d = ShapeOfMatrix(*right, MatrixMode::kCommunicator, there);
  place = both->side(0)->navigator()->place();
  place.matrix = {1, 4, 0, 0};
  both->side(0)->navigator()->Scroll(place);
  EXPECT_EQ(both->side(1)->navigator()->place().matrix.x0, static_cast<double>(1 + c.first_seq - d.first_seq));
  // In the timeline, times map by their distance from the end.
  const auto apart = static_cast<double>(TimelineSpanOf(*right) - TimelineSpanOf(*left));
  place = both->side(0)->navigator()->place();
  place.timeline = {1e6, 2e6, 0, 0};
  both->side(0)->navigator()->Scroll(place);
  EXPECT_EQ(both->side(1)->navigator()->place().timeline.x1, 2e6 + apart);
  both->linked()->setChecked(false);
  place.timeline = {};
  both->side(0)->navigator()->Scroll(place);
  EXPECT_EQ(both->side(1)->navigator()->place().timeline.x1, 2e6 + apart);
}

TEST_F(CompareTest, AnOperationIsFoundByCommunicatorAndNumber) {
  const DocumentPtr left = testing::Hang(2, 2, 2), right = testing::Hang(2, 2, 2);
  Place place;
  const int row = left->RowOf(3);
  place.selection.record_rank = 3;
  place.selection.record = left->OpCount(row) / 2;
  place.selection.comm = left->CommOf(left->OpAt(row, place.selection.record));
  EXPECT_EQ(MapPlace(*left, *right, place, true), place);
  EXPECT_EQ(MapPlace(*left, *right, place, false).selection, place.selection);
  // Neither document has this rank.
  place.selection.record_rank = 99;
  EXPECT_EQ(MapPlace(*left, *right, place, false).selection.record, -1);
}

}  // namespace
}  // namespace lockstep::gui
