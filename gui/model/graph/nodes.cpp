// Determines the nodes of the wait-for graph.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/viewdata/state.h"
#include "gui/model/graph/layout.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kFar = 1 << 30;
constexpr size_t kMostArrows = 2000;

int Weight(WaitClass::Kind kind) {
  switch (kind) {
    case WaitClass::CAUSE: return 0;
    case WaitClass::IN_CYCLE: return 1;
    case WaitClass::VICTIM: return 2;
    case WaitClass::NO_DATA: return 3;
    default: return 4;
  }
}

QString TitleOf(const Ranks& ranks) {
  return ranks.size() == 1 ? QString("rank %1").arg(ranks.front()) : QString("%L1 ranks").arg(ranks.size());
}

// Returns for each class the fewest steps to a cause, a cycle or a class that waits for no other; kFar if none is
// reached.
std::vector<int> Distances(const ViewFacts& facts) {
  const int n = facts.classes_size();
  std::vector<std::vector<int>> waiters(static_cast<size_t>(n));
  std::vector<bool> waits(static_cast<size_t>(n), false);
  for (const WaitEdge& edge : facts.edges()) {
    if (edge.from() >= static_cast<uint32_t>(n) || edge.to() >= static_cast<uint32_t>(n) || edge.from() == edge.to())
      continue;
    waiters[edge.to()].push_back(static_cast<int>(edge.from()));
    waits[edge.from()] = true;
  }
  std::vector<int> distance(static_cast<size_t>(n), kFar), queue;
  for (int i = 0; i < n; ++i) {
    const WaitClass::Kind kind = facts.classes(i).kind();
    if (waits[static_cast<size_t>(i)] && kind != WaitClass::CAUSE && kind != WaitClass::IN_CYCLE) continue;
    distance[static_cast<size_t>(i)] = 0;
    queue.push_back(i);
  }
  for (size_t next = 0; next < queue.size(); ++next) {
    for (const int waiter : waiters[static_cast<size_t>(queue[next])]) {
      if (distance[static_cast<size_t>(waiter)] != kFar) continue;
      distance[static_cast<size_t>(waiter)] = distance[static_cast<size_t>(queue[next])] + 1;
      queue.push_back(waiter);
    }
  }
  return distance;
}

// Sets the group of each class: classes with equal keys share a group, and groups are numbered in the order of their
// first class. Returns the number of groups.
template <typename Key>
int Groups(const std::vector<Key>& keys, std::vector<int>* group_of) {
  std::map<Key, int> known;
  group_of->clear();
  for (const Key& key : keys) group_of->push_back(known.emplace(key, static_cast<int>(known.size())).first->second);
  return static_cast<int>(known.size());
}

WaitNode NodeOf(const ViewFacts& facts, std::vector<int> classes, const std::function<QString(int32_t)>& comm_name) {
  WaitNode node;
  const WaitClass& first = facts.classes(classes.front());
  node.kind = first.kind();
  node.comm = first.comm();
  node.sequence = first.sequence();
  node.operation = QString::fromStdString(first.operation());
  std::set<std::string> states;
  std::vector<int32_t> bounds;
  RankRuns all;
  for (const int i : classes) {
    const WaitClass& c = facts.classes(i);
    all.mutable_bounds()->MergeFrom(c.ranks().bounds());
    states.insert(c.state());
    if (Weight(c.kind()) < Weight(node.kind)) node.kind = c.kind();
    if (c.comm() != node.comm) node.comm = node.sequence = -1;
    if (c.sequence() != node.sequence) node.sequence = -1;
    if (c.operation() != first.operation()) node.operation.clear();
  }
  node.ranks = Ranks::Of(all);
  if (classes.size() == 1) {
    node.title = QString::fromStdString(first.label());
    node.state = QString::fromStdString(first.state());
    if (node.title.isEmpty()) node.title = TitleOf(node.ranks);
  } else {
    node.title = TitleOf(node.ranks);
    if (node.comm >= 0) {
      node.title +=
          QString(node.operation.isEmpty() ? " in %2" : " in %1 on %2").arg(node.operation, comm_name(node.comm));
    }
    node.state = states.size() == 1 && !states.begin()->empty() ? QString::fromStdString(*states.begin()) : QString();
    const QString many = QString("%L1 different waits").arg(classes.size());
    node.state = node.state.isEmpty() ? many : node.state + ", " + many;
  }
  node.classes = std::move(classes);
  return node;
}

}  // namespace

WaitGraph BuildWaitGraph(const ViewFacts& facts, const std::function<QString(int32_t)>& comm_name, int most) {
  WaitGraph graph;
  const int n = facts.classes_size();
  std::vector<int> group_of(static_cast<size_t>(n));
  std::iota(group_of.begin(), group_of.end(), 0);
  int groups = n;
  if (groups > most) {
    graph.level = WaitGraph::Level::kCommunicators;
    std::vector<std::tuple<int, int>> keys;
    for (const WaitClass& c : facts.classes()) keys.emplace_back(c.comm(), c.kind());
    groups = Groups(keys, &group_of);
  }
  if (groups > most) {
    graph.level = WaitGraph::Level::kDistances;
    const std::vector<int> distance = Distances(facts);
    std::vector<std::tuple<int, int>> keys;
    for (int i = 0; i < n; ++i) {
      const int d = distance[static_cast<size_t>(i)];
      keys.emplace_back(d == kFar ? most / 8 : std::min(d, most / 8), facts.classes(i).kind());
    }
    groups = Groups(keys, &group_of);
  }
  std::vector<std::vector<int>> classes(static_cast<size_t>(groups));
  for (int i = 0; i < n; ++i) classes[static_cast<size_t>(group_of[static_cast<size_t>(i)])].push_back(i);
  for (std::vector<int>& of_node : classes) graph.nodes.push_back(NodeOf(facts, std::move(of_node), comm_name));

  std::map<std::pair<int, int>, size_t> known;
  for (const WaitEdge& edge : facts.edges()) {
    if (edge.from() >= static_cast<uint32_t>(n) || edge.to() >= static_cast<uint32_t>(n)) continue;
    const std::pair<int, int> ends(group_of[edge.from()], group_of[edge.to()]);
    if (ends.first == ends.second || (graph.arrows.size() >= kMostArrows && !known.contains(ends))) continue;
    const auto [it, added] = known.emplace(ends, graph.arrows.size());
    if (added) {
      WaitArrow arrow;
      arrow.from = ends.first;
      arrow.to = ends.second;
      if (!edge.why().empty()) arrow.why << QString::fromStdString(edge.why());
      // The class's operation may be on a different communicator than this edge.
      const WaitClass& from = facts.classes(static_cast<int>(edge.from()));
      const bool same = from.comm() < 0 || edge.comm() < 0 || from.comm() == edge.comm();
      QString what =
          same && graph.level == WaitGraph::Level::kClasses ? QString::fromStdString(from.operation()) : QString();
      if (edge.sequence() >= 0 && graph.level == WaitGraph::Level::kClasses)
        what += QString(" #%1").arg(edge.sequence());
      // The title of the waiting node already names this call.
      if (!edge.why().empty() && graph.level == WaitGraph::Level::kClasses && edge.comm() == from.comm() &&
          edge.sequence() == from.sequence())
        what.clear();
      else if (edge.comm() >= 0)
        what += (what.isEmpty() ? "" : " on ") + comm_name(edge.comm());
      if (!what.isEmpty()) arrow.why << what.trimmed();
      graph.arrows.push_back(arrow);
    }
    graph.arrows[it->second].in_cycle |= edge.in_cycle();
  }
  return graph;
}

QString WaitKindText(WaitClass::Kind kind) {
  const QString name = QString::fromLatin1(WaitKindName(kind));
  return kind == WaitClass::CAUSE || kind == WaitClass::IN_CYCLE ? name.toUpper() : name;
}

QString WaitGraphText(const WaitGraph& graph) {
  std::vector<int> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return Weight(graph.nodes[static_cast<size_t>(a)].kind) < Weight(graph.nodes[static_cast<size_t>(b)].kind);
  });
  QStringList lines;
  for (const int i : order) {
    const WaitNode& node = graph.nodes[static_cast<size_t>(i)];
    QString line = QString("%1: %2 (ranks %3)").arg(WaitKindText(node.kind), node.title, RankList(node.ranks));
    if (!node.state.isEmpty()) line += ", " + node.state;
    lines << line;
    for (const WaitArrow& arrow : graph.arrows) {
      if (arrow.from != i) continue;
      QString wait = QString("    waits for %1").arg(graph.nodes[static_cast<size_t>(arrow.to)].title);
      if (!arrow.why.isEmpty()) wait += ": " + arrow.why.join(", ");
      if (arrow.in_cycle) wait += " [cycle]";
      lines << wait;
    }
  }
  return lines.join('\n');
}

}  // namespace lockstep::gui
