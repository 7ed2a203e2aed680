// manifest.json of an incident folder: what the collector knew that the dumps do not say.
#ifndef LOCKSTEP_ANALYZER_LOAD_MANIFEST_H_
#define LOCKSTEP_ANALYZER_LOAD_MANIFEST_H_

#include <cstdint>
#include <string>

namespace lockstep {

struct Manifest {
  std::string job;
  int32_t ranks_expected = 0;  // 0 unknown
  bool known_stalled = false;  // the collector saw that nothing moves
  int64_t stalled_ns = 0;
};

// Adds the file's fields (docs/dump-file.md lists them) to *manifest; of several manifests the larger numbers win.
// Unknown fields are ignored. False with *error set, *manifest unchanged, when the file cannot be used.
bool ReadManifest(const std::string& path, Manifest* manifest, std::string* error);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LOAD_MANIFEST_H_
