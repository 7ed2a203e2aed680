// The states behind the rank x sequence picture, one byte a cell. Made on a worker thread, immutable, shared.
#ifndef LOCKSTEP_GUI_MODEL_CELL_MATRIX_H_
#define LOCKSTEP_GUI_MODEL_CELL_MATRIX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Communicator mode: a row a member, a column a collective of that communicator. Job mode: a row a rank of the document
// or of facts().missing(), ascending, the last calls of each in its own order, right-aligned at the stall; the last
// column is what comes next: kMissing where peers have called and the rank is no mere victim, else kOutside. A cell in
// flight while a member is known not to have issued it is kWaiting, and any where the analysis says that the rank waits
// in it (sends and receives; collectives that a member without data does not come to); what peers issued and the member
// did not is kMissing; what the member issued and left no record of is kOverwritten; members that call differently are
// kMismatch.
struct CellMatrix {
  MatrixMode mode = MatrixMode::kJob;
  int32_t comm = -1;
  int rows = 0, columns = 0;
  int64_t first_seq = 0;             // communicator mode: number of the first column
  std::vector<int32_t> rank_of_row;  // global rank; -1 not known which
  std::vector<uint8_t> cells;        // ViewState, row by row

  const uint8_t* Row(int row) const { return cells.data() + static_cast<size_t>(row) * static_cast<size_t>(columns); }
  ViewState At(int row, int column) const { return static_cast<ViewState>(Row(row)[column]); }
};

// Bounded: the newest kMostColumns columns, fewer where that would be more than kMostCells; kMostRows rows. Stops early
// (null) when *cancel turns true.
std::shared_ptr<const CellMatrix> BuildCommMatrix(const Document& document, int32_t comm,
                                                  const std::atomic<bool>* cancel = nullptr);
std::shared_ptr<const CellMatrix> BuildJobMatrix(const Document& document, const std::atomic<bool>* cancel = nullptr);
constexpr int kMostColumns = 4096;
constexpr int kMostRows = 1 << 20;
constexpr int64_t kMostCells = int64_t{1} << 27;

// What a matrix will be, without making it.
struct MatrixShape {
  int rows = 0, columns = 0;
  int64_t first_seq = 0;  // communicator mode
};
MatrixShape ShapeOfMatrix(const Document& document, MatrixMode mode, int32_t comm);

// Which selection a cell is, and which cell a selection is in. Column of job mode <-> place among the rank's
// operations; -1 for cells that are no record (then ranks alone, or communicator and sequence number, are selected).
Selection SelectionOfCell(const Document& document, const CellMatrix& matrix, int row, int column);
struct CellRange {
  int column_first = -1, column_last = -1;  // -1: all columns
  std::vector<int> rows;                    // ascending
  // Job mode, few rows: the column of each of `rows`, -1 all of it. Empty: column_first and column_last hold for every
  // row.
  std::vector<int> columns;
};
CellRange CellsOfSelection(const Document& document, const CellMatrix& matrix, const Selection& selection);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_CELL_MATRIX_H_
