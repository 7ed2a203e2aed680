// What is known about the selection, as text: an operation and its peers, a rank, several ranks, a communicator.
#pragma once

#include <memory>

#include "gui/model/answer/records.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// Shows the index's data at once, and the data of the rank's file after `records` has read it.
class DetailsView : public View {
  Q_OBJECT

 public:
  // `records` must outlive the view; its owner gives it the document.
  DetailsView(Navigator* navigator, Records* records, QWidget* parent = nullptr);
  ~DetailsView() override;

  void SetDocument(DocumentPtr document) override;
  // Returns the selected text, or everything as lines of name, tab, value.
  QString CopyText() const override;
  bool Idle() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
