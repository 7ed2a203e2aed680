#include "gui/view/verdict_panel.h"

namespace lockstep::gui {

struct VerdictPanel::Impl {
  DocumentPtr document;
};

VerdictPanel::VerdictPanel(Navigator* navigator, QWidget* parent) : View(navigator, "Verdict", parent), impl_(std::make_unique<Impl>()) {}
VerdictPanel::~VerdictPanel() = default;
void VerdictPanel::SetDocument(DocumentPtr document) { impl_->document = std::move(document); }
QString VerdictPanel::CopyText() const { return impl_->document == nullptr ? QString() : QString::fromStdString(impl_->document->facts().report_text()); }
bool VerdictPanel::collapsed() const { return false; }
void VerdictPanel::SetCollapsed(bool) {}

}  // namespace lockstep::gui
