#include "gui/view/matrix/legend.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/matrix/render.h"

namespace lockstep::gui {
namespace {

// Worst first. kOutside is the background and is not counted.
constexpr ViewState kShown[] = {ViewState::kMissing,     ViewState::kMismatch, ViewState::kFailed,   ViewState::kNoData,
                                ViewState::kWaiting,     ViewState::kStarted,  ViewState::kEnqueued, ViewState::kIssued,
                                ViewState::kOverwritten, ViewState::kCompleted};
constexpr int kRows = static_cast<int>(std::size(kShown));

}  // namespace

struct LegendView::Impl {
  explicit Impl(LegendView* v) : view(v), source(v) {}

  LegendView* view;
  DocumentPtr document;
  MatrixSource source;
  StateCounts counts{};
  bool counted = false;
  LatestJob count_job;

  bool Filters(ViewState state) const { return view->navigator()->place().filters.contains(FilterOf(state)); }

  void ToggleFilter(ViewState state) {
    const QString filter = FilterOf(state);
    if (filter.isEmpty() || document == nullptr) return;
    QStringList filters = view->navigator()->place().filters;
    if (filters.removeAll(filter) == 0) filters << filter;
    Q_EMIT view->FiltersWanted(filters);
  }

  Viewport counted_viewport;
  int current = 0, hovered = -1;

  int row_height() const { return view->fontMetrics().height() + 3; }

  void Count() {
    const MatrixDataPtr data = source.data();
    if (data == nullptr) {
      count_job.Cancel();
      counts = {};
      counted = false;
      view->update();
      return;
    }
    const Viewport shown = counted_viewport = view->navigator()->place().matrix;
    count_job.Start(view, [this, data, shown](const std::atomic<bool>& cancel) -> LatestJob::Finish {
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
        counts = all;
        counted = true;
        view->update();
      };
    });
  }

  // Worst first. If not all rows fit, states without visible cells come last, where they are cut off.
  std::array<ViewState, kRows> Order(int height) const {
    std::array<ViewState, kRows> order;
    std::copy(std::begin(kShown), std::end(kShown), order.begin());
    if (counted && height < kRows * row_height() + 8) {
      std::stable_partition(order.begin(), order.end(),
                            [this](ViewState state) { return counts[static_cast<size_t>(state)] > 0; });
    }
    return order;
  }
  ViewState StateOf(int row) const { return Order(view->height())[static_cast<size_t>(row)]; }

  int RowAt(const QPoint& at) const {
    const int row = (at.y() - 4) / row_height();
    return at.y() >= 4 && row < kRows ? row : -1;
  }

  void Menu(ViewState state, const QPoint& at) {
    auto* menu = new QMenu(view);
    menu->setAccessibleName("Legend");
    menu->setAttribute(Qt::WA_DeleteOnClose);
    QObject::connect(menu->addAction("Go to the next cell"), &QAction::triggered, view,
                     [this, state] { view->SelectNext(state); });
    QAction* filter = menu->addAction("Show only ranks with such cells");
    filter->setCheckable(true);
    filter->setChecked(Filters(state));
    QObject::connect(filter, &QAction::triggered, view, [this, state] { ToggleFilter(state); });
    menu->popup(at);
  }

  QString CountText(ViewState state) const {
    return counted ? gui::Count(counts[static_cast<size_t>(state)]) : QString();
  }

  void Draw(QPainter* painter, const QSize& size, bool live) const {
    const Theme& theme = ThemeFor(view->palette());
    const double ratio = painter->device() != nullptr ? painter->device()->devicePixelRatioF() : 1;
    painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
    const int height = row_height(), swatch = std::max(height - 4, 12);
    const QFontMetrics font = painter->fontMetrics();
    const std::array<ViewState, kRows> order = Order(size.height());
    for (int i = 0; i < kRows; ++i) {
      const ViewState state = order[static_cast<size_t>(i)];
      const QRect row(0, 4 + i * height, size.width(), height);
      const bool none = counted && counts[static_cast<size_t>(state)] == 0;
      if (live && i == hovered) painter->fillRect(row, theme.grid);
      const QImage sample = RenderSample(state, theme, QSize(swatch + 8, swatch), ratio);
      painter->drawImage(QPoint(6, row.top() + (height - swatch) / 2), sample);
      const QString count = CountText(state);
      const int left = 6 + swatch + 16, taken = font.horizontalAdvance(count) + 8;
      painter->setPen(none ? theme.faint_text : theme.text);
      const QFont plain = painter->font();
      if (live && Filters(state)) {
        QFont bold = plain;
        bold.setBold(true);
        painter->setFont(bold);
      }
      painter->drawText(
          QRect(left, row.top(), std::max(size.width() - left - taken - 6, 0), height),
          Qt::AlignLeft | Qt::AlignVCenter,
          font.elidedText(QString::fromLatin1(ViewStateName(state)) + (live && Filters(state) ? " (filter)" : ""),
                          Qt::ElideRight, std::max(size.width() - left - taken - 6, 0)));
      painter->setFont(plain);
      painter->drawText(QRect(size.width() - taken - 4, row.top(), taken, height), Qt::AlignRight | Qt::AlignVCenter,
                        count);
      if (live && view->hasFocus() && i == current) {
        painter->setBrush(Qt::NoBrush);
        painter->setPen(theme.link);
        painter->drawRect(row.adjusted(1, 0, -2, -1));
      }
    }
  }
};

LegendView::LegendView(Navigator* navigator, QWidget* parent)
    : View(navigator, "Legend", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription(
      "States of the matrix and how many visible cells are in each; Enter selects the next cell of a state, "
      "Ctrl+Enter shows only ranks with such cells");
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(navigator, &Navigator::PlaceChanged, this, [this] {
    impl_->source.Want(impl_->document, this->navigator()->place());
    if (impl_->source.idle() && this->navigator()->place().matrix != impl_->counted_viewport) impl_->Count();
  });
  connect(&impl_->source, &MatrixSource::Ready, this, [this] { impl_->Count(); });
}

LegendView::~LegendView() = default;

void LegendView::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  impl_->source.Want(impl_->document, navigator()->place());
}

bool LegendView::Idle() const { return impl_->source.idle() && !impl_->count_job.busy(); }
const StateCounts& LegendView::counts() const { return impl_->counts; }

QSize LegendView::sizeHint() const {
  return {fontMetrics().horizontalAdvance("issued, GPU not recorded  50,331,648") + fontMetrics().height() + 40,
          impl_->row_height() * kRows + 8};
}

QRect LegendView::RectOf(ViewState state) const {
  for (int i = 0; i < kRows; ++i) {
    if (impl_->StateOf(i) == state) return QRect(0, 4 + i * impl_->row_height(), width(), impl_->row_height());
  }
  return {};
}

bool LegendView::SelectNext(ViewState state) {
  const MatrixDataPtr data = impl_->source.data();
  if (data == nullptr || !impl_->source.idle() || data->order.lines() == 0 || data->cells->columns == 0) return false;
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
    text += QString("%1\t%2\n").arg(QString::fromLatin1(ViewStateName(state)), impl_->CountText(state));
  return impl_->counted ? text : QString();
}

QString LegendView::Csv() const {
  if (!impl_->counted) return {};
  QString text = "state,cells\n";
  for (const ViewState state : kShown)
    text += QString("\"%1\",%2\n")
                .arg(QString::fromLatin1(ViewStateName(state)))
                .arg(impl_->counts[static_cast<size_t>(state)]);
  return text;
}

bool LegendView::Paint(QPainter* painter, const QSize& size) {
  impl_->Draw(painter, size, false);
  return true;
}

void LegendView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  impl_->Draw(&painter, size(), true);
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
  const int row = impl_->RowAt(help->pos());
  if (row < 0) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(
        help->globalPos(),
        QString("%1: %2 visible cells\n%3\nClick: go to the next one; Ctrl+click: show only ranks with such cells")
            .arg(ViewStateName(impl_->StateOf(row)), impl_->CountText(impl_->StateOf(row)),
                 ViewStateMeaning(impl_->StateOf(row))),
        this);
  }
  return true;
}

void LegendView::keyPressEvent(QKeyEvent* event) {
  Impl& d = *impl_;
  switch (event->key()) {
    case Qt::Key_Up: d.current = std::max(d.current - 1, 0); break;
    case Qt::Key_Down: d.current = std::min(d.current + 1, kRows - 1); break;
    case Qt::Key_Home: d.current = 0; break;
    case Qt::Key_End: d.current = kRows - 1; break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      (event->modifiers() & Qt::ControlModifier) != 0 ? d.ToggleFilter(d.StateOf(d.current))
                                                      : static_cast<void>(SelectNext(d.StateOf(d.current)));
      break;

    default: return View::keyPressEvent(event);
  }
  update();
}

void LegendView::mouseMoveEvent(QMouseEvent* event) {
  const int row = impl_->RowAt(event->pos());
  if (row == impl_->hovered) return;
  impl_->hovered = row;
  setCursor(row >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
  update();
}

void LegendView::leaveEvent(QEvent*) {
  impl_->hovered = -1;
  update();
}

void LegendView::mousePressEvent(QMouseEvent* event) {
  const int row = impl_->RowAt(event->pos());
  if (event->button() != Qt::LeftButton || row < 0) return View::mousePressEvent(event);
  impl_->current = row;
  (event->modifiers() & Qt::ControlModifier) != 0 ? impl_->ToggleFilter(impl_->StateOf(row))
                                                  : static_cast<void>(SelectNext(impl_->StateOf(row)));
  update();
}

void LegendView::contextMenuEvent(QContextMenuEvent* event) {
  const int row = event->reason() == QContextMenuEvent::Keyboard ? impl_->current : impl_->RowAt(event->pos());
  if (row < 0) return View::contextMenuEvent(event);
  impl_->current = row;
  impl_->Menu(impl_->StateOf(row), event->globalPos());
  update();
}

QString LegendView::FilterOf(ViewState state) {
  switch (state) {
    case ViewState::kCompleted: return "state:completed";
    case ViewState::kOverwritten: return "state:overwritten";
    case ViewState::kIssued: return "state:issued";
    case ViewState::kEnqueued: return "state:enqueued";
    case ViewState::kStarted: return "state:started";
    case ViewState::kWaiting: return "state:waiting";
    case ViewState::kNoData: return "state:nodata";
    case ViewState::kFailed: return "state:failed";
    case ViewState::kMismatch: return "state:mismatch";
    case ViewState::kMissing: return "state:missing";
    default: return {};
  }
}

}  // namespace lockstep::gui
