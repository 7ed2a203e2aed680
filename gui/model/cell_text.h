// A cell of the matrix in words: tooltip, status line, screen reader, clipboard.
#ifndef LOCKSTEP_GUI_MODEL_CELL_TEXT_H_
#define LOCKSTEP_GUI_MODEL_CELL_TEXT_H_

#include <QString>
#include <QStringList>

#include "gui/model/cell_matrix.h"

namespace lockstep::gui {

// At most 6 lines: who, what, its state, when, the rank's activity. Empty for a cell that does not exist.
QStringList CellLines(const Document& document, const CellMatrix& matrix, int row, int column);
// "rank 17043, sequence number 8812, never enqueued"
QString CellSpoken(const Document& document, const CellMatrix& matrix, int row, int column);
// rank, host, communicator, sequence number, operation, state; a line each, with a heading. At most `limit` cells, then
// how many there are. `rows` of the matrix.
QString CellsAsTsv(const Document& document, const CellMatrix& matrix, const std::vector<int>& rows, int column_first,
                   int column_last, int limit);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_CELL_TEXT_H_
