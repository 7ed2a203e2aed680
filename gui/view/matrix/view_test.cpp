#include "gui/view/matrix/view.h"
#include "gui/model/search/query.h"

#include <gtest/gtest.h>

#include <QAccessible>
#include <QApplication>
#include <QHelpEvent>
#include <QTest>
#include <QWheelEvent>

#include "analyzer/testing/job.h"
#include "gui/testing/facts.h"
#include "gui/testing/samples.h"
#include "gui/testing/until.h"
#include "gui/view/matrix/legend.h"

namespace lockstep::gui {
namespace {

DocumentPtr AStall() {
  Bundle bundle = testing::HangBundle(2, 2, 4, 8);
  for (Rank& rank : bundle.ranks) rank.host = "node" + std::to_string(rank.rank / 4);
  return testing::Made(bundle);
}

class MatrixViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    document_ = AStall();
    view_.resize(1000, 640);
    view_.show();
    view_.SetDocument(document_);
    ASSERT_TRUE(testing::Settles(view_));
    ASSERT_NE(view_.data(), nullptr);
  }
  void Key(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::keyClick(&view_, key, modifiers);
    ASSERT_TRUE(testing::Settles(view_));
  }
  void Wheel(const QPoint& at, int steps, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QWheelEvent event(at, view_.mapToGlobal(at), QPoint(), QPoint(0, 120 * steps), Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(&view_, &event);
  }
  MatrixView::Cell CellOf(const Selection& selection) const {
    const CellRange range = CellsOfSelection(*document_, *view_.data()->cells, selection);
    EXPECT_EQ(range.rows.size(), 1u);
    return {view_.data()->line_of_row[static_cast<size_t>(range.rows.at(0))], range.column_first};
  }
  ViewState StateAt(MatrixView::Cell cell) const {
    return view_.data()->cells->At(static_cast<int>(view_.data()->order.rows[static_cast<size_t>(cell.line)]),
                                   cell.column);
  }
  DocumentPtr document_;
  Navigator navigator_;
  MatrixView view_{&navigator_};
};

TEST_F(MatrixViewTest, AFindingIsShownInItsCommunicator) {
  EXPECT_EQ(view_.data()->cells->mode, MatrixMode::kJob);
  const Selection culprit = document_->AnomalyAt(0);
  navigator_.Select(culprit);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(navigator_.place().matrix_mode, MatrixMode::kCommunicator);
  EXPECT_EQ(view_.data()->cells->comm, culprit.comm);
  const MatrixView::Cell cell = CellOf(culprit);
  EXPECT_EQ(StateAt(cell), ViewState::kMissing);
  EXPECT_EQ(view_.cursor(), cell);
  const QPoint at = view_.CentreOf(cell);
  const QImage shot = view_.grab().toImage();
  const QColor fill = ThemeFor(view_.palette()).Of(ViewState::kMissing).fill;
  int pixels = 0;
  for (int y = -10; y <= 10; ++y) {
    for (int x = -10; x <= 10; ++x) pixels += shot.pixel(at + QPoint(x, y)) == fill.rgb() ? 1 : 0;
  }
  EXPECT_GT(pixels, 20);
  // Going back undoes the step together with its consequences.
  navigator_.Back();
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->cells->mode, MatrixMode::kJob);
  EXPECT_TRUE(navigator_.selection().empty());
}

TEST_F(MatrixViewTest, AClickSelectsTheCell) {
  const MatrixView::Cell cell{3, view_.data()->cells->columns - 5};
  QTest::mouseClick(&view_, Qt::LeftButton, Qt::NoModifier, view_.CentreOf(cell));
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(navigator_.selection(), SelectionOfCell(*document_, *view_.data()->cells, 3, cell.column));
  EXPECT_GE(navigator_.selection().record, 0);
  EXPECT_EQ(view_.data()->cells->mode, MatrixMode::kJob) << "a click must not change the mode";
  EXPECT_EQ(view_.cursor(), cell);
  EXPECT_TRUE(view_.CopyText().startsWith("rank 3")) << view_.CopyText().toStdString();
  EXPECT_LE(view_.CopyText().count('\n'), 5);
}

TEST_F(MatrixViewTest, TheKeysOfTheCursor) {
  view_.MoveCursor({4, 10});
  Key(Qt::Key_Right);
  Key(Qt::Key_Down);
  EXPECT_EQ(view_.cursor(), (MatrixView::Cell{5, 11}));
  Key(Qt::Key_Left, Qt::ControlModifier);
  Key(Qt::Key_Up);
  EXPECT_EQ(view_.cursor(), (MatrixView::Cell{4, 1}));
  Key(Qt::Key_End);
  EXPECT_EQ(view_.cursor()->column, view_.data()->cells->columns - 1);
  Key(Qt::Key_Home);
  EXPECT_EQ(view_.cursor()->column, 0);
  Key(Qt::Key_PageDown);
  Key(Qt::Key_PageDown);
  EXPECT_EQ(view_.cursor()->line, view_.data()->order.lines() - 1);
  Key(Qt::Key_Home, Qt::ControlModifier);
  EXPECT_EQ(view_.cursor()->line, 0);
  EXPECT_TRUE(navigator_.selection().empty()) << "moving must not select";
  Key(Qt::Key_Return);
  EXPECT_EQ(navigator_.selection().ranks, Ranks::Between(0, 0));
  Key(Qt::Key_Escape);
  EXPECT_TRUE(navigator_.selection().empty());
}

TEST_F(MatrixViewTest, TheWheelZoomsAndPans) {
  const QPoint at = view_.CentreOf({8, 40});
  const double before = view_.transform().x.ToCell(0);
  Wheel(at, 4, Qt::ControlModifier);
  EXPECT_EQ(view_.CellAt(at), (MatrixView::Cell{8, 40})) << "the point under the pointer must stay";
  EXPECT_GT(view_.transform().x.first(), before);
  EXPECT_NE(navigator_.place().matrix, Viewport());
  Wheel(at, -3, Qt::ShiftModifier);
  EXPECT_GT(view_.transform().x.first(), 0);
  const double scale = view_.transform().x.scale();
  view_.Zoom(1.25);
  EXPECT_GT(view_.transform().x.scale(), scale);
  view_.ZoomRows(1.25);
  EXPECT_GT(view_.transform().y.scale(), ViewTransform::kTallest);
  Wheel(at, -1);
  view_.Fit();
  EXPECT_TRUE(view_.transform().x.fits() && view_.transform().y.fits());
  EXPECT_EQ(navigator_.place().matrix, Viewport());
  navigator_.Back();
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(navigator_.place().matrix, Viewport()) << "several small steps must be undone as one";
}

TEST_F(MatrixViewTest, DraggingMeasuresSelectsAndZooms) {
  const MatrixView::Cell from{2, 30}, to{6, 60};
  QTest::mousePress(&view_, Qt::LeftButton, Qt::NoModifier, view_.CentreOf(from));
  QTest::mouseMove(&view_, view_.CentreOf({4, 45}));
  QTest::mouseMove(&view_, view_.CentreOf(to));
  ASSERT_TRUE(view_.area().has_value());
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_TRUE(navigator_.selection().empty()) << "must not select before the button is released";
  QTest::mouseRelease(&view_, Qt::LeftButton, Qt::NoModifier, view_.CentreOf(to));
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(navigator_.selection().ranks, Ranks::Between(2, 6));
  EXPECT_GT(navigator_.selection().time_end, navigator_.selection().time_begin);
  EXPECT_EQ(*view_.area(), (LineBox{2, 6, 30, 60}));
  EXPECT_EQ(view_.CopyText().count('\n'), 1 + 5 * 31);
  view_.ZoomToSelection();
  EXPECT_NEAR(view_.transform().x.first(), 30, 1e-6);
  Key(Qt::Key_Escape);
  EXPECT_FALSE(view_.area().has_value());
  EXPECT_FALSE(navigator_.selection().empty()) << "each Esc must clear one thing";
  view_.MoveCursor({1, 40});
  Key(Qt::Key_Right, Qt::ShiftModifier);
  Key(Qt::Key_Down, Qt::ShiftModifier);
  EXPECT_EQ(*view_.area(), (LineBox{1, 2, 40, 41}));
  Key(Qt::Key_Return);
  EXPECT_EQ(navigator_.selection().ranks, Ranks::Between(1, 2));
}

TEST_F(MatrixViewTest, DraggingWithShiftOrTheMiddleButtonPans) {
  view_.MoveCursor({5, view_.data()->cells->columns / 2});
  view_.Zoom(3);
  const double first = view_.transform().x.first();
  const QPoint at = view_.rect().center();
  QTest::mousePress(&view_, Qt::MiddleButton, Qt::NoModifier, at);
  QTest::mouseMove(&view_, at + QPoint(-80, 0));
  QTest::mouseRelease(&view_, Qt::MiddleButton, Qt::NoModifier, at + QPoint(-80, 0));
  EXPECT_NEAR(view_.transform().x.first(), first + 80 / view_.transform().x.scale(), 1e-6);
  QTest::mousePress(&view_, Qt::LeftButton, Qt::ShiftModifier, at);
  QTest::mouseMove(&view_, at + QPoint(80, 0));
  QTest::mouseRelease(&view_, Qt::LeftButton, Qt::ShiftModifier, at + QPoint(80, 0));
  EXPECT_NEAR(view_.transform().x.first(), first, 1e-6);
  EXPECT_TRUE(navigator_.selection().empty());
}

TEST_F(MatrixViewTest, GroupsAndPinsFollowTheNavigator) {
  Place place = navigator_.place();
  place.grouping = RowGrouping::kHost;
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->order.groups.size(), 4u);
  EXPECT_EQ(view_.data()->order.groups[1].name, "node1");
  view_.MoveCursor({9, 0});
  place.grouping = RowGrouping::kRank;
  place.pinned = Ranks::Between(9, 9);
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->order.pinned, 1);
  EXPECT_EQ(view_.data()->order.rows[0], 9u);
  EXPECT_EQ(view_.cursor()->line, 0) << "the cursor must stay on its rank";
  QTest::mouseClick(&view_, Qt::LeftButton, Qt::NoModifier, view_.CentreOf({0, 5}));
  EXPECT_EQ(navigator_.selection().ranks, Ranks::Between(9, 9));
}

TEST_F(MatrixViewTest, AllRanksMayBePinned) {
  Place place = navigator_.place();
  place.pinned = Ranks::Between(0, INT32_MAX);
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->order.pinned, view_.data()->order.lines());
  view_.grab();
  const QPoint nowhere(view_.width() / 2, view_.height() - 40), axis(20, view_.height() - 40);
  for (const QPoint& at : {nowhere, axis}) {
    QHelpEvent help(QEvent::ToolTip, at, view_.mapToGlobal(at));
    QApplication::sendEvent(&view_, &help);
    QTest::mouseClick(&view_, Qt::LeftButton, Qt::NoModifier, at);
    QTest::mouseDClick(&view_, Qt::LeftButton, Qt::NoModifier, at);
  }
  for (const Qt::Key key : {Qt::Key_End, Qt::Key_PageDown, Qt::Key_Down, Qt::Key_Return}) Key(key);
  view_.ZoomToSelection();
  view_.CentreOnSelection();
  Key(Qt::Key_End, Qt::ControlModifier);
  EXPECT_EQ(view_.cursor()->line, view_.data()->order.lines() - 1);
}

TEST_F(MatrixViewTest, ADoubleClickShowsTheCollective) {
  const int columns = view_.data()->cells->columns;
  const MatrixView::Cell cell{5, columns - 3};
  const int32_t comm = SelectionOfCell(*document_, *view_.data()->cells, 5, cell.column).comm;
  ASSERT_GE(comm, 0);
  QTest::mouseDClick(&view_, Qt::LeftButton, Qt::NoModifier, view_.CentreOf(cell));
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->cells->mode, MatrixMode::kCommunicator);
  EXPECT_EQ(view_.data()->cells->comm, comm);
  EXPECT_EQ(navigator_.selection().comm, comm);
}

TEST_F(MatrixViewTest, FiltersLeaveRowsOut) {
  Place place = navigator_.place();
  place.filters = {"rank:2-4"};
  place.filtered = Ranks::Between(2, 4);
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->order.rows, (std::vector<uint32_t>{2, 3, 4}));
  const QString csv = view_.Csv();
  EXPECT_EQ(csv.count('\n'), 4);
  EXPECT_TRUE(csv.section('\n', 1, 1).startsWith("2,node0,")) << csv.toStdString();
  place.filtered = {};
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->order.lines(), 0);
  view_.grab();
  for (const Qt::Key key : {Qt::Key_Down, Qt::Key_Return}) Key(key);
  view_.ZoomToSelection();
  view_.CentreOnSelection();
  view_.Zoom(2);
  EXPECT_EQ(view_.Csv(), "");
}

TEST_F(MatrixViewTest, TheCursorIsAnnouncedToScreenReaders) {
  QAccessibleInterface* interface = QAccessible::queryAccessibleInterface(&view_);
  ASSERT_NE(interface, nullptr);
  navigator_.Select(document_->AnomalyAt(0));
  ASSERT_TRUE(testing::Settles(view_));
  const QString expected = QString("rank 5, sequence number %1, never enqueued").arg(document_->AnomalyAt(0).seq_first);
  EXPECT_EQ(interface->text(QAccessible::Value), expected);
  EXPECT_EQ(interface->text(QAccessible::Name), "Matrix");
  EXPECT_FALSE(interface->text(QAccessible::Description).isEmpty());
  Place place = navigator_.place();
  place.matrix_mode = MatrixMode::kJob;
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_));
  view_.MoveCursor({3, view_.data()->cells->columns - 2});
  EXPECT_TRUE(interface->text(QAccessible::Value).contains(", last call, "))
      << interface->text(QAccessible::Value).toStdString();
}

TEST_F(MatrixViewTest, TheOldPictureStaysUntilTheNewOneIsReady) {
  const MatrixData* before = view_.data();
  Place place = navigator_.place();
  place.matrix_mode = MatrixMode::kCommunicator;
  place.matrix_comm = 1;
  navigator_.Go(place);
  EXPECT_EQ(view_.data(), before);
  EXPECT_FALSE(view_.Idle());
  view_.grab();
  Wheel(view_.rect().center(), 5, Qt::ControlModifier);
  EXPECT_EQ(navigator_.place().matrix, Viewport()) << "the wheel must do nothing on an outdated picture";
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->cells->comm, 1);
}

TEST_F(MatrixViewTest, PaintsEveryDocumentAndNone) {
  QImage image(500, 300, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_TRUE(view_.Paint(&painter, image.size()));
  painter.end();
  view_.SetDocument(nullptr);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data(), nullptr);
  view_.grab();
  for (const Qt::Key key : {Qt::Key_Down, Qt::Key_Return}) Key(key);
  view_.ZoomToSelection();
  view_.CentreOnSelection();
  EXPECT_EQ(view_.CopyText(), "");
  EXPECT_FALSE(view_.Paint(&painter, QSize(10, 10)));
  auto empty = Document::FromBundle(Bundle());
  ASSERT_TRUE(empty.ok());
  navigator_.Reset();
  view_.SetDocument(*empty);
  ASSERT_TRUE(testing::Settles(view_));
  view_.grab();
  // Documents change without waiting; the last one is shown.
  for (int i = 0; i < 20; ++i) view_.SetDocument(i % 2 == 0 ? document_ : *empty);
  view_.SetDocument(document_);
  ASSERT_TRUE(testing::Settles(view_));
  EXPECT_EQ(view_.data()->document, document_);
  for (const QSize size : {QSize(1, 1), QSize(60, 40), QSize(250, 150), QSize(2000, 1500)}) {
    view_.resize(size);
    view_.grab();
    QTest::mouseClick(&view_, Qt::LeftButton, Qt::NoModifier, QPoint(size.width() / 2, size.height() / 2));
  }
}

TEST_F(MatrixViewTest, MayBeDestroyedWhileItBuilds) {
  for (int i = 0; i < 30; ++i) {
    Navigator navigator;
    MatrixView view(&navigator);
    LegendView legend(&navigator);
    view.SetDocument(document_);
    legend.SetDocument(document_);
    if (i % 3 == 0) QCoreApplication::processEvents();
  }
}

TEST_F(MatrixViewTest, TheLegendCountsVisibleCellsAndFindsTheNext) {
  LegendView legend(&navigator_);
  legend.resize(legend.sizeHint());
  legend.show();
  legend.SetDocument(document_);
  ASSERT_TRUE(testing::Settles(legend));
  StateCounts expected{};
  const CellMatrix& cells = *view_.data()->cells;
  const size_t whole = cells.cells.size();  // `cells` changes below
  for (const uint8_t cell : cells.cells) ++expected[cell];
  EXPECT_EQ(legend.counts(), expected);
  ASSERT_GT(expected[static_cast<size_t>(ViewState::kMissing)], 0);
  QTest::mouseClick(&legend, Qt::LeftButton, Qt::NoModifier, legend.RectOf(ViewState::kCompleted).center());
  ASSERT_TRUE(testing::Settles(view_) && testing::Settles(legend));
  const Selection first = navigator_.selection();
  EXPECT_EQ(StateAt(CellOf(first)), ViewState::kCompleted);
  EXPECT_TRUE(legend.SelectNext(ViewState::kCompleted));
  EXPECT_NE(navigator_.selection(), first) << "must find the next one";
  navigator_.Reset();
  EXPECT_TRUE(legend.SelectNext(ViewState::kMissing));
  EXPECT_FALSE(legend.SelectNext(ViewState::kMismatch));
  // Ctrl+click requests a filter, and the next one removes it; the keyboard does the same.
  QStringList wanted;
  QObject::connect(&legend, &LegendView::FiltersWanted, [&](const QStringList& filters) { wanted = filters; });
  QTest::mouseClick(&legend, Qt::LeftButton, Qt::ControlModifier, legend.RectOf(ViewState::kMissing).center());
  EXPECT_EQ(wanted, QStringList("state:missing"));
  Place filtered = navigator_.place();
  filtered.filters = wanted;
  filtered.filtered = Ranks::Between(5, 5);
  navigator_.Go(filtered);
  ASSERT_TRUE(testing::Settles(view_) && testing::Settles(legend));
  QTest::keyClick(&legend, Qt::Key_Return, Qt::ControlModifier);
  EXPECT_TRUE(wanted.isEmpty()) << wanted.join(' ').toStdString();
  for (int state = 1; state < static_cast<int>(ViewState::kCount); ++state) {
    EXPECT_TRUE(ParseQuery(LegendView::FilterOf(static_cast<ViewState>(state))).ok()) << state;
  }
  navigator_.Back();
  EXPECT_FALSE(legend.Csv().isEmpty());
  EXPECT_EQ(legend.CopyText().count('\n'), 10);
  legend.grab();
  Place place = navigator_.place();
  place.matrix_mode = MatrixMode::kJob;
  place.matrix = {0, 1, 0, 1};
  navigator_.Go(place);
  ASSERT_TRUE(testing::Settles(view_) && testing::Settles(legend));
  int64_t sum = 0;
  for (const int64_t count : legend.counts()) sum += count;
  EXPECT_LT(sum, static_cast<int64_t>(whole));
  EXPECT_GT(sum, 0);
}

TEST_F(MatrixViewTest, TheLegendOmitsStatesThatDoNotFit) {
  LegendView legend(&navigator_);
  legend.resize(legend.sizeHint());
  legend.show();
  legend.SetDocument(document_);
  ASSERT_TRUE(testing::Settles(legend));
  const QRect row = legend.RectOf(ViewState::kMissing);
  legend.resize(legend.width(), row.top() + 4 * row.height() + row.height() / 2);
  int shown = 0, bottom = 0;
  for (int state = 1; state < static_cast<int>(ViewState::kCount); ++state) {
    const QRect rect = legend.RectOf(static_cast<ViewState>(state));
    shown += !rect.isEmpty();
    bottom = std::max(bottom, rect.bottom());
  }
  EXPECT_EQ(shown, 4);
  const QImage picture = legend.grab().toImage();
  const QRgb background = ThemeFor(legend.palette()).background.rgb();
  for (int y = bottom + 1; y < legend.height(); ++y) {
    for (int x = 0; x < legend.width(); ++x) ASSERT_EQ(picture.pixel(x, y), background) << x << ' ' << y;
  }
  EXPECT_FALSE(legend.RectOf(ViewState::kMissing).isEmpty()) << "states with cells come first";
}

TEST(MatrixViewLagTest, AnUnknownLagStaysUnknown) {
  ViewFacts facts;
  for (int rank = 0; rank < 8; ++rank) {
    facts.add_ranks()->set_rank(rank);
    facts.mutable_ranks(rank)->set_lag(rank == 3 ? -1 : rank);
  }
  Navigator navigator;
  MatrixView view(&navigator);
  view.resize(1000, 640);
  view.show();
  view.SetDocument(testing::OpenWith(lockstep::testing::Job(2, 2, 2, 4).Run(), facts));
  ASSERT_TRUE(testing::Settles(view));
  EXPECT_EQ(view.data()->lag, (std::vector<int64_t>{0, 1, 2, -1, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace lockstep::gui
