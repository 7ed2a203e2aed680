// Options of `lockstep run`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"

namespace lockstep {

struct RunOptions {
  int ranks = 0;  // -n; 0 to run the command once, unchanged
  std::string
      collector;    // endpoint of the collector that detects hangs and stores incidents; empty if this process does
  std::string out;  // incident folder; empty: a new name is used, and only for an incident
  bool kill_on_hang = false;
  std::string gpu;        // LOCKSTEP_GPU; empty: the variable's value, or "watch" if it is unset
  bool profiler = false;  // LOCKSTEP_GPU=profiler, and the recorder as NCCL's profiler plugin
  int64_t late_after_ns = 5'000'000'000;
  int64_t hang_after_ns = 0;  // 0 if not given
  bool quiet = false;
  // Folder for records that the job's own framework writes. If there are any, a job without rings is not reported.
  std::string dumps;
  bool tell = true;                       // print the verdict and the incident's folder
  RedactLevel redact = RedactLevel::kNo;  // redaction of everything that is written
  // Name or number of the group that may read incidents; empty if there is none.
  std::string group;
  std::string on_verdict;  // shell command; empty if there is none
  int64_t on_verdict_ns = 60'000'000'000;
  std::vector<std::string> command;
};

RunOptions MakeRunOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
