#include "gui/view/details_view.h"

namespace lockstep::gui {

struct DetailsView::Impl {
  Records* records = nullptr;
  DocumentPtr document;
};

DetailsView::DetailsView(Navigator* navigator, Records* records, QWidget* parent)
    : View(navigator, "Details", parent), impl_(std::make_unique<Impl>()) {
  impl_->records = records;
}
DetailsView::~DetailsView() = default;
void DetailsView::SetDocument(DocumentPtr document) { impl_->document = std::move(document); }
QString DetailsView::CopyText() const { return {}; }
bool DetailsView::Idle() const { return true; }

}  // namespace lockstep::gui
