// A matrix cell as text: tooltip, status line, screen reader, clipboard.
#pragma once

#include <QString>
#include <QStringList>

#include "gui/model/matrix/cells.h"

namespace lockstep::gui {

// At most 6 lines: rank, call, state, time, the rank's activity. Empty for a cell that does not exist.
QStringList CellLines(const Document& document, const CellMatrix& matrix, int row, int column);
// "rank 17043, sequence number 8812, never enqueued"
QString CellSpoken(const Document& document, const CellMatrix& matrix, int row, int column);
// Rank, host, communicator, sequence number, operation and state: one line per cell, with a heading. At most `limit`
// cells, then the total number. `rows` are rows of the matrix.
QString CellsAsTsv(const Document& document, const CellMatrix& matrix, const std::vector<int>& rows, int column_first,
                   int column_last, int limit);

}  // namespace lockstep::gui
