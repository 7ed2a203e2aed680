#include "gui/view/legend_view.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gui/view/matrix_render.h"

namespace lockstep::gui {
namespace {

// The worst first. "Outside" is the picture's own ground: nothing to count.
constexpr ViewState kShown[] = {ViewState::kMissing, ViewState::kMismatch, ViewState::kFailed,     ViewState::kNoData,    ViewState::kWaiting,
                                ViewState::kStarted, ViewState::kEnqueued, ViewState::kIssued, ViewState::kOverwritten, ViewState::kCompleted};
constexpr int kRows = static_cast<int>(std::size(kShown));

const char* Meaning(ViewState state) {
  switch (state) {
    case ViewState::kMissing: return "Peers called this collective, the rank did not: look here first.";
    case ViewState::kMismatch: return "The rank called something else than its peers at this place.";
    case ViewState::kFailed: return "The call returned an error.";
    case ViewState::kNoData: return "Nothing is known of this rank: no proof of a fault.";
    case ViewState::kWaiting: return "In flight, and a member of the communicator has not come.";
    case ViewState::kStarted: return "The GPU is in it.";
    case ViewState::kEnqueued: return "On the stream, not completed.";
    case ViewState::kIssued: return "Handed over; what the GPU did with it is not recorded.";
    case ViewState::kOverwritten: return "Issued; its record is gone or was not read.";
    case ViewState::kCompleted: return "Done.";
    default: return "";
  }
}

}  // namespace

struct LegendView::Impl {
  explicit Impl(LegendView* v) : view(v), source(v) {}

  LegendView* view;
  DocumentPtr document;
  MatrixSource source;
  StateCounts counts{};
  bool counted = false;
  LatestJob count_job;
  Viewport counted_viewport;
  int current = 0, hovered = -1;

  int row_height() const { return view->fontMetrics().height() + 6; }

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
      auto cell = [](double at, int most) { return static_cast<int>(std::clamp(std::floor(at), 0.0, static_cast<double>(most))); };
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

  int RowAt(const QPoint& at) const {
    const int row = (at.y() - 4) / row_height();
    return at.y() >= 4 && row < kRows ? row : -1;
  }

  QString CountText(ViewState state) const { return counted ? Grouped(counts[static_cast<size_t>(state)]) : QString(); }

  void Draw(QPainter* painter, const QSize& size, bool live) const {
    const Theme& theme = ThemeFor(view->palette());
    const double ratio = painter->device() != nullptr ? painter->device()->devicePixelRatioF() : 1;
    painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
    const int height = row_height(), swatch = std::max(height - 6, 12);
    const QFontMetrics font = painter->fontMetrics();
    for (int i = 0; i < kRows; ++i) {
      const ViewState state = kShown[i];
      const QRect row(0, 4 + i * height, size.width(), height);
      const bool none = counted && counts[static_cast<size_t>(state)] == 0;
      if (live && i == hovered) painter->fillRect(row, theme.grid);
      const QImage sample = RenderSample(state, theme, QSize(swatch + 8, swatch), ratio);
      painter->drawImage(QPoint(6, row.top() + (height - swatch) / 2), sample);
      const QString count = CountText(state);
      const int left = 6 + swatch + 16, taken = font.horizontalAdvance(count) + 8;
      painter->setPen(none ? theme.faint_text : theme.text);
      painter->drawText(QRect(left, row.top(), std::max(size.width() - left - taken - 6, 0), height), Qt::AlignLeft | Qt::AlignVCenter,
                        font.elidedText(QString::fromLatin1(ViewStateName(state)), Qt::ElideRight, std::max(size.width() - left - taken - 6, 0)));
      painter->drawText(QRect(size.width() - taken - 4, row.top(), taken, height), Qt::AlignRight | Qt::AlignVCenter, count);
      if (live && view->hasFocus() && i == current) {
        painter->setBrush(Qt::NoBrush);
        painter->setPen(theme.link);
        painter->drawRect(row.adjusted(1, 0, -2, -1));
      }
    }
  }
};

LegendView::LegendView(Navigator* navigator, QWidget* parent) : View(navigator, "Legend", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription("States of the matrix and how many cells in sight are in each; Enter selects the next cell of a state");
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
  return {fontMetrics().horizontalAdvance("issued, GPU not recorded  50,331,648") + fontMetrics().height() + 40, impl_->row_height() * kRows + 8};
}

QRect LegendView::RectOf(ViewState state) const {
  for (int i = 0; i < kRows; ++i) {
    if (kShown[i] == state) return QRect(0, 4 + i * impl_->row_height(), width(), impl_->row_height());
  }
  return {};
}

bool LegendView::SelectNext(ViewState state) {
  const MatrixDataPtr data = impl_->source.data();
  if (data == nullptr || !impl_->source.idle() || data->order.lines() == 0 || data->cells->columns == 0) return false;
  const CellMatrix& cells = *data->cells;
  const int lines = data->order.lines(), columns = cells.columns;
  // From the cell behind the selected one, in the order of reading.
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
    navigator()->Select(SelectionOfCell(*data->document, cells, static_cast<int>(data->order.rows[static_cast<size_t>(here)]), at));
    return true;
  }
  return false;
}

QString LegendView::CopyText() const {
  QString text;
  for (const ViewState state : kShown) text += QString("%1\t%2\n").arg(QString::fromLatin1(ViewStateName(state)), impl_->CountText(state));
  return impl_->counted ? text : QString();
}

QString LegendView::Csv() const {
  if (!impl_->counted) return {};
  QString text = "state,cells\n";
  for (const ViewState state : kShown) text += QString("\"%1\",%2\n").arg(QString::fromLatin1(ViewStateName(state))).arg(impl_->counts[static_cast<size_t>(state)]);
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
    QToolTip::showText(help->globalPos(),
                       QString("%1: %2 cells in sight\n%3\nClick: the next one").arg(ViewStateName(kShown[row]), impl_->CountText(kShown[row]), Meaning(kShown[row])), this);
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
    case Qt::Key_Space: SelectNext(kShown[d.current]); break;
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
  SelectNext(kShown[row]);
  update();
}

}  // namespace lockstep::gui
