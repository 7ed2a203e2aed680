#include "collector/evidence/hardware_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "analyzer/evidence/kernel_line.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(HardwareLog, ReadsOnlyTheKernelsRecordsFromKmsg) {
  const std::optional<HardwareEvent> event = ParseKmsgRecord(
      "4,1201,5000000,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n "
      "DEVICE=+pci:0000:1b:00.0\n",
      65 * kSecond);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->age_ns(), 60 * kSecond);
  EXPECT_EQ(event->text(), "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.");
  // Facility 1: a process wrote the record.
  EXPECT_FALSE(ParseKmsgRecord("12,1201,5000000,-;NVRM: Xid (PCI:0000:1b:00): 79, lies", 65 * kSecond));
  for (const char* bad : {"", ";", "4,1,x,-;NVRM: Xid (PCI:0000:1b:00): 79", "4;NVRM: Xid (PCI:0000:1b:00): 79",
                          "-1,1,1,-;NVRM: Xid (PCI:0000:1b:00): 79"}) {
    EXPECT_FALSE(ParseKmsgRecord(bad, kSecond)) << bad;
  }
}

TEST(HardwareLog, ReadsBothFormatsOfSyslog) {
  setenv("TZ", "UTC", 1);
  tzset();
  const int64_t now = 1'763'757'000 * kSecond;  // 2025-11-21 20:30:00
  std::optional<HardwareEvent> event =
      ParseSyslogLine("Nov 21 20:29:00 dgx17 kernel: [12345.678901] NVRM: Xid (PCI:0000:1b:00): 48, pid=12, DBE", now);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->age_ns(), 60 * kSecond);
  EXPECT_EQ(event->code(), 48u);
  event = ParseSyslogLine("2025-11-21T21:29:30.123456+01:00 dgx17 kernel: NVRM: Xid (PCI:0000:1b:00): 48, pid=12, DBE",
                          now);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->age_ns(), 30 * kSecond);
  event = ParseSyslogLine("Dec 31 23:59:00 dgx17 kernel: NVRM: Xid (PCI:0000:1b:00): 48, pid=12, DBE", now);
  ASSERT_TRUE(event) << "the record is from last year";
  EXPECT_GT(event->age_ns(), 300 * 86400 * kSecond);
  // This program's output only mentions the kernel.
  EXPECT_FALSE(ParseSyslogLine("Nov 21 20:29:00 dgx17 python[3]: saw kernel: NVRM: Xid (PCI:0000:1b:00): 48", now));
  EXPECT_FALSE(ParseSyslogLine("kernel: NVRM: Xid (PCI:0000:1b:00): 48", now));
}

TEST(HardwareLog, FallsBackToAFileAndReportsTheReason) {
  char name[] = "/tmp/hardware_log_test.XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  const time_t now = time(nullptr) - 30;
  tm parts{};
  localtime_r(&now, &parts);
  char when[32];
  strftime(when, sizeof when, "%b %d %H:%M:%S", &parts);
  for (int i = 0; i < 1000; ++i)
    dprintf(fd, "%s host kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=%d, fallen off the bus\n", when, 40 + i % 2);
  dprintf(fd, "%s host kernel: \xff\xfe\x01 NVRM: Xid (PCI:0000:1b:00): 13\n", when);
  dprintf(fd, "%s host kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=40, fallen off the bus\n", when);
  close(fd);
  HardwareLogPaths paths;
  paths.kmsg = "/nonexistent/kmsg";
  paths.files[0] = name;
  ProcessEvidence evidence;
  GpuState* gpu = evidence.add_gpus();
  gpu->set_index(3);
  gpu->set_pci("0000:1b:00.0");
  ReadHardwareLog(3600 * kSecond, paths, &evidence);
  NameGpus(&evidence);
  ASSERT_EQ(evidence.hardware_size(), 3) << "repeated lines must be reported once";
  EXPECT_EQ(evidence.hardware(0).gpu(), 4);
  EXPECT_THAT(evidence.hardware(1).text(), HasSubstr("??? NVRM"));
  EXPECT_EQ(evidence.hardware(2).pid(), 40) << "a repeated line counts with its latest time";
  EXPECT_EQ(evidence.hardware_unread(), "");
  EXPECT_GT(evidence.hardware(0).age_ns(), 20 * kSecond);
  ProcessEvidence old;
  ReadHardwareLog(kSecond, paths, &old);
  EXPECT_EQ(old.hardware_size(), 0) << "the event is older than requested";
  unlink(name);

  paths.files[0] = paths.files[1] = paths.files[2] = "/nonexistent/log";
  ProcessEvidence none;
  ReadHardwareLog(3600 * kSecond, paths, &none);
  EXPECT_THAT(none.hardware_unread(), HasSubstr("/nonexistent/kmsg: No such file or directory"));
}

TEST(HardwareLog, HostileTextIsHarmless) {
  std::mt19937 random(7);
  const std::string seeds[] = {"4,1,5,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=12, name",
                               "Nov 21 20:29:00 h kernel: [1.2] mlx5_core 0000:5e:00.0: error",
                               "2025-11-21T21:29:30.123456+01:00 h kernel: oom-kill:,pid=999999999999999999,"};
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[i % 3];
    for (int k = 0; k < 1 + i % 6; ++k) text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % (text.size() + 1));
    for (const std::optional<HardwareEvent>& event :
         {ParseKmsgRecord(text, kSecond), ParseSyslogLine(text, RealtimeNs()), ParseHardwareLine(text)}) {
      if (!event) continue;
      for (char c : event->text()) ASSERT_TRUE(c >= 0x20 && c < 0x7f);
      ASSERT_GE(event->pid(), 0);
    }
  }
}

}  // namespace
}  // namespace lockstep
