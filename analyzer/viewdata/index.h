// Finds or creates a viewer's index: load, analyze, write. It contains every operation of every rank, even of incidents
// that do not fit into memory; their files are read again one by one.
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
  bool made = false;       // created now; otherwise it existed and was up to date
  bool temporary = false;  // remove it once it is open, because the folders for indexes are not writable
};

struct ViewIndexOptions {
  // Only for a single folder: the index is created in it, or not at all. For collectors of incidents.
  bool beside_only = false;
  // If there are more operations than limits.all, only a part is in memory at any time.
  LoadLimits limits;
  // Problems of the files, after reading. Called on the caller's thread, like the next function.
  std::function<void(const Problem&)> problem;
  // A preliminary index, if the rest takes long: first the ranks of some files, without a verdict; then all ranks and
  // facts with the newest operations of each rank. The file is removed when this function returns.
  std::function<void(const std::string& index_path)> partial;
  // If the expected reading time is at least this long, files are shown in parts.
  double partial_from_s = 1;
};

// The index of one folder is index.lsi in it. For several paths, or a read-only folder, it is in
// $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep (0700), under a name derived from the paths; failing that in $TMPDIR or
// /tmp, or in memory (/dev/shm). Any number of processes may do this for the same paths at once. Errors: those of
// LoadPaths, CANCELLED, and those of the last file system that was tried.
absl::StatusOr<ViewIndex> EnsureViewIndex(const std::vector<std::string>& paths, ViewIndexProgress* progress,
                                          const ViewIndexOptions& options = {});

}  // namespace lockstep
