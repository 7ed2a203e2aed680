// Starts a job under `lockstep run` for a check, disturbs its ranks if wanted, and ends it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::check {

struct JobOptions {
  int ranks = 0;  // 0: the command starts them
  int64_t late_after_ns = 0;
  int64_t end_after_ns = 0;
  bool delays = false;   // stop single ranks for moments, at random, with `seed`
  uint64_t seed = 0;     // of these
  std::string folder;    // for all files of the job; exists
  std::string standins;  // put first in LD_LIBRARY_PATH; empty: nothing
  std::vector<std::string> command;
};

struct JobEnd {
  int status = 0;            // the exit status, as `lockstep run` returns it
  bool by_time = false;      // this check ended the job
  bool interrupted = false;  // by the user
};

// Runs the job once. Forks, so no other thread may run.
absl::StatusOr<JobEnd> RunOnce(const JobOptions& options);

// The incident folder of a job in this folder (missing if nothing was recorded), and the folder of PyTorch's Flight
// Recorder dumps.
std::string RecordsIn(const std::string& folder);
std::string DumpsIn(const std::string& folder);

// The folder of the stand-ins for NCCL and CUDA that belongs to this program; empty if there is none.
std::string StandinFolder();

}  // namespace lockstep::check
