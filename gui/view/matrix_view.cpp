#include "gui/view/matrix_view.h"

#include <utility>

namespace lockstep::gui {

struct MatrixView::Impl {
  DocumentPtr document;
};

MatrixView::MatrixView(Navigator* navigator, QWidget* parent) : View(navigator, "Matrix", parent), impl_(std::make_unique<Impl>()) {
  setAccessibleDescription("What every rank did in every collective; the worst state of each pixel is drawn");
  setFocusPolicy(Qt::StrongFocus);
}

MatrixView::~MatrixView() = default;

void MatrixView::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  update();
}

}  // namespace lockstep::gui
