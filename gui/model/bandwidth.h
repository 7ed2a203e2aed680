// Bus bandwidth of ranks: which of them are far below the others.
#ifndef LOCKSTEP_GUI_MODEL_BANDWIDTH_H_
#define LOCKSTEP_GUI_MODEL_BANDWIDTH_H_

#include <QString>

#include <vector>

#include "proto/view.pb.h"

namespace lockstep::gui {

struct BandwidthShare {
  double median = 0, worst = 0;  // of the best seen, 0..1
  bool outlier = false;
};

// One for each point. The best is what the series says or what a point shows, whichever is more; what is no number, or
// negative, counts as 0. An outlier is a rank whose median lies below the ranks' median by more than a tenth of it and
// by more than four times their usual deviation; or one whose worst operation had less than half of what it has by
// itself.
struct BandwidthShares {
  double best_bytes_per_s = 0;
  double median_share = 0;  // of all ranks
  std::vector<BandwidthShare> points;
  int outliers = 0;
};
BandwidthShares SharesOf(const BandwidthSeries& series);

QString RateText(double bytes_per_s);  // "23.4 GB/s"

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_BANDWIDTH_H_
