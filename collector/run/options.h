// Options of `lockstep run`.
#ifndef LOCKSTEP_COLLECTOR_RUN_OPTIONS_H_
#define LOCKSTEP_COLLECTOR_RUN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"

namespace lockstep {

struct RunOptions {
  int ranks = 0;          // -n; 0: run the command once, unchanged
  std::string collector;  // endpoint: that collector detects and stores incidents; empty: this process does
  std::string out;        // incident folder; empty: a new name, and only if there is something to write
  bool kill_on_hang = false;
  std::string gpu;        // LOCKSTEP_GPU; empty: the user's, else "watch"
  bool profiler = false;  // LOCKSTEP_GPU=profiler, and the recorder as NCCL's profiler plugin
  int64_t late_after_ns = 5'000'000'000;
  int64_t hang_after_ns = 0;  // 0: not given
  bool quiet = false;
  RedactLevel redact = RedactLevel::kNo;  // applied before anything is written
  std::string group;                      // the group whose members may read incidents, a name or a number; empty: none
  std::string on_verdict;                 // shell command; empty: none
  int64_t on_verdict_ns = 60'000'000'000;
  std::vector<std::string> command;
};

RunOptions MakeRunOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RUN_OPTIONS_H_
