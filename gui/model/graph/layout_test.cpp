#include "gui/model/graph/layout.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::gui {
namespace {

QString Name(int32_t comm) { return QString("c%1").arg(comm); }

int AddClass(ViewFacts* facts, WaitClass::Kind kind, int first, int last, int comm, const char* label) {
  WaitClass* c = facts->add_classes();
  c->set_kind(kind);
  c->mutable_ranks()->add_bounds(first);
  c->mutable_ranks()->add_bounds(last);
  c->set_comm(comm);
  c->set_sequence(comm < 0 ? -1 : 41);
  c->set_operation(comm < 0 ? "" : "AllReduce");
  c->set_label(label);
  c->set_state("in the call");
  return facts->classes_size() - 1;
}

void AddEdge(ViewFacts* facts, int from, int to, const char* why, bool in_cycle = false) {
  WaitEdge* edge = facts->add_edges();
  edge->set_from(static_cast<uint32_t>(from));
  edge->set_to(static_cast<uint32_t>(to));
  edge->set_why(why);
  edge->set_comm(facts->classes(from).comm());
  edge->set_sequence(41);
  edge->set_in_cycle(in_cycle);
}

std::vector<QSizeF> Sizes(const WaitGraph& graph, double w = 160, double h = 60) {
  return std::vector<QSizeF>(graph.nodes.size(), QSizeF(w, h));
}

void ExpectSound(const WaitGraph& graph, const WaitLayout& layout) {
  ASSERT_EQ(layout.rect.size(), graph.nodes.size());
  ASSERT_EQ(layout.paths.size(), graph.arrows.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    EXPECT_GE(layout.rect[i].left(), -0.01);
    EXPECT_GE(layout.rect[i].top(), -0.01);
    EXPECT_LE(layout.rect[i].right(), layout.size.width() + 0.01);
    EXPECT_LE(layout.rect[i].bottom(), layout.size.height() + 0.01);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(layout.rect[i].adjusted(0.01, 0.01, -0.01, -0.01).intersects(layout.rect[j])) << i << " over " << j;
    }
  }
  for (size_t a = 0; a < graph.arrows.size(); ++a) {
    const WaitArrow& arrow = graph.arrows[a];
    const int from = layout.layer[static_cast<size_t>(arrow.from)], to = layout.layer[static_cast<size_t>(arrow.to)];
    ASSERT_GE(from, 0);
    ASSERT_GE(to, 0);
    const QRectF &f = layout.rect[static_cast<size_t>(arrow.from)], &t = layout.rect[static_cast<size_t>(arrow.to)];
    ASSERT_GE(layout.paths[a].points.size(), 2u);
    if (from == to) {
      EXPECT_TRUE(layout.paths[a].bow);
      // Only nodes of a cycle share a layer, so there must be a way back.
      std::vector<int> queue = {arrow.to};
      std::vector<bool> seen(graph.nodes.size(), false);
      for (size_t k = 0; k < queue.size(); ++k) {
        for (const WaitArrow& other : graph.arrows) {
          if (other.from == queue[k] && !seen[static_cast<size_t>(other.to)]) {
            seen[static_cast<size_t>(other.to)] = true;
            queue.push_back(other.to);
          }
        }
      }
      EXPECT_TRUE(seen[static_cast<size_t>(arrow.from)]);
    } else {
      EXPECT_GT(from, to) << "a waiting node must be to the right of the node it waits for";
      EXPECT_GT(f.left(), t.right());
      EXPECT_NEAR(layout.paths[a].points.front().x(), f.left(), 0.01);
      EXPECT_NEAR(layout.paths[a].points.back().x(), t.right(), 0.01);
      for (size_t k = 1; k < layout.paths[a].points.size(); ++k) {
        EXPECT_LE(layout.paths[a].points[k].x(), layout.paths[a].points[k - 1].x() + 0.01)
            << "an arrow must not turn back";
      }
    }
  }
}

TEST(WaitLayoutTest, TheCauseOfAChainIsOnTheLeft) {
  ViewFacts facts;
  const int far = AddClass(&facts, WaitClass::VICTIM, 16, 31, 3, "16 ranks in AllReduce #41 of c3");
  const int near = AddClass(&facts, WaitClass::VICTIM, 1, 15, 2, "15 ranks in AllReduce #41 of c2");
  const int cause = AddClass(&facts, WaitClass::CAUSE, 0, 0, -1, "rank 0");
  const int apart = AddClass(&facts, WaitClass::NO_DATA, 32, 39, -1, "8 ranks without data");
  AddEdge(&facts, far, near, "behind in its stream");
  AddEdge(&facts, near, cause, "not called");
  const WaitGraph graph = BuildWaitGraph(facts, Name);
  ASSERT_EQ(graph.nodes.size(), 4u);
  const WaitLayout layout = LayOutWaitGraph(graph, Sizes(graph), 80, 20);
  ExpectSound(graph, layout);
  EXPECT_EQ(layout.layer[static_cast<size_t>(cause)], 0);
  EXPECT_EQ(layout.layer[static_cast<size_t>(near)], 1);
  EXPECT_EQ(layout.layer[static_cast<size_t>(far)], 2);
  EXPECT_EQ(layout.layer[static_cast<size_t>(apart)], -1);
  EXPECT_GT(layout.rect[static_cast<size_t>(apart)].top(), layout.rect[static_cast<size_t>(far)].bottom());
  EXPECT_EQ(graph.arrows[1].why, QStringList("not called"));
  const QString text = WaitGraphText(graph);
  EXPECT_TRUE(text.startsWith("CAUSE: rank 0 (ranks 0), in the call")) << text.toStdString();
  EXPECT_TRUE(text.contains("waits for rank 0: not called")) << text.toStdString();
}

TEST(WaitLayoutTest, ACycleSharesALayerAndShowsBothDirections) {
  ViewFacts facts;
  const int a = AddClass(&facts, WaitClass::IN_CYCLE, 0, 0, 0, "rank 0");
  const int b = AddClass(&facts, WaitClass::IN_CYCLE, 1, 1, 1, "rank 1");
  const int victim = AddClass(&facts, WaitClass::VICTIM, 2, 9, 2, "8 ranks");
  AddEdge(&facts, a, b, "not called", true);
  AddEdge(&facts, b, a, "not called", true);
  AddEdge(&facts, victim, b, "not called");
  const WaitGraph graph = BuildWaitGraph(facts, Name);
  const WaitLayout layout = LayOutWaitGraph(graph, Sizes(graph), 80, 20);
  ExpectSound(graph, layout);
  EXPECT_EQ(layout.layer[static_cast<size_t>(a)], layout.layer[static_cast<size_t>(b)]);
  EXPECT_EQ(layout.layer[static_cast<size_t>(victim)], 1);
  EXPECT_GT(std::abs(layout.paths[0].points[1].x() - layout.paths[1].points[1].x()), 100)
      << "each direction must have its own side";
  EXPECT_TRUE(graph.arrows[0].in_cycle && graph.arrows[1].in_cycle && !graph.arrows[2].in_cycle);
}

TEST(WaitLayoutTest, AvoidableCrossingsAreAvoided) {
  ViewFacts facts;
  std::vector<int> causes, victims;
  for (int i = 0; i < 6; ++i) causes.push_back(AddClass(&facts, WaitClass::CAUSE, i, i, -1, "cause"));
  for (int i = 0; i < 6; ++i) victims.push_back(AddClass(&facts, WaitClass::VICTIM, 10 + i, 10 + i, i, "victim"));
  for (int i = 0; i < 6; ++i)
    AddEdge(&facts, victims[static_cast<size_t>(i)], causes[static_cast<size_t>((i * 5 + 2) % 6)], "");
  const WaitGraph graph = BuildWaitGraph(facts, Name);
  const WaitLayout layout = LayOutWaitGraph(graph, Sizes(graph), 80, 20);
  ExpectSound(graph, layout);
  const auto y = [&](int node) { return layout.rect[static_cast<size_t>(node)].center().y(); };
  for (const WaitArrow& a : graph.arrows) {
    for (const WaitArrow& b : graph.arrows) EXPECT_GE((y(a.from) - y(b.from)) * (y(a.to) - y(b.to)), 0);
  }
}

TEST(WaitLayoutTest, RandomGraphsAreSoundAndStable) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    ViewFacts facts;
    const int n = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < n; ++i)
      AddClass(&facts, static_cast<WaitClass::Kind>(random() % 5), i * 10, i * 10 + 9,
               static_cast<int>(random() % 5) - 1, "x");
    const unsigned edges = random() % 60;
    for (unsigned e = 0; e < edges; ++e) {
      AddEdge(&facts, static_cast<int>(random() % static_cast<unsigned>(n)),
              static_cast<int>(random() % static_cast<unsigned>(n)), "why");
    }
    const WaitGraph graph = BuildWaitGraph(facts, Name);
    std::vector<QSizeF> sizes;
    for (size_t i = 0; i < graph.nodes.size(); ++i) sizes.emplace_back(60 + random() % 200, 20 + random() % 80);
    const WaitLayout layout = LayOutWaitGraph(graph, sizes, 60, 16);
    ExpectSound(graph, layout);
    const WaitLayout again = LayOutWaitGraph(graph, sizes, 60, 16);
    EXPECT_EQ(layout.rect, again.rect);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(WaitLayoutTest, TooManyClassesAreDrawnByCommunicatorAndThenByDistance) {
  ViewFacts facts;
  const int cause = AddClass(&facts, WaitClass::CAUSE, 0, 0, -1, "rank 0");
  for (int i = 1; i <= 600; ++i) {
    AddClass(&facts, WaitClass::VICTIM, i, i, i % 30, "victim");
    AddEdge(&facts, i, i <= 30 ? cause : i - 30, "not called");
  }
  WaitGraph graph = BuildWaitGraph(facts, Name);
  EXPECT_EQ(graph.level, WaitGraph::Level::kCommunicators);
  EXPECT_EQ(graph.nodes.size(), 31u);
  EXPECT_EQ(graph.nodes[1].ranks.size(), 20);
  EXPECT_EQ(graph.nodes[1].title, "20 ranks in AllReduce on c1");
  ExpectSound(graph, LayOutWaitGraph(graph, Sizes(graph), 80, 20));
  for (int i = 0; i < 600; ++i) facts.mutable_classes(i + 1)->set_comm(i);
  graph = BuildWaitGraph(facts, Name);
  EXPECT_EQ(graph.level, WaitGraph::Level::kDistances);
  EXPECT_EQ(graph.nodes.size(), 21u);
  int64_t ranks = 0;
  for (const WaitNode& node : graph.nodes) ranks += node.ranks.size();
  EXPECT_EQ(ranks, 601) << "no rank may be lost";
  ExpectSound(graph, LayOutWaitGraph(graph, Sizes(graph), 80, 20));
}

TEST(WaitLayoutTest, HostileAndMissingFactsAreHarmless) {
  ViewFacts facts;
  WaitGraph graph = BuildWaitGraph(facts, Name);
  EXPECT_TRUE(LayOutWaitGraph(graph, {}, 80, 20).rect.empty());
  AddClass(&facts, WaitClass::VICTIM, 0, 3, 0, "");
  AddEdge(&facts, 0, 0, "itself");
  facts.mutable_edges(0)->set_to(77);
  AddEdge(&facts, 0, 0, "itself");
  graph = BuildWaitGraph(facts, Name);
  EXPECT_TRUE(graph.arrows.empty());
  ExpectSound(graph, LayOutWaitGraph(graph, Sizes(graph), 80, 20));
  // All classes wait for each other, but the time must stay limited.
  ViewFacts dense;
  for (int i = 0; i < 200; ++i) AddClass(&dense, WaitClass::VICTIM, i, i, 0, "x");
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < i; ++j) AddEdge(&dense, i, j, "why");
  }
  graph = BuildWaitGraph(dense, Name);
  EXPECT_EQ(graph.arrows.size(), 2000u);
  EXPECT_EQ(LayOutWaitGraph(graph, Sizes(graph), 80, 20).rect.size(), 200u);
}

}  // namespace
}  // namespace lockstep::gui
