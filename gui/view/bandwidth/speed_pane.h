// The second picture in the bandwidth tab. At the top is bus bandwidth by message size. Below it is bus bandwidth by
// host, for one operation. Both are shares of the possible speed.
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

  std::function<void(int)> on_speed;  // the user chose another row of Speeds

  void Show(DocumentPtr document, int speed);
  const Speeds& speeds() const { return speeds_; }
  QPointF PointAt(int speed) const;        // its median, on the widget
  QPointF HostAt(int host) const;          // the middle of its column, on the widget
  int SpeedNear(const QPointF& at) const;  // -1 if there is none
  int HostNear(const QPointF& at) const;   // -1 if there is none
  QString TextAt(const QPointF& at) const;
  void Draw(QPainter* painter, const QSize& size, bool whole) override;
  QString NotMeasured() const;  // why there is nothing to see; empty if there is something

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
  double first_power_ = 0, last_power_ = 1;  // powers of two: the sizes on the axis
};

}  // namespace lockstep::gui
