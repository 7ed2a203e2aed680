#include "gui/model/tables/stacks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kDeepest = 2000;

}  // namespace

QString FrameKindName(StackFrame::Kind kind) {
  return kind == StackFrame::PYTHON ? "Python" : kind == StackFrame::KERNEL ? "kernel" : "native";
}

void StackModel::SetDocument(DocumentPtr document) {
  beginResetModel();
  document_ = std::move(document);
  parents_.clear();
  row_.clear();
  ranks_.clear();
  exceptional_.clear();
  children_.assign(1, {});
  total_ = 0;
  culprit_ = -1;
  verdict_names_ = false;
  if (document_ != nullptr) {
    const auto& stacks = document_->facts().stacks();
    const int n = stacks.size();
    children_.resize(static_cast<size_t>(n) + 1);
    std::vector<int> depth;
    for (int i = 0; i < n; ++i) {
      int parent = stacks[i].parent();
      // The file is untrusted, so a node deeper than any real stack becomes a root.
      if (parent < 0 || parent >= i || depth[static_cast<size_t>(parent)] >= kDeepest) parent = -1;
      depth.push_back(parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1);
      parents_.push_back(parent);
      ranks_.push_back(Ranks::Of(stacks[i].ranks()).size());
      if (parent < 0) total_ += ranks_.back();
      children_[static_cast<size_t>(parent + 1)].push_back(i);
    }
    row_.resize(static_cast<size_t>(n));
    Ranks named;
    if (document_->verdict().findings_size() > 0) {
      const auto& ranks = document_->verdict().findings(0).culprit_ranks();
      named = Ranks::Of(std::vector<int32_t>(ranks.begin(), ranks.end()));
    }
    exceptional_.assign(static_cast<size_t>(n), false);
    for (int i = 0; i < n && !named.empty(); ++i) {
      const bool all = named.ContainsAll(RanksOf(i));
      exceptional_[static_cast<size_t>(i)] = all;
      verdict_names_ |= all;
    }
    for (std::vector<int>& siblings : children_) {
      std::stable_sort(siblings.begin(), siblings.end(), [&](int a, int b) {
        return Exceptional(a) != Exceptional(b) ? Exceptional(a)
                                                : ranks_[static_cast<size_t>(a)] < ranks_[static_cast<size_t>(b)];
      });
      int64_t of_parent = 0;
      for (const int child : siblings) of_parent += ranks_[static_cast<size_t>(child)];
      for (size_t k = 0; k < siblings.size(); ++k) {
        const int64_t ranks = ranks_[static_cast<size_t>(siblings[k])];
        row_[static_cast<size_t>(siblings[k])] = static_cast<int>(k);
        if (verdict_names_) continue;
        exceptional_[static_cast<size_t>(siblings[k])] = siblings.size() > 1 && ranks * 4 <= of_parent &&
                                                         ranks == ranks_[static_cast<size_t>(siblings[0])] &&
                                                         ranks < ranks_[static_cast<size_t>(siblings.back())];
      }
    }
    // Prefers Python frames to the interpreter's native frames.
    for (int i = 0; i < n && !named.empty(); ++i) {
      const auto here = [&](int node) { return RanksOf(node).Contains(named.front()); };
      const std::vector<int>& children = ChildrenOf(i);
      if (!here(i) || std::any_of(children.begin(), children.end(), here)) continue;
      if (culprit_ < 0 || KindOf(i) == StackFrame::PYTHON) culprit_ = i;
    }
  }
  endResetModel();
}

Ranks StackModel::RanksOf(int node) const {
  return node < 0 || node >= node_count() ? Ranks() : Ranks::Of(document_->facts().stacks(node).ranks());
}

QString StackModel::FrameOf(int node) const {
  const QString frame = QString::fromStdString(document_->facts().stacks(node).frame());
  return frame.isEmpty() ? "(no name)" : frame;
}

StackFrame::Kind StackModel::KindOf(int node) const { return document_->facts().stacks(node).kind(); }

int StackModel::NodeOfRanks(const Ranks& ranks) const {
  int best = -1;
  if (ranks.empty()) return best;
  for (const std::vector<int>* level = &children_[0]; level != nullptr;) {
    const std::vector<int>* next = nullptr;
    for (const int node : *level) {
      if (!RanksOf(node).ContainsAll(ranks)) continue;
      best = node;
      next = &children_[static_cast<size_t>(node) + 1];
      break;
    }
    level = next;
  }
  return best;
}

std::vector<int> StackModel::Order() const {
  std::vector<int> order, open(children_[0].rbegin(), children_[0].rend());
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    order.push_back(node);
    const std::vector<int>& children = ChildrenOf(node);
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return order;
}

std::vector<int> StackModel::Find(const QString& text) const {
  std::vector<int> found;
  if (text.isEmpty() || document_ == nullptr) return found;
  for (const int node : Order()) {
    if (FrameOf(node).contains(text, Qt::CaseInsensitive)) found.push_back(node);
  }
  return found;
}

QString StackModel::NodeText(int node) const {
  if (node < 0 || node >= node_count()) return {};
  QStringList lines = {FrameOf(node), FrameKindName(KindOf(node)) + " frame",
                       QString("%L1 of %L2 ranks: %3").arg(RanksIn(node)).arg(total_).arg(RankList(RanksOf(node)))};
  if (Exceptional(node)) lines << (verdict_names_ ? "named by the verdict" : "a few ranks differ from the others here");
  if (ChildrenOf(node).empty()) lines << "innermost frame";
  return lines.join('\n');
}

QString StackModel::Text() const {
  QStringList lines;
  if (document_ == nullptr) return {};
  std::vector<int> depth(parents_.size(), 0);
  for (const int node : Order()) {
    const int parent = ParentOf(node);
    const auto n = static_cast<size_t>(node);
    depth[n] = parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1;
    lines << QString("%1%2%3  [%L4: %5]")
                 .arg(QString(depth[n], ' '), Exceptional(node) ? "* " : "", FrameOf(node))
                 .arg(RanksIn(node))
                 .arg(RankList(RanksOf(node)));
  }
  return lines.join('\n');
}

std::vector<StackModel::Refusal> StackModel::Refusals() const {
  std::vector<Refusal> out;
  if (document_ == nullptr) return out;
  // Merged stacks may exist for ranks without process evidence.
  Ranks shown;
  for (const StackNode& node : document_->facts().stacks()) {
    if (node.parent() < 0) shown.Unite(Ranks::Of(node.ranks()));
  }
  std::map<QString, std::vector<int32_t>> ranks_of;
  for (const RankFacts& rank : document_->facts().ranks()) {
    QString why;
    if (!rank.has_evidence()) {
      if (shown.Contains(rank.rank())) continue;
      why = rank.host_state() == RankFacts::NO_DATA ? "no data from the rank" : "the process was not examined";
    } else if (!rank.evidence().stacks_refused().empty()) {
      why = QString::fromStdString(rank.evidence().stacks_refused());
    } else if (!rank.evidence().python_refused().empty()) {
      why = "Python: " + QString::fromStdString(rank.evidence().python_refused());
    } else {
      for (const ThreadStack& thread : rank.evidence().threads()) {
        if (!thread.refused().empty()) {
          why = QString("thread %1: %2")
                    .arg(QString::fromStdString(thread.name()), QString::fromStdString(thread.refused()));
          break;
        }
      }
    }
    if (!why.isEmpty()) ranks_of[why].push_back(rank.rank());
  }
  for (auto& [why, ranks] : ranks_of) out.push_back({why, Ranks::Of(std::move(ranks))});
  std::stable_sort(out.begin(), out.end(),
                   [](const Refusal& a, const Refusal& b) { return a.ranks.size() > b.ranks.size(); });
  return out;
}

QModelIndex StackModel::IndexOf(int node, int column) const {
  if (node < 0 || node >= node_count()) return {};
  return createIndex(row_[static_cast<size_t>(node)], column, static_cast<quintptr>(node));
}

QModelIndex StackModel::index(int row, int column, const QModelIndex& parent) const {
  if (column < 0 || column >= kColumns || row < 0 || row >= rowCount(parent)) return {};
  return createIndex(row, column, static_cast<quintptr>(ChildrenOf(NodeOf(parent))[static_cast<size_t>(row)]));
}

QModelIndex StackModel::parent(const QModelIndex& index) const {
  const int node = NodeOf(index);
  return node < 0 ? QModelIndex() : IndexOf(ParentOf(node));
}

int StackModel::rowCount(const QModelIndex& parent) const {
  if (document_ == nullptr || parent.column() > 0) return 0;
  return static_cast<int>(ChildrenOf(NodeOf(parent)).size());
}

int StackModel::columnCount(const QModelIndex&) const { return kColumns; }

QVariant StackModel::data(const QModelIndex& index, int role) const {
  const int node = NodeOf(index);
  if (node < 0 || node >= node_count()) return {};
  const double share = total_ == 0 ? 0 : 100.0 * static_cast<double>(RanksIn(node)) / static_cast<double>(total_);
  if (role == Qt::DisplayRole) {
    switch (index.column()) {
      case kFrame: return (Exceptional(node) ? QString::fromUtf8("\u25c6 ") : QString()) + FrameOf(node);
      case kKind: return FrameKindName(KindOf(node));
      case kRanks: return QString("%L1").arg(RanksIn(node));
      case kShare:
        return share > 0 && share < 0.1 ? QString("< 0.1 %") : QString("%1 %").arg(share, 0, 'f', share < 10 ? 1 : 0);
      case kWhich: return RankList(RanksOf(node), 80);
      default: return {};
    }
  }
  if (role == Qt::ToolTipRole) return NodeText(node);
  if (role == Qt::AccessibleTextRole && index.column() == kFrame) return NodeText(node);
  if (role == Qt::TextAlignmentRole && (index.column() == kRanks || index.column() == kShare)) {
    return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  }
  return {};
}

QVariant StackModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  switch (section) {
    case kFrame: return "Frame";
    case kKind: return "Kind";
    case kRanks: return "Ranks";
    case kShare: return "Share";
    case kWhich: return "Which";
    default: return {};
  }
}

constexpr double kExceptionalWidth = 15;  // minimum width of an exceptional box, in units of `least`

Icicle LayOutIcicle(const StackModel& model, int root, double width, double least) {
  Icicle out;
  // Divides `room` among siblings in proportion to their number of ranks, out of `of`. Narrow siblings get the minimum
  // width at the expense of wide siblings.
  auto place = [&](const std::vector<int>& nodes, double x, double room, int64_t of, int level) {
    if (nodes.empty() || of <= 0) return;
    int64_t sum = 0;
    for (const int node : nodes) sum += model.RanksIn(node);
    of = std::max(of, sum);
    // An exceptional node gets space for the names of its frames, but all such nodes get at most half of the room.
    std::vector<double> floors(nodes.size(), std::min(least, room / static_cast<double>(nodes.size())));
    const auto exceptional =
        std::count_if(nodes.begin(), nodes.end(), [&](int node) { return model.Exceptional(node); });
    double later = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (model.Exceptional(nodes[i]))
        floors[i] =
            std::max(floors[i], std::min(least * kExceptionalWidth, room / 2 / static_cast<double>(exceptional)));
      later += floors[i];
    }
    // Siblings below the minimum take their width from the siblings after them.
    double rest = room;
    int64_t rest_ranks = of;
    std::vector<double> widths(nodes.size(), 0);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const int64_t ranks = model.RanksIn(nodes[i]);
      later -= floors[i];
      const double share = rest_ranks <= 0 ? 0 : rest * static_cast<double>(ranks) / static_cast<double>(rest_ranks);
      widths[i] = std::min(std::max(share, floors[i]), std::max(rest - later, 0.0));
      rest -= widths[i];
      rest_ranks -= ranks;
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      out.boxes.push_back({nodes[i], level, x, widths[i]});
      x += widths[i];
    }
    out.levels = std::max(out.levels, level + 1);
  };
  if (model.node_count() == 0) return out;
  if (root >= 0) {
    place({root}, 0, width, model.RanksIn(root), 0);
  } else {
    place(model.ChildrenOf(-1), 0, width, model.ranks_total(), 0);
  }
  for (size_t i = 0; i < out.boxes.size(); ++i) {
    const Icicle::Box box = out.boxes[i];
    if (box.width >= 0.5) place(model.ChildrenOf(box.node), box.x, box.width, model.RanksIn(box.node), box.level + 1);
  }
  return out;
}

}  // namespace lockstep::gui
