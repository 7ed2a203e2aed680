// A box of the matrix in numbers: what a drag measures and selects, and its CSV.
#pragma once

#include <QString>

#include <atomic>

#include "gui/view/matrix/paint.h"

namespace lockstep::gui {

// "64 ranks x 12 calls: 700 completed, 3 never enqueued; 4.2 s": the worst states first, at most four. Any thread may
// call it.
QString MeasureText(const MatrixData& data, const LineBox& box, const std::atomic<bool>& cancel);
// Finds the time from the first call to the last end of the box's operations, in job time. Uses at most `most_lines`
// evenly spaced lines, because each may have to be read from disk. Returns false if no time is known.
bool TimesOfBox(const MatrixData& data, const LineBox& box, int most_lines, int64_t* begin_ns, int64_t* end_ns);
// Returns the ranks of its lines, the columns' sequence numbers in communicator mode, and their time.
Selection SelectionOfBox(const MatrixData& data, const LineBox& box);
// One CSV line per row: rank, host, the state of each column. Truncated after kMostCsvCells cells, as the last line
// notes.
constexpr int64_t kMostCsvCells = 2'000'000;
QString CsvOfBox(const MatrixData& data, const LineBox& box);

}  // namespace lockstep::gui
