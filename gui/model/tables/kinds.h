// The window's four tables, as sources for TableModel.
#pragma once

#include "gui/model/tables/model.h"

namespace lockstep::gui {

struct TableKind {
  const char* name;  // "Communicators"
  const char* explains;
  std::vector<TableColumn> columns;
  TableModel::Make make;
  int sort_column;
  Qt::SortOrder sort_order;
  bool one_row;  // only one row can be selected at a time
};

TableKind CommTable();
TableKind RankTable();  // ranks without data also have rows
TableKind MismatchTable();
TableKind InFlightTable();

}  // namespace lockstep::gui
