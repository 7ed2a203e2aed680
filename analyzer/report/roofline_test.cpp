#include "analyzer/report/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTest[] =
    "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid 223120 on  node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 223121 on  node-a device  1 [0000:1c:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid 223122 on  node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid 223123 on  node-b device  1 [0000:1c:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n"
    "        1024           256     float     sum      -1    45.80   10.00   20.00       0    43.80   10.10   20.10    "
    "   0\n"
    "        4096          1024     float     sum      -1    45.37   30.00   40.00       0    43.91   31.00   39.00    "
    " N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 30\n";

Speed MakeSpeed(const char* operation, int64_t bytes, int32_t ranks, int32_t hosts, double rate) {
  Speed speed;
  speed.set_operation(operation);
  speed.set_bytes(bytes);
  speed.set_ranks(ranks);
  speed.set_hosts(hosts);
  speed.set_operations(100);
  speed.set_bus_bytes_per_s(rate);
  speed.set_low_bus_bytes_per_s(rate * 0.9);
  speed.set_high_bus_bytes_per_s(rate * 1.1);
  return speed;
}

Speed With(const Roofline& roofline, const Speed& speed) {
  Verdict verdict;
  *verdict.add_speeds() = speed;
  SetRooflines(roofline, &verdict);
  return verdict.speeds(0);
}

Roofline Measured(const std::string& text) {
  Roofline roofline;
  const auto curves = ParseNcclTests(text, "/home/a/out.txt");
  EXPECT_TRUE(curves.ok()) << curves.status();
  if (curves.ok()) roofline.measured = *curves;
  return roofline;
}

TEST(Roofline, TheOutputOfNcclTestsIsRead) {
  const Roofline roofline = Measured(kTest);
  ASSERT_EQ(roofline.measured.size(), 1u);
  EXPECT_EQ(roofline.measured[0].operation, "AllReduce");
  EXPECT_EQ(roofline.measured[0].name, "out.txt, 4 ranks on 2 hosts");
  // The better of out-of-place and in-place.
  EXPECT_DOUBLE_EQ(With(roofline, MakeSpeed("AllReduce", 1024, 4, 2, 1e9)).roofline_bus_bytes_per_s(), 20.1e9);
  EXPECT_DOUBLE_EQ(With(roofline, MakeSpeed("AllReduce", 4096, 4, 2, 1e9)).roofline_bus_bytes_per_s(), 40e9);
  // Halfway between two sizes, and above the largest. Smaller sizes have no value.
  EXPECT_NEAR(With(roofline, MakeSpeed("AllReduce", 2048, 4, 2, 1e9)).roofline_bus_bytes_per_s(), 30.05e9, 1e7);
  EXPECT_DOUBLE_EQ(With(roofline, MakeSpeed("AllReduce", 1 << 30, 4, 2, 1e9)).roofline_bus_bytes_per_s(), 40e9);
  EXPECT_EQ(With(roofline, MakeSpeed("AllReduce", 512, 4, 2, 1e9)).roofline(), "");
  // Compares with other numbers of hosts, but not with one host, another operation, or fewer ranks per host.
  EXPECT_GT(With(roofline, MakeSpeed("AllReduce", 1024, 64, 32, 1e9)).roofline_bus_bytes_per_s(), 0);
  EXPECT_EQ(With(roofline, MakeSpeed("AllReduce", 1024, 2, 1, 1e9)).roofline_bus_bytes_per_s(), 0);
  EXPECT_EQ(With(roofline, MakeSpeed("AllReduce", 1024, 2, 2, 1e9)).roofline_bus_bytes_per_s(), 0);
  EXPECT_EQ(With(roofline, MakeSpeed("AllGather", 1024, 4, 2, 1e9)).roofline_bus_bytes_per_s(), 0);
  EXPECT_EQ(With(roofline, MakeSpeed("AllReduce", 1024, 4, 0, 1e9)).roofline_bus_bytes_per_s(), 0);
}

TEST(Roofline, LabelsOfLaunchersAndSeveralTestsInAFileAreRead) {
  std::string labelled;
  const std::string text = kTest;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    labelled += "[1,0]<stdout>:" + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  EXPECT_EQ(Measured(labelled).measured.size(), 1u);
  std::string two = text + text;
  two.replace(two.rfind("all_reduce_perf"), 15, "all_gather_perf");
  const Roofline roofline = Measured(two);
  ASSERT_EQ(roofline.measured.size(), 2u);
  EXPECT_EQ(roofline.measured[1].operation, "AllGather");
}

TEST(Roofline, FilesWithoutResultsAreRefusedWithAReason) {
  const auto why = [](std::string text) { return std::string(ParseNcclTests(text, "x").status().message()); };
  EXPECT_THAT(why(""), HasSubstr("no results"));
  EXPECT_THAT(why("{\"a\": 1}\n"), HasSubstr("no results"));
  std::string text = kTest;
  text.replace(text.find("Rank  1"), 7, "Rank  0");
  EXPECT_THAT(why(text), HasSubstr("MPI=1"));
  text = kTest;
  text.erase(text.find("# Collective"), text.find("# nThread") - text.find("# Collective"));
  EXPECT_THAT(why(text), HasSubstr("which collective"));
  EXPECT_TRUE(ParseNcclTests(text, "all_reduce.log").ok());  // older versions: the name of the file
  for (const char* bytes : {"nan", "-5", "99999999999999999999", "1e999"}) {
    text = kTest;
    text.replace(text.find("        1024 "), 13, std::string(bytes) + " ");
    const auto curves = ParseNcclTests(text, "x");
    ASSERT_TRUE(curves.ok());
    EXPECT_EQ((*curves)[0].points.size(), 1u) << bytes;
  }
}

TEST(Roofline, TheLineRateBoundsWhatCrossesHosts) {
  Roofline roofline;
  roofline.line_bits_per_s = 400e9;
  const auto bound = [&](const char* operation, int32_t ranks, int32_t hosts) {
    return With(roofline, MakeSpeed(operation, 1 << 30, ranks, hosts, 1e9)).roofline_bus_bytes_per_s();
  };
  // A host's 8 GPUs share 8 ports; a single GPU has its own.
  EXPECT_DOUBLE_EQ(bound("AllReduce", 512, 64), 400e9);
  EXPECT_DOUBLE_EQ(bound("AllGather", 64, 64), 50e9);
  EXPECT_DOUBLE_EQ(bound("Send", 2, 2), 50e9);
  EXPECT_DOUBLE_EQ(bound("AlltoAll", 16, 2), 50e9 * 15 / 8);  // half of it stays in the host
  EXPECT_EQ(bound("AllReduce", 8, 1), 0) << "NVLink is not the network";
  EXPECT_EQ(bound("AllReduce", 8, 0), 0) << "the hosts are unknown";
  EXPECT_EQ(bound("Gather", 16, 2), 0) << "its bound depends on the algorithm";
}

TEST(Roofline, TestsComeBeforeTheLineRateAndTheArchiveIsLast) {
  Roofline roofline = Measured(kTest);
  roofline.archive = {{"AllReduce", 1024, 4, 2, 9e9, 41}, {"AllGather", 1024, 4, 2, 9e9, 41}};
  EXPECT_THAT(With(roofline, MakeSpeed("AllReduce", 1500, 4, 2, 1e9)).roofline(), HasSubstr("out.txt"));
  const Speed gather = With(roofline, MakeSpeed("AllGather", 1500, 4, 2, 1e9));
  EXPECT_DOUBLE_EQ(gather.roofline_bus_bytes_per_s(), 9e9);
  EXPECT_EQ(gather.roofline(), "best of 41 in the archive");
  // A speed above the archive's best is the best, although the archive does not have it yet.
  const Speed best = With(roofline, MakeSpeed("AllGather", 1024, 4, 2, 18e9));
  EXPECT_DOUBLE_EQ(best.roofline_bus_bytes_per_s(), 18e9);
  EXPECT_EQ(best.roofline(), "this incident itself, faster than 41 in the archive");
  roofline.line_bits_per_s = 400e9;
  EXPECT_THAT(With(roofline, MakeSpeed("AllGather", 1500, 4, 2, 1e9)).roofline(), HasSubstr("400 Gbit/s"));
}

TEST(Roofline, TheLineRateIsDetectedUnlessItIsGiven) {
  Bundle bundle;
  for (int r = 0; r < 6; ++r) bundle.ranks.emplace_back().host = r < 2 ? "n1" : r < 4 ? "n2" : "n3";
  Verdict verdict;
  *verdict.add_speeds() = MakeSpeed("AllReduce", 1 << 30, 16, 2, 100e9);
  *verdict.add_speeds() = MakeSpeed("AllReduce", 1 << 20, 8, 1, 100e9);
  SetLineRate(bundle, &verdict);
  SetRooflines({}, &verdict);
  EXPECT_FALSE(verdict.has_line_rate());
  EXPECT_EQ(verdict.speeds(0).roofline_bus_bytes_per_s(), 0) << "not known is not a number";

  // n3 reported nothing. A host that reports no GPUs counts as one GPU for each rank.
  bundle.places = {{"n1", "", "", {400'000, 8, 8}}, {"n2", "", "", {200'000, 4, 0}}, {"n3", "", ""}};
  SetLineRate(bundle, &verdict);
  EXPECT_EQ(verdict.line_rate().hosts(), 2);
  EXPECT_EQ(verdict.line_rate().bits_per_s(), 400e9);
  EXPECT_EQ(verdict.line_rate().lowest_host(), "") << "both have 400 Gbit/s for a GPU";
  bundle.places[1].network.gpus = 8;
  SetLineRate(bundle, &verdict);
  SetRooflines({}, &verdict);
  EXPECT_EQ(verdict.line_rate().lowest_host(), "n2");
  EXPECT_EQ(verdict.speeds(0).roofline(), "line rate 400 Gbit/s for each GPU, detected (100 on n2)");
  EXPECT_DOUBLE_EQ(verdict.speeds(0).roofline_bus_bytes_per_s(), 8 * 400e9 / 8);
  EXPECT_TRUE(verdict.speeds(0).roofline_detected());
  EXPECT_EQ(verdict.speeds(1).roofline_bus_bytes_per_s(), 0) << "NVLink is not the network";
  EXPECT_FALSE(verdict.speeds(1).roofline_detected());

  // A given rate takes precedence, even later; an archive does not replace the detected one.
  Roofline archive;
  archive.archive.push_back({"AllReduce", 1 << 30, 16, 2, 5e9, 3});
  SetRooflines(archive, &verdict);
  EXPECT_TRUE(verdict.speeds(0).roofline_detected());
  Roofline given;
  given.line_bits_per_s = 200e9;
  SetRooflines(given, &verdict);
  EXPECT_EQ(verdict.speeds(0).roofline(), "line rate 200 Gbit/s for each GPU");
  EXPECT_FALSE(verdict.speeds(0).roofline_detected());
  SetRooflines({}, &verdict);
  EXPECT_EQ(verdict.speeds(0).roofline(), "line rate 200 Gbit/s for each GPU");
}

TEST(Roofline, TheTextsSayTheShareOrThatItIsUnknown) {
  Verdict verdict;
  *verdict.add_speeds() = MakeSpeed("AllReduce", 1 << 30, 512, 64, 124e9);
  *verdict.add_speeds() = MakeSpeed("AllGather", 1 << 20, 8, 1, 200e9);
  HostSpeed* host = verdict.mutable_speeds(0)->add_by_host();
  host->set_host("n17\x1b[31m");
  host->set_bus_bytes_per_s(60e9);
  verdict.mutable_speeds(0)->set_hosts_measured(64);
  EXPECT_TRUE(SpeedLines(verdict, 3).empty());
  Roofline roofline;
  roofline.line_bits_per_s = 400e9;
  SetRooflines(roofline, &verdict);
  ASSERT_EQ(SpeedLines(verdict, 3).size(), 1u);
  EXPECT_THAT(SpeedLines(verdict, 3)[0],
              HasSubstr("AllReduce of 1 GiB, 512 ranks on 64 hosts: 31 % of the possible speed"));
  EXPECT_THAT(SpeedLines(verdict, 3)[0], HasSubstr("28 to 34 %"));
  const std::string report = SpeedReport(verdict);
  EXPECT_THAT(report, HasSubstr("400.000   31 %  [######..............] 28 to 34 %"));
  EXPECT_THAT(report, HasSubstr("not known"));
  EXPECT_THAT(report, HasSubstr("15 %"));
  EXPECT_THAT(report, HasSubstr("possible by: line rate 400 Gbit/s for each GPU\n"));
  EXPECT_THAT(report, Not(HasSubstr("\x1b")));
  EXPECT_THAT(SpeedReport(Verdict()), HasSubstr("not measured"));
}

}  // namespace
}  // namespace lockstep
