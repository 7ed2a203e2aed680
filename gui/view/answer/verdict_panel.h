// The sentence above all views: what happened, which ranks, how sure.
#pragma once

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// The headline of the report, as tall as its text needs. A click or Enter selects its cells.
class VerdictPanel : public View {
  Q_OBJECT

 public:
  explicit VerdictPanel(Navigator* navigator, QWidget* parent = nullptr);
  ~VerdictPanel() override;

  void SetDocument(DocumentPtr document) override;
  // Returns the report as plain text, suitable for a ticket.
  QString CopyText() const override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
