// Python stacks as faulthandler and py-spy print them.
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
struct PythonStack {
  std::vector<std::string> frames;  // innermost first: "forward (model.py:12)"
  int32_t rank = -1;                // from the lines' prefixes or the command line
  int32_t local = -1;               // local rank, from the same places; equals the rank if the job has one host
  int64_t pid = 0;
  int64_t line = 0;  // line number of the stack's first line in the file; 0 if the stack is not from lines
};

// Takes a log line by line. A file may hold the stacks of several processes, separated by "Process 12: .." of py-spy or
// by the rank before each line. If a process has several stacks, the last one counts.
class StackReader {
 public:
  // `rank` and `local`: from the prefix of the line; -1 if it has none.
  void Take(std::string_view text, int32_t rank, int32_t local, int64_t number);
  std::vector<PythonStack> Finish();

 private:
  struct Thread {
    std::vector<std::string> frames;
    bool main = false, current = false;
  };
  // A process, or a rank whose lines are mixed with those of others.
  struct Process {
    PythonStack stack;
    std::vector<Thread> threads;
    bool in_thread = false;
  };

  using Writer = std::pair<int32_t, int32_t>;  // rank, local rank

  Process* Of(const Writer& writer);
  void Begin(std::string_view command, int64_t pid, const Writer& writer, int64_t number);
  static PythonStack Whole(Process&& process);

  std::vector<Process> processes_;
  absl::flat_hash_map<Writer, size_t> open_;  // maps the prefix of a line to an index into processes_
};

// `py-spy dump --json`: a list of threads.
absl::StatusOr<PythonStack> ReadPySpyJson(std::string_view text);
// Returns whether a file begins like such a list.
bool IsPySpyJson(std::string_view head);

// Ranks in a command line: "--rank 3", "--rank=3"; "--local-rank=3", or "_TP3" in workers' names of servers.
void ReadCommand(std::string_view command, PythonStack* stack);

}  // namespace lockstep::logs
