// What is known of the selection, in words: an operation and its peers, a rank, several ranks, a communicator.
#ifndef LOCKSTEP_GUI_VIEW_DETAILS_VIEW_H_
#define LOCKSTEP_GUI_VIEW_DETAILS_VIEW_H_

#include <memory>

#include "gui/model/records.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// Shows the index's data at once, and the data of the rank's file after `records` has read it.
class DetailsView : public View {
  Q_OBJECT

 public:
  // `records` outlives the view; its owner gives it the document.
  DetailsView(Navigator* navigator, Records* records, QWidget* parent = nullptr);
  ~DetailsView() override;

  void SetDocument(DocumentPtr document) override;
  // The text that is marked, or all that is shown as lines of name, tabulator, value.
  QString CopyText() const override;
  bool Idle() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_DETAILS_VIEW_H_
