// The plot in BandwidthView, with a column for each rank.
#pragma once

#include <QPointF>

#include <functional>

#include "gui/model/bandwidth/bandwidth.h"
#include "gui/model/document.h"
#include "gui/model/navigator.h"
#include "gui/view/pane.h"

namespace lockstep::gui {

class BandwidthPane : public Pane {
  Q_OBJECT

 public:
  BandwidthPane(Navigator* navigator, QWidget* parent);

  std::function<void(int)> on_series;  // called with -1 or 1 for the previous or next series

  void Show(DocumentPtr document, int series);  // -1 for none
  const BandwidthShares& shares() const { return shares_; }
  QPointF PointAt(int point) const;        // on the widget
  int NearestTo(const QPointF& at) const;  // -1 if none is near; outliers take precedence
  QString PointText(int point) const;      // at most six lines
  int cursor() const { return cursor_; }
  void Zoom(double factor, double at_share);
  void Pan(double right);
  void Fit();
  void CentreOnSelection();
  void Draw(QPainter* painter, const QSize& size, bool whole) override;
  QString NotMeasured() const;  // why nothing is drawn; empty if there is a plot

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  QString TipAt(const QPoint& at) const override { return PointText(NearestTo(at)); }

 private:
  struct Drawing;
  void DrawHosts(const Drawing& d, const QSize& size) const;
  void DrawScale(const Drawing& d) const;
  void DrawColumns(const Drawing& d) const;
  void DrawDots(const Drawing& d, double apart) const;
  void DrawMarked(const Drawing& d) const;
  const BandwidthSeries* Series() const;
  QRect PlotOf(const QSize& size) const;
  double XOf(double point, const QRect& plot) const;
  void Select(int point);
  void SetCursor(int point);

  Navigator* navigator_;
  DocumentPtr document_;
  int series_ = -1;
  BandwidthShares shares_;
  double x0_ = 0, x1_ = 0;  // range of visible points
  int cursor_ = -1;
};

}  // namespace lockstep::gui
