#include "gui/view/timeline_view.h"

#include <utility>

namespace lockstep::gui {

TimelineView::TimelineView(Navigator* navigator, QWidget* parent) : View(navigator, "Timeline", parent) {}

void TimelineView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  update();
}

}  // namespace lockstep::gui
