// The order of the matrix's rows: filters, groups, pinned rows.
#pragma once

#include <QString>

#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/matrix/cells.h"

namespace lockstep::gui {

struct RowGroup {
  QString name;              // "n2130", "stage 3", "never enqueued"; empty for rows in rank order
  int first = 0, count = 0;  // lines of the picture
  ViewState worst = ViewState::kOutside;
};

struct RowOrder {
  std::vector<uint32_t> rows;    // indexed by line of the picture: the matrix row, each at most once
  std::vector<RowGroup> groups;  // ascending and adjacent, covering all lines
  int pinned = 0;                // lines that stay at the top while the rest scrolls; a separate group
  int lines() const { return static_cast<int>(rows.size()); }
};

// If `filtered` is null, every row is shown. A member with unknown rank passes no filter. Groups by host, stage and
// communicator are in the order of their first rank; groups by state are worst first. Inside a group, rows keep the
// matrix's order. Pinned rows stay even if a filter excludes them. Thread-safe; takes about 20 ms for 24,576 x 2,048
// cells.
RowOrder BuildRowOrder(const Document& document, const CellMatrix& matrix, RowGrouping grouping, const Ranks* filtered,
                       const Ranks& pinned);
const char* RowGroupingName(RowGrouping grouping);  // "rank", "host", ..
ViewState WorstOf(const CellMatrix& matrix, int row);
// Returns the line at which each row of the matrix is shown; -1 if the row is filtered out.
std::vector<int32_t> LineOfRow(const RowOrder& order, int rows);

}  // namespace lockstep::gui
