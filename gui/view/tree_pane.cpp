#include "gui/view/tree_pane.h"

namespace lockstep::gui {

struct TreePane::Impl {
  DocumentPtr document;
};

TreePane::TreePane(Navigator* navigator, QWidget* parent) : View(navigator, "Tree", parent), impl_(std::make_unique<Impl>()) {}
TreePane::~TreePane() = default;
void TreePane::SetDocument(DocumentPtr document) { impl_->document = std::move(document); }
QString TreePane::CopyText() const { return {}; }
bool TreePane::Idle() const { return true; }

}  // namespace lockstep::gui
