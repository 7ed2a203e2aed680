// The pictures' data as tables: communicators, ranks, mismatches and operations in flight, to sort, filter, copy and
// select by.
#ifndef LOCKSTEP_GUI_VIEW_TABLES_H_
#define LOCKSTEP_GUI_VIEW_TABLES_H_

#include "gui/view/view.h"

namespace lockstep::gui {

// Each a view with a filter field above it; `parent` owns it. Accessible names: "Communicators", "Ranks", "Mismatches",
// "In flight".
View* MakeCommTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeRankTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeMismatchTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeInFlightTable(Navigator* navigator, QWidget* parent = nullptr);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_TABLES_H_
