// Starts a job under `lockstep run` for a check, delays its ranks if requested, and ends it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"

namespace lockstep::check {

struct JobOptions {
  int ranks = 0;  // 0: the command starts the ranks itself
  int64_t late_after_ns = 0;
  int64_t end_after_ns = 0;
  bool delays = false;   // stop random ranks, one at a time, for a moment each
  uint64_t seed = 0;     // for the delays
  std::string folder;    // for all files of the job; exists
  std::string standins;  // prepended to LD_LIBRARY_PATH; empty if there is none
  std::vector<std::string> command;
};

struct JobEnd {
  int status = 0;                      // the exit status, as `lockstep run` returns it
  int64_t cut_ns = 0;                  // wall clock time when this check ended the job at the time limit; 0: it did not
  std::map<int32_t, Process> running;  // what the ranks' processes did just before that time
  std::string killed;                  // "rank 2 was killed by signal 9 (Killed)", if it was the first that failed
  bool interrupted = false;            // the user ended the job
};

// Runs the job once. Forks, so no other thread may run.
absl::StatusOr<JobEnd> RunOnce(const JobOptions& options);

// Returns the incident folder of a job in this folder (missing if nothing was recorded), and the folder of PyTorch's
// Flight Recorder dumps, and of the ranks' Python stacks at the end.
std::string RecordsIn(const std::string& folder);
std::string DumpsIn(const std::string& folder);
std::string StacksIn(const std::string& folder);

// Returns this program's folder of NCCL and CUDA stand-ins; empty if there is none.
std::string StandinFolder();

}  // namespace lockstep::check
