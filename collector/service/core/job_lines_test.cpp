#include "collector/service/core/job_lines.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "proto/process.pb.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JobLinesTest, ALateArrivalShowsRankPlaceOperationAndDuration) {
  Decision decision;
  decision.comm = 0xabc;
  decision.comm_name = "tp_217";
  decision.sequence = 9'001'423;
  decision.age_ns = 5'100'000'000;
  decision.limit_ns = 5 * kSecond;
  decision.waiting = Ranks::Of({1737, 1738});
  decision.missing = Ranks::Of({1736});
  EXPECT_EQ(LateText(decision), "tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)");
  decision.missing = Ranks::Of({3, 8, 9});
  EXPECT_EQ(LateText(decision), "tp_217 #9,001,423: ranks 3, 8, 9 missing for 5.1 s (limit 5.0 s)");
  decision.missing = Ranks();
  EXPECT_EQ(LateText(decision), "tp_217 #9,001,423: ranks 1737, 1738 in it and unfinished for 5.1 s (limit 5.0 s)");
  decision.waiting = Ranks();
  decision.comm_name.clear();
  decision.sequence = 0;
  EXPECT_EQ(LateText(decision), "0000000000000abc: not finished for 5.1 s (limit 5.0 s)");
  decision.comm_name = "x\x1b[2J\n";
  EXPECT_EQ(LateText(decision).find('\x1b'), std::string::npos);
}

TEST(JobLinesTest, KeepsTheNewestLines) {
  std::vector<TimedLine> lines;
  for (int i = 1; i <= 100; ++i) Keep(&lines, {i * kSecond, std::to_string(i)});
  EXPECT_EQ(lines.size(), 32u);
  EXPECT_EQ(WithAge(lines.back(), 112 * kSecond), "12 s ago: 100");
  EXPECT_EQ(WithAge({0, "always"}, 112 * kSecond), "always");
}

Rank RankOn(int32_t number, const std::string& host, const ProcessEvidence& evidence) {
  Rank rank;
  rank.rank = number;
  rank.host = host;
  rank.process.evidence = std::make_shared<ProcessEvidence>(evidence);
  return rank;
}

TEST(JobLinesTest, HardwareIsReportedOnceAHostAndUnreadableLogsOnceAReason) {
  ProcessEvidence broken;
  HardwareEvent* older = broken.add_hardware();
  older->set_kind(HardwareEvent::CRASH);
  older->set_text("cat[12]: segfault");
  HardwareEvent* event = broken.add_hardware();
  event->set_kind(HardwareEvent::XID);
  event->set_code(79);
  event->set_gpu(1);
  event->set_age_ns(12 * kSecond);
  event->set_text("NVRM: Xid 79,\x1b GPU has fallen off the bus.");
  broken.add_gpus()->set_uncorrected_ecc(3);
  ProcessEvidence unread;
  unread.set_hardware_unread("/dev/kmsg: Operation not permitted");
  unread.add_modules()->set_path("/usr/lib/libnvshmem_host.so.3");
  unread.add_modules()->set_path("/usr/lib/libmpifoo.so");
  Bundle bundle;
  bundle.ranks = {RankOn(0, "dgx1", broken), RankOn(1, "dgx1", broken), RankOn(2, "dgx2", ProcessEvidence()), Rank()};
  for (int i = 3; i < 8; ++i) bundle.ranks.push_back(RankOn(i, "node" + std::to_string(i), unread));
  const HostFindings findings = FindingsOfHosts(bundle, 100 * kSecond, 16);
  ASSERT_EQ(findings.hardware.size(), 2u);
  EXPECT_EQ(findings.hardware[0].text, "dgx1: GPU 0: 3 uncorrected memory errors");
  EXPECT_EQ(WithAge(findings.hardware[1], 103 * kSecond),
            "15 s ago: dgx1: Xid 79 on GPU 0: NVRM: Xid 79,? GPU has fallen off the bus.");
  EXPECT_THAT(
      findings.blind,
      ElementsAre(
          "hardware errors not read on node3, node4, node5 and 2 more: /dev/kmsg: Operation not permitted",
          "traffic of NVSHMEM not recorded on node3, node4, node5 and 2 more: its library appears in stacks there"));
  EXPECT_EQ(FindingsOfHosts(bundle, 100 * kSecond, 1).hardware.size(), 1u);
  EXPECT_THAT(FindingsOfHosts(Bundle(), 0, 16).hardware, IsEmpty());
}

}  // namespace
}  // namespace lockstep
