// Reads manifest.json of an incident folder: facts from the collector that the dumps do not contain.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Manifest {
  std::string job;
  int32_t ranks_expected = 0;  // 0 if unknown
  bool known_stalled = false;  // the collector found that no rank makes progress
  int64_t stalled_ns = 0;
};

// Adds the file's fields (docs/dump-file.md lists them) to *manifest. With several manifests, the larger numbers and
// the first job win. Ignores unknown fields. If the file is unusable, returns false, sets *error and leaves *manifest
// unchanged.
bool ReadManifest(const std::string& path, Manifest* manifest, std::string* error);

}  // namespace lockstep
