// Reads stacks of processes as printed by faulthandler, py-spy, gdb (pstack, gstack) and eu-stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace lockstep::logs {

// The stack of a process's main thread.
struct PrintedStack {
  std::vector<std::string> frames;  // innermost first: "forward (model.py:12)", "ncclAllReduce (libnccl.so.2)"
  bool native = false;              // from a debugger
  int32_t rank = -1;                // from the lines' prefixes or the command line
  int32_t local = -1;               // local rank, from the same places; equals the rank if the job has one host
  int64_t pid = 0;
  int64_t line = 0;  // line number of the stack's first line; 0 if the stack does not come from lines
};

// Parses a log line by line. A file may contain the stacks of several processes. They are separated by py-spy's
// "Process 12: ..", eu-stack's "PID 12 - process", gdb's thread numbers, or the rank before each line. If a process has
// several stacks, the last one counts.
class StackReader {
 public:
  // `rank` and `local`: from the line's prefix; -1 if it has none.
  void Take(std::string_view text, int32_t rank, int32_t local, int64_t number);
  std::vector<PrintedStack> Finish();

 private:
  struct Thread {
    std::vector<std::string> frames;
    bool main = false, current = false;
    bool gap = false;  // a frame's number does not follow the previous one
  };
  // A process, or a rank whose lines are mixed with other ranks' lines.
  struct Process {
    PrintedStack stack;
    std::vector<Thread> threads;
    bool in_thread = false;
    int64_t number = 0;  // gdb's number of the last thread; 0 if it printed none
  };

  using Writer = std::pair<int32_t, int32_t>;  // rank, local rank

  Process* Of(const Writer& writer);
  // Parses the first line of a native thread's stack.
  bool TakeNativeThread(std::string_view text, const Writer& writer, int64_t number);
  void Begin(std::string_view command, int64_t pid, const Writer& writer, int64_t number);
  static PrintedStack Whole(Process&& process);

  std::vector<Process> processes_;
  absl::flat_hash_map<Writer, size_t> open_;  // maps the prefix of a line to an index into processes_
};

// `py-spy dump --json`: a list of threads.
absl::StatusOr<PrintedStack> ReadPySpyJson(std::string_view text);
// Returns whether a file begins like such a list.
bool IsPySpyJson(std::string_view head);

// Parses ranks in a command line: "--rank 3" or "--rank=3"; "--local-rank=3"; or "_TP3" in the names of server workers.
void ReadCommand(std::string_view command, PrintedStack* stack);

}  // namespace lockstep::logs
