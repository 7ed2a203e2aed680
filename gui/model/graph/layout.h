// The layout of the wait-for graph: which nodes are drawn, and where. Pure functions; any thread may call them.
#pragma once

#include <QPointF>
#include <QRectF>
#include <QSizeF>
#include <QString>
#include <QStringList>

#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "proto/view.pb.h"

namespace lockstep::gui {

constexpr int kMostWaitNodes = 200;

// One drawn node: a wait class, or several wait classes if there are too many to draw.
struct WaitNode {
  std::vector<int> classes;  // indexes into ViewFacts.classes, ascending
  WaitClass::Kind kind = WaitClass::HEALTHY;
  Ranks ranks;
  QString title, state;
  QString operation;
  int32_t comm = -1;
  int64_t sequence = -1;
};

struct WaitArrow {
  int from = -1, to = -1;  // `from` waits for `to`
  QStringList why;         // "not called", "AllReduce #41 of dp"
  bool in_cycle = false;
};

struct WaitGraph {
  enum class Level : uint8_t { kClasses, kCommunicators, kDistances };
  Level level = Level::kClasses;
  std::vector<WaitNode> nodes;    // at most kMostWaitNodes
  std::vector<WaitArrow> arrows;  // no two have the same ends, and none leads from a node to itself
};

// Accepts hostile facts and drops invalid references. With more than `most` classes, combines classes of the same kind
// and communicator into one node. If there are still too many, combines classes of the same kind and distance from the
// causes. Draws at most 2,000 arrows.
WaitGraph BuildWaitGraph(const ViewFacts& facts, const std::function<QString(int32_t)>& comm_name,
                         int most = kMostWaitNodes);

// "waits", "CAUSE": the analyzer's word, in capitals for a cause.
QString WaitKindText(WaitClass::Kind kind);
// Returns the chain as lines of text, causes first.
QString WaitGraphText(const WaitGraph& graph);

struct WaitLayout {
  // Layer 0 is on the left: nodes that wait for no other node. An arrow leads from a higher layer to a lower one; only
  // the nodes of a cycle share a layer. -1 for a node without arrows that is neither a cause nor in a cycle; such nodes
  // are in rows below the drawing.
  std::vector<int> layer;
  std::vector<QRectF> rect;  // one per node; none overlap
  struct Path {
    std::vector<QPointF> points;  // from the waiting node to the other one, around nodes in between
    bool bow = false;             // both ends are in one layer: a curve through the middle point
  };
  std::vector<Path> paths;  // for each arrow
  QSizeF size;
};

// Stable: the same graph gives the same drawing, and nodes keep their order unless arrows would cross.
WaitLayout LayOutWaitGraph(const WaitGraph& graph, const std::vector<QSizeF>& sizes, double layer_gap, double node_gap);

}  // namespace lockstep::gui
