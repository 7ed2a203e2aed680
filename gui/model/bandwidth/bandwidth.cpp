#include "gui/model/bandwidth/bandwidth.h"

#include <algorithm>
#include <cmath>

namespace lockstep::gui {
namespace {

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double KnownRate(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

BandwidthShares SharesOf(const BandwidthSeries& series) {
  BandwidthShares out;
  out.best_bytes_per_s = KnownRate(series.best_bytes_per_s());
  for (const auto& point : series.points())
    out.best_bytes_per_s = std::max(out.best_bytes_per_s, KnownRate(point.median_bytes_per_s()));
  std::vector<double> medians, deviations;
  for (const auto& point : series.points()) {
    BandwidthShare share;
    if (out.best_bytes_per_s > 0) {
      share.median = KnownRate(point.median_bytes_per_s()) / out.best_bytes_per_s;
      share.worst = std::min(share.median, KnownRate(point.worst_bytes_per_s()) / out.best_bytes_per_s);
    }
    out.points.push_back(share);
    medians.push_back(share.median);
  }
  out.median_share = MedianOf(medians);
  for (const double median : medians) deviations.push_back(std::abs(median - out.median_share));
  const double usual = MedianOf(std::move(deviations)) * 1.4826;
  const double below = out.median_share - std::max(out.median_share * 0.1, usual * 4);
  for (size_t i = 0; i < out.points.size(); ++i) {
    BandwidthShare& share = out.points[i];
    share.outlier = share.median < below ||
                    (series.points(static_cast<int>(i)).operations() > 1 && share.worst < share.median * 0.5);
    out.outliers += share.outlier;
  }
  return out;
}

QString RateText(double bytes_per_s) {
  const double value = KnownRate(bytes_per_s);
  for (const auto& [unit, name] : {std::pair(1e9, "GB/s"), std::pair(1e6, "MB/s"), std::pair(1e3, "kB/s")}) {
    if (value >= unit) return QString("%1 %2").arg(value / unit, 0, 'f', value / unit < 10 ? 2 : 1).arg(name);
  }
  return QString("%1 B/s").arg(value, 0, 'f', 0);
}

}  // namespace lockstep::gui
