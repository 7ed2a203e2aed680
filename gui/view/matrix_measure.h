// A box of the matrix in numbers: what a drag measures, selects, and what goes out as CSV.
#ifndef LOCKSTEP_GUI_VIEW_MATRIX_MEASURE_H_
#define LOCKSTEP_GUI_VIEW_MATRIX_MEASURE_H_

#include <QString>

#include <atomic>

#include "gui/view/matrix_paint.h"

namespace lockstep::gui {

// "64 ranks x 12 calls: 700 completed, 3 never enqueued; 4.2 s": the worst states first, at most four. Any thread.
QString MeasureText(const MatrixData& data, const LineBox& box, const std::atomic<bool>& cancel);
// From the first call to the last end of the box's operations, job time; of at most `most_lines` lines, spread evenly,
// as each may have to be read from the disk. False: no time is known.
bool TimesOfBox(const MatrixData& data, const LineBox& box, int most_lines, int64_t* begin_ns, int64_t* end_ns);
// The ranks of its lines, the columns' sequence numbers in communicator mode, and the time that they took.
Selection SelectionOfBox(const MatrixData& data, const LineBox& box);
// One CSV line a row: rank, host, the state of each column. Cut after kMostCsvCells cells, which a last line says.
constexpr int64_t kMostCsvCells = 2'000'000;
QString CsvOfBox(const MatrixData& data, const LineBox& box);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_MATRIX_MEASURE_H_
