#include "gui/model/bandwidth/bandwidth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::gui {
namespace {

void Add(BandwidthSeries* series, int rank, double median, double worst) {
  auto* point = series->add_points();
  point->set_rank(rank);
  point->set_median_bytes_per_s(median);
  point->set_worst_bytes_per_s(worst);
  point->set_operations(40);
}

TEST(BandwidthTest, SlowRanksAreOutliersAndUsualScatterIsNot) {
  BandwidthSeries series;
  series.set_best_bytes_per_s(100e9);
  for (int i = 0; i < 64; ++i) Add(&series, i, (90 + i % 7) * 1e9, 80e9);
  Add(&series, 64, 41e9, 40e9);
  Add(&series, 65, 92e9, 12e9);
  const BandwidthShares shares = SharesOf(series);
  EXPECT_EQ(shares.outliers, 2);
  EXPECT_TRUE(shares.points[64].outlier);
  EXPECT_TRUE(shares.points[65].outlier);
  EXPECT_NEAR(shares.points[64].median, 0.41, 1e-9);
  EXPECT_NEAR(shares.median_share, 0.93, 0.02);
}

TEST(BandwidthTest, NoPointsEqualPointsAndNoNumbers) {
  EXPECT_TRUE(SharesOf({}).points.empty());
  BandwidthSeries equal;
  for (int i = 0; i < 9; ++i) Add(&equal, i, 5e9, 5e9);
  EXPECT_EQ(SharesOf(equal).outliers, 0);
  EXPECT_EQ(SharesOf(equal).best_bytes_per_s, 5e9);
  BandwidthSeries odd;
  Add(&odd, 0, std::numeric_limits<double>::quiet_NaN(), -5);
  Add(&odd, 1, std::numeric_limits<double>::infinity(), 0);
  Add(&odd, 2, 1e9, 5e9);
  for (const BandwidthShare& share : SharesOf(odd).points) {
    EXPECT_GE(share.worst, 0);
    EXPECT_LE(share.worst, share.median);
    EXPECT_LE(share.median, 1);
  }
  EXPECT_EQ(RateText(23.44e9), "23.4 GB/s");
  EXPECT_EQ(RateText(-1), "0 B/s");
}

}  // namespace
}  // namespace lockstep::gui
