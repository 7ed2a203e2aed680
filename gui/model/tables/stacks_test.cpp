#include "gui/model/tables/stacks.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

#include <map>
#include <random>

#include "analyzer/testing/job.h"
#include "gui/testing/facts.h"

namespace lockstep::gui {
namespace {

void AddNode(ViewFacts* facts, int parent, const char* frame, std::vector<std::pair<int, int>> runs,
             StackFrame::Kind kind = StackFrame::NATIVE) {
  StackNode* node = facts->add_stacks();
  node->set_parent(parent);
  node->set_frame(frame);
  node->set_kind(kind);
  for (const auto& [first, last] : runs) {
    node->mutable_ranks()->add_bounds(first);
    node->mutable_ranks()->add_bounds(last);
  }
}

DocumentPtr Made(const ViewFacts& facts) {
  static const Bundle& bundle = *new Bundle(lockstep::testing::Job(2, 2, 2, 4).Run());
  return testing::OpenWith(bundle, facts);
}

ViewFacts OneExceptional() {
  ViewFacts facts;
  AddNode(&facts, -1, "main  train.py:1", {{0, 1023}}, StackFrame::PYTHON);
  AddNode(&facts, 0, "step  train.py:40", {{0, 1022}}, StackFrame::PYTHON);
  AddNode(&facts, 0, "save  ckpt.py:8", {{1023, 1023}}, StackFrame::PYTHON);
  AddNode(&facts, 1, "ncclAllReduce", {{0, 1022}});
  AddNode(&facts, 2, "futex_wait", {{1023, 1023}}, StackFrame::KERNEL);
  return facts;
}

TEST(StackModelTest, TheRareStackComesFirstAndIsMarked) {
  StackModel model;
  QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  model.SetDocument(Made(OneExceptional()));
  EXPECT_EQ(model.rowCount(), 1);
  const QModelIndex root = model.index(0, 0);
  ASSERT_EQ(model.rowCount(root), 2);
  EXPECT_EQ(model.NodeOf(model.index(0, 0, root)), 2);
  EXPECT_TRUE(model.Exceptional(2));
  EXPECT_FALSE(model.Exceptional(1));
  EXPECT_TRUE(model.index(0, 0, root).data().toString().contains("save  ckpt.py:8"));
  EXPECT_EQ(model.index(0, StackModel::kWhich, root).data().toString(), "1023");
  EXPECT_EQ(model.index(0, StackModel::kKind, model.index(0, 0, root)).data().toString(), "kernel");
  EXPECT_EQ(model.NodeOfRanks(Ranks::Between(1023, 1023)), 4);
  EXPECT_EQ(model.NodeOfRanks(Ranks::Between(5, 1023)), 0);
  EXPECT_EQ(model.NodeOfRanks(Ranks::Between(5, 2000)), -1);
  EXPECT_EQ(model.Find("CKPT"), std::vector<int>{2});
  EXPECT_EQ(model.Find("train.py"), (std::vector<int>{0, 1}));
  EXPECT_LE(model.NodeText(2).count('\n'), 5);
  model.SetDocument(nullptr);
  EXPECT_EQ(model.rowCount(), 0);
  model.SetDocument(Made(OneExceptional()));
  EXPECT_EQ(model.node_count(), 5);
}

TEST(StackModelTest, RanksInTheVerdictComeBeforeRareStacks) {
  ViewFacts facts = OneExceptional();
  AddNode(&facts, 1, "load  data.py:8", {{100, 131}}, StackFrame::PYTHON);
  AddNode(&facts, -1, "poll", {{100, 131}});
  StackModel model;
  model.SetDocument(Made(facts));
  EXPECT_EQ(model.culprit(), -1);
  EXPECT_TRUE(model.Exceptional(6)) << "a few ranks among many";
  Finding* finding = facts.mutable_verdict()->add_findings();
  for (int rank = 100; rank <= 131; ++rank) finding->add_culprit_ranks(rank);
  model.SetDocument(Made(facts));
  EXPECT_TRUE(model.Exceptional(5));
  EXPECT_TRUE(model.Exceptional(6));
  EXPECT_FALSE(model.Exceptional(2)) << "the verdict does not name this rank";
  EXPECT_EQ(model.NodeOf(model.index(0, 0)), 6);
  EXPECT_EQ(model.culprit(), 5) << "must be the program's own frame";
  EXPECT_TRUE(model.NodeText(5).contains("named by the verdict"));
}

TEST(StackModelTest, ARareStackOfOtherRanksIsNotNamedByTheVerdict) {
  ViewFacts facts = OneExceptional();
  facts.mutable_verdict()->add_findings()->add_culprit_ranks(7);
  StackModel model;
  model.SetDocument(Made(facts));
  ASSERT_TRUE(model.Exceptional(2));
  EXPECT_FALSE(model.NodeText(2).contains("named by the verdict"));
  EXPECT_TRUE(model.NodeText(2).contains("a few ranks differ from the others here"));
}

TEST(StackModelTest, ThePictureNeverLosesOneRankOfMany) {
  StackModel model;
  model.SetDocument(Made(OneExceptional()));
  const Icicle icicle = LayOutIcicle(model, -1, 800, 20);
  EXPECT_EQ(icicle.levels, 3);
  ASSERT_EQ(icicle.boxes.size(), 5u);
  for (const Icicle::Box& box : icicle.boxes) {
    if (box.node == 2 || box.node == 4) {
      EXPECT_NEAR(box.width, 300, 0.01) << "must be wide enough to read its frames";
    }
  }
  EXPECT_EQ(LayOutIcicle(model, 2, 800, 20).boxes.front().width, 800);
}

TEST(StackModelTest, RandomTreesKeepChildrenWithinTheirParents) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    ViewFacts facts;
    const int n = 1 + static_cast<int>(random() % 80);
    for (int i = 0; i < n; ++i) {
      const int first = static_cast<int>(random() % 100), last = first + static_cast<int>(random() % 50);
      AddNode(&facts, static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1, "f", {{first, last}});
    }
    StackModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    model.SetDocument(Made(facts));
    const Icicle icicle = LayOutIcicle(model, -1, 600, 15);
    std::map<int, Icicle::Box> box_of;
    std::map<int, double> end_of_level_parent;
    for (const Icicle::Box& box : icicle.boxes) {
      EXPECT_GE(box.x, -0.01);
      EXPECT_LE(box.x + box.width, 600.01);
      const int parent = model.ParentOf(box.node);
      if (parent >= 0) {
        ASSERT_TRUE(box_of.contains(parent));
        EXPECT_EQ(box.level, box_of[parent].level + 1);
        EXPECT_GE(box.x, box_of[parent].x - 0.01);
        EXPECT_LE(box.x + box.width, box_of[parent].x + box_of[parent].width + 0.01);
      }
      for (const auto& [node, other] : box_of) {
        if (other.level != box.level) continue;
        EXPECT_TRUE(box.x >= other.x + other.width - 0.01 || other.x >= box.x + box.width - 0.01);
      }
      box_of[box.node] = box;
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(StackModelTest, TheReasonForMissingStacksIsGiven) {
  ViewFacts facts;
  for (int i = 0; i < 8; ++i) {
    RankFacts* rank = facts.add_ranks();
    rank->set_rank(i);
    if (i == 0) continue;
    rank->mutable_evidence()->set_stacks_refused("ptrace: not permitted");
  }
  StackModel model;
  model.SetDocument(Made(facts));
  const auto refusals = model.Refusals();
  ASSERT_EQ(refusals.size(), 2u);
  EXPECT_EQ(refusals[0].why, "ptrace: not permitted");
  EXPECT_EQ(refusals[0].ranks, Ranks::Between(1, 7));
  EXPECT_EQ(refusals[1].ranks, Ranks::Between(0, 0));
}

TEST(StackModelTest, AChainDeeperThanAnyStackIsCut) {
  ViewFacts facts;
  for (int i = 0; i < 30'000; ++i) AddNode(&facts, i - 1, "f", {{0, 3}});
  StackModel model;
  model.SetDocument(Made(facts));
  EXPECT_GT(model.rowCount(), 1);
  EXPECT_LE(LayOutIcicle(model, -1, 600, 15).levels, 2001);
  EXPECT_EQ(model.Find("f").size(), 30'000u);
}

}  // namespace
}  // namespace lockstep::gui
