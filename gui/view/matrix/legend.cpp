#include "gui/view/matrix/legend.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/model/search/query.h"
#include "gui/view/matrix/render.h"

namespace lockstep::gui {
namespace {

// Worst first. kOutside is the background and is not counted.
constexpr ViewState kShown[] = {ViewState::kMissing,     ViewState::kMismatch, ViewState::kFailed,   ViewState::kNoData,
                                ViewState::kWaiting,     ViewState::kStarted,  ViewState::kEnqueued, ViewState::kIssued,
                                ViewState::kOverwritten, ViewState::kCompleted};
constexpr int kRows = static_cast<int>(std::size(kShown));

}  // namespace

bool LegendView::Filters(ViewState state) const { return navigator()->place().filters.contains(FilterOf(state)); }

void LegendView::ToggleFilter(ViewState state) {
  const QString filter = FilterOf(state);
  if (filter.isEmpty() || document_ == nullptr) return;
  QStringList filters = navigator()->place().filters;
  if (filters.removeAll(filter) == 0) filters << filter;
  Q_EMIT FiltersWanted(filters);
}

int LegendView::row_height() const { return fontMetrics().height() + 3; }

void LegendView::Count() {
  const MatrixDataPtr data = source_.data();
  if (data == nullptr) {
    count_job_.Cancel();
    counts_ = {};
    counted_ = false;
    update();
    return;
  }
  const Viewport shown = counted_viewport_ = navigator()->place().matrix;
  count_job_.Start(this, [this, data, shown](const std::atomic<bool>& cancel) -> LatestJob::Finish {
    const int pinned = data->order.pinned;
    const bool rows = shown.y1 > shown.y0, columns = shown.x1 > shown.x0;
    auto cell = [](double at, int most) {
      return static_cast<int>(std::clamp(std::floor(at), 0.0, static_cast<double>(most)));
    };
    const int last_column = columns ? cell(shown.x1 - 1e-9, data->cells->columns) : data->cells->columns - 1;
    const int first_column = columns ? cell(shown.x0, data->cells->columns) : 0;
    const int first_line = rows ? cell(shown.y0, data->order.lines()) + pinned : pinned;
    const int last_line = rows ? cell(shown.y1 - 1e-9, data->order.lines()) + pinned : data->order.lines() - 1;
    StateCounts all = CountStates(*data, first_line, last_line, first_column, last_column, &cancel);
    const StateCounts top = CountStates(*data, 0, pinned - 1, first_column, last_column, &cancel);
    for (size_t s = 0; s < all.size(); ++s) all[s] += top[s];
    return [this, all] {
      counts_ = all;
      counted_ = true;
      update();
    };
  });
}

// Rows that do not fit completely are omitted.
int LegendView::Rows(int height) const { return std::clamp((height - 4) / row_height(), 1, kRows); }

// Worst first. If not all rows fit, states without visible cells come last, because the last ones are omitted.
std::vector<ViewState> LegendView::Order(int height) const {
  std::vector<ViewState> order(std::begin(kShown), std::end(kShown));
  if (counted_ && Rows(height) < kRows) {
    std::stable_partition(order.begin(), order.end(),
                          [this](ViewState state) { return counts_[static_cast<size_t>(state)] > 0; });
  }
  return order;
}
ViewState LegendView::StateOf(int row) const { return Order(height())[static_cast<size_t>(row)]; }

int LegendView::RowAt(const QPoint& at) const {
  const int row = (at.y() - 4) / row_height();
  return at.y() >= 4 && row < Rows(height()) ? row : -1;
}

void LegendView::Menu(ViewState state, const QPoint& at) {
  auto* menu = new QMenu(this);
  menu->setAccessibleName("Legend");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  connect(menu->addAction("Go to the next cell"), &QAction::triggered, this, [this, state] { SelectNext(state); });
  QAction* filter = menu->addAction("Show only ranks with such cells");
  filter->setCheckable(true);
  filter->setChecked(Filters(state));
  connect(filter, &QAction::triggered, this, [this, state] { ToggleFilter(state); });
  menu->popup(at);
}

QString LegendView::CountText(ViewState state) const {
  return counted_ ? gui::Count(counts_[static_cast<size_t>(state)]) : QString();
}

void LegendView::Draw(QPainter* painter, const QSize& size, bool live) const {
  const Theme& theme = ThemeFor(palette());
  const double ratio = painter->device() != nullptr ? painter->device()->devicePixelRatioF() : 1;
  painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
  const int height = row_height(), swatch = std::max(height - 4, 12);
  const QFontMetrics font = painter->fontMetrics();
  const std::vector<ViewState> order = Order(size.height());
  for (int i = 0; i < Rows(size.height()); ++i) {
    const ViewState state = order[static_cast<size_t>(i)];
    const QRect row(0, 4 + i * height, size.width(), height);
    const bool none = counted_ && counts_[static_cast<size_t>(state)] == 0;
    if (live && i == hovered_) painter->fillRect(row, theme.grid);
    const QImage sample = RenderSample(state, theme, QSize(swatch + 8, swatch), ratio);
    painter->drawImage(QPoint(6, row.top() + (height - swatch) / 2), sample);
    const QString count = CountText(state);
    const int left = 6 + swatch + 16, taken = font.horizontalAdvance(count) + 8;
    painter->setPen(none ? theme.faint_text : theme.text);
    const QFont plain = painter->font();
    if (live && Filters(state)) painter->setFont(Bold(plain));
    painter->drawText(
        QRect(left, row.top(), std::max(size.width() - left - taken - 6, 0), height), Qt::AlignLeft | Qt::AlignVCenter,
        font.elidedText(QString::fromLatin1(ViewStateName(state)) + (live && Filters(state) ? " (filter)" : ""),
                        Qt::ElideRight, std::max(size.width() - left - taken - 6, 0)));
    painter->setFont(plain);
    painter->drawText(QRect(size.width() - taken - 4, row.top(), taken, height), Qt::AlignRight | Qt::AlignVCenter,
                      count);
    if (live && hasFocus() && i == current_) {
      painter->setBrush(Qt::NoBrush);
      painter->setPen(theme.link);
      painter->drawRect(row.adjusted(1, 0, -2, -1));
    }
  }
}

LegendView::LegendView(Navigator* navigator, QWidget* parent) : View(navigator, "Legend", parent), source_(this) {
  setAccessibleDescription(
      "States of the matrix and how many visible cells are in each; Enter selects the next cell of a state, "
      "Ctrl+Enter shows only ranks with such cells");
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(navigator, &Navigator::PlaceChanged, this, [this] {
    source_.Want(document_, this->navigator()->place());
    if (source_.idle() && this->navigator()->place().matrix != counted_viewport_) Count();
  });
  connect(&source_, &MatrixSource::Ready, this, [this] { Count(); });
}

void LegendView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  source_.Want(document_, navigator()->place());
}

QSize LegendView::sizeHint() const {
  return {fontMetrics().horizontalAdvance("issued, GPU not recorded  50,331,648") + fontMetrics().height() + 40,
          row_height() * kRows + 8};
}

QRect LegendView::RectOf(ViewState state) const {
  for (int i = 0; i < Rows(height()); ++i) {
    if (StateOf(i) == state) return QRect(0, 4 + i * row_height(), width(), row_height());
  }
  return {};
}

bool LegendView::SelectNext(ViewState state) {
  const MatrixDataPtr data = source_.data();
  if (data == nullptr || !source_.idle() || data->order.lines() == 0 || data->cells->columns == 0) return false;
  const CellMatrix& cells = *data->cells;
  const int lines = data->order.lines(), columns = cells.columns;
  // Searches from the cell after the selected one, in reading order.
  int line = 0, column = 0;
  const Selection& selection = navigator()->selection();
  if (selection.ranks.size() == 1) {
    const CellRange range = CellsOfSelection(*data->document, cells, selection);
    const int32_t at = range.rows.empty() ? -1 : data->line_of_row[static_cast<size_t>(range.rows.front())];
    if (at >= 0) {
      line = at;
      column = range.column_last >= 0 ? range.column_last + 1 : 0;
    }
  }
  for (int step = 0; step <= lines; ++step, column = 0) {
    const int here = (line + step) % lines;
    if (column >= columns) continue;
    const uint8_t* row = cells.Row(static_cast<int>(data->order.rows[static_cast<size_t>(here)]));
    const void* found = std::memchr(row + column, static_cast<int>(state), static_cast<size_t>(columns - column));
    if (found == nullptr) continue;
    const int at = static_cast<int>(static_cast<const uint8_t*>(found) - row);
    navigator()->Select(
        SelectionOfCell(*data->document, cells, static_cast<int>(data->order.rows[static_cast<size_t>(here)]), at));
    return true;
  }
  return false;
}

QString LegendView::CopyText() const {
  QString text;
  for (const ViewState state : kShown)
    text += QString("%1\t%2\n").arg(QString::fromLatin1(ViewStateName(state)), CountText(state));
  return counted_ ? text : QString();
}

QString LegendView::Csv() const {
  if (!counted_) return {};
  QString text = "state,cells\n";
  for (const ViewState state : kShown)
    text +=
        QString("\"%1\",%2\n").arg(QString::fromLatin1(ViewStateName(state))).arg(counts_[static_cast<size_t>(state)]);
  return text;
}

bool LegendView::Paint(QPainter* painter, const QSize& size) {
  Draw(painter, size, false);
  return true;
}

void LegendView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  Draw(&painter, size(), true);
}

void LegendView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
    updateGeometry();
    update();
  }
}

bool LegendView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return View::event(event);
  auto* help = static_cast<QHelpEvent*>(event);
  const int row = RowAt(help->pos());
  if (row < 0) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(
        help->globalPos(),
        QString("%1: %2 visible cells\n%3\nClick: go to the next one; Ctrl+click: show only ranks with such cells")
            .arg(ViewStateName(StateOf(row)), CountText(StateOf(row)), ViewStateMeaning(StateOf(row))),
        this);
  }
  return true;
}

void LegendView::keyPressEvent(QKeyEvent* event) {
  const int last = Rows(height()) - 1;
  current_ = std::min(current_, last);
  switch (event->key()) {
    case Qt::Key_Up: current_ = std::max(current_ - 1, 0); break;
    case Qt::Key_Down: current_ = std::min(current_ + 1, last); break;
    case Qt::Key_Home: current_ = 0; break;
    case Qt::Key_End: current_ = last; break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      (event->modifiers() & Qt::ControlModifier) != 0 ? ToggleFilter(StateOf(current_))
                                                      : static_cast<void>(SelectNext(StateOf(current_)));
      break;

    default: return View::keyPressEvent(event);
  }
  update();
}

void LegendView::mouseMoveEvent(QMouseEvent* event) {
  const int row = RowAt(event->pos());
  if (row == hovered_) return;
  hovered_ = row;
  setCursor(row >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
  update();
}

void LegendView::leaveEvent(QEvent*) {
  hovered_ = -1;
  update();
}

void LegendView::mousePressEvent(QMouseEvent* event) {
  const int row = RowAt(event->pos());
  if (event->button() != Qt::LeftButton || row < 0) return View::mousePressEvent(event);
  current_ = row;
  (event->modifiers() & Qt::ControlModifier) != 0 ? ToggleFilter(StateOf(row))
                                                  : static_cast<void>(SelectNext(StateOf(row)));
  update();
}

void LegendView::contextMenuEvent(QContextMenuEvent* event) {
  const int row = event->reason() == QContextMenuEvent::Keyboard ? current_ : RowAt(event->pos());
  if (row < 0) return View::contextMenuEvent(event);
  current_ = row;
  Menu(StateOf(row), event->globalPos());
  update();
}

QString LegendView::FilterOf(ViewState state) {
  if (state == ViewState::kOutside) return {};
  return "state:" + QueryStateWords().value(static_cast<int>(state) - 1);
}

}  // namespace lockstep::gui
