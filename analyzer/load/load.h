// The entry for every source: folders and files of any readable kind.
#ifndef LOCKSTEP_ANALYZER_LOAD_LOAD_H_
#define LOCKSTEP_ANALYZER_LOAD_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/formats/format_reader.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Loads incident folders and files of the formats in registry.h, detected by content. Several paths are one bundle.
// Errors: NotFound for a path that does not exist, FailedPrecondition if nothing was readable (message: what was
// tried), InvalidArgument for files of several jobs with none chosen (message: the jobs). Damage to a part goes to
// Bundle::problems and the rest is loaded.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths);

// Progress of a load; other threads may read it.
struct LoadProgress {
  std::atomic<int64_t> files_found{0}, files_read{0};
  std::atomic<int64_t> files_unpacked{0};     // dumps with loaded operations, a second step
  const std::atomic<bool>* cancel = nullptr;  // if it becomes true, no further file is read: the result is CANCELLED
  // Called after each file (concurrently, on any thread), with both steps of dumps together; may be empty.
  std::function<void(int64_t done, int64_t total)> on_files;
};
// Uses as many threads as cores; the result is the same. If dumps have more operations than limits.all, only a part is
// loaded (analyzer/formats/lsd/window.h); Rank::not_loaded and a note among the problems report it.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths, LoadProgress* progress,
                                 const LoadLimits& limits = {});

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LOAD_LOAD_H_
