// The unwinder's input for each thread of a process - registers and the used part of its stack - taken while the thread
// is stopped for a moment. Unwinding comes later, while it runs again.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_CAPTURE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_CAPTURE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/evidence/stacks/proc_maps.h"

namespace lockstep {

class ProcessHelper;

// DWARF numbers of the stored registers.
#if defined(__aarch64__)
constexpr int kStackRegisters = 32, kStackPointerRegister = 31;
#else
constexpr int kStackRegisters = 17, kStackPointerRegister = 7;
#endif

struct ThreadCapture {
  pid_t tid = 0, inner_tid = 0;
  std::string name, state, wchan;
  std::vector<std::string> kernel;  // its informative frames in the kernel, innermost first
  // `all_registers`: taken while it was stopped; otherwise only the stack pointer and pc, from /proc.
  bool have_pc = false, all_registers = false;
  uint64_t registers[kStackRegisters] = {};
  uint64_t pc = 0;
  uint64_t thread_pointer = 0;  // 0: not known
  uint64_t stack_base = 0;      // address of stack[0]
  std::vector<char> stack;
  std::string refused;     // why it was not stopped; empty: it was
  int64_t stopped_ns = 0;  // upper limit of the time it was stopped; 0: it was not stopped
};

struct CaptureOptions {
  bool may_stop = true;
  size_t most_threads = 2048;
  size_t most_stack = 1 << 20;    // of one thread
  size_t most_total = 192 << 20;  // of all
  // Releases a thread that has not stopped by then (it runs on until it does).
  int64_t halt_limit_ns = 100'000'000;
  // No thread is stopped after this time.
  int64_t total_limit_ns = 1'500'000'000;
  // Bytes that are not copied by then are left out.
  int64_t copy_limit_ns = 15'000'000;
  // The calling process kills itself, which releases all threads, if a thread is stopped for longer than this; 0:
  // never.
  int64_t kill_self_after_ns = 0;
  // Asked for data that the system refuses; may be null.
  const ProcessHelper* helper = nullptr;
  // Called for each thread, during its stop if it stops.
  std::function<void(ThreadCapture*)> while_stopped;
};

struct Capture {
  std::vector<ThreadCapture> threads;  // the main thread first
  size_t total = 0;                    // number of threads
  int error = 0;                       // errno of ptrace if it was refused for the whole process; 0: it was not
};

// Never touches a thread in uninterruptible sleep, or of another debugger; a stopped process stays stopped. However the
// caller ends, the kernel releases all threads. Uses its own thread for that.
Capture CaptureThreads(pid_t pid, const std::vector<Mapping>& maps, const CaptureOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_STACK_CAPTURE_H_
