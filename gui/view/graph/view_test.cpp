#include "gui/view/graph/view.h"

#include <gtest/gtest.h>

#include <QAccessible>
#include <QImage>
#include <QtTest/QTest>

#include "analyzer/testing/job.h"
#include "gui/testing/facts.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

void AddClass(ViewFacts* facts, WaitClass::Kind kind, int first, int last, int comm, int64_t seq, const char* label,
              const char* state) {
  WaitClass* c = facts->add_classes();
  c->set_kind(kind);
  c->mutable_ranks()->add_bounds(first);
  c->mutable_ranks()->add_bounds(last);
  c->set_comm(comm);
  c->set_sequence(seq);
  c->set_operation(comm < 0 ? "" : "AllReduce");
  c->set_label(label);
  c->set_state(state);
}

void AddEdge(ViewFacts* facts, uint32_t from, uint32_t to, const char* why, bool cycle = false) {
  WaitEdge* edge = facts->add_edges();
  edge->set_from(from);
  edge->set_to(to);
  edge->set_why(why);
  edge->set_comm(facts->classes(static_cast<int>(from)).comm());
  edge->set_sequence(facts->classes(static_cast<int>(from)).sequence());
  edge->set_in_cycle(cycle);
}

DocumentPtr MadeWaits(ViewFacts facts) {
  static const Bundle& bundle = *new Bundle(lockstep::testing::Job(2, 2, 2, 4).Run());
  for (int i = 0; i < 8; ++i) {
    RankFacts* rank = facts.add_ranks();
    rank->set_rank(i);
    rank->set_host_state(i == 5 ? RankFacts::ELSEWHERE : RankFacts::IN_CALL);
  }
  return testing::OpenWith(bundle, std::move(facts));
}

ViewFacts Chain() {
  ViewFacts facts;
  AddClass(&facts, WaitClass::VICTIM, 0, 3, 0, 12, "4 ranks in AllReduce #12 on tp_0", "in the call");
  AddClass(&facts, WaitClass::VICTIM, 4, 4, 1, 7, "rank 4 in AllReduce #7 on dp", "waits for its GPU");
  AddClass(&facts, WaitClass::CAUSE, 5, 5, -1, -1, "rank 5", "elsewhere: train.py:88 load");
  AddClass(&facts, WaitClass::NO_DATA, 6, 7, -1, -1, "2 ranks without data", "");
  AddEdge(&facts, 0, 1, "behind in its stream");
  AddEdge(&facts, 1, 2, "not called");
  return facts;
}

TEST(WaitGraphViewTest, ALongChainIsReadableAndBeginsAtTheCause) {
  ViewFacts facts;
  AddClass(&facts, WaitClass::CAUSE, 0, 0, -1, -1, "rank 0", "elsewhere: train.py:88 load");
  for (int i = 1; i < 8; ++i) {
    AddClass(&facts, WaitClass::VICTIM, i, i, 0, i, "a rank that waits in AllReduce", "in the call");
    AddEdge(&facts, static_cast<uint32_t>(i), static_cast<uint32_t>(i - 1), "not called");
  }
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(800, 400);
  view.SetDocument(MadeWaits(std::move(facts)));
  const QFontMetricsF text(view.font());
  EXPECT_GE(view.NodeRect(0).height(), text.height() * 2);
  EXPECT_TRUE(QRectF(view.rect()).contains(view.NodeRect(0)));
  EXPECT_TRUE(QRectF(view.rect()).contains(view.NodeRect(1)));
  EXPECT_GT(view.NodeRect(7).left(), view.width());
}

TEST(WaitGraphViewTest, ClicksAndKeysSelectTheRanksOfANode) {
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(1000, 600);
  view.SetDocument(MadeWaits(Chain()));
  view.show();
  ASSERT_EQ(view.graph().nodes.size(), 4u);
  EXPECT_LT(view.NodeRect(2).right(), view.NodeRect(1).left()) << "the cause must be on the left";
  EXPECT_LT(view.NodeRect(1).right(), view.NodeRect(0).left());
  QTest::mouseClick(&view, Qt::LeftButton, {}, view.NodeRect(1).center().toPoint());
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(4, 4));
  EXPECT_EQ(navigator.selection().comm, 1);
  EXPECT_EQ(navigator.selection().seq_first, 7);
  EXPECT_TRUE(view.Marked(1));
  EXPECT_FALSE(view.Marked(0));
  QTest::keyClick(&view, Qt::Key_Left);
  EXPECT_EQ(view.focused(), 2);
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(4, 4)) << "moving must not select";
  QTest::keyClick(&view, Qt::Key_Return);
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(navigator.selection().comm, -1);
  QTest::keyClick(&view, Qt::Key_Right);
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.focused(), 0);
  QTest::keyClick(&view, Qt::Key_Down);
  EXPECT_EQ(view.focused(), 3);
  QAccessibleInterface* accessible = QAccessible::queryAccessibleInterface(&view);
  ASSERT_NE(accessible, nullptr);
  EXPECT_TRUE(accessible->text(QAccessible::Description).contains("2 ranks without data"));
  EXPECT_TRUE(view.NodeText(2).contains("elsewhere: train.py:88 load")) << view.NodeText(2).toStdString();
  EXPECT_LE(view.NodeText(1).count('\n'), 5);
}

TEST(WaitGraphViewTest, SelectionsOfOtherViewsAreMarked) {
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(800, 500);
  view.SetDocument(MadeWaits(Chain()));
  Selection selection;
  selection.ranks = Ranks::Of(std::vector<int32_t>{2, 7});
  navigator.Select(selection);
  EXPECT_TRUE(view.Marked(0));
  EXPECT_TRUE(view.Marked(3));
  EXPECT_FALSE(view.Marked(1));
  EXPECT_TRUE(view.CopyText().startsWith("CAUSE: rank 5"));
}

TEST(WaitGraphViewTest, ZoomKeepsThePointUnderTheCursorAndFitShowsAll) {
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(1200, 700);
  view.SetDocument(MadeWaits(Chain()));
  view.show();
  const QPointF at = view.NodeRect(0).center();
  QWheelEvent wheel(at, view.mapToGlobal(at), {}, {0, 240}, Qt::NoButton, Qt::ControlModifier, Qt::NoScrollPhase,
                    false);
  const double before = view.NodeRect(0).width();
  QApplication::sendEvent(&view, &wheel);
  EXPECT_NEAR(view.NodeRect(0).width(), before * 1.5625, 0.5);
  EXPECT_NEAR(view.NodeRect(0).center().x(), at.x(), 0.5);
  view.Fit();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(QRectF(view.rect()).contains(view.NodeRect(i)));
  view.resize(1000, 500);
  QApplication::processEvents();
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(QRectF(view.rect()).contains(view.NodeRect(i))) << "a fitted graph must stay fitted";
}

TEST(WaitGraphViewTest, ACycleIsDrawnInTheAlarmColorAtEverySize) {
  ViewFacts facts;
  AddClass(&facts, WaitClass::IN_CYCLE, 0, 0, 0, 1, "rank 0 in AllReduce #1 on tp", "in the call");
  AddClass(&facts, WaitClass::IN_CYCLE, 1, 1, 1, 1, "rank 1 in AllReduce #1 on dp", "in the call");
  AddClass(&facts, WaitClass::VICTIM, 2, 7, 2, 3, "6 ranks in AllReduce #3 on pp", "in the call");
  AddEdge(&facts, 0, 1, "not called", true);
  AddEdge(&facts, 1, 0, "not called", true);
  AddEdge(&facts, 2, 1, "not called");
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.SetDocument(MadeWaits(facts));
  for (const QSize size : {QSize(640, 400), QSize(2000, 1200)}) {
    QImage image(size, QImage::Format_RGB32);
    QPainter painter(&image);
    ASSERT_TRUE(view.Paint(&painter, size));
    painter.end();
    int alarm = 0;
    const QRgb wanted = ThemeFor(view.palette()).alarm.rgb();
    for (int y = 0; y < size.height(); ++y) {
      for (int x = 0; x < size.width(); ++x) alarm += image.pixel(x, y) == wanted;
    }
    EXPECT_GT(alarm, 200);
  }
}

TEST(WaitGraphViewTest, AMissingDocumentAndMissingWaitsAreReported) {
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(300, 200);
  view.grab();
  view.SetDocument(MadeWaits({}));
  view.grab();
  QTest::keyClick(&view, Qt::Key_Left);
  QTest::keyClick(&view, Qt::Key_Return);
  QTest::mouseClick(&view, Qt::LeftButton, {}, QPoint(20, 20));
  EXPECT_TRUE(navigator.selection().empty());
  EXPECT_TRUE(view.CopyText().isEmpty());
  view.SetDocument(nullptr);
  view.grab();
  EXPECT_EQ(view.focused(), -1);
}

TEST(WaitGraphViewTest, ARealHang) {
  auto document = Document::FromBundle(testing::HangBundle());
  ASSERT_TRUE(document.ok());
  Navigator navigator;
  WaitGraphView view(&navigator);
  view.resize(1280, 800);
  view.SetDocument(*document);
  view.grab();
  int cause = -1;
  for (int i = 0; i < static_cast<int>(view.graph().nodes.size()); ++i) {
    if (view.graph().nodes[static_cast<size_t>(i)].kind == WaitClass::CAUSE) cause = i;
  }
  ASSERT_GE(cause, 0);
  EXPECT_EQ(view.graph().nodes[static_cast<size_t>(cause)].ranks, Ranks::Between(5, 5));
  ASSERT_FALSE(view.graph().arrows.empty());
  for (const WaitArrow& arrow : view.graph().arrows) {
    EXPECT_LT(view.NodeRect(arrow.to).right(), view.NodeRect(arrow.from).left())
        << "the node that others wait for must be on the left";
  }
  const QStringList lines = view.Csv().split('\n', Qt::SkipEmptyParts);
  EXPECT_GT(static_cast<size_t>(lines.size()), view.graph().arrows.size() + 1)
      << "one line per arrow, one for the cause, and the heading";
  EXPECT_EQ(lines.filter(",cause,").size(), 1);
  EXPECT_TRUE(lines.filter(",cause,").first().endsWith(",,,")) << "the cause must wait for no one";
  QTest::keyClick(&view, Qt::Key_Home);
  EXPECT_EQ(view.focused(), cause);
  QTest::keyClick(&view, Qt::Key_Return);
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(5, 5));
}

}  // namespace
}  // namespace lockstep::gui
