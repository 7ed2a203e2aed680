// CPU and GPU activity of each rank on one time axis, in lanes for hosts, for ranks, or for each rank's calls and
// streams. A band around the pointed or selected time shows clock uncertainty. Lines connect the arrivals of the
// selected collective, or a send and its receive. Place.timeline is the visible part: nanoseconds after the first
// recorded time, and lanes.
#pragma once

#include "gui/view/timeline/pane.h"
#include "gui/view/view.h"

class QComboBox;
class QLabel;
class QScrollBar;

namespace lockstep::gui {

class TimelineView : public View {
  Q_OBJECT

 public:
  explicit TimelineView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override { return pane_->SelectionText(); }  // the selected range and operation
  QString Csv() const override { return pane_->Csv(); }                 // the visible pieces, at most 100,000
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override { pane_->ZoomTime(factor); }
  void ZoomRows(double factor) override { pane_->ZoomLanes(factor); }
  void Pan(double right, double down) override { pane_->PanBy(right, down); }
  void Fit() override { pane_->Fit(); }
  void CentreOnSelection() override { pane_->CentreOnSelection(); }
  void ZoomToSelection() override { pane_->ZoomToSelection(); }
  bool Idle() const override { return pane_->Idle(); }

  TimelinePane* pane() const { return pane_; }

 private:
  void ShowBars();
  QString ClockText() const;

  DocumentPtr document_;
  TimelinePane* pane_;
  QComboBox* detail_;
  QComboBox* choice_;
  QLabel* clock_;
  QScrollBar* across_;
  QScrollBar* down_;
  bool moving_bars_ = false;
};

}  // namespace lockstep::gui
