// Checks, in every GPU mode, that a million calls after warm-up allocate nothing: no malloc, no mapping, no change of
// the break.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "recorder/ring/reader.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::IsEmpty;

#if defined(__x86_64__)
constexpr size_t kNumberAt = offsetof(user, regs.orig_rax);
#endif

struct Outcome {
  bool traced = false;  // if tracing is refused, the program runs without counting
  int status = -1;
  std::string out;
  std::map<long, uint64_t> calls;  // number of each system call between the two marks
};

class AllocationTest : public ::testing::TestWithParam<const char*> {
 protected:
  Outcome Run(const char* mode) const {
    Outcome outcome;
    int ends[2];
    if (pipe(ends) != 0) return outcome;
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], 1);
      close(ends[0]);
      setenv("LD_PRELOAD", LOCKSTEP_LIBRARY, 1);
      setenv("LOCKSTEP_DIR", folder_.c_str(), 1);
      setenv("LOCKSTEP_GPU", mode, 1);
      const bool traced = ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
      if (traced) raise(SIGSTOP);
      execl(LOCKSTEP_ALLOCATION_PROGRAM, LOCKSTEP_ALLOCATION_PROGRAM, nullptr);
      _exit(9);
    }
    close(ends[1]);
    Follow(child, &outcome);
    char text[64] = {};
    if (read(ends[0], text, sizeof(text) - 1) > 0) outcome.out = text;
    close(ends[0]);
    return outcome;
  }

  // Lets the program and its threads run from system call to system call.
  static void Follow(pid_t child, Outcome* outcome) {
    std::map<pid_t, bool> inside;
    int marks = 0;
    while (true) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, __WALL);
      if (pid < 0) return;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (pid != child) continue;
        outcome->status = status;
        return;
      }
      const int signal = WSTOPSIG(status);
      long pass = 0;
#if defined(__x86_64__)
      if (signal == (SIGTRAP | 0x80)) {
        bool& in = inside[pid];
        in = !in;
        if (in) {
          const long number = ptrace(PTRACE_PEEKUSER, pid, kNumberAt, nullptr);
          if (number == SYS_getppid) ++marks;
          if (marks == 1) ++outcome->calls[number];
        }
      } else
#endif
          if (!outcome->traced) {
        outcome->traced = true;
        ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
      } else if (signal != SIGTRAP && signal != SIGSTOP) {
        pass = signal;
      }
      ptrace(PTRACE_SYSCALL, pid, nullptr, pass);
    }
  }

  const support::TempFolder temp_{"/dev/shm"};
  const std::string folder_ = temp_.path();
};

TEST_P(AllocationTest, AMillionCallsAllocateNothing) {
  const Outcome outcome = Run(GetParam());
  ASSERT_TRUE(WIFEXITED(outcome.status)) << outcome.status;
  ASSERT_EQ(WEXITSTATUS(outcome.status), 0);
  EXPECT_EQ(outcome.out, "0\n") << "allocations";
  uint64_t recorded = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file()) continue;
    ring::Snapshot snapshot;
    std::string error;
    ASSERT_TRUE(ring::ReadRingFile(entry.path(), {}, &snapshot, &error)) << error;
    EXPECT_THAT(snapshot.problems, IsEmpty());
    EXPECT_EQ(snapshot.process.state, ring::RecorderState::kCleanExit) << snapshot.process.stop_reason;
    EXPECT_EQ(snapshot.records_lost, 0u);
    for (const ring::ThreadSnapshot& thread : snapshot.threads) recorded += thread.calls;
    const bool marks = std::string(GetParam()) == "done" || std::string(GetParam()) == "full";
    for (const ring::StreamSnapshot& stream : snapshot.streams) {
      EXPECT_EQ(stream.completed, stream.issued);
      if (marks && stream.issued != 0) {
        EXPECT_TRUE(stream.marked);
      }
    }
  }
  EXPECT_GT(recorded, 1000000u);
#if defined(__x86_64__)
  if (!outcome.traced) GTEST_SKIP() << "system calls could not be counted: tracing is refused here";
  for (const long number : {SYS_mmap, SYS_brk, SYS_mremap, SYS_munmap})
    EXPECT_EQ(outcome.calls.count(number), 0u) << number;
  for (const auto& [number, count] : outcome.calls) printf("system call %ld: %lu\n", number, count);
#endif
}

INSTANTIATE_TEST_SUITE_P(InEveryMode, AllocationTest,
                         ::testing::Values("off", "done", "full", "events", "profiler", "auto"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace lockstep
