// Options of `lockstep collector`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct CollectorOptions {
  std::vector<std::string> listen;    // endpoints; empty for a socket in the runtime folder
  std::vector<std::string> upstream;  // if set, this is a relay, which stores no files and makes no decisions
  wire::Security security;
  std::string out = ".";
  std::string metrics;     // "ADDRESS:PORT"; empty if there is none
  std::string archive;     // URL; the environment's LOCKSTEP_ARCHIVE is set to it
  std::string on_verdict;  // shell command; empty if there is none
  int64_t on_verdict_ns = 60'000'000'000;
  int64_t late_after_ns = 5'000'000'000;
  int64_t hang_after_ns = 0;  // 0: a working root never counts as hung
  int64_t silent_after_ns = 5'000'000'000;
  uint64_t quota = uint64_t{1} << 40;
  uint64_t host_quota = uint64_t{4} << 30;
  std::string group;                        // group whose members may read the incidents; empty: only the owner may
  int64_t keep_s = 7 * 86400;               // maximum age of incidents; 0 for no limit
  uint64_t keep_bytes = uint64_t{5} << 30;  // maximum size; 0 for no limit
  std::string finalise;                     // this process only completes an incident's folder
  std::string index;                        // this process only creates the index of an incident's folder
};

absl::StatusOr<CollectorOptions> MakeCollectorOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
