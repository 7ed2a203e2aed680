#include "gui/view/tables/tree.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QTreeView>
#include <QVBoxLayout>

#include <algorithm>

#include "gui/model/safe_text.h"
#include "gui/view/state_delegate.h"

namespace lockstep::gui {

// Gives width to the names first, then to the states.
void TreePane::Share() {
  const int width = tree_->viewport()->width(), letter = tree_->fontMetrics().averageCharWidth();
  tree_->setIndentation(tree_->fontMetrics().height());
  tree_->setColumnWidth(0, std::max(width * 6 / 10, std::min(letter * 24, width - letter * 6)));
}

void TreePane::Filter() { model_->SetFilter(RowFilter::Of(filter_->text(), navigator()->place())); }

// A single rank or communicator becomes the current line. The items of a larger selection are only tinted.
void TreePane::ShowSelection() {
  showing_ = true;
  const Selection& selection = navigator()->selection();
  QModelIndex index;
  if (selection.ranks.size() == 1) index = model_->FindRank(selection.ranks.front());
  if (selection.ranks.empty() && selection.comm >= 0) index = model_->FindComm(selection.comm);
  // A clicked item stays current if it selects the same. A rank occurs below its host and below each of its
  // communicators.
  const QModelIndex current = tree_->currentIndex();
  const bool says = current.isValid() && tree_->selectionModel()->isSelected(current) &&
                    model_->SelectionOf(current.siblingAtColumn(0)) == selection;
  if (index.isValid() && !says) {
    tree_->selectionModel()->setCurrentIndex(index, QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
    tree_->scrollTo(index);
  } else if (!index.isValid() && !says) {
    tree_->selectionModel()->clearSelection();
  }
  tree_->viewport()->update();
  showing_ = false;
}

void TreePane::TakeSelection() {
  if (showing_) return;
  Selection selection;
  bool several_comms = false;
  for (const QModelIndex& index : tree_->selectionModel()->selectedRows()) {
    const Selection one = model_->SelectionOf(index);
    selection.ranks.Unite(one.ranks);
    if (one.comm < 0) continue;
    several_comms |= selection.comm >= 0 && selection.comm != one.comm;
    selection.comm = one.comm;
    selection.seq_first = one.seq_first;
    selection.seq_last = one.seq_last;
  }
  if (several_comms) selection.comm = -1, selection.seq_first = selection.seq_last = -1;
  if (selection.empty()) return;
  showing_ = true;
  navigator()->Select(selection);
  showing_ = false;
  tree_->viewport()->update();
}

TreePane::TreePane(Navigator* navigator, QWidget* parent) : View(navigator, "Tree", parent) {
  setAccessibleDescription("Hosts with their ranks and communicators with their members");
  model_ = new IncidentTree(this);
  filter_ = new QLineEdit(this);
  filter_->setObjectName("filter");
  filter_->setPlaceholderText("Host, communicator or rank");
  filter_->setClearButtonEnabled(true);
  filter_->setMaxLength(500);
  Announce(filter_, "Filter of the tree",
           "A number is a rank; anything else is part of a name. Down goes to the tree, Escape clears");
  filter_->installEventFilter(this);
  tree_ = new QTreeView(this);
  tree_->setObjectName("tree");
  Announce(tree_, "Hosts and communicators",
           "Right opens a line, Left closes it; a selection here applies to all views");
  tree_->setModel(model_);
  tree_->setUniformRowHeights(true);
  tree_->setHeaderHidden(true);
  tree_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  tree_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  tree_->setFrameShape(QFrame::NoFrame);
  tree_->setAllColumnsShowFocus(true);
  tree_->setExpandsOnDoubleClick(true);
  tree_->header()->setStretchLastSection(true);
  tree_->header()->setMinimumSectionSize(40);
  // The tooltip and the details show the full text.
  tree_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  tree_->viewport()->installEventFilter(this);
  tree_->setItemDelegate(new StateDelegate(
      IncidentTree::kMark,
      [this](const QModelIndex& index) {
        return model_->Touches(index.siblingAtColumn(0), this->navigator()->selection());
      },
      tree_));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  column->addWidget(filter_);
  column->addWidget(tree_, 1);
  setFocusProxy(tree_);

  connect(filter_, &QLineEdit::textChanged, this, [this] { Filter(); });
  connect(model_, &QAbstractItemModel::modelAboutToBeReset, this, [this] { showing_ = true; });
  connect(model_, &QAbstractItemModel::modelReset, this, [this] { showing_ = false; });
  connect(model_, &IncidentTree::Settled, this, [this] {
    for (int row = 0; row < model_->rowCount(); ++row) tree_->expand(model_->index(row, 0));
    Share();
    ShowSelection();
  });
  connect(tree_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] { TakeSelection(); });
  connect(tree_, &QAbstractItemView::activated, this, [this] { TakeSelection(); });
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    if (!showing_) ShowSelection();
  });
  connect(navigator, &Navigator::PlaceChanged, this, [this] { Filter(); });
}

TreePane::~TreePane() { showing_ = true; }

void TreePane::SetDocument(DocumentPtr document) {
  Filter();
  model_->SetDocument(std::move(document));
}

QString TreePane::CopyText() const {
  QString out;
  for (const QModelIndex& index : tree_->selectionModel()->selectedRows())
    out += TsvCell(index.data().toString()) + '\t' + TsvCell(index.siblingAtColumn(1).data().toString()) + '\n';
  return out;
}

bool TreePane::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && watched == tree_->viewport()) Share();
  return (watched == filter_ && HandleFilterKey(filter_, tree_, event)) || View::eventFilter(watched, event);
}

}  // namespace lockstep::gui
