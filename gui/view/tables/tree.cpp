#include "gui/view/tables/tree.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QTreeView>
#include <QVBoxLayout>

#include <algorithm>

#include "gui/model/safe_text.h"
#include "gui/model/tables/tree.h"
#include "gui/view/state_delegate.h"

namespace lockstep::gui {

struct TreePane::Impl {
  explicit Impl(TreePane* p) : pane(p) {}

  TreePane* pane;
  DocumentPtr document;
  IncidentTree* model = nullptr;
  QTreeView* tree = nullptr;
  QLineEdit* filter = nullptr;
  bool showing = false;

  void Filter();
  // Gives width to the names first, then to the states.
  void Share() {
    const int width = tree->viewport()->width(), letter = tree->fontMetrics().averageCharWidth();
    tree->setIndentation(tree->fontMetrics().height());
    tree->setColumnWidth(0, std::max(width * 6 / 10, std::min(letter * 24, width - letter * 6)));
  }
  void ShowSelection();
  void TakeSelection();
};

void TreePane::Impl::Filter() {
  const Place& place = pane->navigator()->place();
  model->SetFilter(filter->text(), !place.filters.isEmpty(), place.filtered);
}

// A single rank or communicator becomes the current line. The items of a larger selection are only tinted.
void TreePane::Impl::ShowSelection() {
  showing = true;
  const Selection& selection = pane->navigator()->selection();
  QModelIndex index;
  if (selection.ranks.size() == 1) index = model->FindRank(selection.ranks.front());
  if (selection.ranks.empty() && selection.comm >= 0) index = model->FindComm(selection.comm);
  // A clicked item stays current if it selects the same. A rank occurs below its host and below each of its
  // communicators.
  const QModelIndex current = tree->currentIndex();
  const bool says = current.isValid() && tree->selectionModel()->isSelected(current) &&
                    model->SelectionOf(current.siblingAtColumn(0)) == selection;
  if (index.isValid() && !says) {
    tree->selectionModel()->setCurrentIndex(index, QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
    tree->scrollTo(index);
  } else if (!index.isValid() && !says) {
    tree->selectionModel()->clearSelection();
  }
  tree->viewport()->update();
  showing = false;
}

void TreePane::Impl::TakeSelection() {
  if (showing) return;
  Selection selection;
  bool several_comms = false;
  for (const QModelIndex& index : tree->selectionModel()->selectedRows()) {
    const Selection one = model->SelectionOf(index);
    selection.ranks.Unite(one.ranks);
    if (one.comm < 0) continue;
    several_comms |= selection.comm >= 0 && selection.comm != one.comm;
    selection.comm = one.comm;
    selection.seq_first = one.seq_first;
    selection.seq_last = one.seq_last;
  }
  if (several_comms) selection.comm = -1, selection.seq_first = selection.seq_last = -1;
  if (selection.empty()) return;
  showing = true;
  pane->navigator()->Select(selection);
  showing = false;
  tree->viewport()->update();
}

TreePane::TreePane(Navigator* navigator, QWidget* parent)
    : View(navigator, "Tree", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription("Hosts with their ranks and communicators with their members");
  Impl& p = *impl_;
  p.model = new IncidentTree(this);
  p.filter = new QLineEdit(this);
  p.filter->setObjectName("filter");
  p.filter->setPlaceholderText("Host, communicator or rank");
  p.filter->setClearButtonEnabled(true);
  p.filter->setMaxLength(500);
  Announce(p.filter, "Filter of the tree",
           "A number is a rank; anything else is part of a name. Down goes to the tree, Escape clears");
  p.filter->installEventFilter(this);
  p.tree = new QTreeView(this);
  p.tree->setObjectName("tree");
  Announce(p.tree, "Hosts and communicators",
           "Right opens a line, Left closes it; a selection here applies to all views");
  p.tree->setModel(p.model);
  p.tree->setUniformRowHeights(true);
  p.tree->setHeaderHidden(true);
  p.tree->setSelectionMode(QAbstractItemView::ExtendedSelection);
  p.tree->setEditTriggers(QAbstractItemView::NoEditTriggers);
  p.tree->setFrameShape(QFrame::NoFrame);
  p.tree->setAllColumnsShowFocus(true);
  p.tree->setExpandsOnDoubleClick(true);
  p.tree->header()->setStretchLastSection(true);
  p.tree->header()->setMinimumSectionSize(40);
  // The tooltip and the details show the full text.
  p.tree->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  p.tree->viewport()->installEventFilter(this);
  p.tree->setItemDelegate(new StateDelegate(
      IncidentTree::kMark,
      [this](const QModelIndex& index) {
        return impl_->model->Touches(index.siblingAtColumn(0), this->navigator()->selection());
      },
      p.tree));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  column->addWidget(p.filter);
  column->addWidget(p.tree, 1);
  setFocusProxy(p.tree);

  connect(p.filter, &QLineEdit::textChanged, this, [this] { impl_->Filter(); });
  connect(p.model, &QAbstractItemModel::modelAboutToBeReset, this, [this] { impl_->showing = true; });
  connect(p.model, &QAbstractItemModel::modelReset, this, [this] { impl_->showing = false; });
  connect(p.model, &IncidentTree::Settled, this, [this] {
    for (int row = 0; row < impl_->model->rowCount(); ++row) impl_->tree->expand(impl_->model->index(row, 0));
    impl_->Share();
    impl_->ShowSelection();
  });
  connect(p.tree->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] { impl_->TakeSelection(); });
  connect(p.tree, &QAbstractItemView::activated, this, [this] { impl_->TakeSelection(); });
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    if (!impl_->showing) impl_->ShowSelection();
  });
  connect(navigator, &Navigator::PlaceChanged, this, [this] { impl_->Filter(); });
}

TreePane::~TreePane() { impl_->showing = true; }

void TreePane::SetDocument(DocumentPtr document) {
  impl_->document = document;
  impl_->Filter();
  impl_->model->SetDocument(std::move(document));
}

QString TreePane::CopyText() const {
  QString out;
  for (const QModelIndex& index : impl_->tree->selectionModel()->selectedRows())
    out += TsvCell(index.data().toString()) + '\t' + TsvCell(index.siblingAtColumn(1).data().toString()) + '\n';
  return out;
}

bool TreePane::Idle() const { return impl_->model->Idle(); }

bool TreePane::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && watched == impl_->tree->viewport()) impl_->Share();
  return (watched == impl_->filter && HandleFilterKey(impl_->filter, impl_->tree, event)) ||
         View::eventFilter(watched, event);
}

}  // namespace lockstep::gui
