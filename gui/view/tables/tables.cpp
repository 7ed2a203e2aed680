#include "gui/view/tables/tables.h"

#include "gui/view/tables/view.h"

namespace lockstep::gui {

View* MakeCommTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, CommTable(), parent); }
View* MakeRankTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, RankTable(), parent); }
View* MakeMismatchTable(Navigator* navigator, QWidget* parent) {
  return new TableView(navigator, MismatchTable(), parent);
}
View* MakeInFlightTable(Navigator* navigator, QWidget* parent) {
  return new TableView(navigator, InFlightTable(), parent);
}

}  // namespace lockstep::gui
