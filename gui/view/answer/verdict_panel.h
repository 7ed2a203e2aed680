// The sentence above all views: what happened, which ranks, how sure.
#pragma once

#include "gui/view/view.h"

class QLabel;
class QToolButton;

namespace lockstep::gui {

// The headline of the report, as tall as its text needs. A click or Enter selects its cells.
class VerdictPanel : public View {
  Q_OBJECT

 public:
  explicit VerdictPanel(Navigator* navigator, QWidget* parent = nullptr);

  void SetDocument(DocumentPtr document) override;
  // Returns the report as plain text, suitable for a ticket.
  QString CopyText() const override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  class Badge;
  class Sentence;
  void Fill();

  DocumentPtr document_;
  Badge* badge_ = nullptr;
  Sentence* headline_;
  QLabel* sure_;
  QToolButton* copy_;
};

}  // namespace lockstep::gui
