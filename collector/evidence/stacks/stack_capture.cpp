#include "collector/evidence/stacks/stack_capture.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/folders.h"
#include "collector/evidence/stacks/process_helper.h"
#include "collector/evidence/stacks/remote_memory.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr size_t kCopyStep = 64 << 10;
constexpr size_t kMostKernelFrames = 16;
constexpr size_t kMostCaptured = 2048;
constexpr size_t kMostStack = 1 << 20;     // maximum per thread
constexpr size_t kMostStacks = 192 << 20;  // maximum for all threads together
// Gives up on a thread that has not stopped after this time. The thread is released when it stops.
constexpr int64_t kHaltLimit = 100'000'000;
// Leaves out bytes that were not copied after this time.
constexpr int64_t kCopyLimit = 15'000'000;
// A thread that is stopped for longer than this makes this process kill itself, which releases all threads.
constexpr int64_t kKillSelfAfter = 45'000'000;

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads = NumbersIn(absl::StrCat("/proc/", pid, "/task"));
  std::sort(threads.begin(), threads.end(),
            [pid](pid_t a, pid_t b) { return (a == pid) != (b == pid) ? a == pid : a < b; });
  return threads;
}

std::string TaskFile(pid_t pid, pid_t tid, const char* name, size_t limit) {
  return ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", tid, "/", name), limit);
}

char StateOf(pid_t pid, pid_t tid) {
  const std::optional<ProcStat> stat = ReadProcStat(absl::StrCat("/proc/", pid, "/task/", tid));
  return stat ? stat->state : 'X';
}

std::vector<std::string> KernelFrames(pid_t pid, pid_t tid) {
  std::vector<std::string> frames = ReadKernelFrames(absl::StrCat("/proc/", pid, "/task/", tid));
  std::erase_if(frames, [](const std::string& name) {
    return absl::StartsWith(name, "do_syscall_64") || absl::StartsWith(name, "entry_SYSCALL") ||
           absl::StartsWith(name, "el0");
  });
  if (frames.size() > kMostKernelFrames) frames.resize(kMostKernelFrames);
  return frames;
}

// Reads stack pointer and PC of a thread in a system call: "202 0x7f.. 0x80 .. SP PC". The thread does not have to be
// stopped. Returns false if they are unreadable.
bool ReadSyscallPlace(pid_t pid, pid_t tid, const ProcessHelper* helper, ThreadCapture* thread) {
  std::string text = TaskFile(pid, tid, "syscall", 512);
  if (text.empty() && helper != nullptr) text = helper->Syscall(thread->inner_tid);
  const std::vector<absl::string_view> words = absl::StrSplit(absl::StripAsciiWhitespace(text), ' ', absl::SkipEmpty());
  uint64_t sp = 0, pc = 0;
  if (words.size() < 3 || !absl::SimpleHexAtoi(words[words.size() - 2], &sp) || !absl::SimpleHexAtoi(words.back(), &pc))
    return false;
  thread->registers[kStackPointerRegister] = sp;
#if defined(__x86_64__)
  thread->registers[16] = pc;
#endif
  thread->pc = pc;
  thread->have_pc = true;
  return true;
}

bool ReadRegisters(pid_t tid, ThreadCapture* thread) {
  user_regs_struct regs{};
  iovec part{&regs, sizeof regs};
  if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &part) != 0) return false;
#if defined(__x86_64__)
  // A 32-bit process has different registers, as their size shows.
  if (part.iov_len != sizeof regs) return false;
  const uint64_t values[kStackRegisters] = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
                                            regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
                                            regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
  std::copy(std::begin(values), std::end(values), thread->registers);
  thread->pc = regs.rip;
  thread->thread_pointer = regs.fs_base;
#elif defined(__aarch64__)
  if (part.iov_len != sizeof regs) return false;
  for (int i = 0; i < 31; ++i) thread->registers[i] = regs.regs[i];
  thread->registers[31] = regs.sp;
  thread->pc = regs.pc;
  uint64_t tls = 0;
  iovec tls_part{&tls, sizeof tls};
  if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_ARM_TLS), &tls_part) == 0) thread->thread_pointer = tls;
#else
  return false;
#endif
  thread->have_pc = thread->all_registers = true;
  return true;
}

// A timer with an uncatchable signal: the last resort against a thread that stays stopped.
class SelfKiller {
 public:
  SelfKiller() {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    made_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  }
  ~SelfKiller() {
    if (made_) timer_delete(timer_);
  }
  void Arm() { Set(kKillSelfAfter); }
  void Disarm() { Set(0); }

 private:
  void Set(int64_t ns) {
    if (!made_) return;
    itimerspec when{};
    when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
    timer_settime(timer_, 0, &when, nullptr);
  }
  timer_t timer_{};
  bool made_ = false;
};

void Pause(int64_t ns) {
  const timespec pause{0, ns};
  nanosleep(&pause, nullptr);
}

class Capturer {
 public:
  Capturer(pid_t pid, const std::vector<Mapping>& maps, const CaptureOptions& options)
      : pid_(pid), maps_(maps), options_(options), memory_(pid, options.helper), scratch_(kMostStack) {}

  Capture Run() {
    // On a busy host, a stopped thread must not wait until this process is scheduled. Continues if the priority is
    // refused.
    setpriority(PRIO_PROCESS, 0, -20);
    sched_param real_time{};
    real_time.sched_priority = 1;
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &real_time);
    std::fill(scratch_.begin(), scratch_.end(), 1);  // avoids page faults later

    const std::vector<pid_t> tids = ThreadsOf(pid_);
    capture_.total = tids.size();
    for (pid_t tid : tids) {
      if (capture_.threads.size() >= kMostCaptured) break;
      One(tid);
      LetGoOfLate();
    }
    LetGoOfLate();
    return std::move(capture_);
  }

 private:
  void One(pid_t tid) {
    ThreadCapture thread;
    const char state = StateOf(pid_, tid);
    if (state == 'X' || state == 'Z') return;
    thread.tid = tid;
    thread.state = std::string(1, state);
    const pid_t inner = InnerPid(absl::StrCat("/proc/", pid_, "/task/", tid));
    thread.inner_tid = inner != 0 ? inner : tid;
    thread.name = std::string(absl::StripAsciiWhitespace(TaskFile(pid_, tid, "comm", 64)));
    thread.wchan = std::string(absl::StripAsciiWhitespace(TaskFile(pid_, tid, "wchan", 256)));
    if (thread.wchan.empty() && options_.helper != nullptr) thread.wchan = options_.helper->Wchan(thread.inner_tid);
    if (thread.wchan == "0") thread.wchan.clear();
    bool stopped = false;
    if (state == 'D') {
      thread.refused = "not stopped: it is in uninterruptible sleep (D)";
    } else if (MonotonicNs() - start_ > options_.total_limit_ns) {
      thread.refused = "not stopped: earlier threads used up the time limit";
    } else if (!options_.may_stop) {
      thread.refused = "not stopped: stopping other threads of this process took too long";
    } else if (capture_.error != 0) {
      thread.refused = "not stopped: ptrace refused";
    } else {
      if (!Stop(tid, &thread, &stopped)) return;
    }
    if (!stopped) {
      if (ReadSyscallPlace(pid_, tid, options_.helper, &thread)) CopyStack(&thread, MonotonicNs());
      options_.while_stopped(&thread);
    }
    if (state == 'D' || !thread.have_pc) thread.kernel = KernelFrames(pid_, tid);
    capture_.threads.push_back(std::move(thread));
  }

  // Returns false if the thread is gone.
  bool Stop(pid_t tid, ThreadCapture* thread, bool* stopped) {
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno == ESRCH) return false;
      const int error = errno;
      const char state = StateOf(pid_, tid);
      if (state == 'X' || state == 'Z') return false;
      capture_.error = error;
      thread->refused = "not stopped: ptrace refused";
      return true;
    }
    const int64_t begin = MonotonicNs();
    int64_t running = begin;  // when the thread was last seen running
    killer_.Arm();
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    int status = 0;
    int64_t pause = 10'000;
    for (;;) {
      const int64_t before = MonotonicNs();
      const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
      if (got == tid) break;
      running = before;
      killer_.Arm();
      if (got < 0 && errno != EINTR) {
        killer_.Disarm();
        return false;
      }
      if (MonotonicNs() - begin > kHaltLimit) {
        // No signal reaches the sleeping thread, and only a stopped thread can be detached. It is released when it
        // stops, at the latest when the tracing thread exits.
        late_.push_back(tid);
        killer_.Disarm();
        thread->refused = absl::StrCat("not stopped: it did not stop within ", kHaltLimit / 1'000'000, " ms");
        const char state = StateOf(pid_, tid);
        if (state == 'D') absl::StrAppend(&thread->refused, "; it is in uninterruptible sleep (D)");
        return true;
      }
      Pause(pause);
      pause = std::min<int64_t>(pause * 2, 200'000);
    }
    if (!WIFSTOPPED(status)) {
      killer_.Disarm();
      return false;
    }
    *stopped = true;
    if (!ReadRegisters(tid, thread)) {
      thread->refused = "its registers could not be read (a 32-bit process?)";
    } else {
      CopyStack(thread, MonotonicNs());
    }
    options_.while_stopped(thread);
    LetGo(tid, status);
    thread->stopped_ns = MonotonicNs() - running;
    killer_.Disarm();
    return true;
  }

  // Delivers a signal that arrived before the stop; a stop by another program remains.
  void LetGo(pid_t tid, int status) {
    const bool signal = WIFSTOPPED(status) && status >> 16 == 0;
    ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal ? WSTOPSIG(status) : 0)));
  }

  void LetGoOfLate() {
    std::erase_if(late_, [this](pid_t tid) {
      int status = 0;
      const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
      if (got == 0) return false;
      if (got == tid) LetGo(tid, status);
      return true;
    });
  }

  // Copies from the red zone below the stack pointer to the end of the mapping, at most kMostStack bytes.
  void CopyStack(ThreadCapture* thread, int64_t begin) {
    constexpr uint64_t kRedZone = 128;
    const uint64_t sp = thread->registers[kStackPointerRegister];
    const Mapping* mapping = FindMapping(maps_, sp);
    if (mapping == nullptr || !mapping->readable || total_ >= kMostStacks) return;
    const uint64_t from = sp - mapping->start > kRedZone ? sp - kRedZone : mapping->start;
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(mapping->end - from, kMostStack));
    size_t done = 0;
    while (done < wanted) {
      const size_t step = std::min(kCopyStep, wanted - done);
      const ssize_t got = memory_.ReadSome(from + done, scratch_.data() + done, step);
      if (got > 0) done += static_cast<size_t>(got);
      if (got != static_cast<ssize_t>(step) || MonotonicNs() - begin > kCopyLimit) break;
    }
    thread->stack_base = from;
    thread->stack.assign(scratch_.begin(), scratch_.begin() + static_cast<ptrdiff_t>(done));
    total_ += done;
  }

  const pid_t pid_;
  const int64_t start_ = MonotonicNs();
  const std::vector<Mapping>& maps_;
  const CaptureOptions& options_;
  const ProcessMemory memory_;
  SelfKiller killer_;
  std::vector<char> scratch_;
  std::vector<pid_t> late_;
  size_t total_ = 0;
  Capture capture_;
};

}  // namespace

Capture CaptureThreads(pid_t pid, const std::vector<Mapping>& maps, const CaptureOptions& options) {
  // The kernel releases a tracer's threads when the tracing thread exits, so none can be forgotten.
  Capture capture;
  std::thread thread([&] { capture = Capturer(pid, maps, options).Run(); });
  thread.join();
  return capture;
}

}  // namespace lockstep
