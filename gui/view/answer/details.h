// What is known about the selection, as text: an operation and its peers, a rank, several ranks, a communicator.
#pragma once

#include <utility>
#include <vector>

#include "gui/model/answer/details.h"
#include "gui/model/answer/records.h"
#include "gui/model/latest_job.h"
#include "gui/view/view.h"

namespace lockstep::gui {

class LinkPane;

// Shows the index's data at once, and the rank's file when `records` has read it.
class DetailsView : public View {
  Q_OBJECT

 public:
  // `records` must outlive the view. The owner of `records` sets its document.
  DetailsView(Navigator* navigator, Records* records, QWidget* parent = nullptr);

  void SetDocument(DocumentPtr document) override;
  // Returns the selected text, otherwise everything as lines of name, tab, value.
  QString CopyText() const override;
  bool Idle() const override { return !job_.busy(); }

 private:
  void Fill();
  void Show(bool keep);
  void AskRecords();
  void SetRecorded(const std::vector<std::pair<QString, QString>>& fields);

  Records* records_;
  DocumentPtr document_;
  Details details_;
  LinkPane* page_;
  LatestJob job_;
};

}  // namespace lockstep::gui
