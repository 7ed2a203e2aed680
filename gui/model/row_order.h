// The order of the matrix's rows: filters, groups, pinned rows.
#ifndef LOCKSTEP_GUI_MODEL_ROW_ORDER_H_
#define LOCKSTEP_GUI_MODEL_ROW_ORDER_H_

#include <QString>

#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/cell_matrix.h"

namespace lockstep::gui {

struct RowGroup {
  QString name;              // "n2130", "stage 3", "never enqueued"; empty: rows in rank order need no heading
  int first = 0, count = 0;  // lines of the picture
  ViewState worst = ViewState::kOutside;
};

struct RowOrder {
  std::vector<uint32_t> rows;    // line of the picture -> row of the matrix; each at most once
  std::vector<RowGroup> groups;  // ascending, side by side, all lines
  int pinned = 0;                // lines at the top that stay there while the rest scrolls; a group of their own
  int lines() const { return static_cast<int>(rows.size()); }
};

// `filtered` null: every row. Rows of members whose rank is not known pass no filter. Groups by host, stage and
// communicator stand in the order of their first rank, by state the worst first; inside a group rows keep the matrix's
// order. Pinned rows stay although a filter leaves them out. Any thread; about 20 ms for 24,576 x 2,048 (states are
// looked at row by row).
RowOrder BuildRowOrder(const Document& document, const CellMatrix& matrix, RowGrouping grouping,
                       const RankIntervals* filtered, const RankIntervals& pinned);
const char* RowGroupingName(RowGrouping grouping);  // "rank", "host", ..
// The worst state of the row.
ViewState WorstOf(const CellMatrix& matrix, int row);
// For each row of the matrix its line, -1 filtered out.
std::vector<int32_t> LineOfRow(const RowOrder& order, int rows);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_ROW_ORDER_H_
