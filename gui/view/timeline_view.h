// What host and GPU of each rank did when, on one time axis.
#ifndef LOCKSTEP_GUI_VIEW_TIMELINE_VIEW_H_
#define LOCKSTEP_GUI_VIEW_TIMELINE_VIEW_H_

#include "gui/view/view.h"

namespace lockstep::gui {

class TimelineView : public View {
  Q_OBJECT

 public:
  explicit TimelineView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;

 private:
  DocumentPtr document_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_TIMELINE_VIEW_H_
