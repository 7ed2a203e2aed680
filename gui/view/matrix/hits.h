// Finds the cell at a point of the matrix picture, and the cells of a selection.
#pragma once

#include <QPoint>
#include <QString>

#include <optional>
#include <vector>

#include "gui/view/matrix/paint.h"

namespace lockstep::gui {

std::optional<MatrixCell> MatrixCellAt(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at);
// Returns the cell nearest to the point, which may be anywhere.
MatrixCell NearestMatrixCell(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at);
// Like MatrixCellAt, but prefers the worst fault drawn there: cells may share a pixel, and small faults are enlarged.
std::optional<MatrixCell> WorstMatrixCell(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at);
// Returns boxes of cells, ascending by line. No box contains both pinned and scrolled lines.
std::vector<LineBox> BoxesOfSelection(const MatrixData& data, const Selection& selection);
// Describes the cell, column, or rank at the point; empty if there is none.
QString MatrixTip(const MatrixLayout& layout, const MatrixScene& scene, const QPoint& at);

}  // namespace lockstep::gui
