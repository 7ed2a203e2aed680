#include "gui/view/transform.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::gui {
namespace {

TEST(ViewTransformTest, FitShowsAllAndAFewCellsStaySmall) {
  const ViewTransform big(2048, 24576, 1400, 800);
  EXPECT_TRUE(big.x.fits());
  EXPECT_DOUBLE_EQ(big.x.ToPixel(2048), 1400);
  EXPECT_DOUBLE_EQ(big.y.ToPixel(24576), 800);
  EXPECT_EQ(big.viewport(), Viewport());
  const ViewTransform small(4, 2, 1400, 800);
  EXPECT_DOUBLE_EQ(small.x.scale(), ViewTransform::kWidest);
  EXPECT_DOUBLE_EQ(small.y.scale(), ViewTransform::kTallest);
  EXPECT_EQ(small.x.CellAt(4 * ViewTransform::kWidest + 1), -1);
  EXPECT_EQ(small.x.ClampedCellAt(1399), 3);
}

TEST(ViewTransformTest, ZoomKeepsThePointUnderTheCursor) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  int kept = 0;
  for (int round = 0; round < 2000; ++round) {
    ViewTransform t(1 + static_cast<double>(random() % 5000), 1 + static_cast<double>(random() % 30000), 1400, 800);
    t.x.Zoom(1 + 20 * share(random), 1400 * share(random));
    t.x.Pan((share(random) - 0.5) * 3000);
    const double pixel = 1400 * share(random), cell = t.x.ToCell(pixel);
    t.x.Zoom(0.3 + 3 * share(random), pixel);
    EXPECT_GE(t.x.first(), 0);
    EXPECT_LE(t.x.scale(), ViewTransform::kNearest);
    EXPECT_GE(t.x.ToPixel(t.x.cells()), std::min(1400.0, t.x.cells() * ViewTransform::kWidest) - 1e-6)
        << "there must be no gap after the last cell";
    const bool at_an_end = t.x.first() == 0 || t.x.ToPixel(t.x.cells()) <= 1400 + 1e-6;
    if (!at_an_end) {
      EXPECT_NEAR(t.x.ToPixel(cell), pixel, 1e-6);
      ++kept;
    }
  }
  EXPECT_GT(kept, 500);
}

TEST(ViewTransformTest, RoundTrips) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    ViewTransform t(3000, 24576, 1234, 777);
    t.x.Zoom(1 + random() % 30, random() % 1234);
    t.y.Zoom(1 + random() % 300, random() % 777);
    t.y.Pan(static_cast<double>(random() % 4000) - 2000);
    const double pixel = static_cast<double>(random() % 777);
    EXPECT_NEAR(t.y.ToPixel(t.y.ToCell(pixel)), pixel, 1e-6);
    const int cell = t.y.CellAt(pixel + 0.5);
    ASSERT_GE(cell, 0);
    EXPECT_LE(t.y.ToPixel(cell), pixel + 0.5);
    EXPECT_GT(t.y.ToPixel(cell + 1), pixel + 0.5);
    ViewTransform again(3000, 24576, 1234, 777);
    again.Show(t.viewport());
    EXPECT_NEAR(again.x.first(), t.x.first(), 1e-6);
    EXPECT_NEAR(again.x.scale(), t.x.scale(), 1e-9);
    EXPECT_NEAR(again.y.first(), t.y.first(), 1e-6);
    EXPECT_NEAR(again.y.scale(), t.y.scale(), 1e-9);
  }
}

TEST(ViewTransformTest, LimitsHoldForAnything) {
  ViewAxis axis(100, 50, 40, 64);
  for (const double value : {0.0, -1.0, 1e300, -1e300, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    axis.Zoom(value, 10);
    axis.Pan(value);
    axis.Show(value, 3);
    axis.Show(3, value);
    EXPECT_TRUE(std::isfinite(axis.first()) && std::isfinite(axis.scale())) << value;
    EXPECT_GE(axis.first(), 0);
    EXPECT_GE(axis.scale(), 0.5);
    EXPECT_LE(axis.scale(), 64);
  }
  ViewAxis none(0, 0, 40, 64);
  none.Zoom(2, 0);
  none.Show(0, 5);
  EXPECT_EQ(none.CellAt(0), -1);
  EXPECT_EQ(none.ClampedCellAt(10), 0);
}

TEST(ViewTransformTest, RevealScrollsAsLittleAsPossible) {
  ViewAxis axis(1000, 100, 40, 64);
  axis.Show(500, 510);
  const double before = axis.first();
  axis.Reveal(503, 504, 1);
  EXPECT_DOUBLE_EQ(axis.first(), before);
  axis.Reveal(520, 521, 2);
  EXPECT_NEAR(axis.last(), 523, 1e-9);
  axis.Reveal(0, 1, 2);
  EXPECT_DOUBLE_EQ(axis.first(), 0);
}

TEST(TicksTest, RoundNumbersFarEnoughApart) {
  const auto ticks = Ticks(8801.5, 8900, 10, 60);
  ASSERT_FALSE(ticks.empty());
  EXPECT_EQ(ticks[0].value, 8810);
  EXPECT_EQ(ticks[0].label, "8,810");
  for (size_t i = 1; i < ticks.size(); ++i) EXPECT_EQ(ticks[i].value - ticks[i - 1].value, 10);
  EXPECT_EQ(Ticks(0, 5, 100, 60).size(), 6u) << "ticks must not be closer than one";
  EXPECT_TRUE(Ticks(5, 0, 1, 60).empty());
  EXPECT_TRUE(Ticks(0, HUGE_VAL, 1, 60).empty());
  EXPECT_TRUE(Ticks(0, 10, 0, 60).empty());
  EXPECT_LE(Ticks(0, 1e15, 1, 1).size(), 2000u);
}

}  // namespace
}  // namespace lockstep::gui
