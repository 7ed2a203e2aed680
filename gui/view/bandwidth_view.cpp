#include "gui/view/bandwidth_view.h"

#include <utility>

namespace lockstep::gui {

BandwidthView::BandwidthView(Navigator* navigator, QWidget* parent) : View(navigator, "Bandwidth", parent) {}

void BandwidthView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  update();
}

}  // namespace lockstep::gui
