// manifest.json of an incident folder: the collector's facts that the dumps do not contain.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Manifest {
  std::string job;
  int32_t ranks_expected = 0;  // 0 if unknown
  bool known_stalled = false;  // the collector found that nothing moves
  int64_t stalled_ns = 0;
};

// Adds the file's fields (docs/dump-file.md lists them) to *manifest. If there are several manifests, the larger
// numbers win. Ignores unknown fields. Returns false with *error set and *manifest unchanged if the file is unusable.
bool ReadManifest(const std::string& path, Manifest* manifest, std::string* error);

}  // namespace lockstep
