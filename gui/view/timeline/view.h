// CPU and GPU activity of each rank on one time axis, in lanes for hosts, for ranks, or for each rank's calls and
// streams. A band around the pointed or selected time shows clock uncertainty. Lines connect the arrivals of the
// selected collective, or a send and its receive. Place.timeline is the visible part: nanoseconds after the first
// recorded time, and lanes.
#pragma once

#include "gui/view/view.h"

class QComboBox;
class QLabel;
class QScrollBar;

namespace lockstep::gui {

class TimelinePane;

class TimelineView : public View {
  Q_OBJECT

 public:
  explicit TimelineView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // the selected range and operation
  QString Csv() const override;       // the visible pieces, at most 100,000
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override;
  void ZoomRows(double factor) override;
  void Pan(double right, double down) override;
  void Fit() override;
  void CentreOnSelection() override;
  void ZoomToSelection() override;
  bool Idle() const override;

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
