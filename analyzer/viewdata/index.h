// Finds the index a viewer draws from, or makes it: load, analyse, write. Every operation of every rank is in it, also
// of incidents that are too large to be held in memory at once: those are read a second time, file by file.
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

// How far it is; may be read, and cancelled, from other threads.
struct ViewIndexProgress {
  enum Phase : int { kFinding, kReading, kAnalysing, kWriting };
  std::atomic<int> phase{kFinding};
  std::atomic<int64_t> done{0}, total{0};  // files while reading, operations while writing; total 0: not known
  std::atomic<bool> cancel{false};
};

struct ViewIndex {
  std::string path;
  bool made = false;       // now; else it was there and up to date
  bool temporary = false;  // to be removed once it is open: nothing could be written where indexes are kept
};

struct ViewIndexOptions {
  // Only for a single folder: the index goes into it, or nowhere. For collectors of incidents.
  bool beside_only = false;
  // Of more operations than limits.all only a part is held in memory at once.
  LoadLimits limits;
  // What is wrong with the files, once they are read. Called on the caller's thread, as the next.
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
