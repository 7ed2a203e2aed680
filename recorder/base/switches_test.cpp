// Tests everything that stops the recorder or keeps it from starting: the operator's files, the deny list, its own
// cost, its own faults. In all cases, the job's results must be the same as without the recorder.
#include "recorder/base/switches.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "recorder/core/budget.h"
#include "recorder/core/process.h"
#include "recorder/ring/layout.h"
#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep::recorder {
namespace {

using ring::RecorderState;
using ring::Snapshot;
using support::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SwitchesTest : public support::PreloadRuns {
 protected:
  std::string Command(const std::string& program, const std::string& environment, bool preload) const {
    return "LOCKSTEP_DIR='" + rings_ + "' LOCKSTEP_RING_KIB=512 RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 " + environment +
           (preload ? " LD_PRELOAD='" LOCKSTEP_LIBRARY "' " : " ") + "timeout 60 " + program;
  }
  Outcome Calls(const std::string& environment = "", bool preload = true) const {
    return Shell(Command("'" LOCKSTEP_DEATHS_PROGRAM "' calls 100", environment, preload));
  }
  static void Touch(const std::string& path) { std::ofstream file(path); }
  static bool Read(const std::string& path, Snapshot* snapshot) {
    std::string error;
    return ring::ReadRingFile(path, {}, snapshot, &error);
  }
  // Starts a process that calls NCCL until the test stops it, and waits for its ring. Then runs `act`, waits up to half
  // a minute for the expected state of the ring, and ends the process.
  template <typename Act, typename Done>
  Snapshot While(const std::string& environment, Act act, Done done) {
    const std::string flag = folder_ + "/end";
    std::thread host(
        [&] { outcome_ = Shell(Command("'" LOCKSTEP_DEATHS_PROGRAM "' until '" + flag + "'", environment, true)); });
    Snapshot snapshot;
    auto await = [&](auto ready) {
      for (int i = 0; i < 3000 && !ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    await([&] {
      const std::vector<std::string> paths = RingPaths();
      return paths.size() == 1 && Read(paths[0], &snapshot) && snapshot.process.state == RecorderState::kRecording &&
             !snapshot.comms.empty() && snapshot.comms[0].issued_seq > 0;
    });
    act();
    await([&] {
      const std::vector<std::string> paths = RingPaths();
      return paths.size() == 1 && (Read(paths[0], &snapshot), done(snapshot));
    });
    Touch(flag);
    host.join();
    return snapshot;
  }

  Outcome outcome_;
};

// --- the operator's switch

TEST_F(SwitchesTest, AStopFilePresentAtTheStartKeepsTheRecorderOff) {
  std::filesystem::create_directory(rings_);
  Touch(rings_ + "/off");
  const Outcome plain = Calls("", false);
  const Outcome off = Calls();
  EXPECT_EQ(off.out, plain.out);
  EXPECT_EQ(off.status, plain.status);
  EXPECT_EQ(off.err, "lockstep: not recording: turned off by the file " + rings_ + "/off\n");
  EXPECT_THAT(RingPaths(), IsEmpty());
  EXPECT_EQ(Calls("LOCAL_RANK=1").err, "") << "only one rank of a host prints the line";
}

TEST_F(SwitchesTest, AStopFileThatAppearsStopsARunningProcess) {
  const Snapshot ring = While(
      "", [&] { Touch(rings_ + "/off"); },
      [](const Snapshot& s) { return s.process.state == RecorderState::kStopped; });
  EXPECT_EQ(outcome_.status, 0) << outcome_.err;
  EXPECT_EQ(outcome_.out, "0 told\n");
  EXPECT_EQ(outcome_.err, "");
  EXPECT_EQ(ring.process.state, RecorderState::kStopped);
  EXPECT_EQ(ring.process.stop_reason, "turned off by the file " + rings_ + "/off");
  EXPECT_GT(ring.process.stopped_ns, ring.process.created_mono_ns);
  // Nothing may have been recorded after that, although the program continued.
  const Snapshot after = OnlyRing();
  EXPECT_EQ(after.process.state, RecorderState::kStopped) << "not a clean exit: the end was not seen";
  EXPECT_EQ(after.comms.at(0).issued_seq, ring.comms.at(0).issued_seq);
  EXPECT_EQ(after.comms.at(0).issued_seq, after.comms.at(0).launched_seq) << "stopped between calls";
  EXPECT_LE(after.comms.at(0).issued_ns, ring.process.stopped_ns);
}

TEST_F(SwitchesTest, TheHostsStopFilesCountToo) {
  if (geteuid() != 0 || std::system("unshare -m true 2>/dev/null") != 0) GTEST_SKIP() << "cannot create mounts here";
  const std::string host = Command("'" LOCKSTEP_DEATHS_PROGRAM "' calls 100", "", true);
  for (const std::string place : {"/etc", "/run"}) {
    const std::string inside = "mount -t tmpfs tmpfs " + place + " && mkdir " + place + "/lockstep && ";
    Outcome outcome = Shell("unshare -m sh -c \"" + inside + "touch " + place + "/lockstep/off && " + host + "\"");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "0 100\n");
    EXPECT_THAT(outcome.err, HasSubstr("turned off by the file " + place + "/lockstep/off"));
    EXPECT_THAT(RingPaths(), IsEmpty());
  }
  const std::string deny =
      "mount -t tmpfs tmpfs /etc && mkdir /etc/lockstep && echo '# ours\nexe recorder_deaths_*' > "
      "/etc/lockstep/deny && ";
  const Outcome outcome = Shell("unshare -m sh -c \"" + deny + host + "\"");
  EXPECT_EQ(outcome.out, "0 100\n");
  EXPECT_THAT(outcome.err, HasSubstr("this program is on the deny list (/etc/lockstep/deny, line 2)"));
  EXPECT_THAT(RingPaths(), IsEmpty());
}

TEST_F(SwitchesTest, TheStopWordInTheRingStopsTheRecorder) {
  const Snapshot ring = While(
      "",
      [&] {
        const int fd = open(RingPaths().at(0).c_str(), O_WRONLY);
        const uint32_t word = 1;
        EXPECT_EQ(pwrite(fd, &word, sizeof(word), offsetof(ring::Header, stop_word)), 4);
        close(fd);
      },
      [](const Snapshot& s) { return s.process.state == RecorderState::kStopped; });
  EXPECT_EQ(outcome_.out, "0 told\n");
  EXPECT_EQ(ring.process.stop_reason, "a stop was requested through the ring");
  EXPECT_GT(ring.process.stopped_ns, 0);
}

TEST_F(SwitchesTest, OverwritingTheRingTurnsTheRecorderOff) {
  While(
      "",
      [&] {
        const int fd = open(RingPaths().at(0).c_str(), O_WRONLY);
        EXPECT_EQ(pwrite(fd, "overwritten....", 16, 0), 16);
        close(fd);
      },
      [&](const Snapshot&) { return !support::ReadFile(folder_ + "/err").empty(); });
  EXPECT_EQ(outcome_.status, 0);
  EXPECT_EQ(outcome_.out, "0 told\n");
  EXPECT_EQ(outcome_.err, "lockstep: not recording: the ring's header was overwritten\n");
}

// --- the deny list

TEST_F(SwitchesTest, CallsOfDeniedProgramsAndVersionsAreOnlyForwarded) {
  for (const char* deny : {"exe recorder_deaths_host", "exe */recorder_death?_host", "nccl 2.28.9", "nccl 2.10-2.28",
                           "exe other;nccl 2.28-"}) {
    const Outcome outcome = Calls(std::string("LOCKSTEP_DENY='") + deny + "'");
    EXPECT_EQ(outcome.out, "0 100\n") << deny;
    EXPECT_THAT(outcome.err, HasSubstr("on the deny list (LOCKSTEP_DENY, line ")) << deny;
    EXPECT_THAT(RingPaths(), IsEmpty()) << deny;
  }
  const Outcome allowed = Calls("LOCKSTEP_DENY='exe bash;exe deaths;nccl 2.28.8;nccl 2.29-;nccl banana;what'");
  EXPECT_EQ(allowed.out, "0 100\n");
  EXPECT_EQ(allowed.err, "");
  EXPECT_THAT(RingPaths(), SizeIs(1));
}

int32_t g_version = 0;
int g_asked = 0;
int32_t AskVersion() {
  ++g_asked;
  return g_version;
}

bool IsDenied(const std::string& text, int32_t version, const char* program = "/opt/bin/python3.11") {
  g_version = version;
  char reason[200] = "";
  const bool denied = DeniedBy(text.data(), text.size(), "list", program, AskVersion, reason, sizeof(reason));
  EXPECT_EQ(denied, reason[0] != 0);
  return denied;
}

TEST(DenyListTest, RangesOfVersionsAreDenied) {
  EXPECT_TRUE(IsDenied("nccl 2.28.3", 22803));
  EXPECT_FALSE(IsDenied("nccl 2.28.3", 22804));
  EXPECT_TRUE(IsDenied("nccl 2.28", 22809)) << "all of 2.28";
  EXPECT_FALSE(IsDenied("nccl 2.28", 22900));
  EXPECT_TRUE(IsDenied("nccl 2.4-2.8", 2804)) << "as NCCL coded it before 2.9";
  EXPECT_FALSE(IsDenied("nccl 2.4-2.8", 20906));
  EXPECT_TRUE(IsDenied("nccl 2.8.4 - 2.9.6", 20906));
  EXPECT_TRUE(IsDenied("nccl -2.10", 2700));
  EXPECT_TRUE(IsDenied("nccl 2.30-", 23107));
  for (const char* nonsense : {"nccl", "nccl ", "nccl -", "nccl x", "nccl 2..3", "nccl 2.28.9.1", "nccl 999999999999",
                               "nccl 2.28.", "nccl 2.1-x", "NCCL 2.28.9", "nccl2.28.9"}) {
    EXPECT_FALSE(IsDenied(nonsense, 22809)) << nonsense;
  }
  g_asked = 0;
  EXPECT_FALSE(IsDenied("exe bash\nexe zsh", 22809));
  EXPECT_EQ(g_asked, 0) << "no rule needs the version";
  EXPECT_FALSE(IsDenied("nccl 0-", 0)) << "an unknown version is in no range";
}

TEST(DenyListTest, ProgramsAreDeniedByPath) {
  EXPECT_TRUE(IsDenied("exe python3.11", 0));
  EXPECT_TRUE(IsDenied("  exe\tpython*  \r\n", 0));
  EXPECT_TRUE(IsDenied("exe /opt/*/python3.1?", 0));
  EXPECT_FALSE(IsDenied("exe /usr/*", 0));
  EXPECT_FALSE(IsDenied("exe python", 0)) << "the pattern must match the whole path";
  EXPECT_FALSE(IsDenied("#exe *\n;;\n", 0));
  EXPECT_FALSE(IsDenied("exe *", 0, "")) << "an unknown program is on no list";
}

TEST(DenyListTest, HostileInputIsBounded) {
  std::string text(32 << 10, '*');
  text.replace(0, 4, "exe ");
  EXPECT_FALSE(IsDenied(text, 0)) << "a line of this length is ignored";
  std::string stars;
  while (stars.size() < (32 << 10)) stars += "exe *a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n";
  EXPECT_FALSE(IsDenied(stars, 0, std::string(1000, 'a').c_str()));
  for (int round = 0; round < 2000; ++round) {
    std::string noise(static_cast<size_t>(std::rand() % 200), ' ');
    for (char& c : noise) c = "exe nccl.-*?/0123456789;\n\0\xff"[std::rand() % 28];
    IsDenied(noise, 22809);
  }
}

TEST(DenyListTest, GlobsAreMatched) {
  auto matches = [](const std::string& glob, const char* text) { return MatchesGlob(glob.data(), glob.size(), text); };
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "a--b--b--c"));
  EXPECT_FALSE(matches("a*b*c", "a--b--b--"));
  EXPECT_TRUE(matches("**a?", "xxab"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("abc", "abcd"));
}

// --- the budget

TEST(BudgetTest, TheBudgetIsParsed) {
  EXPECT_EQ(ReadBudget("5%").permille, 50u);
  EXPECT_EQ(ReadBudget("0.3%").permille, 3u);
  EXPECT_EQ(ReadBudget("2").permille, 20u);
  EXPECT_EQ(ReadBudget("250ns").call_ns, 250u);
  EXPECT_EQ(ReadBudget("250ns").permille, 0u);
  EXPECT_EQ(ReadBudget("off").permille + ReadBudget("off").call_ns, 0u);
  for (const char* nonsense : {"", "0", "0ns", "x", "101%", "-1", "5%%", "999999999999999999", "1e3", "%"}) {
    EXPECT_EQ(ReadBudget(nonsense).permille, ReadBudget(nullptr).permille) << nonsense;
    EXPECT_EQ(ReadBudget(nonsense).call_ns, ReadBudget(nullptr).call_ns) << nonsense;
  }
}

TEST_F(SwitchesTest, OverItsBudgetTheRecorderReducesMarkersAndThenStops) {
  const std::string program = "'" LOCKSTEP_HOST_PROGRAM "' long ";
  const Outcome plain = Shell(Command(program + "12000", "", false));
  const Outcome outcome = Shell(Command(program + "12000", "LOCKSTEP_GPU=full LOCKSTEP_BUDGET=1ns", true));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, plain.out);
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: not recording: over its budget: recording took "));
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.process.state, RecorderState::kStopped);
  EXPECT_THAT(ring.process.stop_reason, HasSubstr("over its budget: recording took "));
  EXPECT_THAT(ring.process.stop_reason, HasSubstr(" ns per call, "));
  // The note lists the steps in this order, with their times.
  EXPECT_THAT(ring.process.note, HasSubstr("GPU mode reduced from full to done after "));
  EXPECT_EQ(ring.process.gpu_marks, ring::GpuMarks::kOff);
  EXPECT_FALSE(ring.process.host_waits);
  EXPECT_GT(ring.process.own_call_ns, 1u);
  EXPECT_LT(ring.comms.at(0).issued_seq, 12000u);
  EXPECT_GT(ring.comms.at(0).issued_seq, 8000u) << "four rounds of measurement";
  for (const ring::StreamSnapshot& stream : ring.streams) {
    EXPECT_EQ(stream.completed, stream.issued) << "every ticket must have its mark";
  }
}

TEST_F(SwitchesTest, TwoRoundsOverBudgetSwitchOffOnlyTheMarkers) {
  // Records and tables continue.
  const std::string program = "'" LOCKSTEP_HOST_PROGRAM "' long 5000";
  const Outcome outcome = Shell(Command(program, "LOCKSTEP_GPU=full LOCKSTEP_BUDGET=1ns", true));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.process.state, RecorderState::kCleanExit);
  EXPECT_EQ(ring.process.gpu_marks, ring::GpuMarks::kOff);
  EXPECT_TRUE(ring.process.host_waits);
  EXPECT_EQ(ring.comms.at(0).issued_seq, 5000u);
}

TEST_F(SwitchesTest, TheDefaultBudgetAllowsABusyProgram) {
  // The program only makes calls, so all of the thread's time is the recorder's, although each call costs little.
  const Outcome outcome = Shell(Command("'" LOCKSTEP_DEATHS_PROGRAM "' calls 300000", "", true));
  EXPECT_EQ(outcome.status, 0);
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.process.state, RecorderState::kCleanExit) << ring.process.stop_reason;
  EXPECT_GT(ring.process.own_call_ns, 0u);
  EXPECT_GT(ring.process.own_permille, 0u);
  EXPECT_EQ(ring.process.note, "");
}

}  // namespace
}  // namespace lockstep::recorder
