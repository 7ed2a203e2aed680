#include "gui/view/stack_view.h"

#include <utility>

namespace lockstep::gui {

StackView::StackView(Navigator* navigator, QWidget* parent) : View(navigator, "Stacks", parent) {}

void StackView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  update();
}

}  // namespace lockstep::gui
