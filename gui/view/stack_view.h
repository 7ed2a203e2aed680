// Merged stacks of all ranks, as a picture and as a tree: the odd one out first.
#ifndef LOCKSTEP_GUI_VIEW_STACK_VIEW_H_
#define LOCKSTEP_GUI_VIEW_STACK_VIEW_H_

#include "gui/view/view.h"

namespace lockstep::gui {

class StackView : public View {
  Q_OBJECT

 public:
  explicit StackView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;

 private:
  DocumentPtr document_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_STACK_VIEW_H_
