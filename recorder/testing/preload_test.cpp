// Tests liblockstep.so as users run it: preloaded into programs, on the stand-in libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using support::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PreloadTest : public support::PreloadRuns {
 protected:
  Outcome Run(const std::string& program, const std::string& environment, bool preload = true) const {
    return PreloadRuns::Run(program, preload ? LOCKSTEP_LIBRARY : "", environment);
  }
  Outcome Host(const std::string& mode, const std::string& environment = "", bool preload = true) const {
    return Run("'" LOCKSTEP_HOST_PROGRAM "' " + mode, "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 " + environment, preload);
  }
  std::vector<Snapshot> Rings() const {
    for (const std::string& path : RingPaths()) {
      EXPECT_EQ(std::filesystem::status(path).permissions(),
                std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }
    return PreloadRuns::Rings();
  }
};

std::map<CallKind, int> CountKinds(const Snapshot& snapshot) {
  std::map<CallKind, int> counts;
  for (const OpSnapshot& op : snapshot.ops) ++counts[op.kind];
  return counts;
}

TEST_F(PreloadTest, EveryKindOfOperationIsRecordedOnce) {
  const Outcome outcome = Host("kinds", "LOCKSTEP_JOB='a/b c' LOCKSTEP_RESTART=2 LOCKSTEP_STEP=9");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(std::filesystem::is_directory(rings_ + "/a_b_c.2"));
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  const Snapshot& ring = rings[0];
  EXPECT_EQ(ring.process.job, "a_b_c");
  EXPECT_EQ(ring.process.restart_count, 2u);
  EXPECT_EQ(ring.process.step, "9");
  EXPECT_EQ(ring.process.rank, 0);
  EXPECT_EQ(ring.process.world_size, 1);
  EXPECT_EQ(ring.process.state, ring::RecorderState::kCleanExit);
  EXPECT_GT(ring.process.nccl_version, 0);
  EXPECT_GT(ring.process.start_ticks, 0u);
  EXPECT_GT(ring.process.pid_namespace_inode, 0u);
  EXPECT_THAT(ring.process.boot_id, SizeIs(36));

  auto counts = CountKinds(ring);
  // ncclBcast calls ncclBroadcast inside NCCL. Two devices make two calls each, and no call may be recorded twice.
  EXPECT_EQ(counts[CallKind::kBroadcast], 4);
  EXPECT_EQ(counts[CallKind::kAllReduce], 4);
  for (CallKind kind :
       {CallKind::kReduce, CallKind::kAllGather, CallKind::kReduceScatter, CallKind::kAlltoAll, CallKind::kGather,
        CallKind::kScatter, CallKind::kSend, CallKind::kRecv, CallKind::kCommSplit}) {
    EXPECT_EQ(counts[kind], 2) << ring::CallName(kind);
  }
  EXPECT_EQ(counts[CallKind::kCommInitAll], 1);
  EXPECT_EQ(counts[CallKind::kCommDestroy], 4);
  EXPECT_EQ(counts[CallKind::kMemAlloc] + counts[CallKind::kCommRegister], 0);

  ASSERT_THAT(ring.comms, SizeIs(4));
  EXPECT_EQ(ring.comms[0].id, ring.comms[1].id) << "both have one unique id";
  EXPECT_NE(ring.comms[0].id, 0u);
  for (int i = 0; i < 2; ++i) {
    const CommSnapshot& comm = ring.comms[static_cast<size_t>(i)];
    EXPECT_EQ(comm.member_rank, i);
    EXPECT_EQ(comm.size, 2);
    EXPECT_EQ(comm.device, i);
    EXPECT_EQ(comm.issued_seq, 9u);
    EXPECT_EQ(comm.launched_seq, 9u);
    EXPECT_EQ(comm.state, ring::CommState::kDestroyed);
    EXPECT_THAT(comm.peers, SizeIs(1));
    const CommSnapshot& child = ring.comms[static_cast<size_t>(2 + i)];
    EXPECT_EQ(child.parent_id, comm.id);
    EXPECT_EQ(child.id, ring.comms[2].id) << "color and ordinal are the same on both";
    EXPECT_EQ(child.color, 7);
    EXPECT_EQ(child.key, -i);
    EXPECT_EQ(child.member_rank, 1 - i) << "members must be ordered by key";
    EXPECT_EQ(child.size, 2);
    EXPECT_EQ(child.issued_seq, 1u);
  }
  EXPECT_EQ(ring.comms[0].signature_hash, ring.comms[1].signature_hash);
  for (const OpSnapshot& op : ring.ops) {
    EXPECT_EQ(op.stage, OpStage::kLaunched) << ring::CallName(op.kind);
    if (ring::IsCollective(op.kind)) {
      EXPECT_NE(op.caller_object, 0u);
    }
  }
}

TEST_F(PreloadTest, GpuMarkersReachTheRing) {
  ASSERT_EQ(Host("threads", "LOCKSTEP_GPU=full").status, 0);
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].process.gpu_marks, ring::GpuMarks::kFull);
  EXPECT_NE(rings[0].process.gpu_uuid, "");
  ASSERT_THAT(rings[0].streams, SizeIs(2));
  std::set<int> devices;
  std::map<uint32_t, uint64_t> unmarked;  // unmarked tickets of each stream
  for (const ring::StreamSnapshot& stream : rings[0].streams) {
    EXPECT_TRUE(stream.marked);
    // While the other thread registers the memory for markers with the driver, this thread does not wait, so its
    // calls get no marker.
    EXPECT_GE(stream.issued, 95u);
    EXPECT_LE(stream.issued, 100u);
    EXPECT_EQ(stream.started, stream.issued);
    EXPECT_EQ(stream.completed, stream.issued);
    EXPECT_EQ(stream.first_error, 0);
    devices.insert(stream.device);
    unmarked[stream.index] = 100 - stream.issued;
  }
  EXPECT_EQ(devices, (std::set<int>{0, 1}));
  EXPECT_TRUE(std::any_of(unmarked.begin(), unmarked.end(), [](const auto& entry) { return entry.second == 0; }))
      << "the thread that registered the memory must have all its markers";
  for (const OpSnapshot& op : rings[0].ops) {
    if (op.kind == CallKind::kAllReduce) {
      const uint64_t skipped = unmarked[op.stream];
      EXPECT_EQ(op.ticket, op.seq <= skipped ? 0 : op.seq - skipped);
    }
  }
  EXPECT_EQ(rings[0].comms.at(0).name, "named");
}

TEST_F(PreloadTest, MarkersAreOffWhereTheyCouldCostTime) {
  ASSERT_EQ(Host("threads", "CUDA_DEVICE_MAX_CONNECTIONS=1").status, 0);
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].process.gpu_marks, ring::GpuMarks::kOff);
  for (const ring::StreamSnapshot& stream : rings[0].streams) EXPECT_FALSE(stream.marked);
}

TEST_F(PreloadTest, NonblockingCommunicatorsHaveLateHandles) {
  const Outcome outcome = Host("nonblocking", "STANDIN_ASYNC_DELAY_US=3000");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  ASSERT_THAT(rings[0].comms, SizeIs(3));
  const CommSnapshot& child = rings[0].comms[1];
  EXPECT_FALSE(rings[0].comms[0].blocking);
  EXPECT_EQ(child.member_rank, 0);
  EXPECT_EQ(child.size, 1);
  EXPECT_EQ(child.issued_seq, 1u);
  EXPECT_GT(child.ready_ns, child.created_ns);
  EXPECT_EQ(rings[0].comms[2].state, ring::CommState::kNotMember);
  for (const OpSnapshot& op : rings[0].ops) {
    if (op.kind == CallKind::kAllReduce) {
      // The program polled until success, so its marker could be written afterwards.
      EXPECT_EQ(op.ticket, 1u);
      EXPECT_EQ(rings[0].streams.at(op.stream).given, 1u);
      EXPECT_EQ(rings[0].streams.at(op.stream).completed, 1u);
    }
  }
}

TEST_F(PreloadTest, AForkedChildCreatesItsOwnRingAndLeavesItsParentsAlone) {
  for (const char* mode : {"fork", "fork-after"}) {
    ASSERT_EQ(Host(mode).status, 0) << mode;
    const std::vector<Snapshot> rings = Rings();
    const bool after = std::string(mode) == "fork-after";
    ASSERT_THAT(rings, SizeIs(after ? 2 : 1)) << mode;
    int with_operations = 0;
    std::set<int> pids;
    for (const Snapshot& ring : rings) {
      ASSERT_THAT(ring.comms, SizeIs(1));
      pids.insert(ring.process.pid);
      with_operations += ring.comms[0].issued_seq == 1 ? 1 : 0;
      EXPECT_EQ(ring.process.state, ring::RecorderState::kCleanExit);
    }
    EXPECT_EQ(with_operations, 1);
    EXPECT_EQ(pids.size(), rings.size());
    std::filesystem::remove_all(rings_);
  }
}

TEST_F(PreloadTest, ResultsAndErrnoPassThrough) {
  const Outcome plain = Host("results", "", false);
  const Outcome recorded = Host("results");
  EXPECT_EQ(recorded.status, plain.status);
  EXPECT_EQ(recorded.out, plain.out);
  EXPECT_THAT(plain.out, HasSubstr("bad root in a group"));
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  // Only the successful operation counts.
  uint64_t issued = 0;
  for (const CommSnapshot& comm : rings[0].comms) issued += comm.issued_seq;
  EXPECT_EQ(issued, 1u);
  EXPECT_EQ(rings[0].comms.at(0).state, ring::CommState::kInitFailed);
}

TEST_F(PreloadTest, RecordsSurviveAKilledProcess) {
  EXPECT_NE(Host("die").status, 0);
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].process.state, ring::RecorderState::kRecording);
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 37u);
  EXPECT_EQ(CountKinds(rings[0])[CallKind::kAllReduce], 37);
  EXPECT_EQ(rings[0].streams.at(0).completed, 37u);
}

TEST_F(PreloadTest, AnNcclOpenedByHandFindsItsOwnFunctions) {
  const std::string program = "'" LOCKSTEP_DLOPEN_PROGRAM "' '" LOCKSTEP_STANDIN_NCCL "'";
  const Outcome outcome = Run(program, "");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, Run(program, "", false).out);
}

TEST_F(PreloadTest, SwitchedOffTheRecorderLeavesNothing) {
  const Outcome plain = Host("results", "", false);
  const Outcome off = Host("results", "LOCKSTEP=0");
  EXPECT_EQ(off.status, plain.status);
  EXPECT_EQ(off.out, plain.out);
  EXPECT_EQ(off.err, plain.err);
  EXPECT_FALSE(std::filesystem::exists(rings_));
}

TEST_F(PreloadTest, AnUnusableFolderIsReportedOnTheFirstRankOnly) {
  rings_ = "/proc/no/such/folder";
  const Outcome plain = Host("results", "", false);
  const Outcome first = Host("results");
  EXPECT_EQ(first.status, plain.status);
  EXPECT_EQ(first.out, plain.out);
  EXPECT_THAT(first.err, HasSubstr("lockstep: not recording: "));
  EXPECT_EQ(std::count(first.err.begin(), first.err.end(), '\n'),
            1 + std::count(plain.err.begin(), plain.err.end(), '\n'));
  const Outcome second = Host("results", "LOCAL_RANK=1");
  EXPECT_EQ(second.err, plain.err);
  EXPECT_EQ(second.out, plain.out);
}

// A test with a separate file system. It skips if mounting is not permitted.
class SmallFolderTest : public PreloadTest {
 protected:
  bool Mount(const char* size, const char* type = "tmpfs") {
    point_ = folder_ + "/small";
    std::filesystem::create_directory(point_);
    if (mount(type, point_.c_str(), type, 0, (std::string("size=") + size).c_str()) != 0) return false;
    mounted_ = true;
    rings_ = point_ + "/rings";
    return true;
  }
  void TearDown() override {
    if (mounted_) umount2(point_.c_str(), MNT_DETACH);
  }
  std::string point_;
  bool mounted_ = false;
};

TEST_F(SmallFolderTest, TheRingShrinksToASixteenthOfTheFileSystem) {
  if (!Mount("20m")) GTEST_SKIP() << "cannot mount a tmpfs here";
  ASSERT_EQ(Host("threads", "LOCAL_WORLD_SIZE=1").status, 0);
  ASSERT_THAT(Rings(), SizeIs(1));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(rings_)) {
    if (entry.is_regular_file()) {
      EXPECT_EQ(entry.file_size(), 1u << 20);
    }
  }
}

TEST_F(SmallFolderTest, InAFullFolderALinkLeadsToARingInMemory) {
  if (!Mount("4m")) GTEST_SKIP() << "cannot mount a tmpfs here";
  const std::string fill = "dd if=/dev/zero bs=64k of='" + point_ + "/filler' 2>/dev/null";
  ASSERT_NE(std::system(fill.c_str()), 0) << "the folder is not full";
  const Outcome plain = Host("results", "", false);
  const Outcome outcome = Host("results");
  EXPECT_EQ(outcome.status, plain.status);
  EXPECT_EQ(outcome.out, plain.out);
  EXPECT_EQ(outcome.err, plain.err);
  int links = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(rings_)) {
    EXPECT_TRUE(entry.is_directory() || entry.is_symlink()) << entry.path();
    if (!entry.is_symlink()) continue;
    ++links;
    EXPECT_THAT(std::filesystem::read_symlink(entry.path()).string(), testing::MatchesRegex("/proc/[0-9]+/fd/[0-9]+"));
  }
  EXPECT_EQ(links, 1);
}

TEST_F(SmallFolderTest, OnAnUnknownFileSystemNothingIsRecorded) {
  if (!Mount("64m", "hugetlbfs")) GTEST_SKIP() << "cannot mount a hugetlbfs here";
  const Outcome plain = Host("results", "", false);
  const Outcome outcome = Host("results");
  EXPECT_EQ(outcome.status, plain.status);
  EXPECT_EQ(outcome.out, plain.out);
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: not recording: the folder " + rings_ + " is not on tmpfs"));
}

TEST_F(PreloadTest, AHostileEnvironmentIsHarmless) {
  const std::string longest(5000, 'x');
  const Outcome outcome =
      Host("threads",
           "LOCKSTEP_JOB=../../../../etc/$'\\n'x RANK=99999999999999999999 WORLD_SIZE=-4 LOCAL_RANK=zero "
           "SLURM_RESTART_COUNT=1e9 LOCKSTEP_RING_KIB=999999999999 LOCKSTEP_GPU=warp LOCKSTEP_HOST=" +
               longest);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].process.rank, -1);
  EXPECT_EQ(rings[0].process.world_size, -1);
  EXPECT_EQ(rings[0].process.local_rank, -1);
  EXPECT_EQ(rings[0].process.job.find('/'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
