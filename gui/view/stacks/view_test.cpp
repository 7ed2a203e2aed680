#include "gui/view/stacks/view.h"

#include <gtest/gtest.h>

#include <QImage>
#include <QLineEdit>
#include <QTreeView>
#include <QtTest/QTest>

#include "analyzer/testing/job.h"
#include "gui/testing/facts.h"

namespace lockstep::gui {
namespace {

DocumentPtr MadeWithStacks(const ViewFacts& facts) {
  static const Bundle& bundle = *new Bundle(lockstep::testing::Job(2, 2, 2, 4).Run());
  return testing::OpenWith(bundle, facts);
}

ViewFacts Stacks() {
  ViewFacts facts;
  auto add = [&](int parent, const char* frame, int first, int last, StackFrame::Kind kind) {
    StackNode* node = facts.add_stacks();
    node->set_parent(parent);
    node->set_frame(frame);
    node->set_kind(kind);
    node->mutable_ranks()->add_bounds(first);
    node->mutable_ranks()->add_bounds(last);
  };
  add(-1, "main  train.py:1", 0, 63, StackFrame::PYTHON);
  add(0, "train_step  train.py:40", 0, 60, StackFrame::PYTHON);
  add(0, "save_checkpoint  ckpt.py:8", 61, 63, StackFrame::PYTHON);
  add(1, "all_reduce  distributed.py:2810", 0, 60, StackFrame::PYTHON);
  add(3, "cudaStreamSynchronize", 0, 60, StackFrame::NATIVE);
  add(2, "__write", 61, 63, StackFrame::NATIVE);
  add(5, "nfs_wait_bit_killable", 61, 63, StackFrame::KERNEL);
  return facts;
}

TEST(StackViewTest, ClicksKeysAndSearchSelectRanks) {
  Navigator navigator;
  StackView view(&navigator);
  view.resize(1000, 700);
  view.SetDocument(MadeWithStacks(Stacks()));
  view.show();
  QWidget* picture = view.findChild<QWidget*>("Stack picture");
  ASSERT_NE(picture, nullptr);
  ASSERT_FALSE(view.BoxOf(2).isEmpty());
  EXPECT_LT(view.BoxOf(2).left(), view.BoxOf(1).left()) << "the rare stack must come first";
  QTest::mouseClick(picture, Qt::LeftButton, {}, picture->mapFrom(&view, view.BoxOf(2).center()));
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(61, 63));
  EXPECT_EQ(view.current(), 2);
  QTest::keyClick(picture, Qt::Key_Down);
  EXPECT_EQ(view.current(), 5);
  QTest::keyClick(picture, Qt::Key_Up);
  QTest::keyClick(picture, Qt::Key_Right);
  EXPECT_EQ(view.current(), 1);
  QTest::keyClick(picture, Qt::Key_Return);
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(0, 60));
  auto* search = view.findChild<QLineEdit*>();
  QTest::keyClicks(search, "nfs");
  QTest::keyClick(search, Qt::Key_Return);
  EXPECT_EQ(view.current(), 6);
  search->clear();
  QTest::keyClicks(search, "train");
  QTest::keyClick(search, Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(view.current(), 1) << "must select the last of the two";
  auto* tree = view.findChild<QTreeView*>();
  EXPECT_EQ(view.model().NodeOf(tree->currentIndex()), 1) << "tree and picture must select the same node";
  tree->setCurrentIndex(view.model().IndexOf(6));
  EXPECT_EQ(view.current(), 6);
  QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, tree->visualRect(view.model().IndexOf(6)).center());
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(61, 63));
  EXPECT_TRUE(view.CopyText().contains("nfs_wait_bit_killable"));
  EXPECT_TRUE(view.Csv().contains("kernel,3,61-63,"));
}

TEST(StackViewTest, ZoomsIntoANodeAndOut) {
  Navigator navigator;
  StackView view(&navigator);
  view.resize(900, 600);
  view.SetDocument(MadeWithStacks(Stacks()));
  view.show();
  Selection selection;
  selection.ranks = Ranks::Between(62, 62);
  navigator.Select(selection);
  view.ZoomToSelection();
  EXPECT_EQ(view.current(), 6) << "must select the deepest node with all of these ranks";
  EXPECT_TRUE(view.BoxOf(1).isEmpty());
  EXPECT_GT(view.BoxOf(6).width(), 700);
  view.Fit();
  EXPECT_FALSE(view.BoxOf(1).isEmpty());
  const int width = view.BoxOf(0).width();
  view.Zoom(2);
  EXPECT_GT(view.BoxOf(0).width(), width * 3 / 2);
  QImage image(600, 300, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_TRUE(view.Paint(&painter, image.size()));
}

TEST(StackViewTest, ShowsTheReasonForMissingStacks) {
  Navigator navigator;
  StackView view(&navigator);
  view.resize(500, 300);
  EXPECT_EQ(view.Message(), "Nothing is open.");
  ViewFacts facts;
  for (int i = 0; i < 8; ++i) {
    RankFacts* rank = facts.add_ranks();
    rank->set_rank(i);
    rank->mutable_evidence()->set_stacks_refused("ptrace: not permitted; kernel.yama.ptrace_scope is 1");
  }
  view.SetDocument(MadeWithStacks(facts));
  EXPECT_TRUE(view.Message().contains("8 ranks (0-7): ptrace: not permitted")) << view.Message().toStdString();
  view.grab();
  EXPECT_TRUE(view.CopyText().isEmpty());
  QImage image(60, 30, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_FALSE(view.Paint(&painter, image.size()));
  view.SetDocument(nullptr);
  view.grab();
}

}  // namespace
}  // namespace lockstep::gui
