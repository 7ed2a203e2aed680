#include "gui/view/answer/pane.h"

#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr double kWidestCell = 44, kLeastForWords = 90;  // pixels
constexpr int kSigns = 5;                                // columns from one number to the next

QString Words(const std::string& text) { return Plain(text, 400); }

ViewState StateOfRow(const Focus::Row& row) {
  switch (row.kind()) {
    case WaitClass::HEALTHY: return ViewState::kCompleted;
    case WaitClass::NO_DATA: return ViewState::kNoData;
    case WaitClass::CAUSE: return ViewState::kMissing;
    default: return ViewState::kWaiting;
  }
}

}  // namespace

AnswerPane::AnswerPane(Navigator* navigator, QWidget* parent)
    : Pane("Last calls", "The last calls around the fault; arrows move between ranks and calls, Enter selects.",
           parent),
      navigator_(navigator) {
  connect(navigator, &Navigator::SelectionChanged, this, [this] { update(); });
}

void AnswerPane::Show(DocumentPtr document, const Focus* focus) {
  document_ = std::move(document);
  focus_ = focus;
  cursor_ = {};
  for (int row = 0; focus_ != nullptr && row < focus_->rows_size() && cursor_.row < 0; ++row) {
    if (focus_->rows(row).culprit()) cursor_ = {row, focus_->rows(row).cells().empty() ? -1 : focus_->fault_column()};
  }
  if (cursor_.row >= 0) setAccessibleDescription(CellText(cursor_));
  update();
}

int AnswerPane::HeightFor(int most) const {
  if (focus_ == nullptr) return 0;
  const QFontMetricsF metrics(font());
  const int rows = focus_->rows_size();
  const double head = metrics.height() * 2.6;
  const double room = rows == 0 ? 0 : (most - head) / rows;
  return static_cast<int>(head + rows * std::clamp(room, metrics.height() + 3, metrics.height() * 1.8)) + 2;
}

AnswerPane::Layout AnswerPane::LayoutFor(const QSize& size) const {
  const QFontMetricsF metrics(font()), bold(Bold(font()));
  Layout out;
  out.width = size.width();
  double words = 0;
  for (const Focus::Row& row : focus_->rows()) {
    out.label =
        std::max(out.label, bold.horizontalAdvance(Words(row.label())) +
                                (row.place().empty() ? 0 : metrics.horizontalAdvance("  " + Words(row.place()))));
    words = std::max(words, bold.horizontalAdvance("◀ " + Words(row.state())) + 20);
  }
  out.label = std::min(out.label + 24, out.width * 0.28);
  const double columns = std::max(focus_->columns(), 1);
  // The text at the right gets the space it needs, at most a third, and less if cells would be too narrow for "AR".
  const double least = metrics.horizontalAdvance("AR") + 4;
  words = std::min({words, out.width / 3, std::max(out.width - out.label - columns * least, 0.0)});
  out.cell = std::min(kWidestCell, (out.width - out.label - words) / columns);
  out.end = out.X(focus_->columns());
  out.head = metrics.height() * 2.6;
  out.row = focus_->rows().empty() ? 0 : (size.height() - out.head - 2) / focus_->rows_size();
  return out;
}

QRectF AnswerPane::RectOf(Cell cell) const {
  if (focus_ == nullptr || cell.row < 0) return {};
  const Layout layout = LayoutFor(size());
  if (cell.column < 0) return {0, layout.Y(cell.row), layout.width, layout.row};
  return {layout.X(cell.column), layout.Y(cell.row), layout.cell, layout.row};
}

AnswerPane::Cell AnswerPane::At(const QPointF& at) const {
  if (focus_ == nullptr) return {};
  const Layout layout = LayoutFor(size());
  const int row = static_cast<int>(std::floor((at.y() - layout.head) / std::max(layout.row, 1.0))),
            column = static_cast<int>(std::floor((at.x() - layout.label) / std::max(layout.cell, 1.0)));
  if (row < 0 || row >= focus_->rows_size()) return {};
  return {row, column >= 0 && column < focus_->rows(row).cells_size() ? column : -1};
}

QString AnswerPane::CellText(Cell cell) const {
  if (focus_ == nullptr || cell.row < 0 || cell.row >= focus_->rows_size()) return {};
  const Focus::Row& row = focus_->rows(cell.row);
  QString text = Words(row.label());
  if (!row.place().empty()) text += " (" + Words(row.place()) + ")";
  if (row.culprit()) text += ", named by the verdict";
  if (cell.column >= 0 && cell.column < row.cells_size() && !row.cells(cell.column).text().empty())
    return text + ": " + Words(row.cells(cell.column).text());
  return row.state().empty() ? text : text + ": " + Words(row.state());
}

bool AnswerPane::Missing(const Focus::Row& row) const {
  return !row.cells().empty() &&
         row.cells(focus_->fault_column()).state() == static_cast<uint32_t>(ViewState::kMissing);
}

void AnswerPane::Draw(QPainter* painter, const QSize& size, bool whole) {
  Begin(painter, size, {});
  if (focus_ == nullptr) return;
  const Theme& theme = ThemeFor(palette());
  const Layout layout = LayoutFor(size);
  QColor band = theme.alarm;
  band.setAlpha(30);
  if (!focus_->fault().empty())
    painter->fillRect(QRectF(layout.X(focus_->fault_column()), layout.head - 2, layout.cell, size.height()), band);
  DrawHead(painter, theme, layout);
  for (int row = 0; row < focus_->rows_size(); ++row) {
    if (focus_->rows(row).culprit()) painter->fillRect(QRectF(0, layout.Y(row), layout.width, layout.row), band);
    DrawRow(painter, theme, layout, row);
  }
  for (int row = 0; row < focus_->rows_size() && !whole; ++row) {
    const Ranks ranks = Ranks::Of(focus_->rows(row).ranks());
    const bool cursor = cursor_.row == row && hasFocus();
    if (!cursor && (ranks.empty() || ranks != navigator_->selection().ranks)) continue;
    painter->setBrush(Qt::NoBrush);
    painter->setPen(QPen(cursor ? theme.cursor : theme.selection, 1, cursor ? Qt::SolidLine : Qt::DashLine));
    const bool cell = cursor && cursor_.column >= 0;
    const double inside = cell ? std::min(4.0, layout.cell / 4) : 0;  // the frame must not cover the fault's mark
    painter->drawRect(
        QRectF(cell ? layout.X(cursor_.column) : 0, layout.Y(row), cell ? layout.cell : layout.label, layout.row)
            .adjusted(inside + 0.5, inside + 0.5, -inside - 0.5, -inside - 0.5));
  }
}

void AnswerPane::DrawHead(QPainter* painter, const Theme& theme, const Layout& layout) const {
  const QFontMetricsF metrics(font()), bold(Bold(font()));
  const double line = metrics.height();
  painter->setFont(Bold(font()));
  const double fault_x = layout.X(focus_->fault_column()) + layout.cell / 2;
  double room = layout.width - 20;
  if (!focus_->fault().empty()) {
    const QString fault = Words(focus_->fault());
    const double width = bold.horizontalAdvance(fault) + 4;
    const double left = std::clamp(fault_x - width / 2, layout.label, std::max(layout.label, layout.width - width - 4));
    room = left - 20;
    painter->setPen(theme.alarm);
    painter->drawText(QRectF(left, 2, width, line), Qt::AlignCenter, fault);
    painter->setPen(Qt::NoPen);
    painter->setBrush(theme.alarm);
    painter->setRenderHint(QPainter::Antialiasing);
    const double top = 2 + line * 1.15, half = line * 0.45;
    painter->drawPolygon(
        QPolygonF({QPointF(fault_x - half, top), QPointF(fault_x + half, top), QPointF(fault_x, top + line * 0.85)}));
    painter->setRenderHint(QPainter::Antialiasing, false);
  }
  painter->setPen(theme.text);
  painter->drawText(QRectF(10, 2, room, line), Qt::AlignLeft | Qt::AlignVCenter,
                    bold.elidedText(Words(focus_->title()), Qt::ElideRight, room));
  painter->setFont(font());
  painter->setPen(theme.faint_text);
  const QRectF below(layout.label, 2 + line * 1.2, fault_x - layout.label - line, line);
  if (focus_->comm() >= 0 && focus_->first_sequence() < 0) {
    painter->drawText(below, Qt::AlignLeft | Qt::AlignVCenter,
                      metrics.elidedText("the last sends and receives of each rank, newest at the right",
                                         Qt::ElideRight, below.width()));
  }
  for (int column = focus_->fault_column() - kSigns; focus_->first_sequence() >= 0 && column >= 0; column -= kSigns) {
    painter->drawText(QRectF(layout.X(column) + 1, below.top(), layout.cell * kSigns, line),
                      Qt::AlignLeft | Qt::AlignVCenter, QString("#%1").arg(focus_->first_sequence() + column));
  }
}

void AnswerPane::DrawRow(QPainter* painter, const Theme& theme, const Layout& layout, int number) const {
  const Focus::Row& row = focus_->rows(number);
  const QFontMetricsF metrics(font()), bold(Bold(font()));
  const double y = layout.Y(number), height = layout.row;
  if (row.culprit()) painter->fillRect(QRectF(0, y, 5, height), theme.alarm);
  const bool strong = row.culprit() || row.cells().empty();
  painter->setFont(strong ? Bold(font()) : font());
  painter->setPen(row.culprit() ? theme.alarm : theme.text);
  const QFontMetricsF& own = strong ? bold : metrics;
  const QString label = own.elidedText(Words(row.label()), Qt::ElideRight, layout.label - 16);
  painter->drawText(QRectF(10, y, layout.label - 16, height), Qt::AlignLeft | Qt::AlignVCenter, label);
  const double used = 10 + own.horizontalAdvance(label + "  ");
  painter->setFont(font());
  if (!row.place().empty() && layout.label - used > 20) {
    painter->setPen(row.culprit() ? theme.text : theme.faint_text);
    painter->drawText(QRectF(used, y, layout.label - used - 6, height), Qt::AlignLeft | Qt::AlignVCenter,
                      metrics.elidedText(Words(row.place()), Qt::ElideRight, layout.label - used - 6));
  }
  if (row.cells().empty()) {
    const StateStyle& style = theme.Of(StateOfRow(row));
    const QRectF bar(layout.label, y + height * 0.25, std::max(layout.end - layout.label, 40.0), height * 0.5);
    painter->fillRect(bar, style.fill);
    if (style.hatch != Qt::NoBrush) painter->fillRect(bar, QBrush(style.ink, style.hatch));
  }
  for (int column = 0; column < row.cells_size(); ++column) {
    const QRectF rect(layout.X(column) + 1, y + 1, std::max(layout.cell - 2, 1.0), height - 2);
    DrawCell(painter, theme, rect, row.cells(column), row.culprit());
    if (row.culprit() && column == focus_->fault_column() && !focus_->fault().empty())
      DrawMark(painter, theme, rect, Missing(row));
  }
  const double room = layout.width - layout.end - 14;
  if (room < kLeastForWords || row.state().empty()) return;
  painter->setFont(row.culprit() ? Bold(font()) : font());
  painter->setPen(row.culprit() ? theme.alarm : theme.faint_text);
  const QString state = (row.culprit() ? QString::fromUtf8("◀ ") : QString()) + Words(row.state());
  painter->drawText(QRectF(layout.end + 10, y, room, height), Qt::AlignLeft | Qt::AlignVCenter,
                    (row.culprit() ? bold : metrics).elidedText(state, Qt::ElideRight, room));
}

void AnswerPane::DrawCell(QPainter* painter, const Theme& theme, const QRectF& rect, const Focus::Cell& cell,
                          bool culprit) const {
  const auto state = static_cast<ViewState>(cell.state());
  if (state == ViewState::kOutside) return;
  // A call without a record, and a call that a peer has not made yet, get only an outline.
  if (state == ViewState::kOverwritten || (state == ViewState::kMissing && !culprit)) {
    painter->setBrush(Qt::NoBrush);
    painter->setPen(QPen(theme.faint_text, 1, Qt::DotLine));
    painter->drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5));
    return;
  }
  const StateStyle& style = theme.Of(state);
  painter->fillRect(rect, style.fill);
  if (style.hatch != Qt::NoBrush) painter->fillRect(rect, QBrush(style.ink, style.hatch));
  if (state == ViewState::kMissing) return;  // the mark shows this state
  const QFontMetricsF metrics(font());
  const QString call = Words(cell.call());
  const QString sign = style.glyph == ' ' ? QString() : QString(style.glyph);
  painter->setFont(font());
  painter->setPen(style.ink);
  for (const QString& text : {sign.isEmpty() || call.isEmpty() ? call + sign : call + " " + sign, sign, call}) {
    if (text.isEmpty() || metrics.horizontalAdvance(text) > rect.width()) continue;
    painter->drawText(rect, Qt::AlignCenter, text);
    return;
  }
}

// Draws a thick frame, with a cross if the call is missing.
void AnswerPane::DrawMark(QPainter* painter, const Theme& theme, const QRectF& rect, bool missing) const {
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setBrush(Qt::NoBrush);
  const QRectF frame = rect.width() < 8 ? rect.adjusted(-3, 0, 3, 0) : rect;
  painter->setPen(QPen(theme.alarm, 3));
  painter->drawRect(frame.adjusted(0.5, 0.5, -0.5, -0.5));
  if (missing) {
    const double half = std::min(rect.width(), rect.height()) * 0.28;
    const QPointF at = rect.center();
    painter->setPen(QPen(theme.Of(ViewState::kMissing).ink, 2.5));
    painter->drawLine(at + QPointF(-half, -half), at + QPointF(half, half));
    painter->drawLine(at + QPointF(half, -half), at + QPointF(-half, half));
  }
  painter->restore();
}

void AnswerPane::SetCursor(Cell cell) {
  if (focus_ == nullptr || focus_->rows().empty()) return;
  cell.row = std::clamp(cell.row, 0, focus_->rows_size() - 1);
  cell.column = std::clamp(cell.column, -1, focus_->rows(cell.row).cells_size() - 1);
  cursor_ = cell;
  setAccessibleDescription(CellText(cursor_));
  Q_EMIT CursorMoved();
  update();
}

void AnswerPane::Select(Cell cell) {
  if (focus_ == nullptr || cell.row < 0) return;
  const Selection selection = FocusSelection(*focus_, cell.row, cell.column);
  if (!selection.empty()) navigator_->Select(selection);
}

void AnswerPane::mousePressEvent(QMouseEvent* event) {
  const Cell cell = At(event->position());
  if (event->button() != Qt::LeftButton || cell.row < 0) return;
  SetCursor(cell);
  Select(cell);
}

void AnswerPane::keyPressEvent(QKeyEvent* event) {
  Cell to = cursor_;
  const int columns = focus_ == nullptr ? 0 : focus_->columns();
  switch (event->key()) {
    case Qt::Key_Up: --to.row; break;
    case Qt::Key_Down: ++to.row; break;
    case Qt::Key_Left: --to.column; break;
    case Qt::Key_Right: ++to.column; break;
    case Qt::Key_Home: to.column = 0; break;
    case Qt::Key_End: to.column = columns - 1; break;
    case Qt::Key_PageUp: to.row = 0; break;
    case Qt::Key_PageDown: to.row = focus_ == nullptr ? 0 : focus_->rows_size() - 1; break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space: Select(cursor_); return;
    default: QWidget::keyPressEvent(event); return;
  }
  SetCursor(to);
}

}  // namespace lockstep::gui
