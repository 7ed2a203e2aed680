// Tests every way in which a process, a thread or a call can end under the recorder. The job's results must be the
// same as without the recorder, and the record must be readable.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::RecorderState;
using ring::Snapshot;
using ring::ThreadSnapshot;
using support::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DeathsTest : public support::PreloadRuns {
 protected:
  void TearDown() override {
    for (const std::string& point : mounted_) umount2(point.c_str(), MNT_DETACH);
  }

  std::string Environment(const std::string& more, bool preload = true) const {
    return "LOCKSTEP_DIR='" + rings_ + "' LOCKSTEP_RING_KIB=512 LOCKSTEP_GPU=off " + more +
           (preload ? " LD_PRELOAD='" LOCKSTEP_LIBRARY "' " : " ");
  }
  Outcome Host(const std::string& mode, const std::string& environment = "", bool preload = true) const {
    return Shell(Environment(environment, preload) + "timeout 60 '" LOCKSTEP_DEATHS_PROGRAM "' " + mode);
  }
  // Expects the same output and status with and without the recorder, and returns them.
  Outcome ExpectSame(const std::string& mode, const std::string& environment = "") const {
    const Outcome plain = Host(mode, environment, false);
    const Outcome recorded = Host(mode, environment);
    ExpectEqual(plain, recorded);
    return recorded;
  }
  // Returns false if mounting is not permitted.
  bool Mount(const std::string& point, const char* size) {
    std::filesystem::create_directory(point);
    if (mount("tmpfs", point.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) != 0) return false;
    mounted_.push_back(point);
    return true;
  }
  // Returns whether new namespaces of these kinds ("-m -p -f") are available.
  static bool CanUnshare(const std::string& kinds) {
    return std::system(("unshare " + kinds + " true 2>/dev/null").c_str()) == 0;
  }

  std::vector<std::string> mounted_;
};

// --- calls that are left by a jump or an exception

TEST_F(DeathsTest, CallsAfterAnExceptionAreRecorded) {
  ExpectSame("exceptions");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 20u);
  int returned = 0, open = 0;
  for (const OpSnapshot& op : rings[0].ops) {
    if (op.kind == CallKind::kAllReduce) ++(op.return_ns != 0 ? returned : open);
  }
  EXPECT_EQ(returned, 10);
  EXPECT_EQ(open, 10) << "a call left by an exception has no return time";
  for (const ThreadSnapshot& thread : rings[0].threads) EXPECT_EQ(thread.call, CallKind::kNone);
}

TEST_F(DeathsTest, ThreadsThatEndInACallOrAGroupAreReported) {
  ExpectSame("threads");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  int gone = 0, in_group = 0;
  for (const ThreadSnapshot& thread : rings[0].threads) {
    EXPECT_EQ(thread.call, CallKind::kNone) << "no thread is inside a call";
    gone += thread.gone;
    if (thread.name == "in-group") {
      EXPECT_TRUE(thread.gone);
      EXPECT_EQ(thread.group_depth, 1u);
      ++in_group;
    }
  }
  EXPECT_EQ(gone, 3);
  EXPECT_EQ(in_group, 1);
  // Other threads later use the communicators of the ended threads. These calls must be recorded completely.
  ASSERT_THAT(rings[0].comms, SizeIs(3));
  for (const CommSnapshot& comm : rings[0].comms) {
    EXPECT_GE(comm.issued_seq, 1u);
    EXPECT_EQ(comm.launched_seq, comm.issued_seq);
  }
}

TEST_F(DeathsTest, CellsOfEndedThreadsAreReused) {
  const Outcome outcome = ExpectSame("many-threads");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].records_lost, 0u);
  const CommSnapshot& comm = rings[0].comms.at(0);
  uint64_t p2p = 0;
  for (const ring::PeerProgress& peer : comm.peers) p2p += peer.sends + peer.recvs;
  EXPECT_EQ(std::to_string(comm.issued_seq + p2p) + "\n", outcome.out);
}

// --- processes

TEST_F(DeathsTest, AForkedLoaderLeavesItsParentsRingAlone) {
  const Outcome outcome = Host("loaders");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("0 untouched 11\n"));
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1)) << "loaders must create no ring";
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 11u);
  EXPECT_EQ(rings[0].process.state, RecorderState::kCleanExit);
}

TEST_F(DeathsTest, ChildrenOfVforkSpawnAndCloneAreRecorded) {
  ExpectSame("children");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(4)) << "the parent's ring, and one for each child that created a communicator";
  int whole = 0;
  for (const Snapshot& ring : rings) {
    if (ring.process.state == RecorderState::kCleanExit) {
      EXPECT_EQ(ring.comms.at(0).issued_seq, 21u) << "calls of the child in the parent's memory are included";
      ++whole;
    } else {
      EXPECT_EQ(ring.comms.at(0).issued_seq, 1u);
    }
  }
  EXPECT_EQ(whole, 1);
}

TEST_F(DeathsTest, AfterExecTheRingIsMarked) {
  const Outcome outcome = Host("exec self");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "0 5\n");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(2));
  EXPECT_EQ(rings[0].process.pid, rings[1].process.pid);
  EXPECT_EQ(rings[0].process.start_ticks, rings[1].process.start_ticks);
  std::map<RecorderState, uint64_t> issued;
  for (const Snapshot& ring : rings) {
    issued[ring.process.state] = ring.comms.at(0).issued_seq;
    if (ring.process.state != RecorderState::kReplaced) continue;
    EXPECT_THAT(ring.process.stop_reason, HasSubstr("started another program"));
    EXPECT_GE(ring.process.stopped_ns, ring.comms.at(0).issued_ns);
  }
  EXPECT_EQ(issued[RecorderState::kReplaced], 3u);
  EXPECT_EQ(issued[RecorderState::kCleanExit], 5u);
}

TEST_F(DeathsTest, AfterExecOfAProgramWithoutNcclTheRecordStays) {
  ASSERT_EQ(Host("exec true").status, 0);
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 3u);
  EXPECT_EQ(rings[0].process.state, RecorderState::kRecording) << "no clean exit, because no code could record it";
}

TEST_F(DeathsTest, AChildWithoutThePreloadIsNotRecorded) {
  const std::string host = "'" LOCKSTEP_DEATHS_PROGRAM "' calls 3";
  const Outcome outcome = Shell(Environment("") + "sh -c \"env -u LD_PRELOAD " + host + "; " + host + "\"");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "0 3\n0 3\n");
  EXPECT_THAT(Rings(), SizeIs(1));
}

TEST_F(DeathsTest, ASetuidProgramIsNotRecorded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a set-uid program of another user";
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  std::filesystem::create_directory(rings_);
  std::filesystem::permissions(rings_, std::filesystem::perms::all);
  const std::string program = folder_ + "/secure";
  std::filesystem::copy_file(LOCKSTEP_SECURE_PROGRAM, program);
  // The program is linked with the recorder, because the loader does not preload it into a set-uid program.
  const std::string run = Environment("", false) + "timeout 60 '" + program + "' secure";
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  Outcome outcome = Shell(run);
  EXPECT_EQ(outcome.out, "secure 0 0 3\n") << outcome.err;
  ASSERT_THAT(RingPaths(), SizeIs(1));
  std::filesystem::remove_all(rings_ + "/job.0");
  ASSERT_EQ(chown(program.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  outcome = Shell(run);
  if (outcome.out.rfind("secure 1 ", 0) != 0)
    GTEST_SKIP() << "set-uid bits are not honored here: " << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "secure 1 0 3\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(RingPaths(), IsEmpty());
}

TEST_F(DeathsTest, TwoNamelessJobsOfOneUserHaveSeparateFolders) {
  const std::string host = "timeout 60 '" LOCKSTEP_DEATHS_PROGRAM "' calls 3";
  const Outcome outcome = Shell("unset SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID FLUX_JOB_ID; " +
                                Environment("TORCHELASTIC_RUN_ID=none MASTER_PORT=29500 RANK=0") + host + " & " +
                                Environment("MASTER_PORT=29501 RANK=0") + host + " & wait");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(RingPaths(rings_ + "/port-29500.0"), SizeIs(1));
  EXPECT_THAT(RingPaths(rings_ + "/port-29501.0"), SizeIs(1));
}

// --- containers, full disks, limits

TEST_F(DeathsTest, ARankInAPidNamespaceWithPrivateSharedMemoryIsRecorded) {
  if (geteuid() != 0 || !CanUnshare("-m -p -f")) GTEST_SKIP() << "cannot create namespaces here";
  // NCCL's own shared memory is there too.
  const std::string inside = "mount -t tmpfs -o size=64m tmpfs /dev/shm && timeout 60 '" LOCKSTEP_HOST_PROGRAM
                             "' kinds && df -k --output=avail /dev/shm | tail -1 && cp -r /dev/shm/lockstep-0 '" +
                             folder_ + "/rings'";
  const Outcome outcome = Shell(
      "unset LOCKSTEP_DIR; LD_PRELOAD='" LOCKSTEP_LIBRARY "' unshare -m -p -f --mount-proc sh -c \"" + inside + "\"");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_GE(std::atoi(outcome.out.c_str()), 60 << 10) << "KiB left";
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_LT(rings[0].process.pid, 100) << "the pid as numbered inside the namespace";
  struct stat own {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &own), 0);
  EXPECT_NE(rings[0].process.pid_namespace_inode, own.st_ino) << "the namespace shows that the pid is not the host's";
  EXPECT_NE(rings[0].process.pid_namespace_inode, 0u);
  EXPECT_EQ(rings[0].process.state, RecorderState::kCleanExit);
}

TEST_F(DeathsTest, AReadOnlyRootIsReportedInOneLine) {
  const std::string point = folder_ + "/read-only";
  if (!Mount(point, "4m") || mount("", point.c_str(), "", MS_REMOUNT | MS_RDONLY, "") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here";
  }
  rings_ = point + "/rings";
  const Outcome plain = Host("calls 100", "", false);
  const Outcome outcome = Host("calls 100");
  EXPECT_EQ(outcome.out, plain.out);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: not recording: cannot use the folder " + rings_ + ": "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

TEST_F(DeathsTest, AMemoryFileSystemThatFillsUpLaterIsHarmless) {
  const std::string point = folder_ + "/small";
  if (!Mount(point, "16m")) GTEST_SKIP() << "cannot mount a tmpfs here";
  rings_ = point + "/rings";
  const Outcome outcome = Host("fill '" + point + "/filler'");
  EXPECT_EQ(outcome.status, 0) << outcome.err << "(7 or 135 is SIGBUS)";
  EXPECT_EQ(outcome.out, "full 20041\n");
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_EQ(rings[0].comms.at(0).issued_seq, 20041u);
}

TEST_F(DeathsTest, ADiskThatFillsUpLaterIsHarmless) {
  const std::string image = folder_ + "/image", point = folder_ + "/disk";
  std::filesystem::create_directory(point);
  const std::string make = "truncate -s 48M '" + image + "' && PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -F '" + image +
                           "' && mount -o loop '" + image + "' '" + point + "'";
  if (Shell(make).status != 0) GTEST_SKIP() << "cannot mount a disk image here";
  mounted_.push_back(point);
  rings_ = point + "/rings";
  const Outcome outcome = Host("fill '" + point + "/filler'", "DEATHS_SYNC=1");
  EXPECT_EQ(outcome.status, 0) << outcome.err << "(7 or 135 is SIGBUS)";
  EXPECT_EQ(outcome.out, "full 20041\n");
  ASSERT_THAT(Rings(), SizeIs(1));
}

TEST_F(DeathsTest, FailingSystemCallsOfTheRecorderAreHarmless) {
  const std::string calls = " '" LOCKSTEP_DEATHS_PROGRAM "' exceptions";
  const Outcome allowed = Host("deny 1 9999" + calls, "", false);
  if (WIFEXITED(allowed.status) && WEXITSTATUS(allowed.status) == 77)
    GTEST_SKIP() << "cannot install seccomp filters here";
  const std::vector<int> numbers = {SYS_faccessat,        SYS_getdents64,    SYS_ppoll,   SYS_sigaltstack,
                                    SYS_fstatfs,          SYS_fallocate,     SYS_mkdirat, SYS_pwrite64,
                                    SYS_getrandom,        SYS_tgkill,        SYS_madvise, SYS_fstat,
                                    SYS_process_vm_readv, SYS_rt_sigprocmask};
  for (const int error : {EPERM, ENOSYS}) {
    for (const int number : numbers) {
      const std::string mode = "deny " + std::to_string(error) + " " + std::to_string(number) + calls;
      const Outcome plain = Host(mode, "", false);
      const Outcome recorded = Host(mode);
      EXPECT_EQ(recorded.status, plain.status) << number << recorded.err;
      EXPECT_EQ(recorded.out, plain.out) << number << recorded.err;
    }
  }
  for (const std::string& path : RingPaths()) ReadRing(path);
}

// --- a signal at any instruction

#if defined(__x86_64__)

struct Range {
  uintptr_t begin = 0, end = 0;
};

Range CodeOf(pid_t pid, const std::string& library) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  Range range;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) == std::string::npos || line.find(" r-xp ") == std::string::npos) continue;
    char* end = nullptr;
    const uintptr_t begin = std::strtoull(line.c_str(), &end, 16);
    if (range.begin == 0) range.begin = begin;
    range.end = std::strtoull(end + 1, nullptr, 16);
  }
  return range;
}

struct Stepping {
  int rounds = 0;      // number of first signals delivered
  int second = 0;      // number of second signals delivered
  bool whole = false;  // whether the last round reached the end of the call
  int status = -1;     // wait status of the host program
};

// Runs the program and delivers SIGUSR1 after `first`, `first` + `stride`, ... instructions of the recorder in
// successive rounds, until a round ends before its signal is due. With `after` > 0, a second signal follows up to that
// many instructions after the handler of the first has returned, unless the call ends before.
Stepping StepThrough(const std::string& command, int first, int stride, long after) {
  Stepping stepping;
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  Range code;
  enum { kNo, kToFirst, kInHandler, kToSecond } stepping_now = kNo;
  long left = 0;
  user_regs_struct interrupted{};
  int status = 0;
  for (;;) {
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
    const int signal = WSTOPSIG(status);
    if (signal == SIGUSR2) {
      // A round begins. If the previous round ended before its signal was due, every place has had its signal.
      if (stepping_now == kToFirst) {
        stepping.whole = true;
        ptrace(PTRACE_DETACH, child, nullptr, nullptr);
        break;
      }
      if (code.begin == 0) code = CodeOf(child, "liblockstep.so");
      stepping_now = kToFirst;
      left = first + static_cast<long>(stepping.rounds) * stride;
      ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      continue;
    }
    if (signal == SIGTRAP) {
      if (stepping_now == kNo) {  // this is the stop at exec
        ptrace(PTRACE_CONT, child, nullptr, nullptr);
        continue;
      }
      user_regs_struct now{};
      ptrace(PTRACE_GETREGS, child, nullptr, &now);
      if (stepping_now == kInHandler) {
        if (now.rip == interrupted.rip && now.rsp == interrupted.rsp) stepping_now = kToSecond;
        ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
        continue;
      }
      if (now.rip < code.begin || now.rip >= code.end || left-- > 0) {
        ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
        continue;
      }
      ++(stepping_now == kToFirst ? stepping.rounds : stepping.second);
      stepping_now = stepping_now == kToFirst && after > 0 ? kInHandler : kNo;
      interrupted = now;
      left = after > 0 ? (stepping.rounds * 53) % after : 0;
      ptrace(stepping_now == kNo ? PTRACE_CONT : PTRACE_SINGLESTEP, child, nullptr, SIGUSR1);
      continue;
    }
    ptrace(stepping_now == kNo ? PTRACE_CONT : PTRACE_SINGLESTEP, child, nullptr, signal);
  }
  if (stepping.whole) waitpid(child, &status, 0);
  stepping.status = status;
  return stepping;
}

class SignalTest : public DeathsTest, public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(SignalTest, ASignalAtAnyInstructionIsHarmless) {
  const auto [what, way] = GetParam();
  const bool group = std::string(what) == "group";
  // Single steps are slow, so a run tests only some instructions, chosen by the process ID.
  // LOCKSTEP_EVERY_INSTRUCTION=1 tests all, in minutes.
  const bool all = std::getenv("LOCKSTEP_EVERY_INSTRUCTION") != nullptr, twice = std::string(way) == "twice";
  const int stride = all ? 1 : group ? 149 : twice ? 2 : 11;
  const Stepping stepping =
      StepThrough("exec env " + Environment("LOCKSTEP_BUDGET=off") + "'" LOCKSTEP_DEATHS_PROGRAM "' stepped " + what +
                      " " + way + " 4000 >'" + folder_ + "/out' 2>'" + folder_ + "/err'",
                  getpid() % stride, stride, twice ? 400 : 0);
  ASSERT_TRUE(stepping.whole) << "status " << std::hex << stepping.status << " after " << std::dec << stepping.rounds
                              << support::ReadFile(folder_ + "/out") << support::ReadFile(folder_ + "/err");
  ASSERT_EQ(stepping.status, 0) << support::ReadFile(folder_ + "/out") << support::ReadFile(folder_ + "/err");
  EXPECT_GT(stepping.rounds, 8);
  uint64_t reached = 0, after = 0, other = 0, handled = 0;
  std::istringstream(support::ReadFile(folder_ + "/out")) >> reached >> after >> other >> handled;
  EXPECT_EQ(handled, static_cast<uint64_t>(stepping.rounds + stepping.second));
  EXPECT_EQ(stepping.second > 0, twice);
  EXPECT_EQ(after, 10u);
  Snapshot parent;
  std::string states;
  for (const Snapshot& ring : Rings()) {
    if (ring.process.state == RecorderState::kCleanExit) parent = ring;
    states += std::to_string(static_cast<int>(ring.process.state)) + " " + ring.process.stop_reason + "; ";
  }
  ASSERT_GE(parent.comms.size(), 2u) << states << stepping.rounds << support::ReadFile(folder_ + "/err");
  const CommSnapshot& comm = parent.comms[0];
  uint64_t issued = comm.issued_seq;
  for (const ring::PeerProgress& peer : comm.peers) issued += peer.sends + peer.recvs;
  // The counts are exact, with two exceptions. A jump between counting and entering NCCL leaves one too many, and a
  // group may have been left open.
  if (std::string(way) == "jump") {
    EXPECT_GE(issued, reached + after);
    EXPECT_LE(issued, reached + after + 60);
  } else {
    EXPECT_EQ(issued, reached + after);
  }
  EXPECT_LE(parent.comms[1].issued_seq, other) << "only handler calls between recorded calls count";
  // The last ten are complete and in order.
  int whole = 0;
  for (const OpSnapshot& op : parent.ops) {
    whole +=
        op.kind == CallKind::kAllReduce && op.comm == comm.index && op.return_ns != 0 && op.seq + 10 > comm.issued_seq;
  }
  EXPECT_EQ(whole, 10);
  for (const ThreadSnapshot& thread : parent.threads) EXPECT_EQ(thread.call, CallKind::kNone);
}

INSTANTIATE_TEST_SUITE_P(Deaths, SignalTest,
                         ::testing::Combine(::testing::Values("collective", "group"),
                                            ::testing::Values("nested", "twice", "fork", "jump")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

#endif  // __x86_64__

TEST_F(DeathsTest, AStormOfSignalsWhoseHandlerCallsNcclIsHarmless) {
  const Outcome outcome = Host("storm");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  uint64_t reached = 0, other = 0;
  std::istringstream(outcome.out) >> reached >> other;
  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  const CommSnapshot& comm = rings[0].comms.at(0);
  uint64_t issued = comm.issued_seq;
  for (const ring::PeerProgress& peer : comm.peers) issued += peer.sends + peer.recvs;
  EXPECT_EQ(issued, reached);
  EXPECT_LE(rings[0].comms.at(1).issued_seq, other);
}

}  // namespace
}  // namespace lockstep
