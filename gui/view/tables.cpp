#include "gui/view/tables.h"

namespace lockstep::gui {
namespace {

class TableView : public View {
 public:
  using View::View;
  void SetDocument(DocumentPtr document) override { document_ = std::move(document); }

 private:
  DocumentPtr document_;
};

}  // namespace

View* MakeCommTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, "Communicators", parent); }
View* MakeRankTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, "Ranks", parent); }
View* MakeMismatchTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, "Mismatches", parent); }
View* MakeInFlightTable(Navigator* navigator, QWidget* parent) { return new TableView(navigator, "In flight", parent); }

}  // namespace lockstep::gui
