// The second picture in the bandwidth tab: bus bandwidth by message size, and below it by host for one operation. Both
// are shares of the possible speed, or bytes per second if that is unknown.
#pragma once

#include <QPointF>
#include <QRect>

#include <functional>

#include "gui/model/bandwidth/speeds.h"
#include "gui/model/document.h"
#include "gui/model/navigator.h"
#include "gui/view/pane.h"

namespace lockstep::gui {

class SpeedPane : public Pane {
  Q_OBJECT

 public:
  SpeedPane(Navigator* navigator, QWidget* parent);

  std::function<void(int)> on_speed;  // called when the user chooses another row of Speeds

  void Show(DocumentPtr document, int speed);
  const Speeds& speeds() const { return speeds_; }
  QPointF PointAt(int speed) const;        // the row's median, on the widget
  QPointF HostAt(int host) const;          // a point in the host's column, on the widget
  int SpeedNear(const QPointF& at) const;  // -1 if there is none
  int HostNear(const QPointF& at) const;   // -1 if there is none
  QString TextAt(const QPointF& at) const;
  void Draw(QPainter* painter, const QSize& size, bool whole) override;
  QString NotMeasured() const;  // why nothing is drawn; empty if there is a plot

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  QString TipAt(const QPoint& at) const override { return TextAt(at); }

 private:
  struct Drawing;
  struct Axis;
  const SpeedRow* Row() const;
  Axis SizeAxis() const;
  Axis HostAxis() const;
  QRect SizePlot(const QSize& size) const;
  QRect HostPlot(const QSize& size) const;
  double XOfSize(int64_t bytes, const QRect& plot) const;
  bool IsPlotted(const SpeedRow& row) const { return !speeds_.shares || row.possible > 0; }
  void DrawScale(const Drawing& d, const QRect& plot, const Axis& axis) const;
  void DrawSizes(const Drawing& d, const QRect& plot) const;
  void DrawHosts(const Drawing& d, const QRect& plot, bool whole) const;
  void DrawLegend(const Drawing& d, double top) const;
  QString HostTitle() const;
  void SelectHost(int host);
  void SetCursor(int host);

  Navigator* navigator_;
  DocumentPtr document_;
  Speeds speeds_;
  int speed_ = -1;
  int cursor_ = -1;                          // a host of the chosen row
  double first_power_ = 0, last_power_ = 1;  // the axis covers sizes from 2^first_power_ to 2^last_power_ bytes
};

}  // namespace lockstep::gui
