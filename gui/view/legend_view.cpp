#include "gui/view/legend_view.h"

#include <utility>

namespace lockstep::gui {

struct LegendView::Impl {
  DocumentPtr document;
};

LegendView::LegendView(Navigator* navigator, QWidget* parent) : View(navigator, "Legend", parent), impl_(std::make_unique<Impl>()) {
  setAccessibleDescription("States of the matrix and how many cells are in each");
}

LegendView::~LegendView() = default;

void LegendView::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  update();
}

}  // namespace lockstep::gui
