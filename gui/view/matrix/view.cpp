#include "gui/view/matrix/view.h"

#include <QAccessible>
#include <QApplication>
#include <QCoreApplication>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QStatusTipEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/model/matrix/cell_text.h"
#include "gui/model/safe_text.h"
#include "gui/view/matrix/accessible.h"
#include "gui/view/matrix/hits.h"
#include "gui/view/matrix/measure.h"

namespace lockstep::gui {
namespace {

constexpr double kWheelStep = 120, kZoomStep = 1.25;
constexpr double kReadable = 20;  // minimum width of a column that the view scrolls to, in pixels

}  // namespace

struct MatrixView::Impl {
  explicit Impl(MatrixView* v) : view(v), source(v) {}

  MatrixView* view;
  DocumentPtr document;
  MatrixSource source;
  MatrixLayout layout;
  MatrixScene scene;
  MatrixImages images;
  std::optional<Cell> cursor;
  std::optional<Cell> anchor;  // start of the area being measured
  LatestJob count_job;
  bool reveal = false;     // the selection must be scrolled into view
  bool approach = false;   // and enlarged until it is readable
  bool selecting = false;  // this view changed the selection itself
  enum class Drag : uint8_t { kNone, kPress, kArea, kPan, kMinimap } drag = Drag::kNone;
  QPoint pressed, last;
  bool whole_rows = false, whole_columns = false;

  const MatrixData* data() const { return scene.data.get(); }
  int lines() const { return data() == nullptr ? 0 : data()->order.lines(); }
  int columns() const { return data() == nullptr ? 0 : data()->cells->columns; }
  int pinned() const { return data() == nullptr ? 0 : data()->order.pinned; }
  const Place& place() const { return view->navigator()->place(); }

  // Returns whether the picture does not match the position yet.
  bool stale() const {
    if (data() == nullptr) return document != nullptr;
    return !source.idle() || data()->document != document || data()->cells->mode != place().matrix_mode ||
           (place().matrix_mode == MatrixMode::kCommunicator && data()->cells->comm != place().matrix_comm);
  }

  void Want() {
    source.Want(document, place());
    scene.building = document != nullptr && !source.idle();
    view->update();
  }

  void LayOut() {
    layout = LayOutMatrix(view->size(), view->fontMetrics(), pinned());
    const Viewport shown = place().matrix;
    ViewTransform body(columns(), lines() - pinned(), layout.body.width(), layout.body.height());
    // An old picture stays unchanged until the new one is ready.
    if (stale() && data() != nullptr) {
      body.Show(scene.body.viewport());
    } else {
      body.Show(shown);
    }
    scene.body = body;
    scene.pinned.x = body.x;
    scene.pinned.y = ViewAxis(pinned(), layout.pinned.height(), 64, 64);
    scene.grouping = place().grouping;
  }

  void Show(const ViewTransform& body) {
    if (stale()) return;
    scene.body = body;
    scene.pinned.x = body.x;
    Place next = place();
    next.matrix = body.viewport();
    view->navigator()->Scroll(std::move(next));
    view->update();
  }

  std::optional<Cell> CellAt(const QPoint& at) const { return MatrixCellAt(layout, scene, at); }
  Cell NearestCell(const QPoint& at) const { return NearestMatrixCell(layout, scene, at); }
  std::optional<Cell> WorstCellAt(const QPoint& at) const { return WorstMatrixCell(layout, scene, at); }
  int RowOf(int line) const { return static_cast<int>(data()->order.rows[static_cast<size_t>(line)]); }

  void TakeSelection() {
    scene.selected = data() == nullptr || stale() ? std::vector<LineBox>()
                                                  : BoxesOfSelection(*data(), view->navigator()->selection());
  }

  // Returns the smallest box that contains all selected cells in scrolled lines.
  std::optional<LineBox> SelectedBox() const {
    std::optional<LineBox> all;
    for (const LineBox& box : scene.selected) {
      if (box.line_first < pinned()) continue;
      if (!all.has_value()) {
        all = box;
        continue;
      }
      all->line_last = std::max(all->line_last, box.line_last);
      all->column_first = std::min(all->column_first, box.column_first);
      all->column_last = std::max(all->column_last, box.column_last);
    }
    return all;
  }

  void Reveal() {
    if (stale()) {
      reveal = true;
      return;
    }
    reveal = false;
    const std::optional<LineBox> box = SelectedBox();
    if (!box.has_value()) return;
    cursor = Cell{box->line_first,
                  box->column_last == columns() - 1 && box->column_first == 0 ? columns() - 1 : box->column_first};
    ViewTransform t = scene.body;
    if (std::exchange(approach, false) && t.x.scale() < kReadable / 2 && box->column_first == box->column_last) {
      const double span = t.x.pixels() / kReadable;
      t.x.Show(box->column_first - 0.7 * span, box->column_first + 0.3 * span);
    }
    t.y.Reveal(box->line_first - pinned(), box->line_last + 1 - pinned(), 3);
    if (box->column_first > 0 || box->column_last < columns() - 1)
      t.x.Reveal(box->column_first, box->column_last + 1, 3);
    if (t.viewport() != scene.body.viewport()) {
      scene.body = t;
      scene.pinned.x = t.x;
      Place next = place();
      next.matrix = t.viewport();
      view->navigator()->Amend(std::move(next));
    }
  }

  // Handles a change of the selection by this or another view.
  void Follow() {
    const Selection& selection = view->navigator()->selection();
    if (!selecting && document != nullptr) {
      const bool a_place = selection.comm >= 0 && selection.comm < document->comm_count() && selection.seq_first >= 0;
      const bool here = place().matrix_mode == MatrixMode::kCommunicator && place().matrix_comm == selection.comm;
      // A selection in a communicator is shown in that communicator's matrix. A single operation may stay in the job's
      // matrix.
      if (a_place && !here && (place().matrix_mode == MatrixMode::kCommunicator || selection.record < 0)) {
        Place next = place();
        next.matrix_mode = MatrixMode::kCommunicator;
        next.matrix_comm = selection.comm;
        next.matrix = {};
        approach = true;
        view->navigator()->Amend(std::move(next));
      }
      ForgetArea();
    }
    TakeSelection();
    if (!selecting) Reveal();
    view->update();
  }

  void Select(Selection selection) {
    selecting = true;
    view->navigator()->Select(std::move(selection));
    selecting = false;
  }

  void SelectCell(Cell cell) {
    if (stale() || data() == nullptr || cell.line < 0 || cell.line >= lines()) return;
    Select(SelectionOfCell(*document, *data()->cells, RowOf(cell.line), cell.column));
  }

  void SetArea(Cell from, Cell to) {
    LineBox box{std::min(from.line, to.line), std::max(from.line, to.line), std::min(from.column, to.column),
                std::max(from.column, to.column)};
    if (whole_rows) box.column_first = 0, box.column_last = columns() - 1;
    if (whole_columns) box.line_first = pinned(), box.line_last = lines() - 1;
    // A box must not contain both pinned and scrolled lines.
    if (box.line_first < pinned() && box.line_last >= pinned()) {
      if (from.line < pinned()) {
        box.line_last = pinned() - 1;
      } else {
        box.line_first = pinned();
      }
    }
    if (scene.area == box) return;
    scene.area = box;
    const MatrixDataPtr shown = scene.data;
    count_job.Start(view, [this, shown, box](const std::atomic<bool>& cancel) -> LatestJob::Finish {
      const QString text = MeasureText(*shown, box, cancel);
      return [this, text] {
        scene.area_text = text;
        view->update();
      };
    });
    view->update();
  }

  void ForgetArea() {
    scene.area.reset();
    scene.area_text.clear();
    count_job.Cancel();
    view->update();
  }

  void SelectArea() {
    if (!scene.area.has_value() || data() == nullptr || stale()) return;
    Select(SelectionOfBox(*data(), *scene.area));
  }

  void ShowBox(const LineBox& box, double around_columns, double around_lines) {
    ViewTransform t = scene.body;
    t.x.Show(box.column_first - around_columns, box.column_last + 1 + around_columns);
    if (box.line_first >= pinned())
      t.y.Show(box.line_first - pinned() - around_lines, box.line_last + 1 - pinned() + around_lines);
    Show(t);
  }

  void ShowColumn(Cell cell) {
    if (stale() || data() == nullptr || document == nullptr) return;
    const Selection selection = SelectionOfCell(*document, *data()->cells, RowOf(cell.line), cell.column);
    Place next = place();
    next.selection = selection;
    if (data()->cells->mode == MatrixMode::kCommunicator) {
      ViewTransform t = scene.body;
      t.y.Fit();
      const double half = std::max(t.x.pixels() / ViewTransform::kWidest / 2, 1.0);
      t.x.Show(cell.column + 0.5 - half, cell.column + 0.5 + half);
      next.matrix = t.viewport();
    } else {
      if (selection.comm < 0) return;
      next.matrix_mode = MatrixMode::kCommunicator;
      next.matrix_comm = selection.comm;
      next.matrix = {};
    }
    selecting = true;
    view->navigator()->Go(std::move(next));
    selecting = false;
    reveal = stale();
  }

  QPointF ZoomCentre() const {
    const QPoint pointer = view->mapFromGlobal(QCursor::pos());
    if (view->underMouse() && layout.Cells().contains(pointer)) return pointer - layout.body.topLeft();
    if (cursor.has_value()) {
      const QPointF at(scene.body.x.ToPixel(cursor->column + 0.5), scene.body.y.ToPixel(cursor->line - pinned() + 0.5));
      if (QRectF(QPointF(0, 0), QSizeF(layout.body.size())).contains(at)) return at;
    }
    return QPointF(layout.body.width() / 2.0, layout.body.height() / 2.0);
  }

  void Tell() {
    const QString text = view->SpokenCursor();
    QStatusTipEvent tip(text);
    QCoreApplication::sendEvent(view, &tip);
    QAccessibleValueChangeEvent changed(view, text);
    QAccessible::updateAccessibility(&changed);
  }
};

MatrixView::MatrixView(Navigator* navigator, QWidget* parent)
    : View(navigator, "Matrix", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription(
      "What every rank did in every collective; the worst state of each pixel is drawn. Arrow keys move the cursor");
  InstallMatrixAccessible(this);
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  connect(navigator, &Navigator::PlaceChanged, this, [this] {
    impl_->Want();
    if (impl_->place().matrix != impl_->scene.body.viewport() || impl_->stale()) impl_->LayOut();
    update();
  });
  connect(navigator, &Navigator::SelectionChanged, this, [this] { impl_->Follow(); });
  connect(&impl_->source, &MatrixSource::Ready, this, [this] {
    Impl& d = *impl_;
    // The cursor stays on its rank if the cells are the same.
    int row = -1;
    const MatrixDataPtr next = d.source.data();
    if (d.cursor.has_value() && d.data() != nullptr && next != nullptr && next->cells == d.data()->cells)
      row = d.RowOf(d.cursor->line);
    d.scene.data = next;
    d.scene.building = false;
    const int32_t line = row < 0 ? -1 : next->line_of_row[static_cast<size_t>(row)];
    d.cursor = line < 0 ? std::nullopt : std::optional<Cell>({line, d.cursor->column});
    d.ForgetArea();
    d.LayOut();
    d.TakeSelection();
    if (d.reveal) d.Reveal();
    update();
  });
}

MatrixView::~MatrixView() = default;

void MatrixView::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  impl_->Want();
  if (!impl_->document) impl_->TakeSelection();
  impl_->reveal = !navigator()->selection().empty();
}

const MatrixData* MatrixView::data() const { return impl_->data(); }
const ViewTransform& MatrixView::transform() const { return impl_->scene.body; }
std::optional<MatrixView::Cell> MatrixView::cursor() const { return impl_->cursor; }
std::optional<MatrixView::Cell> MatrixView::CellAt(const QPoint& at) const { return impl_->CellAt(at); }
const std::optional<LineBox>& MatrixView::area() const { return impl_->scene.area; }
bool MatrixView::Idle() const { return impl_->source.idle() && !impl_->count_job.busy() && !impl_->stale(); }

QPoint MatrixView::CentreOf(Cell cell) const {
  return RectOfBox(impl_->layout, impl_->scene, {cell.line, cell.line, cell.column, cell.column}).center().toPoint();
}

QString MatrixView::SpokenCursor() const {
  const Impl& d = *impl_;
  if (!d.cursor.has_value() || d.data() == nullptr || d.cursor->line >= d.lines()) return {};
  return CellSpoken(*d.data()->document, *d.data()->cells, d.RowOf(d.cursor->line), d.cursor->column);
}

void MatrixView::MoveCursor(Cell cell) {
  Impl& d = *impl_;
  if (d.lines() == 0 || d.columns() == 0) return;
  d.cursor = Cell{std::clamp(cell.line, 0, d.lines() - 1), std::clamp(cell.column, 0, d.columns() - 1)};
  ViewTransform t = d.scene.body;
  t.x.Reveal(d.cursor->column, d.cursor->column + 1, 1);
  if (d.cursor->line >= d.pinned()) t.y.Reveal(d.cursor->line - d.pinned(), d.cursor->line + 1 - d.pinned(), 1);
  if (t.viewport() != d.scene.body.viewport()) d.Show(t);
  d.Tell();
  update();
}

void MatrixView::Zoom(double factor) {
  ViewTransform t = impl_->scene.body;
  t.x.Zoom(factor, impl_->ZoomCentre().x());
  impl_->Show(t);
}

void MatrixView::ZoomRows(double factor) {
  ViewTransform t = impl_->scene.body;
  t.y.Zoom(factor, impl_->ZoomCentre().y());
  impl_->Show(t);
}

void MatrixView::Pan(double right, double down) {
  ViewTransform t = impl_->scene.body;
  t.x.Pan(right * t.x.pixels());
  t.y.Pan(down * t.y.pixels());
  impl_->Show(t);
}

void MatrixView::Fit() {
  ViewTransform t = impl_->scene.body;
  t.x.Fit();
  t.y.Fit();
  impl_->Show(t);
}

void MatrixView::CentreOnSelection() {
  Impl& d = *impl_;
  std::optional<LineBox> box = d.SelectedBox();
  if (!box.has_value() && d.cursor.has_value())
    box = LineBox{d.cursor->line, d.cursor->line, d.cursor->column, d.cursor->column};
  if (!box.has_value()) return Fit();
  ViewTransform t = d.scene.body;
  t.x.Centre((box->column_first + box->column_last + 1) / 2.0);
  t.y.Centre((box->line_first + box->line_last + 1) / 2.0 - d.pinned());
  d.Show(t);
}

void MatrixView::ZoomToSelection() {
  Impl& d = *impl_;
  if (d.scene.area.has_value()) return d.ShowBox(*d.scene.area, 0, 0);
  const std::optional<LineBox> box = d.SelectedBox();
  if (box.has_value()) d.ShowBox(*box, 12, 8);
}

bool MatrixView::Paint(QPainter* painter, const QSize& size) {
  Impl& d = *impl_;
  if (d.data() == nullptr) return false;
  MatrixScene scene = d.scene;
  const MatrixLayout layout = LayOutMatrix(size, painter->fontMetrics(), d.pinned());
  scene.body = ViewTransform(d.columns(), d.lines() - d.pinned(), layout.body.width(), layout.body.height());
  scene.body.Show(d.scene.body.viewport());
  scene.pinned.x = scene.body.x;
  scene.pinned.y = ViewAxis(d.pinned(), layout.pinned.height(), 64, 64);
  scene.focused = scene.building = false;
  scene.cursor_line = scene.cursor_column = -1;
  MatrixImages images;
  PaintMatrix(painter, size, layout, scene, ThemeFor(palette()), &images);
  return true;
}

void MatrixView::paintEvent(QPaintEvent*) {
  Impl& d = *impl_;
  QPainter painter(this);
  d.scene.focused = hasFocus();
  d.scene.cursor_line = d.cursor.has_value() ? d.cursor->line : -1;
  d.scene.cursor_column = d.cursor.has_value() ? d.cursor->column : -1;
  if (d.document == nullptr) {
    d.scene.empty_text.clear();
  } else if (d.data() == nullptr) {
    d.scene.empty_text = "Building the picture ..";
  } else if (d.lines() == 0 && d.data()->cells->rows > 0) {
    d.scene.empty_text = "The filters hide every rank. Esc clears them.";
  } else {
    d.scene.empty_text = d.data()->cells->mode == MatrixMode::kCommunicator
                             ? "No collective of this communicator is recorded. J shows all ranks."
                             : "No operation is recorded.";
  }
  PaintMatrix(&painter, size(), d.layout, d.scene, ThemeFor(palette()), &d.images);
}

void MatrixView::resizeEvent(QResizeEvent*) { impl_->LayOut(); }

void MatrixView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange ||
      event->type() == QEvent::StyleChange) {
    impl_->images = {};
    impl_->LayOut();
    update();
  }
}

void MatrixView::focusInEvent(QFocusEvent* event) {
  View::focusInEvent(event);
  Impl& d = *impl_;
  // Keys need a cursor: at the selection, otherwise at the top right of the visible part.
  if (!d.cursor.has_value() && d.lines() > 0 && d.columns() > 0 && event->reason() != Qt::MouseFocusReason) {
    const std::optional<LineBox> box = d.SelectedBox();
    MoveCursor(box.has_value() ? Cell{box->line_first, box->column_first} : d.NearestCell(d.layout.body.topRight()));
  }
  update();
}

void MatrixView::focusOutEvent(QFocusEvent* event) {
  View::focusOutEvent(event);
  update();
}

void MatrixView::keyPressEvent(QKeyEvent* event) {
  Impl& d = *impl_;
  const bool shift = event->modifiers().testFlag(Qt::ShiftModifier),
             ctrl = event->modifiers().testFlag(Qt::ControlModifier);
  if (event->modifiers().testFlag(Qt::AltModifier)) return View::keyPressEvent(event);
  auto move = [&](int down, int right) {
    if (d.lines() == 0 || d.columns() == 0) return;
    if (!d.cursor.has_value()) d.cursor = d.NearestCell(d.layout.body.center());
    const Cell from = *d.cursor;
    auto moved = [](int at, int by, int count) {
      return static_cast<int>(std::clamp<int64_t>(int64_t{at} + by, 0, count - 1));
    };
    if (shift && !d.anchor.has_value()) d.anchor = from;
    MoveCursor({moved(from.line, down, d.lines()), moved(from.column, right, d.columns())});
    if (shift) {
      d.whole_rows = d.whole_columns = false;
      d.SetArea(*d.anchor, *d.cursor);
    } else {
      d.anchor.reset();
    }
  };
  const int step = ctrl ? 10 : 1;
  const int screen = std::max(1, static_cast<int>(d.layout.body.height() / std::max(d.scene.body.y.scale(), 1e-6)) - 1);
  switch (event->key()) {
    case Qt::Key_Up: return move(-step, 0);
    case Qt::Key_Down: return move(step, 0);
    case Qt::Key_Left: return move(0, -step);
    case Qt::Key_Right: return move(0, step);
    case Qt::Key_PageUp: return move(-screen, 0);
    case Qt::Key_PageDown: return move(screen, 0);
    case Qt::Key_Home: return ctrl ? move(-d.lines(), 0) : move(0, -d.columns());
    case Qt::Key_End: return ctrl ? move(d.lines(), 0) : move(0, d.columns());
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      if (!d.cursor.has_value()) return;
      if (ctrl) return d.ShowColumn(*d.cursor);
      if (d.scene.area.has_value()) return d.SelectArea();
      return d.SelectCell(*d.cursor);
    case Qt::Key_Escape:
      d.anchor.reset();
      if (d.scene.area.has_value()) {
        return d.ForgetArea();
      }
      if (!navigator()->selection().empty()) return d.Select({});
      return View::keyPressEvent(event);
    default: return View::keyPressEvent(event);
  }
}

void MatrixView::wheelEvent(QWheelEvent* event) {
  Impl& d = *impl_;
  const QPointF at = event->position() - QPointF(d.layout.body.topLeft());
  const bool shift = event->modifiers().testFlag(Qt::ShiftModifier);
  QPointF turns = QPointF(event->angleDelta()) / kWheelStep;
  ViewTransform t = d.scene.body;
  if (event->modifiers().testFlag(Qt::ControlModifier)) {
    const double factor = std::pow(kZoomStep, std::abs(turns.y()) > 0 ? turns.y() : turns.x());
    if (shift) {
      t.y.Zoom(factor, at.y());
    } else {
      t.x.Zoom(factor, at.x());
    }
  } else {
    if (shift && turns.x() == 0) turns = QPointF(turns.y(), 0);
    t.x.Pan(-turns.x() * std::max(60.0, t.x.scale() * 3));
    t.y.Pan(-turns.y() * std::max(60.0, t.y.scale() * 3));
  }
  d.Show(t);
  event->accept();
}

void MatrixView::mousePressEvent(QMouseEvent* event) {
  Impl& d = *impl_;
  setFocus(Qt::MouseFocusReason);
  d.pressed = d.last = event->pos();
  d.anchor.reset();
  if (d.lines() == 0 || d.columns() == 0) return;
  const bool pan = event->button() == Qt::MiddleButton ||
                   (event->button() == Qt::LeftButton && event->modifiers().testFlag(Qt::ShiftModifier));
  if (pan) {
    d.drag = Impl::Drag::kPan;
    setCursor(Qt::ClosedHandCursor);
  } else if (event->button() == Qt::LeftButton && d.layout.minimap.contains(event->pos())) {
    d.drag = Impl::Drag::kMinimap;
    mouseMoveEvent(event);
  } else if (event->button() == Qt::LeftButton) {
    d.drag = Impl::Drag::kPress;
    d.whole_rows = d.layout.row_axis.contains(event->pos()) || d.layout.lag.contains(event->pos());
    d.whole_columns = d.layout.column_axis.contains(event->pos()) || d.layout.histogram.contains(event->pos());
  }
}

void MatrixView::mouseMoveEvent(QMouseEvent* event) {
  Impl& d = *impl_;
  const QPoint at = event->pos();
  switch (d.drag) {
    case Impl::Drag::kNone: {
      QString text;
      if (const std::optional<Cell> cell = d.WorstCellAt(at); cell.has_value()) {
        text = CellLines(*d.data()->document, *d.data()->cells, d.RowOf(cell->line), cell->column)
                   .mid(0, 3)
                   .join(QString::fromUtf8("  \u00b7  "));
      }
      QStatusTipEvent tip(text);
      QCoreApplication::sendEvent(this, &tip);
      break;
    }
    case Impl::Drag::kPress:
      if ((at - d.pressed).manhattanLength() < QApplication::startDragDistance()) break;
      d.drag = Impl::Drag::kArea;
      [[fallthrough]];
    case Impl::Drag::kArea: d.SetArea(d.NearestCell(d.pressed), d.NearestCell(at)); break;
    case Impl::Drag::kPan: {
      ViewTransform t = d.scene.body;
      t.x.Pan(d.last.x() - at.x());
      t.y.Pan(d.last.y() - at.y());
      d.Show(t);
      break;
    }
    case Impl::Drag::kMinimap: {
      ViewTransform t = d.scene.body;
      t.x.Centre((at.x() - d.layout.minimap.left()) * t.x.cells() / std::max(d.layout.minimap.width(), 1));
      t.y.Centre((at.y() - d.layout.minimap.top()) * t.y.cells() / std::max(d.layout.minimap.height(), 1));
      d.Show(t);
      break;
    }
  }
  d.last = at;
}

void MatrixView::mouseReleaseEvent(QMouseEvent* event) {
  Impl& d = *impl_;
  const auto drag = std::exchange(d.drag, Impl::Drag::kNone);
  unsetCursor();
  if (drag == Impl::Drag::kArea) return d.SelectArea();
  if (drag != Impl::Drag::kPress) return;
  if (d.whole_rows || d.whole_columns) {
    const Cell cell = d.NearestCell(event->pos());
    d.SetArea(cell, cell);
    return d.SelectArea();
  }
  d.ForgetArea();
  const std::optional<Cell> cell = d.WorstCellAt(event->pos());
  if (!cell.has_value()) return;
  MoveCursor(*cell);
  d.SelectCell(*cell);
}

void MatrixView::mouseDoubleClickEvent(QMouseEvent* event) {
  Impl& d = *impl_;
  if (event->button() != Qt::LeftButton) return;
  if (const std::optional<Cell> cell = d.WorstCellAt(event->pos()); cell.has_value()) d.ShowColumn(*cell);
}

bool MatrixView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const QString text = MatrixTip(impl_->layout, impl_->scene, help->pos());
    if (text.isEmpty()) {
      QToolTip::hideText();
      event->ignore();
    } else {
      QToolTip::showText(help->globalPos(), text, this);
    }
    return true;
  }
  return View::event(event);
}

QString MatrixView::CopyText() const {
  const Impl& d = *impl_;
  if (d.data() == nullptr) return {};
  const Document& document = *d.data()->document;
  const CellMatrix& cells = *d.data()->cells;
  constexpr int kMostCopied = 5000;
  auto table = [&](const LineBox& box) {
    std::vector<int> rows;
    for (int line = box.line_first; line <= box.line_last && line < d.lines(); ++line) rows.push_back(d.RowOf(line));
    return CellsAsTsv(document, cells, rows, box.column_first, box.column_last, kMostCopied);
  };
  if (d.scene.area.has_value()) return table(*d.scene.area);
  if (d.scene.selected.empty()) {
    return d.cursor.has_value() && d.cursor->line < d.lines()
               ? CellLines(document, cells, d.RowOf(d.cursor->line), d.cursor->column).join('\n')
               : QString();
  }
  const LineBox& first = d.scene.selected.front();
  if (d.scene.selected.size() == 1 && first.line_first == first.line_last && first.column_first == first.column_last) {
    return CellLines(document, cells, d.RowOf(first.line_first), first.column_first).join('\n');
  }
  return table({first.line_first, d.scene.selected.back().line_last, first.column_first, first.column_last});
}

QString MatrixView::Csv() const {
  const Impl& d = *impl_;
  if (d.data() == nullptr || d.lines() == 0 || d.columns() == 0) return {};
  return CsvOfBox(*d.data(), {0, d.lines() - 1, d.scene.body.x.ClampedCellAt(0),
                              d.scene.body.x.ClampedCellAt(d.layout.body.width() - 1)});
}

}  // namespace lockstep::gui
