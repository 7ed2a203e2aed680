// The entry point for every source: folders and files of any readable kind.
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

// Loads incident folders and files of the formats in registry.h, detected by content. Several paths become one bundle.
// NotFound: a path does not exist. FailedPrecondition: nothing was readable; the message lists what was tried.
// InvalidArgument: the files belong to several jobs and none is chosen; the message lists them. Damage to a part is
// reported in Bundle::problems, and the rest is loaded.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths);

// Progress of a load; other threads may read it.
struct LoadProgress {
  std::atomic<int64_t> files_found{0}, files_read{0};
  std::atomic<int64_t> files_unpacked{0};     // dumps with loaded operations, which is a second step
  const std::atomic<bool>* cancel = nullptr;  // if it becomes true, no further file is read and the result is CANCELLED
  // Called after each file (concurrently, on any thread); both steps of dumps are counted together. May be empty.
  std::function<void(int64_t done, int64_t total)> on_files;
};
// Uses as many threads as cores; the result is the same. If dumps have more operations than limits.all, only a part is
// loaded (analyzer/formats/lsd/window.h); Rank::not_loaded and a note among the problems report it.
absl::StatusOr<Bundle> LoadPaths(const std::vector<std::string>& paths, LoadProgress* progress,
                                 const LoadLimits& limits = {});

}  // namespace lockstep
