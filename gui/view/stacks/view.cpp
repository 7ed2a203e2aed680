#include "gui/view/stacks/view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QScrollBar>
#include <QSplitter>
#include <QTreeView>
#include <QVBoxLayout>
#include <QWheelEvent>

#include <algorithm>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/stacks/icicle.h"

namespace lockstep::gui {

StackView::StackView(Navigator* navigator, QWidget* parent) : View(navigator, "Stacks", parent) {
  setAccessibleDescription("Merged stacks of all ranks, as a picture and as a tree; exceptional stacks first.");
  model_ = new StackModel(this);
  search_ = new QLineEdit(this);
  search_->setPlaceholderText("Find a frame (Enter: next, Shift+Enter: previous)");
  search_->setClearButtonEnabled(true);
  Announce(search_, "Find a frame",
           "Enter goes to the next frame that contains the text, Shift+Enter to the one before.");
  found_ = new QLabel(this);
  Announce(found_, "Frames found", "How many frames contain the text.");
  message_ = new QLabel(this);
  Announce(message_, "Stacks that are missing", "Which ranks have no stacks, and why.");
  message_->setWordWrap(true);
  message_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  message_->setMargin(6);
  pane_ = new IciclePane(model_);
  area_ = new QScrollArea(this);
  Announce(area_, "Stack picture, scrolled", "Scrolls the picture of merged stacks.");
  area_->setFrameShape(QFrame::NoFrame);
  area_->setFocusPolicy(Qt::NoFocus);
  area_->setWidget(pane_);
  area_->viewport()->installEventFilter(this);
  tree_ = new QTreeView(this);
  Announce(tree_, "Stack tree", "Merged stacks as a tree with the ranks of each frame; fewest ranks first.");
  tree_->setUniformRowHeights(true);
  tree_->setModel(model_);
  tree_->header()->setAccessibleName("Columns of the stack tree");
  tree_->header()->setStretchLastSection(true);
  tree_->setSelectionBehavior(QAbstractItemView::SelectRows);
  splitter_ = new QSplitter(Qt::Vertical, this);
  Announce(splitter_, "Stack picture and tree", "The picture above, the tree below.");
  splitter_->addWidget(area_);
  splitter_->addWidget(tree_);
  splitter_->setStretchFactor(0, 3);
  splitter_->setStretchFactor(1, 2);
  splitter_->setChildrenCollapsible(false);
  splitter_->setSizes({600, 400});
  auto* top = new QHBoxLayout;
  top->setContentsMargins(6, 4, 6, 0);
  top->addWidget(search_, 1);
  top->addWidget(found_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  layout->addLayout(top);
  layout->addWidget(splitter_, 1);
  layout->addWidget(message_);
  setFocusProxy(pane_);

  pane_->on_current = [this](int node) { SetCurrent(node); };
  pane_->on_select = [this](int node) { SelectNode(node); };
  auto choose = [this](const QModelIndex& index) { SelectNode(model_->NodeOf(index)); };
  connect(tree_, &QTreeView::clicked, this, choose);
  connect(tree_, &QTreeView::activated, this, choose);
  connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this](const QModelIndex& index) { SetCurrent(model_->NodeOf(index)); });
  connect(search_, &QLineEdit::textChanged, this, [this] {
    matches_ = model_->Find(search_->text());
    match_ = -1;
    std::vector<bool> found;
    if (!matches_.empty()) found.assign(static_cast<size_t>(model_->node_count()), false);
    for (const int node : matches_) found[static_cast<size_t>(node)] = true;
    pane_->SetFound(std::move(found));
    found_->setText(search_->text().isEmpty() ? QString() : QString("%L1 found").arg(matches_.size()));
  });
  search_->installEventFilter(this);
  connect(navigator, &Navigator::SelectionChanged, this, [this] { Mark(); });
  SetDocument(nullptr);
}

QString StackView::Message() const { return message_->text(); }

void StackView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  current_ = -1;
  zoom_ = 1;
  model_->SetDocument(document_);
  pane_->SetCurrent(-1);
  pane_->SetRoot(-1);
  const bool any = model_->node_count() > 0;
  splitter_->setVisible(any);
  search_->setVisible(any);
  found_->setVisible(any);
  QStringList lines;
  const std::vector<StackModel::Refusal> refusals = model_->Refusals();
  constexpr size_t kMostReasons = 6;
  for (size_t i = 0; i < refusals.size() && i < kMostReasons; ++i) {
    const Ranks& ranks = refusals[i].ranks;
    lines << (ranks.size() == 1 ? QString("rank %1: ").arg(ranks.front())
                                : QString("%L1 ranks (%2): ").arg(ranks.size()).arg(RankList(ranks, 40))) +
                 refusals[i].why;
  }
  if (refusals.size() > kMostReasons) lines << QString("and %L1 more reasons").arg(refusals.size() - kMostReasons);
  if (document_ == nullptr) {
    message_->setText("Nothing is open.");
  } else if (!any) {
    message_->setText(lines.isEmpty() ? QString("No stacks were taken.")
                                      : "No stacks were taken:\n" + lines.join('\n'));
  } else {
    message_->setText(lines.isEmpty() ? QString() : "Without stacks: " + lines.join("; "));
  }
  message_->setAlignment(any ? Qt::AlignLeft | Qt::AlignTop : Qt::AlignCenter);
  message_->setVisible(!message_->text().isEmpty());
  if (any) {
    if (model_->node_count() <= 2000) {
      tree_->expandAll();
    } else {
      tree_->expandToDepth(4);
    }
    const QFontMetrics metrics(tree_->font());
    tree_->setColumnWidth(StackModel::kFrame, metrics.averageCharWidth() * 100);
    for (const int column : {StackModel::kKind, StackModel::kRanks, StackModel::kShare})
      tree_->setColumnWidth(column, metrics.averageCharWidth() * 10);
  }
  matches_.clear();
  search_->clear();
  SizePane();
  Mark();
  SetCurrent(model_->culprit());
}

void StackView::SizePane() {
  pane_->resize(std::max(50, static_cast<int>(area_->viewport()->width() * zoom_)), pane_->height());
  pane_->Rebuild();
  pane_->resize(pane_->width(), std::max(pane_->WantedHeight(), area_->viewport()->height()));
  ShowCurrent();
}

void StackView::ShowCurrent() {
  const QRectF box = pane_->BoxOf(current_);
  if (!box.isEmpty())
    area_->ensureVisible(static_cast<int>(box.left() + std::min(box.width(), 60.0) / 2),
                         static_cast<int>(box.center().y()), 30, pane_->RowHeight());
}

bool StackView::eventFilter(QObject* object, QEvent* event) {
  if (object == area_->viewport() && event->type() == QEvent::Resize) SizePane();
  if (object == area_->viewport() && event->type() == QEvent::Wheel) {
    auto* wheel = static_cast<QWheelEvent*>(event);
    if (wheel->modifiers().testFlag(Qt::ControlModifier)) {
      Zoom(wheel->angleDelta().y() > 0 ? 1.25 : 0.8);
      return true;
    }
  }
  if (object == search_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      Find(key->modifiers().testFlag(Qt::ShiftModifier) ? -1 : 1);
      return true;
    }
  }
  return View::eventFilter(object, event);
}

void StackView::Mark() {
  const Ranks& ranks = navigator()->selection().ranks;
  std::vector<bool> lit;
  if (!ranks.empty()) {
    for (int node = 0; node < model_->node_count(); ++node) lit.push_back(ranks.Intersects(model_->RanksOf(node)));
  }
  pane_->SetLit(std::move(lit));
}

void StackView::SelectNode(int node) {
  if (node < 0) return;
  navigator()->Select(Selection::Of(model_->RanksOf(node)));
}

void StackView::SetCurrent(int node) {
  if (node == current_ || node >= model_->node_count()) return;
  current_ = node;
  pane_->SetCurrent(node);
  if (node < 0) return;
  tree_->setCurrentIndex(model_->IndexOf(node));
  tree_->scrollTo(model_->IndexOf(node));
  if (pane_->BoxOf(node).isEmpty()) pane_->SetRoot(-1);
  ShowCurrent();
}

void StackView::Find(int step) {
  if (matches_.empty()) return;
  const int n = static_cast<int>(matches_.size());
  match_ = match_ < 0 ? (step > 0 ? 0 : n - 1) : (match_ + step + n) % n;
  found_->setText(QString("%L1 of %L2").arg(match_ + 1).arg(n));
  SetCurrent(matches_[static_cast<size_t>(match_)]);
}

QRect StackView::BoxOf(int node) const {
  const QRectF box = pane_->BoxOf(node);
  return box.isEmpty() ? QRect() : QRect(pane_->mapTo(this, box.topLeft().toPoint()), box.size().toSize());
}

QString StackView::CopyText() const {
  if (current_ < 0) return model_->Text();
  QStringList path;
  for (int node = current_; node >= 0; node = model_->ParentOf(node)) path.prepend(model_->FrameOf(node));
  for (int i = 0; i < path.size(); ++i) path[i] = QString(i, ' ') + path[i];
  return QString("ranks %1 (%L2 of %L3)\n")
             .arg(RankList(model_->RanksOf(current_), 200))
             .arg(model_->RanksIn(current_))
             .arg(model_->ranks_total()) +
         path.join('\n');
}

QString StackView::Csv() const {
  QString out = "node,parent,kind,ranks,which,frame\n";
  for (int node = 0; node < model_->node_count(); ++node) {
    out += QString("%1,%2,%3,%4,%5,%6\n")
               .arg(node)
               .arg(model_->ParentOf(node))
               .arg(model_->data(model_->IndexOf(node, StackModel::kKind), Qt::DisplayRole).toString())
               .arg(model_->RanksIn(node))
               .arg(CsvCell(RankList(model_->RanksOf(node), 1000)), CsvCell(model_->FrameOf(node)));
  }
  return model_->node_count() == 0 ? QString() : out;
}

bool StackView::Paint(QPainter* painter, const QSize& size) {
  painter->fillRect(QRect(QPoint(0, 0), size), ThemeFor(palette()).background);
  if (model_->node_count() == 0) return false;
  const Icicle icicle = pane_->Layout(size.width());
  painter->setFont(font());
  pane_->DrawBoxes(
      painter, icicle,
      std::min<double>(pane_->RowHeight(), size.height() / std::max(1.0, static_cast<double>(icicle.levels))),
      QRectF(QPointF(0, 0), size));
  return true;
}

void StackView::Zoom(double factor) {
  zoom_ = std::clamp(zoom_ * factor, 1.0, 50.0);
  SizePane();
  if (current_ >= 0) {
    const QRectF box = pane_->BoxOf(current_);
    area_->ensureVisible(static_cast<int>(box.center().x()), static_cast<int>(box.center().y()),
                         area_->viewport()->width() / 2, 20);
  }
}

void StackView::Pan(double right, double down) {
  area_->horizontalScrollBar()->setValue(area_->horizontalScrollBar()->value() +
                                         static_cast<int>(right * area_->viewport()->width()));
  area_->verticalScrollBar()->setValue(area_->verticalScrollBar()->value() +
                                       static_cast<int>(down * area_->viewport()->height()));
}

void StackView::Fit() {
  zoom_ = 1;
  pane_->SetRoot(-1);
  SizePane();
}

void StackView::CentreOnSelection() {
  if (const int node = model_->NodeOfRanks(navigator()->selection().ranks); node >= 0) SetCurrent(node);
}

void StackView::ZoomToSelection() {
  const int node = model_->NodeOfRanks(navigator()->selection().ranks);
  if (node < 0) return;
  SetCurrent(node);
  pane_->SetRoot(node);
}

void StackView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange && pane_ != nullptr) SizePane();
  View::changeEvent(event);
}

}  // namespace lockstep::gui
