// Options of `lockstep collector`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct CollectorOptions {
  explicit CollectorOptions(const settings::ParsedOptions& parsed) : given(parsed) {}

  settings::ParsedOptions given;
  wire::Security security;
  std::vector<std::string> upstream;  // if set, this is a relay, which stores no files and makes no decisions
};

absl::StatusOr<CollectorOptions> MakeCollectorOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
