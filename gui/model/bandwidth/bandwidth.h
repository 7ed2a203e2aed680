// Bus bandwidth of ranks: which ranks are far below the others.
#pragma once

#include <QString>

#include <vector>

#include "proto/view.pb.h"

namespace lockstep::gui {

struct BandwidthShare {
  double median = 0, worst = 0;  // as shares of the best value, 0..1
  bool outlier = false;
};

// `points` has one share for each point of the series. The best value is the series' own or, if larger, that of the
// best point. NaN and negative values count as 0. A rank is an outlier if its median is below the median of all ranks
// by more than a tenth, and by more than four standard deviations (estimated from the median deviation). A rank with
// several operations is also an outlier if the worst reached less than half of the rank's median.
struct BandwidthShares {
  double best_bytes_per_s = 0;
  double median_share = 0;  // over all ranks
  std::vector<BandwidthShare> points;
  int outliers = 0;
};
BandwidthShares SharesOf(const BandwidthSeries& series);

double KnownRate(double value);        // 0 for NaN and for values that are not positive
QString RateText(double bytes_per_s);  // "23.4 GB/s"

}  // namespace lockstep::gui
