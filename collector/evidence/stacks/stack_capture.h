// Captures the unwinder's input for each thread of a process: registers and the used part of its stack. Stops each
// thread for a moment to take them. Unwinding follows while the thread runs again.
#pragma once

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
  std::vector<std::string> kernel;  // the thread's informative kernel frames, innermost first
  // `all_registers` is true if the thread was stopped. Otherwise only the stack pointer and PC are known, from /proc.
  bool have_pc = false, all_registers = false;
  uint64_t registers[kStackRegisters] = {};
  uint64_t pc = 0;
  uint64_t thread_pointer = 0;  // 0 if unknown
  uint64_t stack_base = 0;      // address of stack[0]
  std::vector<char> stack;
  std::string refused;     // why the thread was not stopped, or its registers not read; or empty
  int64_t stopped_ns = 0;  // upper bound for how long the thread was stopped; 0 if it was not
};

struct CaptureOptions {
  bool may_stop = true;
  // No thread is stopped after this time.
  int64_t total_limit_ns = 1'500'000'000;
  // Provides data that the system refuses; may be null.
  const ProcessHelper* helper = nullptr;
  // Called for each thread, while the thread is stopped if possible.
  std::function<void(ThreadCapture*)> while_stopped;
};

struct Capture {
  std::vector<ThreadCapture> threads;  // the main thread first
  size_t total = 0;                    // number of threads
  int error = 0;                       // errno if ptrace was refused for the whole process, otherwise 0
};

// Never touches a thread in uninterruptible sleep or under another debugger; a stopped process stays stopped. Runs on a
// thread of its own. When that thread ends, for whatever reason, the kernel releases all threads that it traces. If a
// thread would stay stopped for too long, the calling process kills itself with SIGKILL.
Capture CaptureThreads(pid_t pid, const std::vector<Mapping>& maps, const CaptureOptions& options);

}  // namespace lockstep
