// Tests programs that contain or use NCCL in ways that have broken recorders. They must behave as without the recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::Snapshot;
using ring::StreamSnapshot;
using support::Outcome;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HostileTest : public support::PreloadRuns {
 protected:
  static std::string Program(const std::string& mode, const std::string& arguments = LOCKSTEP_TWIN_1) {
    return "'" LOCKSTEP_HOSTILE_PROGRAM "' " + mode + " " + arguments;
  }
  // Expects the same output and status with and without the recorder.
  void ExpectSame(const std::string& program, const std::string& environment = "") const {
    const Outcome plain = Run(program, "", environment);
    ExpectEqual(plain, Run(program, LOCKSTEP_LIBRARY, environment));
  }
};

TEST_F(HostileTest, AnotherToolPreloadedBeforeOrAfterStillSeesEveryCall) {
  const std::string alone = Run(Program("hooked"), LOCKSTEP_HOOK).out;
  EXPECT_EQ(alone, "0, hook saw 1\n");
  for (const char* order : {LOCKSTEP_HOOK ":" LOCKSTEP_LIBRARY, LOCKSTEP_LIBRARY ":" LOCKSTEP_HOOK}) {
    const Outcome outcome = Run(Program("hooked"), order);
    EXPECT_EQ(outcome.status, 0) << order;
    EXPECT_EQ(outcome.out, alone) << order;
    const std::vector<Snapshot> rings = Rings();
    ASSERT_THAT(rings, SizeIs(1)) << order;
    EXPECT_EQ(rings[0].comms.at(0).issued_seq, 1u) << order;
    // The tool must see CUDA's calls too.
    const std::string results = "'" LOCKSTEP_HOST_PROGRAM "' results";
    EXPECT_EQ(Run(results, order).out, Run(results, "").out) << order;
    std::filesystem::remove_all(rings_);
  }
}

TEST_F(HostileTest, TwoNcclLibrariesKeepTheirInnerCallsToThemselves) {
  ExpectSame(Program("two", LOCKSTEP_TWIN_1 " " LOCKSTEP_TWIN_2));
}

TEST_F(HostileTest, AnExtensionClosedAndOpenedAgainFindsItsNccl) {
  const Outcome plain = Run(Program("reopen", LOCKSTEP_PLUGIN), "");
  EXPECT_EQ(plain.out, "0\n0\n0\n");
  const Outcome outcome = Run(Program("reopen", LOCKSTEP_PLUGIN), LOCKSTEP_LIBRARY);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, plain.out);
  ASSERT_THAT(Rings(), SizeIs(1));
}

TEST_F(HostileTest, ExceptionsPassThroughTheRecordersFrames) { ExpectSame(Program("exception")); }

TEST_F(HostileTest, InvalidArgumentsAndCallsAtTheWrongTimeAreHarmless) {
  ExpectSame(Program("misuse"));
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  for (const CommSnapshot& comm : rings[0].comms) {
    if (comm.origin == CallKind::kNone) {
      EXPECT_EQ(comm.state, ring::CommState::kInitFailed) << "garbage must not become a communicator";
    }
  }
  for (const ring::ThreadSnapshot& thread : rings[0].threads) {
    EXPECT_EQ(thread.group_depth, 0u);
    EXPECT_EQ(thread.call, CallKind::kNone);
  }
}

TEST_F(HostileTest, MoreOfEverythingThanTheTablesHoldIsHarmless) {
  ExpectSame(Program("many"), "LOCKSTEP_RING_KIB=512");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_GT(rings[0].records_lost, 0u) << "losses must be counted";
}

TEST_F(HostileTest, LimitsOfTheProcessAreHarmless) {
  for (const char* mode : {"file-size", "files", "memory"}) {
    ExpectSame(Program(mode));
    EXPECT_THAT(Rings(), IsEmpty()) << mode;
  }
}

TEST_F(HostileTest, PrintingTheOnlyLineNeitherKillsNorBlocks) {
  rings_ = "/proc/no/such/folder";
  ExpectSame(Program("broken-stderr"));
  ExpectSame(Program("full-stderr"));
  ExpectSame(Program("limited-stderr"));
}

TEST_F(HostileTest, AProgramWithAStoppedClockIsRecorded) {
  ExpectSame(Program("stopped-clock"));
  EXPECT_THAT(Rings(), SizeIs(1));
}

TEST_F(HostileTest, RefusedSystemCallsAreHarmless) {
  const std::string kinds = " '" LOCKSTEP_HOST_PROGRAM "' kinds";
  const Outcome allowed = Run(Program("deny", "9999" + kinds), "");
  if (WIFEXITED(allowed.status) && WEXITSTATUS(allowed.status) == 77)
    GTEST_SKIP() << "cannot install seccomp filters here";
  const std::vector<int> alone = {SYS_fallocate, SYS_madvise, SYS_getrandom, SYS_tgkill,
                                  SYS_statfs,    SYS_fstatfs, SYS_prlimit64, SYS_poll};
  for (const int number : alone) {
    // Not `kinds`, because the stand-in itself needs some of these calls.
    ExpectSame(Program("deny", std::to_string(number) + " " + Program("misuse")));
  }
  std::filesystem::remove_all(rings_);
  // Handles of children, which NCCL stores late, are still found.
  ExpectSame(Program("deny", std::to_string(SYS_process_vm_readv) + kinds));
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  ASSERT_THAT(rings[0].comms, SizeIs(4));
  for (const CommSnapshot& comm : rings[0].comms) {
    EXPECT_NE(comm.id, 0u);
    EXPECT_EQ(comm.state, ring::CommState::kDestroyed);
  }
  EXPECT_EQ(rings[0].comms[2].issued_seq, 1u);
  EXPECT_EQ(rings[0].comms[3].issued_seq, 1u);
}

TEST_F(HostileTest, EveryTicketHasAMarker) {
  const Outcome outcome = Run("'" LOCKSTEP_HOST_PROGRAM "' nonblocking-group", LOCKSTEP_LIBRARY);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  ASSERT_THAT(rings[0].streams, SizeIs(1));
  EXPECT_EQ(rings[0].streams[0].issued, rings[0].streams[0].completed);
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 3u);
}

TEST_F(HostileTest, ADefaultStreamIsMarkedOnlyOnItsDevice) {
  const Outcome outcome = Run("'" LOCKSTEP_HOST_PROGRAM "' default-streams", LOCKSTEP_LIBRARY);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  ASSERT_THAT(rings[0].streams, SizeIs(2));
  for (const StreamSnapshot& stream : rings[0].streams) {
    EXPECT_TRUE(stream.marked) << "whichever device is current";
    EXPECT_GT(stream.issued, 0u);
    EXPECT_EQ(stream.completed, stream.issued);
    EXPECT_EQ(stream.first_error, 0);
  }
}

TEST_F(HostileTest, AReusedStreamHandleIsAnotherStream) {
  ASSERT_EQ(Run("'" LOCKSTEP_HOST_PROGRAM "' stream-churn 200", LOCKSTEP_LIBRARY).status, 0);
  std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_THAT(rings[0].streams, SizeIs(200));
  for (const OpSnapshot& op : rings[0].ops) {
    if (op.kind != CallKind::kAllReduce) continue;
    ASSERT_LT(op.stream, rings[0].streams.size());
    EXPECT_EQ(rings[0].streams[op.stream].device, rings[0].comms.at(op.comm).device);
    EXPECT_EQ(op.ticket, 1u);
  }
  std::filesystem::remove_all(rings_);
  ASSERT_EQ(Run("'" LOCKSTEP_HOST_PROGRAM "' stream-churn 600", LOCKSTEP_LIBRARY).status, 0);
  rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_THAT(rings[0].streams, SizeIs(256)) << "entries of destroyed streams must be reused";
  for (const OpSnapshot& op : rings[0].ops) {
    if (op.kind == CallKind::kAllReduce) {
      EXPECT_NE(op.stream, UINT32_MAX);
    }
  }
  for (const StreamSnapshot& stream : rings[0].streams) EXPECT_EQ(stream.completed, stream.issued);
}

}  // namespace
}  // namespace lockstep
