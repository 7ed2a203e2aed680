// Bus bandwidth of each rank in one kind and size of operation.
#ifndef LOCKSTEP_GUI_VIEW_BANDWIDTH_VIEW_H_
#define LOCKSTEP_GUI_VIEW_BANDWIDTH_VIEW_H_

#include "gui/view/view.h"

namespace lockstep::gui {

class BandwidthView : public View {
  Q_OBJECT

 public:
  explicit BandwidthView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;

 private:
  DocumentPtr document_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_BANDWIDTH_VIEW_H_
