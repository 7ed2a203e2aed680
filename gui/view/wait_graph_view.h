// Who waits for whom: ranks in equal wait states as nodes, causes left, victims right.
#ifndef LOCKSTEP_GUI_VIEW_WAIT_GRAPH_VIEW_H_
#define LOCKSTEP_GUI_VIEW_WAIT_GRAPH_VIEW_H_

#include "gui/view/view.h"

namespace lockstep::gui {

class WaitGraphView : public View {
  Q_OBJECT

 public:
  explicit WaitGraphView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;

 private:
  DocumentPtr document_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_WAIT_GRAPH_VIEW_H_
