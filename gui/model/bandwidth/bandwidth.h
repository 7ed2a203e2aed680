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

// `points` has a share for each point of the series. The best is the larger of the series' value and the best point;
// NaN and negative values count as 0. A rank is an outlier if its median is below the ranks' median by more than a
// tenth of it and more than four times their usual deviation. A rank is also an outlier if its worst operation had less
// than half of its own median.
struct BandwidthShares {
  double best_bytes_per_s = 0;
  double median_share = 0;  // over all ranks
  std::vector<BandwidthShare> points;
  int outliers = 0;
};
BandwidthShares SharesOf(const BandwidthSeries& series);

QString RateText(double bytes_per_s);  // "23.4 GB/s"

}  // namespace lockstep::gui
