// Options of `lockstep collector`.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_OPTIONS_H_
#define LOCKSTEP_COLLECTOR_SERVICE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct CollectorOptions {
  std::vector<std::string> listen;    // endpoints; none: a socket in the runtime folder
  std::vector<std::string> upstream;  // a relay then, which keeps and decides nothing
  wire::Security security;
  std::string out = ".";
  std::string metrics;     // "ADDRESS:PORT"; empty: none
  std::string archive;     // URL; the environment's LOCKSTEP_ARCHIVE is set to it
  std::string on_verdict;  // command for the shell; empty: none
  int64_t on_verdict_ns = 60'000'000'000;
  int64_t late_after_ns = 5'000'000'000;
  int64_t hang_after_ns = 0;  // 0: a root that works is never hung
  int64_t silent_after_ns = 5'000'000'000;
  uint64_t quota = uint64_t{1} << 40;
  uint64_t host_quota = uint64_t{4} << 30;
  std::string group;                        // whose members may read the incidents; empty: the owner alone
  int64_t keep_s = 7 * 86400;               // incidents; 0: however old
  uint64_t keep_bytes = uint64_t{5} << 30;  // 0: however large
  std::string finalise;                     // this process only finishes an incident's folder
  std::string index;                        // this process only makes the index of an incident's folder
};

absl::StatusOr<CollectorOptions> MakeCollectorOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_OPTIONS_H_
