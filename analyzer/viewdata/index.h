// Finds or creates a viewer's index: load, analyze, write. It contains every operation of every rank, even of incidents
// that do not fit into memory: those are read again, file by file.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_INDEX_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_INDEX_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/formats/format_reader.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Progress; other threads may read it, and cancel.
struct ViewIndexProgress {
  enum Phase : int { kFinding, kReading, kAnalysing, kWriting };
  std::atomic<int> phase{kFinding};
  std::atomic<int64_t> done{0}, total{0};  // files while reading, operations while writing; total 0: not known
  std::atomic<bool> cancel{false};
};

struct ViewIndex {
  std::string path;
  bool made = false;       // created now; otherwise it existed and was up to date
  bool temporary = false;  // remove it once it is open: the folders for indexes are not writable
};

struct ViewIndexOptions {
  // Only for a single folder: the index goes into it, or nowhere. For collectors of incidents.
  bool beside_only = false;
  // If there are more operations than limits.all, memory holds only a part at once.
  LoadLimits limits;
  // Problems of the files, after reading. Called on the caller's thread, like the next.
  std::function<void(const Problem&)> problem;
  // A preliminary index, if the rest takes long: first the ranks of some files, without a verdict, then all ranks and
  // facts with the newest operations of each rank. The file is gone when this returns.
  std::function<void(const std::string& index_path)> partial;
  // Files whose expected reading time is at least this long are shown in parts.
  double partial_from_s = 1;
};

// The index of one folder is index.lsi in it. For several paths, or a read-only folder, it is in
// $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep (0700), under a name made from the paths; failing that in $TMPDIR or
// /tmp, or in memory (/dev/shm). Any number of processes may do this for the same paths at once. Errors: LoadPaths',
// CANCELLED, those of the last file system that was tried.
absl::StatusOr<ViewIndex> EnsureViewIndex(const std::vector<std::string>& paths, ViewIndexProgress* progress,
                                          const ViewIndexOptions& options = {});

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_INDEX_H_
