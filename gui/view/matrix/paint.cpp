#include "gui/view/matrix/paint.h"

#include <QPaintDevice>
#include <QPolygonF>

#include <algorithm>
#include <cmath>
#include <thread>

#include "gui/model/matrix/cell_text.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kGap = 4, kLagWidth = 16, kMinimapWidth = 76, kPinnedHeight = 18;

int RenderThreads(int pixels) {
  return pixels < 2'500'000 ? 1 : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
}

bool SameAxis(const ViewAxis& a, const ViewAxis& b) {
  return a.first() == b.first() && a.scale() == b.scale() && a.pixels() == b.pixels() && a.cells() == b.cells();
}
bool SameView(const ViewTransform& a, const ViewTransform& b) { return SameAxis(a.x, b.x) && SameAxis(a.y, b.y); }

absl::Span<const uint32_t> PinnedRows(const MatrixData& data) {
  return absl::MakeConstSpan(data.order.rows).subspan(0, static_cast<size_t>(data.order.pinned));
}
absl::Span<const uint32_t> BodyRows(const MatrixData& data) {
  return absl::MakeConstSpan(data.order.rows).subspan(static_cast<size_t>(data.order.pinned));
}

void Renew(const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme, double ratio,
           MatrixImages* images) {
  const MatrixData& data = *scene.data;
  const bool all = images->data != scene.data.get() || images->dark != theme.dark || images->ratio != ratio;
  images->data = scene.data.get();
  images->dark = theme.dark;
  images->ratio = ratio;
  auto render = [&](absl::Span<const uint32_t> rows, const ViewTransform& transform) {
    const ViewTransform device = transform.Magnified(ratio);
    QImage image = RenderMatrix(*data.cells, rows, device, theme,
                                RenderThreads(static_cast<int>(device.x.pixels() * device.y.pixels())));
    image.setDevicePixelRatio(ratio);
    return image;
  };
  if (all || images->body.isNull() || !SameView(images->body_at, scene.body)) {
    images->body = render(BodyRows(data), scene.body);
    images->body_at = scene.body;
  }
  if (data.order.pinned == 0 || layout.pinned.isEmpty()) {
    images->pinned = QImage();
  } else if (all || images->pinned.isNull() || !SameView(images->pinned_at, scene.pinned)) {
    images->pinned = render(PinnedRows(data), scene.pinned);
    images->pinned_at = scene.pinned;
  }
  if (layout.minimap.isEmpty()) {
    images->minimap = QImage();
  } else if (all || images->minimap.isNull() || images->minimap.size() != layout.minimap.size() * ratio) {
    ViewTransform whole;
    whole.x = ViewAxis(data.cells->columns, layout.minimap.width(), 1e6, 1e6);
    whole.y = ViewAxis(data.order.lines() - data.order.pinned, layout.minimap.height(), 1e6, 1e6);
    const ViewTransform device = whole.Magnified(ratio);
    images->minimap = RenderMatrix(*data.cells, BodyRows(data), device, theme);
    images->minimap.setDevicePixelRatio(ratio);
  }
}

QString TitleText(const MatrixScene& scene) {
  const MatrixData& data = *scene.data;
  const CellMatrix& cells = *data.cells;
  QStringList parts;
  if (cells.mode == MatrixMode::kCommunicator) {
    parts << data.document->CommName(cells.comm) << QString("%1 members").arg(Count(cells.rows));
    if (cells.columns > 0) {
      parts << QString("sequence numbers %1 to %2")
                   .arg(Count(cells.first_seq), Count(cells.first_seq + cells.columns - 1));
    }
  } else {
    parts << "All ranks" << Count(cells.rows)
          << (cells.columns == 2 ? QString("last call of each")
                                 : QString("last %1 calls of each").arg(Count(std::max(cells.columns - 1, 0))));
  }
  if (data.order.lines() < cells.rows) parts << QString("%1 rows match the filters").arg(Count(data.order.lines()));
  if (scene.grouping != RowGrouping::kRank) parts << QString("by %1").arg(RowGroupingName(scene.grouping));
  return parts.join(QString::fromUtf8("  \u00b7  "));
}

// Paints a sample and the name of each state in the picture at the right of `room`, worst first.
void PaintStates(QPainter* painter, const QRect& room, const MatrixScene& scene, const Theme& theme) {
  const QFontMetrics font = painter->fontMetrics();
  const int side = font.height() - 4, gap = 14;
  std::vector<ViewState> shown;
  int width = 0;
  for (size_t s = scene.data->counts.size(); s-- > 1;) {
    const int more = side + 4 + font.horizontalAdvance(ViewStateName(static_cast<ViewState>(s))) + gap;
    if (scene.data->counts[s] == 0 || width + more > room.width()) continue;
    shown.push_back(static_cast<ViewState>(s));
    width += more;
  }
  int x = room.right() - width + gap;
  painter->setPen(theme.faint_text);
  for (const ViewState state : shown) {
    const QString name = ViewStateName(state);
    painter->drawImage(QPoint(x, room.top() + (room.height() - side) / 2),
                       RenderSample(state, theme, QSize(side, side), painter->device()->devicePixelRatioF()));
    x += side + 4;
    painter->drawText(QPoint(x, room.top() + (room.height() - font.height()) / 2 + font.ascent()), name);
    x += font.horizontalAdvance(name) + gap;
  }
}

void PaintTitle(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme) {
  const QFontMetrics font = painter->fontMetrics();
  const QString title = TitleText(scene);
  const QString right = scene.building ? QString("building the picture ..") : scene.area_text;
  const int taken = right.isEmpty() ? 0 : std::min(font.horizontalAdvance(right) + 16, layout.title.width() * 2 / 3);
  painter->setPen(theme.text);
  painter->drawText(layout.title.adjusted(0, 0, -taken, 0), Qt::AlignLeft | Qt::AlignVCenter,
                    font.elidedText(title, Qt::ElideRight, layout.title.width() - taken));
  if (taken == 0)
    return PaintStates(painter, layout.title.adjusted(font.horizontalAdvance(title) + 30, 0, 0, 0), scene, theme);
  painter->setPen(scene.building ? theme.faint_text : theme.link);
  painter->drawText(layout.title, Qt::AlignRight | Qt::AlignVCenter, font.elidedText(right, Qt::ElideRight, taken));
}

void PaintHistogram(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme) {
  const QRect& rect = layout.histogram;
  if (rect.isEmpty()) return;
  painter->fillRect(rect.adjusted(0, rect.height() - 1, 0, 0), theme.grid);
  const MatrixData& data = *scene.data;
  const double rows = std::max(data.order.lines(), 1), height = rect.height();
  const PixelCells pixels = CellsOfPixels(scene.body.x, rect.width());
  const QColor done = theme.Of(ViewState::kCompleted).fill, open = theme.Of(ViewState::kWaiting).fill,
               fault = theme.Of(ViewState::kMissing).fill;
  for (int x = 0; x < rect.width(); ++x) {
    const int first = pixels.first[static_cast<size_t>(x)];
    if (first < 0) continue;
    // If several columns share a pixel, takes the fewest completed and the most faults, so that a single fault stays
    // visible.
    MatrixData::Column worst = data.columns[static_cast<size_t>(first)];
    for (int c = first + 1; c < pixels.end[static_cast<size_t>(x)]; ++c) {
      const MatrixData::Column& column = data.columns[static_cast<size_t>(c)];
      worst.done = std::min(worst.done, column.done);
      worst.open = std::max(worst.open, column.open);
      worst.fault = std::max(worst.fault, column.fault);
    }
    double at = rect.bottom() + 1;
    const double ceiling = rect.top();
    auto stack = [&](double count, const QColor& colour, double least) {
      if (count <= 0) return;
      const double h = std::min(std::max(count / rows * height, least), at - ceiling);
      painter->fillRect(QRectF(rect.left() + x, at - h, 1, h), colour);
      at -= h;
    };
    stack(worst.fault, fault, 3);
    stack(worst.open, open, 1);
    stack(worst.done, done, 1);
  }
}

void PaintColumnAxis(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme) {
  const QRect& rect = layout.column_axis;
  if (rect.isEmpty()) return;
  const CellMatrix& cells = *scene.data->cells;
  const ViewAxis& axis = scene.body.x;
  const bool job = cells.mode == MatrixMode::kJob;
  const int64_t shift = job ? -(cells.columns - 1) : cells.first_seq;  // number of column 0
  const QFontMetrics font = painter->fontMetrics();
  const double widest = font.horizontalAdvance(Count(shift + (job ? 0 : cells.columns))) + 18;
  const QRect caption = rect.adjusted(0, 0, 0, 0);
  int64_t last_pixel = INT64_MIN;
  for (const Tick& tick : Ticks(axis.first() + static_cast<double>(shift),
                                axis.last() + static_cast<double>(shift) - 0.001, axis.scale(), widest)) {
    const double x = rect.left() + axis.ToPixel(static_cast<double>(tick.value - shift) + 0.5);
    const QString label = job && tick.value == 0 ? QString("next") : tick.label;
    const int width = font.horizontalAdvance(label);
    const double left = std::clamp(x - width / 2.0, static_cast<double>(rect.left()),
                                   std::max<double>(rect.right() - width, rect.left()));
    if (x < rect.left() || x > rect.right() || static_cast<int64_t>(left) < last_pixel) continue;
    painter->setPen(theme.faint_text);
    painter->drawLine(QPointF(x, rect.bottom() - 3), QPointF(x, rect.bottom()));
    painter->drawText(QRectF(left, caption.top(), width + 2, rect.height() - 4), Qt::AlignLeft | Qt::AlignVCenter,
                      label);
    last_pixel = static_cast<int64_t>(left) + width + 6;
  }
  painter->setPen(theme.faint_text);
  const QString name = job ? QString("calls from the end") : QString("sequence number");
  const QRect corner(layout.row_axis.left(), rect.top(), rect.left() - layout.row_axis.left() - 8, rect.height() - 4);
  painter->drawText(corner, Qt::AlignRight | Qt::AlignVCenter, font.elidedText(name, Qt::ElideLeft, corner.width()));
}

// Paints the ranks and groups of the pinned or the scrolled lines.
void PaintRowAxis(QPainter* painter, const MatrixLayout& layout, const QRect& part, const ViewAxis& axis,
                  int first_line, const MatrixScene& scene, const Theme& theme) {
  if (layout.row_axis.isEmpty() || part.isEmpty()) return;
  const MatrixData& data = *scene.data;
  const QFontMetrics font = painter->fontMetrics();
  const QRect ranks(layout.row_axis.right() - layout.rank_width + 1, part.top(), layout.rank_width - 6, part.height());
  const QRect names(layout.row_axis.left(), part.top(), layout.row_axis.width() - layout.rank_width - 6, part.height());
  painter->save();
  painter->setClipRect(QRect(layout.row_axis.left(), part.top(), layout.row_axis.width(), part.height()));
  auto rank_text = [&](int line) {
    const int rank = data.RankOfLine(line);
    return rank < 0 ? QString("?") : Count(rank);
  };
  const int begin = axis.ClampedCellAt(0), end = axis.ClampedCellAt(part.height() - 1);
  const int lines = static_cast<int>(axis.cells());
  const bool each = axis.scale() >= font.height() - 3;
  painter->setPen(theme.text);
  if (each) {
    for (int i = begin; i <= end && i < lines; ++i) {
      const QRectF at(ranks.left(), part.top() + axis.ToPixel(i), ranks.width(), axis.scale());
      painter->drawText(at, Qt::AlignRight | Qt::AlignVCenter, rank_text(first_line + i));
    }
  } else {
    for (const Tick& tick :
         Ticks(axis.first(), std::min<double>(axis.last(), lines) - 0.5, axis.scale(), font.height() * 2.2)) {
      const double y = part.top() + axis.ToPixel(static_cast<double>(tick.value) + 0.5);
      const double top = std::clamp(y - font.height() / 2.0, static_cast<double>(part.top()),
                                    std::max<double>(part.bottom() - font.height(), part.top()));
      painter->drawText(QRectF(ranks.left(), top, ranks.width(), font.height()), Qt::AlignRight | Qt::AlignVCenter,
                        rank_text(first_line + static_cast<int>(tick.value)));
      painter->fillRect(QRectF(layout.row_axis.right() - 3, y, 4, 1), theme.faint_text);
    }
  }
  // Shows names of groups, or hosts if each line has space for text.
  double next = part.top();
  if (names.width() > 30) {
    for (const RowGroup& group : data.order.groups) {
      const int first = group.first - first_line, last = first + group.count;
      if (group.name.isEmpty() || last <= axis.first() || first > axis.last() || first < 0 || last > lines) continue;
      const double top = std::max<double>(part.top() + axis.ToPixel(first), part.top());
      const double bottom = std::min<double>(part.top() + axis.ToPixel(last), part.bottom() + 1);
      if (bottom - top >= 3) {
        painter->setPen(theme.faint_text);
        const double x = names.right() + 2;
        painter->drawLine(QPointF(x, top + 1), QPointF(x, bottom - 2));
      }
      const bool fault = group.worst >= ViewState::kFailed;
      const double y = std::clamp((top + bottom - font.height()) / 2, std::max(top, next),
                                  std::max<double>(part.bottom() - font.height(), next));
      if (y < next || y > bottom) continue;
      painter->setPen(fault ? theme.alarm : theme.faint_text);
      painter->drawText(QRectF(names.left(), y, names.width() - 4, font.height()), Qt::AlignRight | Qt::AlignVCenter,
                        font.elidedText(group.name, Qt::ElideMiddle, names.width() - 4));
      // If many groups share a line of text, shows fewer names.
      next = y + font.height() * (bottom - top < font.height() ? 1.8 : 1.0);
    }
    if (each && scene.grouping == RowGrouping::kRank) {
      painter->setPen(theme.faint_text);
      for (int i = begin; i <= end && i < lines; ++i) {
        const int place = data.document->RowOf(data.RankOfLine(first_line + i));
        if (place < 0 || data.order.pinned > first_line + i) continue;
        const QRectF at(names.left(), part.top() + axis.ToPixel(i), names.width() - 4, axis.scale());
        painter->drawText(at, Qt::AlignRight | Qt::AlignVCenter,
                          font.elidedText(data.document->HostAt(place), Qt::ElideMiddle, names.width() - 4));
      }
    }
  }
  painter->restore();
}

void PaintLag(QPainter* painter, const MatrixLayout& layout, const QRect& part, const ViewAxis& axis, int first_line,
              const MatrixScene& scene, const Theme& theme) {
  const MatrixData& data = *scene.data;
  if (layout.lag.isEmpty() || part.isEmpty()) return;
  const PixelCells pixels = CellsOfPixels(axis, part.height());
  const double width = layout.lag.width() - 3;
  painter->fillRect(QRect(layout.lag.right() - 1, part.top(), 1, part.height()), theme.grid);
  for (int y = 0; y < part.height(); ++y) {
    const int first = pixels.first[static_cast<size_t>(y)];
    if (first < 0) continue;
    int64_t most = 0;
    for (int i = first; i < pixels.end[static_cast<size_t>(y)]; ++i) {
      most = std::max(most, data.lag[data.order.rows[static_cast<size_t>(first_line + i)]]);
    }
    if (most <= 0 || data.most_lag <= 0) continue;
    const double length = std::max(2.0, width * static_cast<double>(most) / static_cast<double>(data.most_lag));
    painter->fillRect(QRectF(layout.lag.right() - 1 - length, part.top() + y, length, 1),
                      most == data.most_lag ? theme.cause : theme.victim);
  }
}

void PaintGroupLines(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme) {
  const ViewAxis& axis = scene.body.y;
  double last = -10;
  for (const RowGroup& group : scene.data->order.groups) {
    const int first = group.first - scene.data->order.pinned;
    // Unnamed groups, pinned groups, and the group at the start of the scrolled lines get no line.
    if (group.name.isEmpty() || first <= 0) continue;
    const double y = axis.ToPixel(first);
    if (y < 0 || y > layout.body.height() || y - last < 6 || group.count * axis.scale() < 3) continue;
    painter->fillRect(QRectF(layout.body.left(), layout.body.top() + y - 1, layout.body.width(), 1), theme.faint_text);
    last = y;
  }
}

void Outline(QPainter* painter, const QRectF& rect, const QColor& colour, const QColor& halo, double width) {
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(halo, width + 2));
  painter->drawRect(rect);
  painter->setPen(QPen(colour, width));
  painter->drawRect(rect);
}

// Enlarges the rectangle to at least `side`, so that the frame does not cover contents of a few pixels.
QRectF AtLeast(QRectF rect, double side) {
  if (rect.width() < side) rect.adjust((rect.width() - side) / 2, 0, (side - rect.width()) / 2, 0);
  if (rect.height() < side) rect.adjust(0, (rect.height() - side) / 2, 0, (side - rect.height()) / 2);
  return rect;
}

void PaintSelection(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme) {
  painter->save();
  painter->setClipRect(layout.Cells().adjusted(-2, -2, 2, 2));
  std::vector<QRectF> shown;
  for (const LineBox& box : scene.selected) {
    const QRectF rect = RectOfBox(layout, scene, box);
    if (rect.isEmpty()) continue;
    // Boxes that touch on the screen are combined.
    if (!shown.empty() && shown.back().left() == rect.left() && shown.back().right() == rect.right() &&
        rect.top() <= shown.back().bottom() + 1.5) {
      shown.back().setBottom(std::max(shown.back().bottom(), rect.bottom()));
    } else {
      shown.push_back(rect);
    }
  }
  for (const QRectF& rect : shown)
    Outline(painter, AtLeast(rect.adjusted(-1, -1, 0, 0), 8), theme.selection, theme.background, 1.5);
  painter->restore();
  // Draws marks outside the cells, so that users can find a selection of one pixel.
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  painter->setBrush(theme.selection);
  int marks = 0;
  for (const QRectF& rect : shown) {
    if (++marks > 200) break;
    const double y = rect.center().y(), x = layout.Cells().left() - 1;
    painter->drawPolygon(QPolygonF({QPointF(x, y), QPointF(x - 6, y - 4), QPointF(x - 6, y + 4)}));
    if (rect.width() < layout.body.width() * 0.5 && marks == 1) {
      const double at = rect.center().x(), top = layout.Cells().top() - 1;
      painter->drawPolygon(QPolygonF({QPointF(at, top), QPointF(at - 4, top - 6), QPointF(at + 4, top - 6)}));
    }
  }
  painter->setRenderHint(QPainter::Antialiasing, false);
}

void PaintMinimap(QPainter* painter, const MatrixLayout& layout, const MatrixScene& scene, const Theme& theme,
                  const MatrixImages& images) {
  const QRect& rect = layout.minimap;
  if (rect.isEmpty()) return;
  painter->drawImage(rect.topLeft(), images.minimap);
  painter->setPen(theme.grid);
  painter->setBrush(Qt::NoBrush);
  painter->drawRect(rect.adjusted(-1, -1, 0, 0));
  const ViewAxis &x = scene.body.x, &y = scene.body.y;
  if (x.cells() <= 0 || y.cells() <= 0 || (x.fits() && y.fits())) return;
  const double sx = rect.width() / x.cells(), sy = rect.height() / y.cells();
  QRectF box(rect.left() + x.first() * sx, rect.top() + y.first() * sy, (x.last() - x.first()) * sx,
             (y.last() - y.first()) * sy);
  // A small visible part is still drawn as a box.
  if (box.height() < 4) box.adjust(0, (box.height() - 4) / 2, 0, (4 - box.height()) / 2);
  if (box.width() < 4) box.adjust((box.width() - 4) / 2, 0, (4 - box.width()) / 2, 0);
  Outline(painter, box.intersected(QRectF(rect)), theme.selection, theme.background, 1.5);
}

}  // namespace

MatrixLayout LayOutMatrix(const QSize& size, const QFontMetrics& font, int pinned_lines) {
  MatrixLayout layout;
  const int line = font.height() + 6;
  const bool wide = size.width() >= 560, narrow = size.width() < 300, low = size.height() < 200;
  layout.rank_width = narrow ? 0 : font.horizontalAdvance("99,999") + 14;
  const int left = kGap + (narrow ? 0 : layout.rank_width + (wide ? font.horizontalAdvance("n1234-gpu-12345") : 0));
  const int lag = narrow ? 0 : kLagWidth, minimap = wide && !low ? kMinimapWidth : 0;
  const int right = size.width() - kGap - (minimap > 0 ? minimap + 2 * kGap : 0);
  const int x = left + lag, width = std::max(right - x, 0);
  int y = 2;
  layout.title = QRect(kGap + 2, y, std::max(size.width() - 2 * kGap - 4, 0), line);
  y += line;
  if (!low) {
    layout.histogram = QRect(x, y, width, 36);
    y += 36 + 2;
  }
  layout.column_axis = QRect(x, y, width, line);
  y += line + 2;
  const int bottom = size.height() - kGap;
  const int top = y;
  if (pinned_lines > 0) {
    const int height = std::min(pinned_lines * kPinnedHeight, std::max((bottom - y) / 3, 0));
    layout.pinned = QRect(x, y, width, height);
    y += height + 3;
  }
  layout.body = QRect(x, y, width, std::max(bottom - y, 0));
  if (!narrow) layout.row_axis = QRect(kGap, top, left - kGap, std::max(bottom - top, 0));
  if (lag > 0) layout.lag = QRect(left, top, lag, std::max(bottom - top, 0));
  if (minimap > 0) layout.minimap = QRect(right + 2 * kGap, layout.body.top(), minimap, layout.body.height());
  return layout;
}

QRectF RectOfBox(const MatrixLayout& layout, const MatrixScene& scene, const LineBox& box) {
  if (scene.data == nullptr || box.empty()) return {};
  const int pinned = scene.data->order.pinned;
  const bool top = box.line_first < pinned;
  const QRect& part = top ? layout.pinned : layout.body;
  const ViewTransform& t = top ? scene.pinned : scene.body;
  const int shift = top ? 0 : pinned;
  const int last_line = top ? std::min(box.line_last, pinned - 1) : box.line_last;
  double x0 = t.x.ToPixel(box.column_first), x1 = t.x.ToPixel(box.column_last + 1);
  double y0 = t.y.ToPixel(box.line_first - shift), y1 = t.y.ToPixel(last_line + 1 - shift);
  if (x1 <= 0 || y1 <= 0 || x0 >= part.width() || y0 >= part.height()) return {};
  x0 = std::floor(std::max(x0, 0.0));
  y0 = std::floor(std::max(y0, 0.0));
  x1 = std::max(std::ceil(std::min<double>(x1, part.width())), x0 + 1);
  y1 = std::max(std::ceil(std::min<double>(y1, part.height())), y0 + 1);
  return QRectF(part.left() + x0, part.top() + y0, x1 - x0, y1 - y0);
}

void PaintMatrix(QPainter* painter, const QSize& size, const MatrixLayout& layout, const MatrixScene& scene,
                 const Theme& theme, MatrixImages* images) {
  painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
  if (scene.data == nullptr || scene.data->order.lines() == 0 || scene.data->cells->columns == 0) {
    painter->setPen(theme.faint_text);
    const QString why = !scene.empty_text.isEmpty() ? scene.empty_text
                        : scene.data == nullptr     ? QString("Nothing is open")
                                                    : QString("Nothing to show here");
    painter->drawText(QRect(QPoint(0, 0), size).adjusted(12, 12, -12, -12), Qt::AlignCenter | Qt::TextWordWrap, why);
    return;
  }
  if (layout.body.width() < 2 || layout.body.height() < 2) return;
  const double ratio = painter->device() != nullptr ? painter->device()->devicePixelRatioF() : 1;
  Renew(layout, scene, theme, ratio, images);
  PaintTitle(painter, layout, scene, theme);
  PaintHistogram(painter, layout, scene, theme);
  PaintColumnAxis(painter, layout, scene, theme);
  const int pinned = scene.data->order.pinned;
  if (!images->pinned.isNull()) {
    painter->drawImage(layout.pinned.topLeft(), images->pinned);
    painter->fillRect(
        QRect(layout.row_axis.left(), layout.pinned.bottom() + 2, layout.body.right() - layout.row_axis.left() + 1, 1),
        theme.faint_text);
    PaintRowAxis(painter, layout, layout.pinned, scene.pinned.y, 0, scene, theme);
    PaintLag(painter, layout, layout.pinned, scene.pinned.y, 0, scene, theme);
  }
  painter->drawImage(layout.body.topLeft(), images->body);
  PaintGroupLines(painter, layout, scene, theme);
  PaintRowAxis(painter, layout, layout.body, scene.body.y, pinned, scene, theme);
  PaintLag(painter, layout, layout.body, scene.body.y, pinned, scene, theme);
  PaintSelection(painter, layout, scene, theme);
  if (scene.area.has_value() && !scene.area->empty()) {
    const QRectF rect = RectOfBox(layout, scene, *scene.area);
    if (!rect.isEmpty()) {
      QColor wash = theme.link;
      wash.setAlpha(50);
      painter->fillRect(rect, wash);
      Outline(painter, rect.adjusted(0, 0, -1, -1), theme.link, theme.background, 1.5);
    }
  }
  if (scene.cursor_line >= 0 && scene.cursor_column >= 0) {
    const QRectF rect =
        RectOfBox(layout, scene, {scene.cursor_line, scene.cursor_line, scene.cursor_column, scene.cursor_column});
    if (!rect.isEmpty()) {
      Outline(painter, AtLeast(rect.adjusted(-2, -2, 1, 1), 11), theme.cursor, theme.background, scene.focused ? 2 : 1);
    }
  }
  PaintMinimap(painter, layout, scene, theme, *images);
  if (scene.focused) {
    painter->setBrush(Qt::NoBrush);
    painter->setPen(QPen(theme.link, 1));
    painter->drawRect(QRect(QPoint(0, 0), size).adjusted(0, 0, -1, -1));
  }
}

}  // namespace lockstep::gui
