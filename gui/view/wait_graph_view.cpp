#include "gui/view/wait_graph_view.h"

#include <utility>

namespace lockstep::gui {

WaitGraphView::WaitGraphView(Navigator* navigator, QWidget* parent) : View(navigator, "Wait-for graph", parent) {}

void WaitGraphView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  update();
}

}  // namespace lockstep::gui
