#include "gui/view/tables/view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <set>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/state_delegate.h"

namespace lockstep::gui {
namespace {

// A larger selection is drawn as marked rows, but not set in the table widget, where the cost is quadratic.
constexpr int kMostPieces = 256;

}  // namespace

void TableView::SizeColumns() {
  const QFontMetrics metrics(table_->font());
  table_->verticalHeader()->setDefaultSectionSize(metrics.height() + 5);
  if (sized_) return;
  sized_ = true;
  for (size_t c = 0; c < kind_.columns.size(); ++c) {
    const TableColumn& column = kind_.columns[c];
    const int title = metrics.horizontalAdvance(column.title) + metrics.height() * 2;
    const int mark = c == 0 ? metrics.height() : 0;
    table_->setColumnWidth(static_cast<int>(c),
                           std::max(title, metrics.averageCharWidth() * (column.characters + 2)) + mark);
  }
}

void TableView::Count() {
  const int shown = model_->rowCount(), all = model_->total();
  QString text = shown == all ? gui::Count(all) : QString("%1 of %2").arg(gui::Count(shown), gui::Count(all));
  if (model_->rows() != nullptr && !model_->rows()->note().isEmpty()) text += "; " + model_->rows()->note();
  count_->setText(model_->Idle() || document_ == nullptr ? text : "...");
}

void TableView::Filter() {
  model_->SetFilter(RowFilter::Of(filter_->text(), navigator()->place()));
  Count();
}

void TableView::ShowSelection(bool scroll) {
  showing_ = true;
  const TableRows* rows = model_->rows();
  const Selection& selection = navigator()->selection();
  marked_.assign(static_cast<size_t>(model_->total()), false);
  QItemSelection pieces;
  int first = -1, top = -1;
  const int count = model_->rowCount(), last_column = model_->columnCount() - 1;
  if (rows != nullptr && !selection.empty()) {
    for (int row = 0; row <= count; ++row) {
      const bool in = row < count && rows->Shows(model_->Source(row), selection);
      if (in) marked_[static_cast<size_t>(model_->Source(row))] = true;
      if (in && top < 0) top = row;
      if (in && first < 0) first = row;
      if (!in && first >= 0) {
        if (pieces.size() <= kMostPieces)
          pieces.append(QItemSelectionRange(model_->index(first, 0), model_->index(row - 1, last_column)));
        first = -1;
      }
    }
  }
  QItemSelectionModel* own = table_->selectionModel();
  if (pieces.size() > kMostPieces) pieces.clear();
  if (!(own->selection() == pieces)) own->select(pieces, QItemSelectionModel::ClearAndSelect);
  if (top >= 0 &&
      (!own->currentIndex().isValid() || !marked_[static_cast<size_t>(model_->Source(own->currentIndex().row()))]))
    own->setCurrentIndex(model_->index(top, 0), QItemSelectionModel::NoUpdate);
  if (scroll && top >= 0) table_->scrollTo(model_->index(top, 0));
  table_->viewport()->update();
  showing_ = false;
}

// Passes the rows that the user selected to other views.
void TableView::TakeSelection() {
  if (showing_ || model_->rows() == nullptr) return;
  std::vector<int> sources;
  for (const QItemSelectionRange& range : table_->selectionModel()->selection()) {
    for (int row = range.top(); row <= range.bottom(); ++row) sources.push_back(model_->Source(row));
  }
  if (sources.empty()) return;  // a filter or a reload hides the selected rows, which stay selected
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  showing_ = true;
  navigator()->Select(model_->rows()->Select(sources));
  showing_ = false;
  ShowSelection(false);
}

std::vector<int> TableView::ShownColumns() const {
  std::vector<int> shown;
  for (int visual = 0; visual < model_->columnCount(); ++visual) {
    const int column = table_->horizontalHeader()->logicalIndex(visual);
    if (!table_->isColumnHidden(column)) shown.push_back(column);
  }
  return shown;
}

QString TableView::RowText(int row, const std::vector<int>& shown, QChar between,
                           QString (*cell)(const QString&)) const {
  QString out;
  for (const int column : shown) {
    if (column != shown.front()) out += between;
    out += cell(row < 0 ? QString(kind_.columns[static_cast<size_t>(column)].title)
                        : model_->rows()->Text(model_->Source(row), column));
  }
  return out + '\n';
}

TableView::TableView(Navigator* navigator, TableKind kind, QWidget* parent)
    : View(navigator, kind.name, parent), kind_(std::move(kind)) {
  const QString name = kind_.name;
  setAccessibleDescription(kind_.explains);
  model_ = new TableModel(kind_.columns, kind_.make, this);
  model_->sort(kind_.sort_column, kind_.sort_order);

  filter_ = new QLineEdit(this);
  filter_->setObjectName("filter");
  filter_->setPlaceholderText("Filter: all words must match, -word excludes");
  filter_->setClearButtonEnabled(true);
  filter_->setMaxLength(500);
  Announce(
      filter_, "Filter of " + name,
      "Shows the rows that contain all words; a minus before a word excludes; Down goes to the table, Escape clears");
  filter_->installEventFilter(this);
  count_ = new QLabel(this);
  count_->setTextFormat(Qt::PlainText);
  count_->setObjectName("count");
  Announce(count_, "Rows of " + name, "How many of the rows are shown");
  columns_ = new QToolButton(this);
  columns_->setText("Columns");
  columns_->setObjectName("columns");
  columns_->setAutoRaise(true);
  columns_->setPopupMode(QToolButton::InstantPopup);
  columns_->setFocusPolicy(Qt::TabFocus);
  Announce(columns_, "Columns of " + name, "Shows and hides columns");
  auto* menu = new QMenu(columns_);
  columns_->setMenu(menu);

  table_ = new QTableView(this);
  table_->setObjectName("table");
  Announce(table_, name + " table", kind_.explains);
  table_->setModel(model_);
  table_->setItemDelegate(new StateDelegate(
      TableModel::kMark,
      [this](const QModelIndex& index) {
        return marked_.size() > static_cast<size_t>(model_->Source(index.row())) &&
               marked_[static_cast<size_t>(model_->Source(index.row()))];
      },
      table_));
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(kind_.one_row ? QAbstractItemView::SingleSelection : QAbstractItemView::ExtendedSelection);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setShowGrid(false);
  table_->setAlternatingRowColors(true);
  table_->setWordWrap(false);
  table_->setTextElideMode(Qt::ElideRight);
  table_->setTabKeyNavigation(false);
  table_->setCornerButtonEnabled(false);
  table_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  table_->setFrameShape(QFrame::NoFrame);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  table_->horizontalHeader()->setSectionsMovable(true);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->horizontalHeader()->setHighlightSections(false);
  table_->horizontalHeader()->setAccessibleName("Columns of " + name);
  table_->horizontalHeader()->setAccessibleDescription("Click to sort by this column");
  table_->horizontalHeader()->setSortIndicator(kind_.sort_column, kind_.sort_order);
  table_->horizontalHeader()->setContextMenuPolicy(Qt::CustomContextMenu);
  table_->setSortingEnabled(true);
  SizeColumns();

  for (int c = 0; c < model_->columnCount(); ++c) {
    QAction* action = menu->addAction(kind_.columns[static_cast<size_t>(c)].title);
    action->setCheckable(true);
    action->setChecked(true);
    action->setEnabled(c != 0);  // the first column cannot be hidden
    connect(action, &QAction::toggled, this, [this, c](bool on) { table_->setColumnHidden(c, !on); });
  }
  // The session may have restored other visible columns.
  connect(menu, &QMenu::aboutToShow, this, [this, menu] {
    for (int c = 0; c < model_->columnCount(); ++c) menu->actions()[c]->setChecked(!table_->isColumnHidden(c));
  });
  connect(table_->horizontalHeader(), &QWidget::customContextMenuRequested, this,
          [this, menu](const QPoint& at) { menu->popup(table_->horizontalHeader()->mapToGlobal(at)); });

  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 4, 6, 4);
  row->setSpacing(8);
  row->addWidget(filter_, 1);
  row->addWidget(count_);
  row->addWidget(columns_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(row);
  column->addWidget(table_, 1);
  setFocusProxy(table_);

  connect(filter_, &QLineEdit::textChanged, this, [this] { Filter(); });
  connect(model_, &TableModel::Settled, this, [this] {
    Count();
    ShowSelection(true);
  });
  connect(model_, &QAbstractItemModel::modelAboutToBeReset, this, [this] { showing_ = true; });
  connect(model_, &QAbstractItemModel::modelReset, this, [this] {
    marked_.clear();
    showing_ = false;
  });
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] { TakeSelection(); });
  // Enter selects the row again if another view changed the selection.
  connect(table_, &QAbstractItemView::activated, this, [this] { TakeSelection(); });
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    if (!showing_) ShowSelection(true);
  });
  connect(navigator, &Navigator::PlaceChanged, this, [this] { Filter(); });
  Count();
}

TableView::~TableView() { showing_ = true; }

void TableView::SetDocument(DocumentPtr document) {
  document_ = document;
  Filter();
  model_->SetDocument(std::move(document));
  Count();
}

QString TableView::CopyText() const {
  if (model_->rows() == nullptr) return {};
  const std::vector<int> shown = ShownColumns();
  QString out;
  for (int row = 0; row < model_->rowCount(); ++row) {
    const size_t source = static_cast<size_t>(model_->Source(row));
    if (source < marked_.size() && marked_[source]) out += RowText(row, shown, '\t', TsvCell);
  }
  return out.isEmpty() ? out : RowText(-1, shown, '\t', TsvCell) + out;
}

QString TableView::Csv() const {
  if (model_->rows() == nullptr) return {};
  const std::vector<int> shown = ShownColumns();
  QString out = RowText(-1, shown, ',', CsvCell);
  for (int row = 0; row < model_->rowCount(); ++row) out += RowText(row, shown, ',', CsvCell);
  return out;
}

void TableView::CentreOnSelection() {
  for (int row = 0; row < model_->rowCount(); ++row) {
    const size_t source = static_cast<size_t>(model_->Source(row));
    if (source < marked_.size() && marked_[source])
      return table_->scrollTo(model_->index(row, 0), QAbstractItemView::PositionAtCenter);
  }
}

void TableView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::FontChange && table_ != nullptr) {
    sized_ = false;
    SizeColumns();
  }
}

bool TableView::eventFilter(QObject* watched, QEvent* event) {
  return (watched == filter_ && HandleFilterKey(filter_, table_, event)) || View::eventFilter(watched, event);
}

}  // namespace lockstep::gui
