// What is known about the selection, as text: an operation and its peers, a rank, several ranks, a communicator.
#pragma once

#include <memory>

#include "gui/model/answer/records.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// Shows the index's data at once, and the rank's file when `records` has read it.
class DetailsView : public View {
  Q_OBJECT

 public:
  // `records` must outlive the view. The owner of `records` sets its document.
  DetailsView(Navigator* navigator, Records* records, QWidget* parent = nullptr);
  ~DetailsView() override;

  void SetDocument(DocumentPtr document) override;
  // Returns the selected text, otherwise everything as lines of name, tab, value.
  QString CopyText() const override;
  bool Idle() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
