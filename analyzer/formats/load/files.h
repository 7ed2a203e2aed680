// Finds the files under the user's paths, and detects their formats.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/formats/load/registry.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

struct FoundFile {
  std::string path;
  const FormatReader* format = nullptr;  // detected by content; null if no format claims the file
  bool manifest = false;                 // the manifest of an incident folder, which has no reader
  bool empty = false;
  bool named = false;  // given as a path, not found in a folder
  bool log = false;    // named like a log, so unknown contents are not reported
};

struct FoundFiles {
  std::vector<FoundFile> files;   // sorted by path, each file once
  std::vector<Problem> problems;  // files, folders and links that were not read
};

// Searches folders up to eight levels deep, and enters no folder twice. `paths` may be symbolic links. In folders,
// follows only links from NAME.ring to a ring in a process's memory. Skips Lockstep's own files without data
// (verdict.json, ..), hidden files, README files and .log files that are not text. At more than 2^20 files, adds no
// more and reports a problem. Returns NotFound for a path that does not exist, and Cancelled once *cancel (may be null)
// is true.
absl::Status FindFiles(const std::vector<std::string>& paths, FoundFiles* found,
                       const std::atomic<bool>* cancel = nullptr);

}  // namespace lockstep
