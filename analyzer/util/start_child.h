// Child processes.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// For exec: a pointer to each of `texts`, which must outlive the result, and a terminating null.
std::vector<char*> ExecPointers(const std::vector<std::string>& texts);

// Starts the program at the path argv[0], without a search in PATH, with `environment` (null: this process's). The
// child has its own process group, so Ctrl-C in the terminal does not reach it, and kill(-pid) also ends its children.
// No signal is blocked or ignored in it. `actions` run in it first; the caller keeps them. The caller must wait for the
// child. Thread-safe. Returns the PID, or UNAVAILABLE with the path and the reason.
absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& argv, const posix_spawn_file_actions_t& actions,
                                 const std::vector<std::string>* environment = nullptr);

// Starts a program that serves only this process, in its own process group and with no signal blocked. The program gets
// SIGTERM when the calling thread ends. `output`, if not -1, gets its output and errors, and its input is /dev/null.
// Returns like StartChild, once the program runs. The caller must wait for the program.
absl::StatusOr<pid_t> StartCompanion(const std::vector<std::string>& argv, int output = -1,
                                     const std::vector<std::string>* environment = nullptr);

// Ends the program with SIGTERM, or after `limit_ns` with SIGKILL, and waits for it.
void EndCompanion(pid_t pid, int64_t limit_ns);

enum class ChildStream { kInherit, kDiscard, kKeep };

struct ChildRun {
  std::string input;  // standard input; the program gets all of it even if this process is killed
  ChildStream output = ChildStream::kInherit, errors = ChildStream::kInherit;
  size_t most_output = 1 << 16;                           // limit for each stream; the rest is read and dropped
  const std::vector<std::string>* environment = nullptr;  // "NAME=VALUE" each; null: this process's
  int64_t limit_ns = 0;
};

struct ChildResult {
  std::string output, errors;
  int status = 0;  // as returned by waitpid
  // Returns OK for exit status 0, otherwise "it exited with status 3" or "it was killed by signal 9".
  absl::Status Ended() const;
};

// Runs argv[0] to its end, started as by StartChild. After `limit_ns` kills its process group and returns
// DeadlineExceeded, "it took longer than 5.0 s and was ended". Blocks; thread-safe.
absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& argv, const ChildRun& run);

}  // namespace lockstep
