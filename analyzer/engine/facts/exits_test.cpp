#include "analyzer/engine/facts/exits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "analyzer/engine/engine.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using testing::HostFault;
using testing::Job;

// Rank `dead` ends as given. Then all others end, although by their clocks they ended earlier.
Bundle AllEnded(int dead, HostFault how, int signal, const char* comm) {
  Job job(2, 2, 2, 6);
  job.ranks[dead].host_fault = how;
  job.ranks[dead].signal = signal;
  job.ranks[dead].host_fault_at = job.Find(dead, comm, 3);
  Bundle b = job.Run();
  for (Rank& r : b.ranks) {
    r.host = "node" + std::to_string(r.rank / 2);
    r.process.ended_mono_ns = 90'000'000'000 - int64_t{1'000'000'000} * std::abs(r.rank - dead);
    if (r.rank == dead) continue;
    r.process.life = r.rank % 3 == 0 ? Life::kExited : Life::kKilled;
    r.process.exit_code = 1;
    r.process.signal = r.rank % 3 == 1 ? 6 : 15;
    for (Membership& ms : r.memberships) ms.state = ring::CommState::kAborted;
  }
  return b;
}

TEST(Exits, TheOutOfMemoryKillerIsNamed) {
  const auto told = [](int32_t pid, HardwareEvent::Kind kind, int64_t before_ns, int signal) {
    Bundle b = AllEnded(5, HostFault::kDie, signal, "dp");
    Rank& dead = b.ranks[5];
    dead.pid = 4711;
    ProcessEvidence log;
    log.set_taken_ns(dead.process.ended_mono_ns + 2'000'000'000);
    HardwareEvent* event = log.add_hardware();
    event->set_kind(kind);
    event->set_pid(pid);
    event->set_age_ns(2'000'000'000 + before_ns);
    event->set_text("the kernel's words");
    dead.process.evidence = std::make_shared<ProcessEvidence>(log);
    const Verdict v = Analyze(b);
    EXPECT_EQ(v.findings(0).kind(), RANK_DEAD);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
    bool shown = false;
    for (const Evidence& e : v.findings(0).evidence())
      shown |= e.text().find("the kernel's words") != std::string::npos;
    const bool memory =
        v.findings(0).summary().find("killed by the kernel's out-of-memory killer") != std::string::npos;
    EXPECT_EQ(memory, v.findings(0).advice().find("less host memory") != std::string::npos);
    return std::pair(memory, shown);
  };
  EXPECT_EQ(told(4711, HardwareEvent::OUT_OF_MEMORY, 500'000'000, 9), std::pair(true, true));
  EXPECT_EQ(told(4711, HardwareEvent::CRASH, 0, 11), std::pair(false, true)) << "the kernel's line about the crash";
  EXPECT_EQ(told(4712, HardwareEvent::OUT_OF_MEMORY, 0, 9), std::pair(false, false)) << "another process";
  EXPECT_EQ(told(4711, HardwareEvent::OUT_OF_MEMORY, 600'000'000'000, 9), std::pair(false, false))
      << "an earlier process with the same number";
  EXPECT_EQ(told(4711, HardwareEvent::OUT_OF_MEMORY, 0, 11), std::pair(false, false)) << "it crashed";
}

TEST(Exits, TheFirstRankToDieIsDistinguishedFromItsVictims) {
  for (int dead : {0, 5, 7}) {
    for (const char* comm : {"tp", "dp", "pp", "world"}) {
      for (int signal : {9, 11, 6}) {
        SCOPED_TRACE(::testing::Message() << "rank " << dead << " " << comm << " signal " << signal);
        const Verdict v = Analyze(AllEnded(dead, HostFault::kDie, signal, comm));
        ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
        EXPECT_EQ(v.findings(0).kind(), RANK_DEAD);
        EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{dead}) << v.DebugString();
        EXPECT_EQ(v.verdict(), VERDICT_CRASHED);
      }
    }
  }
}

// All ranks aborted their operations and created new communicators in the same processes. A rank that did not reach the
// last operation of the old communicators did not make different calls.
TEST(Exits, CommunicatorsAbortedBeforeARestartAreNotCompared) {
  Job job(2, 2, 2, 6);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "dp", 3);
  Bundle bundle = job.Run();
  const Verdict before = Analyze(bundle);
  Communicator old;
  old.id = "00000000000000aa";
  old.size = static_cast<int32_t>(bundle.ranks.size());
  for (Rank& rank : bundle.ranks) {
    old.members.push_back(rank.rank);
    for (Membership& ms : rank.memberships) ms.created_ns = 3'000;
    Membership ms;
    ms.comm = static_cast<uint32_t>(bundle.comms.size());
    ms.member_rank = rank.rank;
    ms.state = ring::CommState::kAborted;
    ms.created_ns = 1'000;
    ms.ended_ns = 2'000;
    ms.issued = ms.launched = rank.rank == 1 ? 99 : 100;
    std::vector<Op> ops;
    for (int64_t seq = 90; seq <= ms.issued; ++seq) {
      Op op;
      op.membership = static_cast<uint32_t>(rank.memberships.size());
      op.kind = ring::CallKind::kAllReduce;
      op.seq = seq;
      op.thread = rank.ops.front().thread;
      op.state = seq < 100 ? OpState::kCompleted : OpState::kEnqueued;
      ops.push_back(op);
    }
    rank.memberships.push_back(ms);
    rank.ops.insert(rank.ops.begin(), ops.begin(), ops.end());
  }
  bundle.comms.push_back(old);
  const Verdict v = Analyze(bundle);
  EXPECT_EQ(v.findings_size(), before.findings_size()) << v.DebugString();
  ASSERT_EQ(before.findings_size(), 1);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
  EXPECT_EQ(v.verdict(), before.verdict());
}

TEST(Exits, GpuProgressAfterTheProcessDiedIsReported) {
  Bundle b = AllEnded(5, HostFault::kDie, 9, "tp");
  const auto said = [](const Verdict& v) {
    return v.DebugString().find(" after the process died") != std::string::npos;
  };
  EXPECT_FALSE(said(Analyze(b)));
  Rank& rank = b.ranks[5];
  if (rank.streams.empty()) rank.streams.resize(1);
  rank.streams[0].completed = std::max<uint64_t>(rank.streams[0].completed, 2);
  rank.streams[0].late_completed = 2;
  const Verdict v = Analyze(b);
  EXPECT_TRUE(said(v)) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
}

// GPU progress markers are off, and all ranks made the same calls. All CPU threads except one wait for their GPUs; the
// remaining process exited with status 0 or is stopped.
TEST(Exits, TheOnlyRankGoneOrStoppedWhileOthersWaitForGpusIsNamed) {
  constexpr int64_t kNow = 1'000'000'000'000, kSecond = 1'000'000'000;
  for (const bool stopped : {true, false}) {
    for (const int64_t seconds : {1, 40}) {
      Bundle b;
      b.ranks_expected = 4;
      for (int r = 0; r < 4; ++r) {
        Rank rank;
        rank.rank = r;
        rank.captured_ns = kNow;
        rank.host_waits = true;
        rank.process.life = Life::kRunning;
        ring::ThreadSnapshot& thread = rank.threads.emplace_back();
        thread.calls = 10;
        thread.wait = ring::CallKind::kStreamSynchronize;
        thread.wait_since_ns = kNow - seconds * kSecond;
        if (r == 2 && stopped) rank.process.state = "T";
        if (r == 2 && !stopped) rank.process.life = Life::kExited;
        b.ranks.push_back(rank);
      }
      const Verdict v = Analyze(b);
      ASSERT_EQ(v.findings_size(), seconds == 40 ? 1 : 0) << v.DebugString();
      if (seconds != 40) continue;
      EXPECT_EQ(v.findings(0).kind(), stopped ? HOST_STALL : RANK_DEAD);
      ASSERT_EQ(v.findings(0).culprit_ranks_size(), 1);
      EXPECT_EQ(v.findings(0).culprit_ranks(0), 2);
      EXPECT_LT(v.findings(0).confidence(), 0.9);
      EXPECT_FALSE(v.findings(0).tells_apart().empty());
    }
  }
}

TEST(Exits, ExitingEarlyIsACause) {
  const Verdict v = Analyze(AllEnded(5, HostFault::kExit, 0, "tp"));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
}

TEST(Exits, WhoeverEndedBeforeTheLauncherKilledTheRestIsTheCause) {
  for (const HostFault how : {HostFault::kExit, HostFault::kDie}) {
    Bundle b = AllEnded(5, how, 9, "tp");
    for (Rank& r : b.ranks) {
      if (how == HostFault::kDie) r.host = "node0";  // ends by the same signal are ordered only by one clock
      if (r.rank == 5) continue;
      r.process.life = Life::kKilled;
      r.process.signal = 9;
      r.process.ended_mono_ns = b.ranks[5].process.ended_mono_ns + 3'000'000'000;
      if (r.threads.empty()) r.threads.emplace_back();
      r.threads[0].wait = ring::CallKind::kStreamSynchronize;
    }
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
  }
}

TEST(Exits, KillsOnSeveralHostsMayBeTheLaunchers) {
  for (const bool several : {false, true}) {
    Bundle b = AllEnded(5, HostFault::kDie, 9, "tp");
    for (Rank& r : b.ranks) {
      r.host = several && r.rank > 5 ? "node1" : "node0";
      r.process = b.ranks[5].process;
      r.process.ended_mono_ns += r.rank == 5 ? 0 : 3'000'000'000;
      if (r.threads.empty()) r.threads.emplace_back();
      r.threads[0].wait = r.rank == 5 ? ring::CallKind::kNone : ring::CallKind::kStreamSynchronize;
    }
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).confidence() > 0.9, !several) << v.DebugString();
  }
}

TEST(Exits, ProcessesThatOneSignalEndedAtTheSameMomentAreNotToldApart) {
  Bundle b = Job(2, 2, 2, 6).Run();
  b.known_stalled = false;
  for (Rank& r : b.ranks) {
    r.host = "node" + std::to_string(r.rank / 4);
    r.process.life = Life::kKilled;
    r.process.signal = 9;
    r.process.ended_mono_ns = 90'000'000'000 + r.rank * 300'000;
  }
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).culprit_ranks_size(), 8) << v.DebugString();
  EXPECT_LE(v.findings(0).confidence(), 0.5);
}

TEST(Exits, TwoCrashesAreTwoCauses) {
  Bundle b = AllEnded(5, HostFault::kDie, 9, "tp");
  b.ranks[2].process.life = Life::kKilled;
  b.ranks[2].process.signal = 11;
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{2, 5}));
}

TEST(Exits, ARankThatGaveUpWaitingForARankWithoutDataIsNotACause) {
  for (int dead : {5, 7}) {
    for (const char* comm : {"tp", "pp"}) {
      for (bool others : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "rank " << dead << " " << comm << (others ? ", all abort" : ", one aborts"));
        Bundle b = AllEnded(dead, HostFault::kDie, 6, comm);
        for (Rank& r : b.ranks) {
          if (others || r.rank == (dead ^ 1) || r.rank == dead) continue;
          r.process = Process();
          r.process.life = Life::kRunning;
          for (Membership& ms : r.memberships) ms.state = ring::CommState::kReady;
        }
        b.ranks[dead ^ 1].process.life = Life::kKilled;
        b.ranks[dead ^ 1].process.signal = 6;
        b.ranks.erase(b.ranks.begin() + dead);
        b.ranks_expected = 8;
        const Verdict v = Analyze(b);
        ASSERT_GE(v.findings_size(), 1) << v.DebugString();
        EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
        EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{dead}) << v.DebugString();
      }
    }
  }
  // The dump of another rank is missing. The rank that died without waiting is certainly still the cause.
  Bundle b = AllEnded(5, HostFault::kDie, 6, "tp");
  b.ranks.erase(b.ranks.begin() + 4);
  b.ranks_expected = 8;
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_EQ(v.findings(0).kind(), RANK_DEAD);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
  EXPECT_GE(v.findings(0).confidence(), 0.9);
}

// Returns the job after watchdogs aborted waiting processes `after_ns` after their last calls, and a launcher ended the
// others. If `only` is given, the other ranks still run.
Bundle EndedByWatchdogs(Job job, int64_t after_ns, const char* thread, const std::vector<int32_t>& only = {}) {
  Bundle b = job.Run();
  for (Rank& r : b.ranks) {
    if (!only.empty() && std::find(only.begin(), only.end(), r.rank) == only.end()) continue;
    const bool waits = r.threads[0].wait != ring::CallKind::kNone;
    r.threads[0].name = thread;
    r.process.life = Life::kKilled;
    r.process.signal = waits ? 6 : 15;  // SIGTERM of the launcher
    r.process.ended_mono_ns = r.threads[0].last_call_ns + after_ns;
    for (Membership& ms : r.memberships) ms.state = ring::CommState::kAborted;
  }
  return b;
}

bool Says(const Verdict& v, const std::string& part) {
  for (const NotTheCause& not_it : v.ruled_out()) {
    if (NotTheCauseText(not_it).find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(Exits, ProcessesThatWatchdogsEndedAreConsequences) {
  constexpr int64_t kTenMinutes = 603'000'000'000;
  for (const bool gpu : {true, false}) {
    for (int rank : {0, 5, 7}) {
      SCOPED_TRACE(::testing::Message() << (gpu ? "GPU of rank " : "host of rank ") << rank);
      Job job(2, 2, 2, 6);
      if (gpu) {
        job.ranks[rank].gpu_stall_at = job.Find(rank, "tp", 3);
      } else {
        job.ranks[rank].host_fault = HostFault::kStall;
        job.ranks[rank].host_fault_at = job.Find(rank, "tp", 3);
      }
      const Verdict v = Analyze(EndedByWatchdogs(job, kTenMinutes, "pt_main_thread"));
      ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
      EXPECT_EQ(v.findings(0).kind(), gpu ? GPU_STALL : HOST_STALL) << v.DebugString();
      EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{rank}) << v.DebugString();
      EXPECT_EQ(v.verdict(), VERDICT_HUNG);
      EXPECT_TRUE(Says(v, gpu ? "PyTorch's watchdog ended 8 processes (ranks 0-7; SIGABRT) after 10 min"
                              : "PyTorch's watchdog ended 7 processes"))
          << v.DebugString();
      EXPECT_TRUE(Says(v, "a consequence"));
      // If the watchdogs ended the culprit's process, too, the finding explains its end.
      bool explained = false;
      for (const Evidence& e : v.findings(0).evidence())
        explained |= absl::StrContains(e.text(), "'s process after 10 min: this is a consequence, not the cause");
      EXPECT_EQ(explained, gpu) << v.DebugString();
      EXPECT_TRUE(
          Says(Analyze(EndedByWatchdogs(job, kTenMinutes, "python")), "NOT an independent crash: a watchdog ended"));
    }
  }
}

TEST(Exits, TheFirstWatchdogToFireIsNotACause) {
  Job job(2, 2, 2, 6);
  job.ranks[5].gpu_stall_at = job.Find(5, "tp", 3);
  const Verdict v = Analyze(EndedByWatchdogs(job, 1'801'000'000'000, "pt_main_thread", {2}));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
  EXPECT_TRUE(Says(v, "1 process (rank 2; SIGABRT) after 30 min")) << v.DebugString();
}

TEST(Exits, AnEarlyAbortIsNotDueToAWatchdog) {
  Job job(2, 2, 2, 6);
  job.ranks[5].gpu_stall_at = job.Find(5, "tp", 3);
  const Verdict v = Analyze(EndedByWatchdogs(job, 5'000'000'000, "pt_main_thread", {2}));
  EXPECT_FALSE(Says(v, "watchdog")) << v.DebugString();
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_EQ(v.findings(0).kind(), RANK_DEAD);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2});
}

// A rank destroys its communicators while the others wait in them.
TEST(Exits, ARankThatLeftTheTrainingLoopIsNamed) {
  Job job(2, 2, 2, 6);
  job.ranks[6].host_fault = HostFault::kStall;
  job.ranks[6].host_fault_at = job.Find(6, "dp", 4);
  Bundle b = job.Run();
  for (Membership& ms : b.ranks[6].memberships) ms.state = ring::CommState::kDestroyed;
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NOT_ARRIVED);
  EXPECT_EQ(v.findings(0).cause(), "code mismatch");
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6});
  EXPECT_NE(v.findings(0).summary().find("left the training loop"), std::string::npos);
}

// All ranks have made the same calls. Some have exited, and the others wait for their GPUs, without progress markers.
TEST(Exits, ARankThatLeftIsNamedWithoutGpuMarkers) {
  const auto ended = [](const std::vector<int>& leave, int64_t waited_s) {
    Job job(2, 2, 2, 4);
    for (const int r : leave) {
      job.ranks[r].host_fault = HostFault::kExit;
      job.ranks[r].host_fault_at = job.ranks[r].program.size() - 1;  // the last wait of the program
    }
    Bundle b = job.Run();
    for (Rank& rank : b.ranks) {
      if (rank.process.life == Life::kExited && !std::count(leave.begin(), leave.end(), rank.rank))
        rank.process = {}, rank.process.life = Life::kRunning;
      for (ring::ThreadSnapshot& thread : rank.threads) {
        if (std::count(leave.begin(), leave.end(), rank.rank)) continue;
        thread.wait = ring::CallKind::kStreamSynchronize;
        thread.wait_since_ns = rank.captured_ns - waited_s * 1'000'000'000;
      }
    }
    return testing::WithoutMarks(std::move(b));
  };
  const Verdict one = Analyze(ended({5}, 40));
  ASSERT_EQ(one.findings_size(), 1) << one.DebugString();
  EXPECT_EQ(one.findings(0).kind(), RANK_DEAD);
  EXPECT_EQ(Culprits(one.findings(0)), std::vector<int32_t>{5});
  EXPECT_LT(one.findings(0).confidence(), 0.9);
  EXPECT_FALSE(one.findings(0).tells_apart().empty());
  const Verdict two = Analyze(ended({2, 5}, 40));
  ASSERT_EQ(two.findings_size(), 1) << two.DebugString();
  EXPECT_EQ(Culprits(two.findings(0)), (std::vector<int32_t>{2, 5}));
  // The job is ending: half of the ranks have ended, and the rest may be about to.
  EXPECT_EQ(Analyze(ended({0, 2, 3, 5}, 40)).findings_size(), 0);
  // A short wait proves nothing.
  Bundle young = ended({5}, 1);
  young.known_stalled = false;
  EXPECT_EQ(Analyze(young).findings_size(), 0);
}

// Without markers, the only sign of a failing GPU is that CPU threads wait for their GPUs before a send.
TEST(Exits, AnErrorReportedByNcclOutweighsWaitsWithoutGpuMarkers) {
  Job job(2, 3, 1, 4);
  job.ranks[4].gpu_stall_at = job.Find(4, "tp", 2);
  for (const int r : {2, 3}) {
    auto& program = job.ranks[r].program;  // waits for data from stage 2 before its own send
    program.insert(program.begin() + static_cast<std::ptrdiff_t>(job.Find(r, "pp", 2, 4)) + 1, testing::Call{});
  }
  Bundle b = testing::WithoutMarks(job.Run());
  const Verdict unknown = Analyze(b);
  ASSERT_EQ(unknown.findings_size(), 1) << unknown.DebugString();
  EXPECT_LT(unknown.findings(0).confidence(), 0.5);
  for (Membership& ms : b.ranks[4].memberships) {
    if (b.comms[ms.comm].name.rfind("tp", 0) != 0) continue;
    ms.recorded.Mutable().async_error_ns = 5'000'000;
    ms.async_error = 1;
  }
  const Verdict told = Analyze(b);
  ASSERT_EQ(told.findings_size(), 1) << told.DebugString();
  EXPECT_EQ(told.findings(0).kind(), ASYNC_ERROR);
  EXPECT_EQ(told.findings(0).cause(), "gpu");
  EXPECT_EQ(Culprits(told.findings(0)), std::vector<int32_t>{4});
}

}  // namespace
}  // namespace lockstep
