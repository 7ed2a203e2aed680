#include "gui/view/tables/view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
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

struct TableView::Impl {
  explicit Impl(TableView* v, TableKind k) : view(v), kind(std::move(k)) {}

  TableView* view;
  TableKind kind;
  DocumentPtr document;
  TableModel* model = nullptr;
  QTableView* table = nullptr;
  QLineEdit* filter = nullptr;
  QLabel* count = nullptr;
  QToolButton* columns = nullptr;
  bool showing = false;  // the table's selection follows the navigator's, and must not be sent back
  bool sized = false;
  std::vector<bool> marked;  // indexed by source row: whether the navigator's selection contains it

  void ShowSelection(bool scroll);
  void TakeSelection();
  void Count();
  void Fit();
  void Filter();
  std::vector<int> ShownColumns() const;
  QString RowText(int row, const std::vector<int>& shown, QChar between, QString (*cell)(const QString&)) const;
};

void TableView::Impl::Fit() {
  const QFontMetrics metrics(table->font());
  table->verticalHeader()->setDefaultSectionSize(metrics.height() + 5);
  if (sized) return;
  sized = true;
  for (size_t c = 0; c < kind.columns.size(); ++c) {
    const TableColumn& column = kind.columns[c];
    const int title = metrics.horizontalAdvance(column.title) + metrics.height() * 2;
    const int mark = c == 0 ? metrics.height() : 0;
    table->setColumnWidth(static_cast<int>(c),
                          std::max(title, metrics.averageCharWidth() * (column.characters + 2)) + mark);
  }
}

void TableView::Impl::Count() {
  const QLocale locale(QLocale::English);
  const int shown = model->rowCount(), all = model->total();
  QString text =
      shown == all ? locale.toString(all) : QString("%1 of %2").arg(locale.toString(shown), locale.toString(all));
  if (model->rows() != nullptr && !model->rows()->note().isEmpty()) text += "; " + model->rows()->note();
  count->setText(model->Idle() || document == nullptr ? text : "...");
}

void TableView::Impl::Filter() {
  const Place& place = view->navigator()->place();
  model->SetFilter(filter->text(), !place.filters.isEmpty(), place.filtered);
  Count();
}

void TableView::Impl::ShowSelection(bool scroll) {
  showing = true;
  const TableRows* rows = model->rows();
  const Selection& selection = view->navigator()->selection();
  marked.assign(static_cast<size_t>(model->total()), false);
  QItemSelection pieces;
  int first = -1, top = -1;
  const int count = model->rowCount(), last_column = model->columnCount() - 1;
  if (rows != nullptr && !selection.empty()) {
    for (int row = 0; row <= count; ++row) {
      const bool in = row < count && rows->Shows(model->Source(row), selection);
      if (in) marked[static_cast<size_t>(model->Source(row))] = true;
      if (in && top < 0) top = row;
      if (in && first < 0) first = row;
      if (!in && first >= 0) {
        if (pieces.size() <= kMostPieces)
          pieces.append(QItemSelectionRange(model->index(first, 0), model->index(row - 1, last_column)));
        first = -1;
      }
    }
  }
  QItemSelectionModel* own = table->selectionModel();
  if (pieces.size() > kMostPieces) pieces.clear();
  if (!(own->selection() == pieces)) own->select(pieces, QItemSelectionModel::ClearAndSelect);
  if (top >= 0 &&
      (!own->currentIndex().isValid() || !marked[static_cast<size_t>(model->Source(own->currentIndex().row()))]))
    own->setCurrentIndex(model->index(top, 0), QItemSelectionModel::NoUpdate);
  if (scroll && top >= 0) table->scrollTo(model->index(top, 0));
  table->viewport()->update();
  showing = false;
}

// Passes the rows that the user selected to other views.
void TableView::Impl::TakeSelection() {
  if (showing || model->rows() == nullptr) return;
  std::vector<int> sources;
  for (const QItemSelectionRange& range : table->selectionModel()->selection()) {
    for (int row = range.top(); row <= range.bottom(); ++row) sources.push_back(model->Source(row));
  }
  if (sources.empty()) return;  // a filter or a reload hides the selected rows, which stay selected
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  showing = true;
  view->navigator()->Select(model->rows()->Select(sources));
  showing = false;
  ShowSelection(false);
}

std::vector<int> TableView::Impl::ShownColumns() const {
  std::vector<int> shown;
  for (int visual = 0; visual < model->columnCount(); ++visual) {
    const int column = table->horizontalHeader()->logicalIndex(visual);
    if (!table->isColumnHidden(column)) shown.push_back(column);
  }
  return shown;
}

QString TableView::Impl::RowText(int row, const std::vector<int>& shown, QChar between,
                                 QString (*cell)(const QString&)) const {
  QString out;
  for (const int column : shown) {
    if (column != shown.front()) out += between;
    out += cell(row < 0 ? QString(kind.columns[static_cast<size_t>(column)].title)
                        : model->rows()->Text(model->Source(row), column));
  }
  return out + '\n';
}

TableView::TableView(Navigator* navigator, TableKind kind, QWidget* parent)
    : View(navigator, kind.name, parent), impl_(std::make_unique<Impl>(this, std::move(kind))) {
  Impl& p = *impl_;
  const QString name = p.kind.name;
  setAccessibleDescription(p.kind.explains);
  p.model = new TableModel(p.kind.columns, p.kind.make, this);
  p.model->sort(p.kind.sort_column, p.kind.sort_order);

  p.filter = new QLineEdit(this);
  p.filter->setObjectName("filter");
  p.filter->setPlaceholderText("Filter: all words must match, -word excludes");
  p.filter->setClearButtonEnabled(true);
  p.filter->setMaxLength(500);
  Announce(
      p.filter, "Filter of " + name,
      "Shows the rows that contain all words; a minus before a word excludes; Down goes to the table, Escape clears");
  p.filter->installEventFilter(this);
  p.count = new QLabel(this);
  p.count->setTextFormat(Qt::PlainText);
  p.count->setObjectName("count");
  Announce(p.count, "Rows of " + name, "How many of the rows are shown");
  p.columns = new QToolButton(this);
  p.columns->setText("Columns");
  p.columns->setObjectName("columns");
  p.columns->setAutoRaise(true);
  p.columns->setPopupMode(QToolButton::InstantPopup);
  p.columns->setFocusPolicy(Qt::TabFocus);
  Announce(p.columns, "Columns of " + name, "Shows and hides columns");
  auto* menu = new QMenu(p.columns);
  p.columns->setMenu(menu);

  p.table = new QTableView(this);
  p.table->setObjectName("table");
  Announce(p.table, name + " table", p.kind.explains);
  p.table->setModel(p.model);
  p.table->setItemDelegate(new StateDelegate(
      TableModel::kMark,
      [this](const QModelIndex& index) {
        return impl_->marked.size() > static_cast<size_t>(impl_->model->Source(index.row())) &&
               impl_->marked[static_cast<size_t>(impl_->model->Source(index.row()))];
      },
      p.table));
  p.table->setSelectionBehavior(QAbstractItemView::SelectRows);
  p.table->setSelectionMode(p.kind.one_row ? QAbstractItemView::SingleSelection : QAbstractItemView::ExtendedSelection);
  p.table->setEditTriggers(QAbstractItemView::NoEditTriggers);
  p.table->setShowGrid(false);
  p.table->setAlternatingRowColors(true);
  p.table->setWordWrap(false);
  p.table->setTextElideMode(Qt::ElideRight);
  p.table->setTabKeyNavigation(false);
  p.table->setCornerButtonEnabled(false);
  p.table->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  p.table->setFrameShape(QFrame::NoFrame);
  p.table->verticalHeader()->hide();
  p.table->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  p.table->horizontalHeader()->setSectionsMovable(true);
  p.table->horizontalHeader()->setStretchLastSection(true);
  p.table->horizontalHeader()->setHighlightSections(false);
  p.table->horizontalHeader()->setAccessibleName("Columns of " + name);
  p.table->horizontalHeader()->setAccessibleDescription("Click to sort by this column");
  p.table->horizontalHeader()->setSortIndicator(p.kind.sort_column, p.kind.sort_order);
  p.table->horizontalHeader()->setContextMenuPolicy(Qt::CustomContextMenu);
  p.table->setSortingEnabled(true);
  p.Fit();

  for (int c = 0; c < p.model->columnCount(); ++c) {
    QAction* action = menu->addAction(p.kind.columns[static_cast<size_t>(c)].title);
    action->setCheckable(true);
    action->setChecked(true);
    action->setEnabled(c != 0);  // the first column cannot be hidden
    connect(action, &QAction::toggled, this, [this, c](bool on) { impl_->table->setColumnHidden(c, !on); });
  }
  // The session may have restored other visible columns.
  connect(menu, &QMenu::aboutToShow, this, [this, menu] {
    for (int c = 0; c < impl_->model->columnCount(); ++c)
      menu->actions()[c]->setChecked(!impl_->table->isColumnHidden(c));
  });
  connect(p.table->horizontalHeader(), &QWidget::customContextMenuRequested, this,
          [this, menu](const QPoint& at) { menu->popup(impl_->table->horizontalHeader()->mapToGlobal(at)); });

  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 4, 6, 4);
  row->setSpacing(8);
  row->addWidget(p.filter, 1);
  row->addWidget(p.count);
  row->addWidget(p.columns);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(row);
  column->addWidget(p.table, 1);
  setFocusProxy(p.table);

  connect(p.filter, &QLineEdit::textChanged, this, [this] { impl_->Filter(); });
  connect(p.model, &TableModel::Settled, this, [this] {
    impl_->Count();
    impl_->ShowSelection(true);
  });
  connect(p.model, &QAbstractItemModel::modelAboutToBeReset, this, [this] { impl_->showing = true; });
  connect(p.model, &QAbstractItemModel::modelReset, this, [this] {
    impl_->marked.clear();
    impl_->showing = false;
  });
  connect(p.table->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] { impl_->TakeSelection(); });
  // Enter selects the row again if another view changed the selection.
  connect(p.table, &QAbstractItemView::activated, this, [this] { impl_->TakeSelection(); });
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    if (!impl_->showing) impl_->ShowSelection(true);
  });
  connect(navigator, &Navigator::PlaceChanged, this, [this] { impl_->Filter(); });
  p.Count();
}

TableView::~TableView() { impl_->showing = true; }

void TableView::SetDocument(DocumentPtr document) {
  impl_->document = document;
  impl_->Filter();
  impl_->model->SetDocument(std::move(document));
  impl_->Count();
}

QString TableView::CopyText() const {
  const Impl& p = *impl_;
  if (p.model->rows() == nullptr) return {};
  const std::vector<int> shown = p.ShownColumns();
  QString out;
  for (int row = 0; row < p.model->rowCount(); ++row) {
    const size_t source = static_cast<size_t>(p.model->Source(row));
    if (source < p.marked.size() && p.marked[source]) out += p.RowText(row, shown, '\t', TsvCell);
  }
  return out.isEmpty() ? out : p.RowText(-1, shown, '\t', TsvCell) + out;
}

QString TableView::Csv() const {
  const Impl& p = *impl_;
  if (p.model->rows() == nullptr) return {};
  const std::vector<int> shown = p.ShownColumns();
  QString out = p.RowText(-1, shown, ',', CsvCell);
  for (int row = 0; row < p.model->rowCount(); ++row) out += p.RowText(row, shown, ',', CsvCell);
  return out;
}

void TableView::CentreOnSelection() {
  for (int row = 0; row < impl_->model->rowCount(); ++row) {
    const size_t source = static_cast<size_t>(impl_->model->Source(row));
    if (source < impl_->marked.size() && impl_->marked[source])
      return impl_->table->scrollTo(impl_->model->index(row, 0), QAbstractItemView::PositionAtCenter);
  }
}

bool TableView::Idle() const { return impl_->model->Idle(); }
QTableView* TableView::table() const { return impl_->table; }
QLineEdit* TableView::filter() const { return impl_->filter; }
TableModel* TableView::model() const { return impl_->model; }

void TableView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::FontChange && impl_->table != nullptr) {
    impl_->sized = false;
    impl_->Fit();
  }
}

bool TableView::eventFilter(QObject* watched, QEvent* event) {
  return (watched == impl_->filter && HandleFilterKey(impl_->filter, impl_->table, event)) ||
         View::eventFilter(watched, event);
}

}  // namespace lockstep::gui
