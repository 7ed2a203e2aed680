#include "gui/view/timeline/view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDeadlineTimer>
#include <QImage>
#include <QWheelEvent>
#include <QtTest/QTest>

#include "gui/testing/facts.h"
#include "gui/testing/timed_bundle.h"
#include "gui/view/timeline/pane.h"

namespace lockstep::gui {
namespace {

using testing::kTimedMs;

void Wait(TimelineView* view) {
  for (QDeadlineTimer limit(20'000); !limit.hasExpired();) {
    view->grab();
    if (view->Idle() && view->pane()->timeline() != nullptr) return;
    QApplication::processEvents(QEventLoop::WaitForMoreEvents, 50);
  }
  FAIL() << "the timeline did not become ready";
}

struct ShownTimeline {
  explicit ShownTimeline(int ranks = 8, int steps = 20, int missing = 5, int64_t uncertainty_ns = 50'000)
      : view(&navigator) {
    const Bundle bundle = testing::TimedBundle(ranks, steps, missing);
    document = testing::OpenWith(bundle, testing::TimedFacts(bundle, uncertainty_ns));
    view.resize(1100, 600);
    view.SetDocument(document);
    view.show();
    Wait(&view);
  }
  TimelinePane* pane() { return view.pane(); }
  double X(int64_t ms_after) {
    return pane()->XOf(
        static_cast<double>(testing::kTimedZero + ms_after * kTimedMs - pane()->timeline()->origin_ns()));
  }
  QPoint At(int lane, double ms) {
    const double ns =
        static_cast<double>(testing::kTimedZero) + ms * kTimedMs - static_cast<double>(pane()->timeline()->origin_ns());
    return QPointF(pane()->XOf(ns), pane()->LaneRect(lane).center().y()).toPoint();
  }
  QRgb Pixel(const QPoint& at) { return pane()->grab().toImage().pixel(at); }

  Navigator navigator;
  DocumentPtr document;
  TimelineView view;
};

TEST(TimelineViewTest, AClickSelectsTheOperationAndTheLane) {
  ShownTimeline s;
  ASSERT_EQ(s.pane()->lanes().lanes.size(), 8u);
  QTest::mouseClick(s.pane(), Qt::LeftButton, {}, s.At(3, 36));
  EXPECT_EQ(s.navigator.selection().ranks, Ranks::Between(3, 3));
  EXPECT_EQ(s.navigator.selection().comm, 0);
  EXPECT_EQ(s.navigator.selection().seq_first, 4);
  EXPECT_EQ(s.navigator.selection().record, 7);
  QTest::keyClick(s.pane(), Qt::Key_Down);
  QTest::keyClick(s.pane(), Qt::Key_Return);
  EXPECT_EQ(s.navigator.selection().ranks, Ranks::Between(4, 4));
  EXPECT_EQ(s.navigator.selection().record, -1);
  const TimelineHit hit = s.pane()->HitAt(s.At(0, 250));
  ASSERT_EQ(hit.row, 0);
  EXPECT_EQ(hit.piece.look, TimelineLook::kRunningOpen) << "still open when the data was taken";
  EXPECT_EQ(s.pane()->HitAt(s.At(5, 250)).row, -1) << "a missing rank must show nothing";
  EXPECT_LE(s.pane()->HitText(hit).count('\n'), 5);
  EXPECT_TRUE(s.pane()->HitText(hit).contains("still running"));
  const QString all = s.view.Csv();
  EXPECT_TRUE(all.startsWith("rank,host,stream,operation,piece,begin (ns),end (ns)\n"));
  EXPECT_TRUE(all.contains(QString(",%1,%2\n").arg(hit.piece.begin).arg(hit.piece.end)));
  for (int i = 0; i < 8; ++i) s.view.Zoom(1.5);
  const QString near = s.view.Csv();
  EXPECT_GT(near.count('\n'), 1);
  EXPECT_LT(near.count('\n'), all.count('\n') / 2);
}

TEST(TimelineViewTest, ZoomPanAndHistory) {
  ShownTimeline s;
  const Viewport all = s.pane()->Shown();
  const QPointF at = s.At(2, 60);
  QWheelEvent wheel(at, s.pane()->mapToGlobal(at), {}, {0, 480}, Qt::NoButton, Qt::ControlModifier, Qt::NoScrollPhase,
                    false);
  const double before = s.pane()->TimeAt(at.x());
  QApplication::sendEvent(s.pane(), &wheel);
  EXPECT_NEAR(s.pane()->TimeAt(at.x()), before, 1000) << "the time under the cursor must stay";
  EXPECT_LT(s.pane()->Shown().x1 - s.pane()->Shown().x0, (all.x1 - all.x0) / 2);
  QTest::keyClick(s.pane(), Qt::Key_End);
  EXPECT_NEAR(s.pane()->Shown().x1, all.x1, 1);
  QTest::keyClick(s.pane(), Qt::Key_Home);
  EXPECT_EQ(s.pane()->Shown().x0, 0);
  for (int i = 0; i < 200; ++i) s.view.Zoom(1.25);
  EXPECT_GE(s.pane()->Shown().x1 - s.pane()->Shown().x0, 100) << "there must be a nearest operation";
  s.view.Fit();
  EXPECT_EQ(s.pane()->Shown(), all);
  s.navigator.Back();
  EXPECT_EQ(s.pane()->Shown(), all) << "several steps must be undone as one";
}

TEST(TimelineViewTest, DraggingSelectsATimeRangeToZoomTo) {
  ShownTimeline s;
  const QPoint a = s.At(1, 50), b = s.At(1, 110);
  QTest::mousePress(s.pane(), Qt::LeftButton, {}, a);
  QTest::mouseMove(s.pane(), (a + b) / 2);
  QMouseEvent move(QEvent::MouseMove, b, s.pane()->mapToGlobal(b), Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(s.pane(), &move);
  QTest::mouseRelease(s.pane(), Qt::LeftButton, {}, b);
  const Selection& selection = s.navigator.selection();
  EXPECT_NEAR(static_cast<double>(selection.time_end - selection.time_begin), 60.0 * kTimedMs, 2.0 * kTimedMs);
  EXPECT_NEAR(static_cast<double>(selection.time_begin), static_cast<double>(testing::kTimedZero + 50 * kTimedMs),
              2.0 * kTimedMs);
  EXPECT_TRUE(s.view.CopyText().contains("ms")) << s.view.CopyText().toStdString();
  s.view.ZoomToSelection();
  EXPECT_NEAR(s.pane()->Shown().x1 - s.pane()->Shown().x0, 60.0 * kTimedMs, 2.0 * kTimedMs);
}

TEST(TimelineViewTest, SelectedRanksComeFirstOrAloneUnlessClickedHere) {
  ShownTimeline s;
  QTest::mouseClick(s.pane(), Qt::LeftButton, {}, s.At(6, 36));
  EXPECT_EQ(s.pane()->lanes().relevant, 0) << "lanes must not move away from under the cursor";
  Selection selection;
  selection.ranks = Ranks::Between(6, 6);
  s.navigator.Select(selection);
  EXPECT_EQ(s.pane()->lanes().relevant, 1);
  EXPECT_EQ(s.document->RankAt(s.pane()->lanes().RowOf(0)), 6);
  const auto boxes = s.view.findChildren<QComboBox*>();
  ASSERT_EQ(boxes.size(), 2);
  boxes[1]->setCurrentIndex(2);
  EXPECT_EQ(s.pane()->lanes().lanes.size(), 1u);
  boxes[1]->setCurrentIndex(0);
  boxes[0]->setCurrentIndex(2);
  EXPECT_EQ(s.pane()->lanes().lanes.size(), 24u) << "each rank has a lane for calls and two for streams";
  Wait(&s.view);
  boxes[0]->setCurrentIndex(0);
  EXPECT_EQ(s.pane()->lanes().lanes.size(), 2u);
  Place place = s.navigator.place();
  place.filters = QStringList{"rank:0-3"};
  place.filtered = Ranks::Between(0, 3);
  s.navigator.Go(place);
  EXPECT_EQ(s.pane()->lanes().lanes.size(), 1u);
  place.filtered = {};
  s.navigator.Go(place);
  EXPECT_TRUE(s.pane()->lanes().lanes.empty());
  s.view.grab();
  QTest::keyClick(s.pane(), Qt::Key_Down);
  QTest::keyClick(s.pane(), Qt::Key_Return);
}

TEST(TimelineViewTest, CallQueueAndExecutionAreDrawnAtTheirTimes) {
  ShownTimeline s;
  s.view.findChildren<QComboBox*>()[0]->setCurrentIndex(2);
  Place place = s.navigator.place();
  place.timeline.x0 = 30e6 - 0.1e6;
  place.timeline.x1 = 40e6;
  s.navigator.Go(place);
  Wait(&s.view);
  const QRgb paper = ThemeFor(s.view.palette()).background.rgb();
  // Rank 0: in AllReduce from 31.0 ms to 31.4, queued to 32.2, running to 38.0; times count from the first call.
  const double zero = 0.0;
  EXPECT_NE(s.Pixel(s.At(0, zero + 31.2) - QPoint(0, 4)), paper) << "the call must be drawn";
  EXPECT_EQ(s.Pixel(s.At(0, zero + 35) - QPoint(0, 4)), paper);
  EXPECT_NE(s.Pixel(s.At(1, zero + 31.8)), paper) << "must be drawn as queued on stream 7";
  EXPECT_NE(s.Pixel(s.At(1, zero + 35)), s.Pixel(s.At(1, zero + 31.8))) << "running must look different";
  EXPECT_EQ(s.Pixel(s.At(2, zero + 35)), paper) << "stream 13 must be empty";
  EXPECT_NE(s.Pixel(s.At(2, zero + 30.6)), paper) << "the send must be drawn";
}

TEST(TimelineViewTest, FlowsJoinTheCollectiveAndASendWithItsReceive) {
  ShownTimeline s;
  s.view.findChildren<QComboBox*>()[1]->setCurrentIndex(0);
  Place place = s.navigator.place();
  place.timeline.x0 = 29e6;
  place.timeline.x1 = 41e6;
  s.navigator.Go(place);
  Wait(&s.view);
  const QImage before = s.pane()->grab().toImage();
  Selection selection;
  selection.ranks = Ranks::Between(0, 0);
  selection.comm = 0;
  selection.seq_first = selection.seq_last = 4;
  s.navigator.Select(selection);
  Wait(&s.view);
  const QImage collective = s.pane()->grab().toImage();
  EXPECT_NE(before, collective);
  Selection send;
  send.ranks = Ranks::Between(2, 2);
  send.record_rank = 2;
  send.record = 6;
  s.navigator.Select(send);
  Wait(&s.view);
  int link = 0;
  const QImage image = s.pane()->grab().toImage();
  const QRect between(QPoint(static_cast<int>(s.X(30)), static_cast<int>(s.pane()->LaneRect(2).bottom()) - 1),
                      QSize(200, 2));
  for (int x = between.left(); x < between.right(); ++x) {
    const QColor color = image.pixelColor(x, between.center().y());
    link += std::abs(color.blue() - ThemeFor(s.view.palette()).link.blue()) < 60 && color.red() < 120;
  }
  EXPECT_GT(link, 0) << "an arrow must lead down to the receive";
}

TEST(TimelineViewTest, ThousandsOfRanksFoldIntoPixelsAndSharpen) {
  ShownTimeline s(2048, 100, 700);
  EXPECT_EQ(s.pane()->lanes().lanes.size(), 2048u);
  s.view.Zoom(30);
  Wait(&s.view);
  s.view.ZoomRows(16);
  Wait(&s.view);
  s.view.Fit();
  Wait(&s.view);
  Selection selection;
  selection.ranks = Ranks::Between(700, 700);
  selection.comm = 0;
  selection.seq_first = selection.seq_last = 99;
  s.navigator.Select(selection);
  s.view.CentreOnSelection();
  Wait(&s.view);
  QImage image(1600, 900, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_TRUE(s.view.Paint(&painter, image.size()));
  // Closing a view while it reads is safe.
  auto other = std::make_unique<TimelineView>(&s.navigator);
  other->resize(400, 300);
  other->SetDocument(s.document);
  other->show();
  other.reset();
}

TEST(TimelineViewTest, AnExportWithManyOperationsIsExact) {
  Bundle bundle = testing::TimedBundle(2, 10'000, 1);
  ViewFacts facts = testing::TimedFacts(bundle, 0);
  for (RankFacts& rank : *facts.mutable_ranks()) {
    while (rank.streams_size() < 200) rank.add_streams(static_cast<uint32_t>(rank.streams_size()));
  }
  Navigator navigator;
  TimelineView view(&navigator);
  view.SetDocument(testing::OpenWith(bundle, facts));
  view.show();
  Wait(&view);
  // Each of the 402 lanes that a tall picture shows reads all operations of its rank.
  view.findChildren<QComboBox*>()[0]->setCurrentIndex(2);
  Wait(&view);
  QImage image(1600, 9000, QImage::Format_RGB32);
  QPainter painter(&image);
  ASSERT_TRUE(view.Paint(&painter, image.size()));
  const QRgb paper = ThemeFor(view.palette()).background.rgb();
  int drawn = 0;
  for (int y = 60; y < 200; ++y) drawn += image.pixel(800, y) != paper;
  EXPECT_GT(drawn, 0) << "bins have no streams";
}

TEST(TimelineViewTest, PaintsWithoutADocumentAndWithoutTimes) {
  Navigator navigator;
  TimelineView view(&navigator);
  view.resize(500, 300);
  view.show();
  view.grab();
  for (const Qt::Key key : {Qt::Key_Down, Qt::Key_Return, Qt::Key_End}) QTest::keyClick(view.pane(), key);
  view.Zoom(2);
  view.CentreOnSelection();
  QTest::mouseClick(view.pane(), Qt::LeftButton, {}, QPoint(300, 100));
  EXPECT_TRUE(navigator.selection().empty());
  Bundle bundle = testing::TimedBundle(4, 3, 2);
  for (Rank& rank : bundle.ranks) {
    rank.captured_ns = 0;
    for (Op& op : rank.ops) op.enter_ns = op.return_ns = op.started_ns = op.completed_ns = 0;
  }
  bundle.ranks[1].ops.clear();
  view.SetDocument(testing::OpenWith(bundle, testing::TimedFacts(bundle, -1)));
  Wait(&view);
  QTest::mouseClick(view.pane(), Qt::LeftButton, {}, QPoint(300, 100));
  view.ZoomToSelection();
  view.grab();
  view.SetDocument(nullptr);
  view.grab();
}

}  // namespace
}  // namespace lockstep::gui
