// The entry point for all sources: folders and files in any readable format.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/formats/format_reader.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Loads incident folders and files of the formats in registry.cpp, detected by content, into one bundle. Returns
// NotFound if a path does not exist, and FailedPrecondition if nothing is readable; the message lists what was tried.
// Returns InvalidArgument if the files belong to several jobs and neither LoadLimits::job nor a manifest chooses one,
// or if no file belongs to LoadLimits::job; the message lists the jobs. Damaged parts become entries in
// Bundle::problems.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths);

// Progress of a load, which other threads may read.
struct LoadProgress {
  std::atomic<int64_t> files_found{0}, files_read{0};
  std::atomic<int64_t> files_unpacked{0};     // Lockstep dumps that were read a second time, for their operations
  const std::atomic<bool>* cancel = nullptr;  // once it is true, no further file is read and the result is Cancelled
  // Called after each file, concurrently on any thread. A dump that is read twice counts twice. May be empty.
  std::function<void(int64_t done, int64_t total)> on_files;
};
// `progress` may be null. Uses as many threads as there are cores; the result does not depend on their number. If dumps
// have more operations than limits.all, only a part is loaded (analyzer/formats/lsd/window.h); Rank::not_loaded and a
// note among the problems report it.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths, LoadProgress* progress,
                                 const LoadLimits& limits = {});

}  // namespace lockstep
