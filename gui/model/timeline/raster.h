// What to draw in all visible lanes: one byte (TimelineLook) per pixel column, for each pixel row or each lane. Pure;
// any thread may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/timeline/lanes.h"
#include "gui/model/timeline/times.h"

namespace lockstep::gui {

struct RasterRequest {
  double x0 = 0, x1 = 1;      // nanoseconds after the origin
  double y0 = 0, y1 = 1;      // lanes; lanes.size() may be less than y1
  int width = 0, height = 0;  // pixels
  bool operator==(const RasterRequest&) const = default;
};

struct TimelineRaster {
  RasterRequest request;
  bool exact = false;        // drawn from the operations, not from bins
  int first_lane = 0;        // if there is one row per lane: the lane of row 0
  bool row_a_pixel = false;  // otherwise there is one row per lane
  int rows = 0;
  std::vector<uint8_t> looks;  // rows x width, TimelineLook
  const uint8_t* Row(int row) const {
    return looks.data() + static_cast<size_t>(row) * static_cast<size_t>(request.width);
  }
};

// Reads at most `budget` operations. If that is too few, draws from the bins, provided that these are as fine as pixels
// or `coarse` is true; otherwise returns null. From bins, lanes that show only a part of a rank stay empty. Also
// returns null if *cancel becomes true.
std::shared_ptr<const TimelineRaster> RasterLanes(const Timeline& timeline, const TimelineLanes& lanes,
                                                  const RasterRequest& request, int64_t budget, bool coarse,
                                                  const std::atomic<bool>* cancel = nullptr);

}  // namespace lockstep::gui
