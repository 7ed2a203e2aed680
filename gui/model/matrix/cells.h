// The states behind the rank x sequence picture, one byte per cell. Built on a worker thread, immutable, shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Communicator mode has a row for each member and a column for each collective of that communicator. Job mode has a row
// for each rank of the document or of facts().missing(), ascending. A row has the rank's last calls in the rank's own
// order, the newest at the right. The last column is the next call: kMissing if peers have made that call and the rank
// is not merely a victim, otherwise kOutside.
//
// A cell in flight is kWaiting if a member is known not to have issued the call, or if the analysis found the rank
// waiting in the call. (Only the analysis knows about sends, and about members without data.) A call that peers issued
// and the member did not is kMissing. A call that the member issued, but whose record was overwritten, is kOverwritten.
// Members with differing calls are kMismatch.
struct CellMatrix {
  MatrixMode mode = MatrixMode::kJob;
  int32_t comm = -1;
  int rows = 0, columns = 0;
  int64_t first_seq = 0;             // communicator mode: number of the first column
  std::vector<int32_t> rank_of_row;  // global rank; -1 if unknown
  std::vector<uint8_t> cells;        // ViewState, row by row

  const uint8_t* Row(int row) const { return cells.data() + static_cast<size_t>(row) * static_cast<size_t>(columns); }
  ViewState At(int row, int column) const { return static_cast<ViewState>(Row(row)[column]); }
};

// Keeps the newest kMostColumns columns (fewer if that would exceed kMostCells) and kMostRows rows. Stops early and
// returns null if *cancel becomes true.
std::shared_ptr<const CellMatrix> BuildCommMatrix(const Document& document, int32_t comm,
                                                  const std::atomic<bool>* cancel = nullptr);
std::shared_ptr<const CellMatrix> BuildJobMatrix(const Document& document, const std::atomic<bool>* cancel = nullptr);
constexpr int kMostColumns = 4096;
constexpr int kMostRows = 1 << 20;
constexpr int64_t kMostCells = int64_t{1} << 27;

// The shape that a matrix will have, without building it.
struct MatrixShape {
  int rows = 0, columns = 0;
  int64_t first_seq = 0;  // communicator mode
};
MatrixShape ShapeOfMatrix(const Document& document, MatrixMode mode, int32_t comm);

// Converts between cells and selections. A column of job mode is the position of an operation of the rank. A cell
// without a record selects only the rank, or the communicator and sequence number.
Selection SelectionOfCell(const Document& document, const CellMatrix& matrix, int row, int column);
struct CellRange {
  int column_first = -1, column_last = -1;  // -1 for all columns
  std::vector<int> rows;                    // ascending
  // Job mode with few rows: the column of each of `rows`, -1 for the whole row. If empty, column_first and column_last
  // apply to every row.
  std::vector<int> columns;
};
CellRange CellsOfSelection(const Document& document, const CellMatrix& matrix, const Selection& selection);

}  // namespace lockstep::gui
