// The pictures' data as tables: communicators, ranks, mismatches and operations in flight, which can be sorted,
// filtered, copied and selected.
#pragma once

#include "gui/view/view.h"

namespace lockstep::gui {

// Each is a view with a filter field above it; `parent` owns it. Accessible names: "Communicators", "Ranks",
// "Mismatches", "In flight".
View* MakeCommTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeRankTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeMismatchTable(Navigator* navigator, QWidget* parent = nullptr);
View* MakeInFlightTable(Navigator* navigator, QWidget* parent = nullptr);

}  // namespace lockstep::gui
