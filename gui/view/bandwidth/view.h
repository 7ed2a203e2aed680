// Bus bandwidth in two pictures. By rank: each rank's bandwidth for one kind and size of operation, as a share of the
// best value; ranks far below the others are marked. A click selects the rank, its communicator and its slowest
// operation. By size and host: see SpeedPane.
#pragma once

#include "gui/view/bandwidth/pane.h"
#include "gui/view/view.h"

class QComboBox;
class QLabel;
class QStackedWidget;

namespace lockstep::gui {

class SpeedPane;

class BandwidthView : public View {
  Q_OBJECT

 public:
  explicit BandwidthView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // by rank: outliers of the series; by size: all rows and their hosts
  QString Csv() const override;       // by rank: all points of the series; by size: all rows and their hosts
  bool Paint(QPainter* painter, const QSize& size) override;
  // Only the picture by rank zooms; the other one always shows everything.
  void Zoom(double factor) override { pane_->Zoom(factor, 0.5); }
  void Pan(double right, double) override { pane_->Pan(right); }
  void Fit() override { pane_->Fit(); }
  void CentreOnSelection() override { pane_->CentreOnSelection(); }

  BandwidthPane* pane() const { return pane_; }
  SpeedPane* speed_pane() const { return speed_pane_; }
  int series() const { return series_; }
  void SetSeries(int series);
  int speed() const { return speed_; }
  void SetSpeed(int speed);
  bool by_size() const { return by_size_; }
  void SetBySize(bool by_size);

 private:
  void FillChooser();
  void Summarize();
  QString SpeedTable(QChar separator) const;

  DocumentPtr document_;
  int series_ = -1, speed_ = -1;
  bool by_size_ = false;
  QComboBox *picture_, *chooser_;
  QLabel* summary_;
  QStackedWidget* stack_;
  BandwidthPane* pane_;
  SpeedPane* speed_pane_;
};

}  // namespace lockstep::gui
