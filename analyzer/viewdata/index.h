// Finds or creates a viewer's index: load, analyze, write. The index contains every operation of every rank. If the
// incident does not fit into memory, its files are read again, each on its own.
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

// Progress of the work. Other threads may read it, and cancel the work.
struct ViewIndexProgress {
  enum Phase : int { kFinding, kReading, kAnalysing, kWriting };
  std::atomic<int> phase{kFinding};
  std::atomic<int64_t> done{0}, total{0};  // files while reading, operations while writing; total is 0 if unknown
  std::atomic<bool> cancel{false};
};

struct ViewIndex {
  std::string path;
  bool made = false;       // created now; otherwise it already existed and was up to date
  bool temporary = false;  // remove it once it is open, because no folder for indexes is writable
};

struct ViewIndexOptions {
  // Only for a single folder: creates the index in it, or not at all. For collectors of incidents.
  bool beside_only = false;
  // If there are more operations than limits.all, only a part of them is in memory at any time.
  LoadLimits limits;
  // Gets the files' problems after reading. Called on the caller's thread, like the next function.
  std::function<void(const Problem&)> problem;
  // Gets a preliminary index if reading all files is slow. The first ones have the ranks of some files and no verdict;
  // the last has all ranks and facts, and each rank's newest operations. The file is removed when this function
  // returns.
  std::function<void(const std::string& index_path)> partial;
  // If the expected reading time is at least this long, files are shown in parts.
  double partial_from_s = 1;
};

// The index of a single folder is index.lsi in it. For several paths or a read-only folder, it is in
// $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep (0700), under a name derived from the paths. If that fails, it is in
// $TMPDIR (/tmp if unset) or in memory (/dev/shm). Processes may call this for the same paths at once. Errors: those of
// LoadPaths, CANCELLED, and those of the last file system tried.
absl::StatusOr<ViewIndex> EnsureViewIndex(const std::vector<std::string>& paths, ViewIndexProgress* progress,
                                          const ViewIndexOptions& options = {});

}  // namespace lockstep
