#include "gui/view/bandwidth/view.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QImage>
#include <QtTest/QTest>

#include "analyzer/testing/job.h"
#include "gui/testing/facts.h"
#include "gui/view/bandwidth/pane.h"
#include "gui/view/bandwidth/speed_pane.h"

namespace lockstep::gui {
namespace {

const Bundle& Ran() {
  static const Bundle& bundle = []() -> const Bundle& {
    auto* made = new Bundle(lockstep::testing::Job(2, 2, 2, 4).Run());
    for (Rank& rank : made->ranks) rank.host = rank.rank < 4 ? "node1" : "node2";
    return *made;
  }();
  return bundle;
}

DocumentPtr Made(const ViewFacts& facts) { return testing::OpenWith(Ran(), facts); }

std::string HostOf(int32_t rank) { return Ran().ranks[static_cast<size_t>(rank)].host; }

ViewFacts Two() {
  ViewFacts facts;
  for (const char* label : {"AllGather 64 MiB on dp", "AllReduce 1 MiB on tp"}) {
    BandwidthSeries* series = facts.add_bandwidths();
    series->set_label(label);
    series->set_clock("gpu marks");
    series->set_best_bytes_per_s(50e9);
    for (int r = 0; r < 8; ++r) {
      auto* point = series->add_points();
      point->set_rank(r);
      point->set_comm(1);
      const bool slow = r == 5 && facts.bandwidths_size() == 2;
      point->set_median_bytes_per_s(slow ? 20e9 : 48e9);
      point->set_worst_bytes_per_s(slow ? 10e9 : 45e9);
      point->set_worst_sequence(30 + r);
      point->set_operations(12);
    }
  }
  return facts;
}

TEST(BandwidthViewTest, TheSeriesWithOutliersIsShownAndTheyAreSelected) {
  Navigator navigator;
  BandwidthView view(&navigator);
  view.resize(900, 500);
  view.SetDocument(Made(Two()));
  view.show();
  EXPECT_EQ(view.series(), 1);
  EXPECT_EQ(view.pane()->shares().outliers, 1);
  QTest::mouseClick(view.pane(), Qt::LeftButton, {}, view.pane()->PointAt(5).toPoint());
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(navigator.selection().comm, 1);
  EXPECT_EQ(navigator.selection().seq_first, 35);
  QTest::keyClick(view.pane(), Qt::Key_Right);
  QTest::keyClick(view.pane(), Qt::Key_Return);
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(6, 6));
  QTest::keyClick(view.pane(), Qt::Key_Left, Qt::ControlModifier);
  EXPECT_EQ(view.pane()->cursor(), 5);
  EXPECT_TRUE(view.pane()->PointText(5).contains("40 % of the best")) << view.pane()->PointText(5).toStdString();
  EXPECT_LE(view.pane()->PointText(5).count('\n'), 5);
  EXPECT_TRUE(view.CopyText().contains("20.0 GB/s")) << view.CopyText().toStdString();
  EXPECT_EQ(view.Csv().count('\n'), 9);
  QTest::keyClick(view.pane(), Qt::Key_PageUp);
  EXPECT_EQ(view.series(), 0);
  EXPECT_EQ(view.findChild<QComboBox*>("operations")->currentIndex(), 0);
  view.grab();
}

TEST(BandwidthViewTest, ThousandsOfRanksKeepTheirOutlier) {
  ViewFacts facts;
  BandwidthSeries* series = facts.add_bandwidths();
  series->set_label("AllGather 64 MiB on dp");
  series->set_clock("gpu marks");
  for (int r = 0; r < 24'576; ++r) {
    auto* point = series->add_points();
    point->set_rank(r);
    point->set_comm(0);
    point->set_median_bytes_per_s(r == 17'043 ? 8e9 : 40e9 + r % 97 * 1e7);
    point->set_worst_bytes_per_s(point->median_bytes_per_s() * 0.9);
    point->set_operations(3);
  }
  Navigator navigator;
  BandwidthView view(&navigator);
  view.resize(1000, 500);
  view.SetDocument(Made(facts));
  view.show();
  QImage image(1000, 500, QImage::Format_RGB32);
  QPainter painter(&image);
  ASSERT_TRUE(view.Paint(&painter, image.size()));
  painter.end();
  int marks = 0;
  for (int y = 0; y < 500; ++y) {
    for (int x = 0; x < 1000; ++x) marks += image.pixel(x, y) == ThemeFor(view.palette()).cause.rgb();
  }
  EXPECT_GT(marks, 20);
  QTest::mouseClick(view.pane(), Qt::LeftButton, {}, view.pane()->PointAt(17'043).toPoint());
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(17'043, 17'043));
  for (int i = 0; i < 60; ++i) view.Zoom(1.25);
  view.CentreOnSelection();
  EXPECT_TRUE(view.pane()->rect().contains(view.pane()->PointAt(17'043).toPoint()));
  view.Fit();
}

// Two operations on two hosts; the possible speed of the second is unknown.
ViewFacts WithSpeeds() {
  ViewFacts facts = Two();
  const std::string host = HostOf(5);
  for (const double possible : {100e9, 0.0}) {
    Speed* speed = facts.mutable_verdict()->add_speeds();
    speed->set_operation("AllReduce");
    speed->set_bytes(possible > 0 ? 64 << 20 : 1 << 20);
    speed->set_ranks(8);
    speed->set_hosts(2);
    speed->set_operations(40);
    speed->set_bus_bytes_per_s(50e9);
    speed->set_low_bus_bytes_per_s(25e9);
    speed->set_high_bus_bytes_per_s(75e9);
    speed->set_roofline_bus_bytes_per_s(possible);
    speed->set_roofline("line rate 200 Gbit/s for each GPU, detected");
    speed->set_hosts_measured(2);
    for (const std::string& name : {host, std::string("a host of another job")}) {
      HostSpeed* row = speed->add_by_host();
      row->set_host(name);
      row->set_operations(20);
      row->set_low_bus_bytes_per_s(10e9);
      row->set_bus_bytes_per_s(name == host ? 20e9 : 60e9);
      row->set_high_bus_bytes_per_s(70e9);
    }
  }
  return facts;
}

TEST(BandwidthViewTest, BySizeAndHostTheRooflineIsShownAndHostsAreSelected) {
  Navigator navigator;
  BandwidthView view(&navigator);
  view.resize(1280, 800);
  view.SetDocument(Made(WithSpeeds()));
  view.show();
  EXPECT_FALSE(view.by_size());
  view.SetBySize(true);
  SpeedPane* pane = view.speed_pane();
  EXPECT_EQ(view.speed(), 0);
  const QString text = pane->TextAt(pane->PointAt(0));
  EXPECT_TRUE(text.contains("50 % of 100.0 GB/s (line rate 200 Gbit/s for each GPU, detected)")) << text.toStdString();
  EXPECT_TRUE(pane->TextAt(pane->HostAt(1)).startsWith("a host of another job"))
      << pane->TextAt(pane->HostAt(1)).toStdString();
  QTest::mouseClick(pane, Qt::LeftButton, {}, pane->HostAt(0).toPoint());
  EXPECT_TRUE(navigator.selection().ranks.Contains(5));
  EXPECT_LT(navigator.selection().ranks.size(), 8);
  const Ranks before = navigator.selection().ranks;
  QTest::keyClick(pane, Qt::Key_Right);
  QTest::keyClick(pane, Qt::Key_Return);
  EXPECT_EQ(navigator.selection().ranks, before) << "this host has no rank";
  // A row without a roofline is not in the picture, but can be chosen.
  EXPECT_EQ(pane->SpeedNear(pane->PointAt(1)), -1);
  QTest::keyClick(pane, Qt::Key_PageDown);
  EXPECT_EQ(view.speed(), 1);
  EXPECT_TRUE(pane->TextAt(pane->HostAt(0)).endsWith("the possible speed is unknown"));
  EXPECT_EQ(view.CopyText().count('\n'), 7);
  EXPECT_TRUE(view.Csv().contains(",not known")) << view.Csv().toStdString();
  QImage image(640, 400, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_TRUE(view.Paint(&painter, image.size()));
  painter.end();
  view.SetDocument(Made({}));
  EXPECT_FALSE(pane->NotMeasured().isEmpty());
  QTest::keyClick(pane, Qt::Key_Right);
  QTest::keyClick(pane, Qt::Key_Return);
  EXPECT_EQ(view.CopyText(), QString());
  view.grab();
}

TEST(BandwidthViewTest, TheReasonForMissingMeasurementsIsGiven) {
  Navigator navigator;
  BandwidthView view(&navigator);
  view.resize(400, 300);
  view.grab();
  ViewFacts facts;
  facts.add_bandwidths()->set_label("AllReduce 1 MiB on tp");
  facts.mutable_verdict()->add_not_measured("GPU times: marks were off (LOCKSTEP_MARKS=0)");
  view.SetDocument(Made(facts));
  EXPECT_TRUE(view.pane()->NotMeasured().startsWith("Not measured, because"))
      << view.pane()->NotMeasured().toStdString();
  EXPECT_TRUE(view.pane()->NotMeasured().contains("marks were off"));
  view.grab();
  QTest::keyClick(view.pane(), Qt::Key_Right);
  QTest::keyClick(view.pane(), Qt::Key_Return);
  view.Zoom(1.25);
  QTest::mouseClick(view.pane(), Qt::LeftButton, {}, QPoint(50, 50));
  EXPECT_TRUE(navigator.selection().empty());
  view.SetDocument(Made({}));
  EXPECT_FALSE(view.pane()->NotMeasured().isEmpty());
  view.grab();
}

}  // namespace
}  // namespace lockstep::gui
