#include "gui/model/bandwidth/speeds.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::gui {
namespace {

Speed* Add(Verdict* verdict, int64_t bytes, double rate, double possible) {
  Speed* speed = verdict->add_speeds();
  speed->set_operation("AllReduce");
  speed->set_bytes(bytes);
  speed->set_ranks(64);
  speed->set_hosts(8);
  speed->set_operations(100);
  speed->set_bus_bytes_per_s(rate);
  speed->set_low_bus_bytes_per_s(rate * 0.8);
  speed->set_high_bus_bytes_per_s(rate * 1.1);
  speed->set_roofline_bus_bytes_per_s(possible);
  if (possible > 0) speed->set_roofline("line rate 400 Gbit/s for each GPU, detected");
  return speed;
}

TEST(SpeedsTest, TheRooflineAndItsSourceAreNamed) {
  Verdict verdict;
  Add(&verdict, 64 << 20, 200e9, 400e9);
  Add(&verdict, 1 << 20, 20e9, 0);
  const Speeds speeds = SpeedsOf(verdict);
  ASSERT_EQ(speeds.rows.size(), 2u);
  EXPECT_EQ(speeds.series.size(), 1u);
  EXPECT_TRUE(speeds.shares);
  EXPECT_EQ(speeds.rows[0].name.toStdString(), "AllReduce of 64 MiB, 64 ranks on 8 hosts");
  EXPECT_TRUE(speeds.note.contains("for each GPU, detected")) << speeds.note.toStdString();
  EXPECT_TRUE(speeds.note.contains("It is unknown for 1 of 2")) << speeds.note.toStdString();
  const QString text = SpeedText(speeds.rows[0], speeds.rows[0].rate);
  EXPECT_TRUE(text.contains("50 % of 400.0 GB/s (line rate 400 Gbit/s for each GPU, detected)")) << text.toStdString();
  EXPECT_TRUE(text.contains("160.0 GB/s to 220.0 GB/s")) << text.toStdString();
  EXPECT_TRUE(SpeedText(speeds.rows[1], speeds.rows[1].rate).endsWith("the possible speed is unknown"));
}

TEST(SpeedsTest, WithoutARooflineNoPercentageIsShown) {
  Verdict verdict;
  Add(&verdict, 64 << 20, 200e9, 0);
  EXPECT_FALSE(SpeedsOf(verdict).shares);
  EXPECT_TRUE(SpeedsOf(verdict).note.contains("is unknown"));
  EXPECT_TRUE(SpeedsOf({}).rows.empty());
}

TEST(SpeedsTest, HostileNumbersAreHarmless) {
  Verdict verdict;
  Speed* speed = Add(&verdict, -5, std::numeric_limits<double>::quiet_NaN(), -1);
  speed->set_operations(-3);
  speed->add_by_host()->set_bus_bytes_per_s(std::numeric_limits<double>::infinity());
  const Speeds speeds = SpeedsOf(verdict);
  EXPECT_EQ(speeds.rows[0].bytes, 1);
  EXPECT_EQ(speeds.rows[0].rate.median, 0);
  EXPECT_EQ(speeds.rows[0].hosts[0].rate.high, 0);
  EXPECT_EQ(speeds.rows[0].hosts_measured, 1);
}

}  // namespace
}  // namespace lockstep::gui
