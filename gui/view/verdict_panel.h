// The first page: what happened, who, how sure, the evidence, what to do, and what is unknown.
#ifndef LOCKSTEP_GUI_VIEW_VERDICT_PANEL_H_
#define LOCKSTEP_GUI_VIEW_VERDICT_PANEL_H_

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// Says the same words as `lockstep analyze`. Its links (a finding, a line of evidence, a link of the chain) select the
// exact cells; Tab and Enter reach them. Never higher than a third of its window, it scrolls; collapsed it is its one
// sentence.
class VerdictPanel : public View {
  Q_OBJECT

 public:
  explicit VerdictPanel(Navigator* navigator, QWidget* parent = nullptr);
  ~VerdictPanel() override;

  void SetDocument(DocumentPtr document) override;
  // The report as plain text, fit for a ticket.
  QString CopyText() const override;
  bool collapsed() const;
  void SetCollapsed(bool collapsed);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void CollapsedChanged(bool collapsed);

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_VERDICT_PANEL_H_
