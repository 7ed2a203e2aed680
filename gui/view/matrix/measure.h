// A box of the matrix in numbers: the measurement and the selection of a drag, and CSV.
#pragma once

#include <QString>

#include <atomic>

#include "gui/view/matrix/paint.h"

namespace lockstep::gui {

// "64 ranks x 12 calls: 700 completed, 3 never enqueued; 4.2 s": worst states first, at most four. Thread-safe.
QString MeasureText(const MatrixData& data, const LineBox& box, const std::atomic<bool>& cancel);
// Finds the time from the first call to the last end of the operations at the left and right edge of the box, in job
// time. Reads at most `most_lines` evenly spaced lines, because each may have to be read from disk. Returns false if no
// time is known.
bool TimesOfBox(const MatrixData& data, const LineBox& box, int most_lines, int64_t* begin_ns, int64_t* end_ns);
// Returns the ranks of the box's lines, in communicator mode the sequence numbers of its columns, and their time. For a
// single cell, returns SelectionOfCell.
Selection SelectionOfBox(const MatrixData& data, const LineBox& box);
// Returns one CSV line per row: rank, host, the state of each column. Stops after kMostCsvCells cells; then the last
// line says so.
constexpr int64_t kMostCsvCells = 2'000'000;
QString CsvOfBox(const MatrixData& data, const LineBox& box);

}  // namespace lockstep::gui
