// Bus bandwidth of each rank for one kind and size of operation, as 0 to 100 % of the best seen. Ranks far below the
// others are marked. A click selects the rank, its communicator and its slowest operation.
#pragma once

#include "gui/view/view.h"

class QComboBox;
class QLabel;

namespace lockstep::gui {

class BandwidthPane;

class BandwidthView : public View {
  Q_OBJECT

 public:
  explicit BandwidthView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // outliers of the series
  QString Csv() const override;       // all points of the series
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override;
  void Pan(double right, double down) override;
  void Fit() override;
  void CentreOnSelection() override;

  BandwidthPane* pane() const { return pane_; }
  int series() const { return series_; }
  void SetSeries(int series);

 private:
  DocumentPtr document_;
  int series_ = -1;
  QComboBox* chooser_;
  QLabel* summary_;
  BandwidthPane* pane_;
};

}  // namespace lockstep::gui
