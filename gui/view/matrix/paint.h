// Draws the matrix with its axes, histogram and minimap at any size, for a widget or a picture in a ticket.
#pragma once

#include <QFontMetrics>
#include <QImage>
#include <QPainter>
#include <QRect>

#include <optional>

#include "gui/model/matrix/source.h"
#include "gui/view/matrix/render.h"
#include "gui/view/theme.h"
#include "gui/view/transform.h"

namespace lockstep::gui {

// The rectangles of the parts; empty for a part without space.
struct MatrixLayout {
  QRect title, histogram, column_axis, row_axis, lag;
  QRect pinned, body;  // the cells: pinned lines, and lines that scroll
  QRect minimap;
  int rank_width = 0;  // at the right of row_axis: the ranks; groups and hosts are left of them

  QRect Cells() const { return QRect(pinned.isEmpty() ? body.topLeft() : pinned.topLeft(), body.bottomRight()); }
};
MatrixLayout LayOutMatrix(const QSize& size, const QFontMetrics& font, int pinned_lines);

// A line of the picture and a column of the matrix.
struct MatrixCell {
  int line = 0, column = 0;
  bool operator==(const MatrixCell&) const = default;
};

// Lines and columns of the picture, inclusive.
struct LineBox {
  int line_first = 0, line_last = -1, column_first = 0, column_last = -1;
  bool empty() const { return line_last < line_first || column_last < column_first; }
  bool operator==(const LineBox&) const = default;
};

struct MatrixScene {
  MatrixDataPtr data;          // null if nothing is open
  ViewTransform body, pinned;  // in logical pixels; line 0 of `body` is the first that is not pinned
  RowGrouping grouping = RowGrouping::kRank;
  std::vector<LineBox> selected;  // ascending by line
  std::optional<LineBox> area;    // the area being measured
  QString area_text;
  int cursor_line = -1, cursor_column = -1;
  bool focused = false, building = false;
  QString empty_text;  // shown instead of the cells
};

// Expensive images, kept between frames. PaintMatrix creates an image again if its contents change.
struct MatrixImages {
  QImage body, pinned, minimap;
  ViewTransform body_at, pinned_at;
  const void* data = nullptr;
  bool dark = false;
  double ratio = 0;
};

void PaintMatrix(QPainter* painter, const QSize& size, const MatrixLayout& layout, const MatrixScene& scene,
                 const Theme& theme, MatrixImages* images);
// Returns the rectangle of a box of cells, clipped to its part of the layout: at least one pixel, or empty if not
// visible. A box must not contain both pinned and scrolled lines.
QRectF RectOfBox(const MatrixLayout& layout, const MatrixScene& scene, const LineBox& box);

}  // namespace lockstep::gui
