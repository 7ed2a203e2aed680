// The merged stacks of all ranks: one model for the tree, and one layout for the picture.
#pragma once

#include <QAbstractItemModel>
#include <QRectF>
#include <QString>

#include <cstdint>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "gui/model/document.h"

namespace lockstep::gui {

QString FrameKindName(StackFrame::Kind kind);

// ViewFacts.stacks in stored order. The internal ID of a model index is the node's position there. Frames of culprits
// come first, then those with the fewest ranks. Used on the GUI thread.
class StackModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Column { kFrame, kKind, kRanks, kShare, kWhich, kColumns };

  explicit StackModel(QObject* parent = nullptr) : QAbstractItemModel(parent) {}
  void SetDocument(DocumentPtr document);

  int node_count() const { return static_cast<int>(parents_.size()); }
  int NodeOf(const QModelIndex& index) const { return index.isValid() ? static_cast<int>(index.internalId()) : -1; }
  QModelIndex IndexOf(int node, int column = 0) const;
  int ParentOf(int node) const { return parents_[static_cast<size_t>(node)]; }  // -1 for a root
  const std::vector<int>& ChildrenOf(int node) const {
    return children_[static_cast<size_t>(node + 1)];
  }  // -1 for the roots
  int64_t RanksIn(int node) const { return ranks_[static_cast<size_t>(node)]; }
  int64_t ranks_total() const { return total_; }
  Ranks RanksOf(int node) const;
  QString FrameOf(int node) const;
  StackFrame::Kind KindOf(int node) const;
  // Returns whether users should see the node first: all of its ranks are culprits of the first finding. If no node is
  // like that, returns whether the node has the fewest ranks among its siblings, and at most a quarter of theirs.
  bool Exceptional(int node) const { return exceptional_[static_cast<size_t>(node)]; }
  // Returns the innermost frame of the first culprit of the first finding; -1 if there is no culprit or no stack of it.
  int culprit() const { return culprit_; }
  // Returns the deepest node that all these ranks share; -1 if there is none.
  int NodeOfRanks(const Ranks& ranks) const;
  // Returns nodes whose frame contains the text (ignoring case), in tree order.
  std::vector<int> Find(const QString& text) const;
  QString NodeText(int node) const;  // at most six lines
  // Returns the whole tree as indented text.
  QString Text() const;

  // Why some ranks have no stacks: each reason once, with its ranks.
  struct Refusal {
    QString why;
    Ranks ranks;
  };
  std::vector<Refusal> Refusals() const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<int> Order() const;  // all nodes in tree order, parents before children

  DocumentPtr document_;
  std::vector<int> parents_, row_;
  std::vector<int64_t> ranks_;
  std::vector<bool> exceptional_;
  std::vector<std::vector<int>> children_;  // [0] for the roots, then one entry per node
  int culprit_ = -1;
  bool verdict_names_ = false;  // exceptional nodes are the culprits'
  int64_t total_ = 0;
};

// The boxes of the nodes below `root` (-1 for all): one row per level, with the width divided in proportion to ranks.
// No box is narrower than `least` if there is space. Children are within their parent and never overlap.
struct Icicle {
  struct Box {
    int node = -1, level = 0;
    double x = 0, width = 0;
  };
  std::vector<Box> boxes;  // parents before children
  int levels = 0;
};
Icicle LayOutIcicle(const StackModel& model, int root, double width, double least);

}  // namespace lockstep::gui
