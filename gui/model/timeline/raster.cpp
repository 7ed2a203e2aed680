#include "gui/model/timeline/raster.h"

#include <algorithm>
#include <cmath>

#include "gui/model/latest_job.h"

namespace lockstep::gui {

std::shared_ptr<const TimelineRaster> RasterLanes(const Timeline& timeline, const TimelineLanes& lanes,
                                                  const RasterRequest& request, int64_t budget, bool coarse,
                                                  const std::atomic<bool>* cancel) {
  auto out = std::make_shared<TimelineRaster>();
  out->request = request;
  const int count = static_cast<int>(lanes.lanes.size());
  const double per_pixel = (request.y1 - request.y0) / std::max(request.height, 1);
  const int first = std::clamp(static_cast<int>(std::floor(request.y0)), 0, count);
  const int last = std::clamp(static_cast<int>(std::ceil(request.y1)), first, count);
  out->row_a_pixel = per_pixel > 1;
  out->first_lane = first;
  out->rows = out->row_a_pixel ? request.height : last - first;
  if (request.width <= 0 || out->rows <= 0) {
    out->rows = 0;
    out->exact = true;
    return out;
  }
  out->looks.assign(static_cast<size_t>(out->rows) * static_cast<size_t>(request.width), 0);
  auto lanes_of = [&](int row, int* from, int* to) {
    *from = first + row;
    *to = first + row + 1;
    if (!out->row_a_pixel) return;
    // Every lane belongs to exactly one pixel row.
    *from = std::clamp(static_cast<int>(std::floor(request.y0 + row * per_pixel)), first, last);
    *to = std::clamp(static_cast<int>(std::floor(request.y0 + (row + 1) * per_pixel)), *from, last);
  };

  // If far too many operations are expected, does not start to read them: stopping halfway would cost as much as the
  // bins.
  const double share = std::clamp((request.x1 - request.x0) / static_cast<double>(timeline.span_ns()), 0.0, 1.0);
  double expected = 0;
  for (int i = first; i < last; ++i) {
    const TimelineLane& lane = lanes.lanes[static_cast<size_t>(i)];
    for (uint32_t k = 0; k < lane.count; ++k)
      expected += static_cast<double>(timeline.document().OpCount(lanes.rows[lane.first + k])) * share + 1;
  }
  out->exact = expected < static_cast<double>(budget);
  for (int row = 0; row < out->rows && out->exact; ++row) {
    int from = 0, to = 0;
    lanes_of(row, &from, &to);
    if (Cancelled(cancel)) return nullptr;
    for (int i = from; i < to && out->exact; ++i) {
      const TimelineLane& lane = lanes.lanes[static_cast<size_t>(i)];
      for (uint32_t k = 0; k < lane.count && out->exact; ++k) {
        out->exact =
            timeline.Exact(lanes.rows[lane.first + k], lane.filter, request.x0, request.x1, request.width, &budget,
                           out->looks.data() + static_cast<size_t>(row) * static_cast<size_t>(request.width));
      }
    }
  }
  if (out->exact) return out;
  if (!coarse && timeline.bin_ns() > (request.x1 - request.x0) / request.width) return nullptr;
  std::fill(out->looks.begin(), out->looks.end(), uint8_t{0});
  for (int row = 0; row < out->rows; ++row) {
    int from = 0, to = 0;
    lanes_of(row, &from, &to);
    // Consecutive lanes mostly contain consecutive rows, which one call can draw.
    for (int i = from; i < to;) {
      const TimelineLane& lane = lanes.lanes[static_cast<size_t>(i)];
      if (lane.filter.part != LaneFilter::Part::kAll) {
        ++i;
        continue;
      }
      uint32_t rows = lane.count;
      int next = i + 1;
      while (next < to && lanes.lanes[static_cast<size_t>(next)].first == lane.first + rows)
        rows += lanes.lanes[static_cast<size_t>(next++)].count;
      timeline.Coarse(lanes.rows.data() + lane.first, rows, request.x0, request.x1, request.width,
                      out->looks.data() + static_cast<size_t>(row) * static_cast<size_t>(request.width));
      i = next;
    }
    if (Cancelled(cancel)) return nullptr;
  }
  return out;
}

}  // namespace lockstep::gui
