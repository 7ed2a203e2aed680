// Used only by TimelinePane: the data for drawing one frame.
#pragma once

#include <QFont>
#include <QFontMetricsF>

#include "gui/view/timeline/pane.h"

namespace lockstep::gui {

struct TimelinePane::Frame {
  const Theme& theme;
  Viewport shown;
  QRect plot;
  QSize size;
  QFont font;
  QFontMetricsF metrics;
  bool whole = false;  // for export
  double lane_height = 1;
  int first = 0, last = 0;  // visible lanes: [first, last)

  double X(double ns) const { return plot.left() + (ns - shown.x0) / (shown.x1 - shown.x0) * plot.width(); }
  double Y(double lane) const { return plot.top() + (lane - shown.y0) * lane_height; }
  QRectF Lane(int lane) const {
    return {static_cast<double>(plot.left()), Y(lane), static_cast<double>(plot.width()), lane_height};
  }
};

}  // namespace lockstep::gui
