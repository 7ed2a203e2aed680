#include "gui/view/matrix/hits.h"

#include <QStringList>

#include <algorithm>
#include <utility>

#include "gui/model/matrix/cell_text.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

int Pinned(const MatrixScene& scene) { return scene.data == nullptr ? 0 : scene.data->order.pinned; }

int RowOfLine(const MatrixData& data, int line) { return static_cast<int>(data.order.rows[static_cast<size_t>(line)]); }

}  // namespace

std::optional<MatrixCell> MatrixCellAt(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at) {
  if (scene.data == nullptr) return std::nullopt;
  for (const bool top : {true, false}) {
    const QRect& part = top ? layout.pinned : layout.body;
    if (part.isEmpty() || !part.contains(at)) continue;
    const ViewTransform& t = top ? scene.pinned : scene.body;
    const int line = t.y.CellAt(at.y() - part.top() + 0.5), column = t.x.CellAt(at.x() - part.left() + 0.5);
    if (line < 0 || column < 0) return std::nullopt;
    return MatrixCell{line + (top ? 0 : Pinned(scene)), column};
  }
  return std::nullopt;
}

MatrixCell NearestMatrixCell(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at) {
  const bool top = !layout.pinned.isEmpty() && at.y() <= layout.pinned.bottom();
  const QRect& part = top ? layout.pinned : layout.body;
  const ViewTransform& t = top ? scene.pinned : scene.body;
  auto inside = [](int value, int size) { return std::clamp(value, 0, std::max(size - 1, 0)) + 0.5; };
  const int lines = scene.data == nullptr ? 0 : scene.data->order.lines();
  // If every line is pinned, there is no line to scroll.
  return {std::min(t.y.ClampedCellAt(inside(at.y() - part.top(), part.height())) + (top ? 0 : Pinned(scene)),
                   std::max(lines - 1, 0)),
          t.x.ClampedCellAt(inside(at.x() - part.left(), part.width()))};
}

std::optional<MatrixCell> WorstMatrixCell(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at) {
  std::optional<MatrixCell> best = MatrixCellAt(layout, scene, at);
  const ViewTransform& t = scene.body;
  const int pinned = Pinned(scene);
  if (!best.has_value() || best->line < pinned ||
      (t.x.scale() >= kLeastFaultPixels && t.y.scale() >= kLeastFaultPixels))
    return best;
  auto range = [](const ViewAxis& axis, double pixel, int size) {
    if (axis.scale() >= kLeastFaultPixels) return std::pair(axis.ClampedCellAt(pixel), axis.ClampedCellAt(pixel));
    return std::pair(axis.ClampedCellAt(std::max(pixel - 1.5, 0.0)),
                     axis.ClampedCellAt(std::min<double>(pixel + 1.5, size - 1)));
  };
  const auto [c0, c1] = range(t.x, at.x() - layout.body.left() + 0.5, layout.body.width());
  const auto [l0, l1] = range(t.y, at.y() - layout.body.top() + 0.5, layout.body.height());
  const MatrixData& data = *scene.data;
  ViewState worst = data.cells->At(RowOfLine(data, best->line), best->column);
  for (int line = l0 + pinned; line <= l1 + pinned && line < data.order.lines(); ++line) {
    for (int column = c0; column <= c1; ++column) {
      const ViewState state = data.cells->At(RowOfLine(data, line), column);
      if (!IsFault(static_cast<uint8_t>(state)) || state <= worst) continue;
      worst = state;
      best = {line, column};
    }
  }
  return best;
}

std::vector<LineBox> BoxesOfSelection(const MatrixData& data, const Selection& selection) {
  const CellRange range = CellsOfSelection(*data.document, *data.cells, selection);
  std::vector<LineBox> boxes;
  for (size_t i = 0; i < range.rows.size(); ++i) {
    const int32_t line = data.line_of_row[static_cast<size_t>(range.rows[i])];
    if (line < 0) continue;
    int first = range.column_first, end = range.column_last;
    if (!range.columns.empty()) first = end = range.columns[i];
    if (first < 0) first = 0, end = data.cells->columns - 1;
    boxes.push_back({line, line, first, end});
  }
  std::sort(boxes.begin(), boxes.end(), [](const LineBox& a, const LineBox& b) { return a.line_first < b.line_first; });
  std::vector<LineBox> joined;
  for (const LineBox& box : boxes) {
    LineBox* before = joined.empty() ? nullptr : &joined.back();
    if (before != nullptr && before->line_last + 1 == box.line_first && before->column_first == box.column_first &&
        before->column_last == box.column_last && box.line_first != data.order.pinned) {
      before->line_last = box.line_last;
    } else {
      joined.push_back(box);
    }
  }
  return joined;
}

QString MatrixTip(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at) {
  if (scene.data == nullptr || scene.data->order.lines() == 0 || scene.data->cells->columns == 0) return {};
  const MatrixData& data = *scene.data;
  const CellMatrix& cells = *data.cells;
  if (const std::optional<MatrixCell> cell = WorstMatrixCell(layout, scene, at); cell.has_value())
    return CellLines(*data.document, cells, RowOfLine(data, cell->line), cell->column).join('\n');
  const MatrixCell near = NearestMatrixCell(layout, scene, at);
  if (layout.histogram.contains(at)) {
    const MatrixData::Column& column = data.columns[static_cast<size_t>(near.column)];
    const QString what = cells.mode == MatrixMode::kCommunicator
                             ? QString("sequence number %1").arg(Count(cells.first_seq + near.column))
                             : QString("call %1 from the end").arg(cells.columns - 1 - near.column);
    return QString("%1\n%2 of %3 done\n%4 in flight\n%5 at fault")
        .arg(what, Count(column.done), Count(data.order.lines()), Count(column.open), Count(column.fault));
  }
  if (!layout.lag.contains(at) && !layout.row_axis.contains(at)) return {};
  const int row = RowOfLine(data, near.line);
  const int64_t lag = data.lag[static_cast<size_t>(row)];
  return CellLines(*data.document, cells, row, cells.columns - 1).value(0) + '\n' +
         (lag < 0 ? QString("unknown how far behind")
                  : QString("%1 collectives behind the furthest member").arg(Count(lag)));
}

}  // namespace lockstep::gui
