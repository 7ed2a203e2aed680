// Loads PyTorch Flight Recorder dumps, pickle or JSON, into a Bundle.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Reads `paths`, including gzip files and zip archives of dumps, and merges them into an empty bundle. A file that is
// unreadable, not a Flight Recorder dump, refused or damaged becomes an entry in bundle->problems (path, offset,
// problem, what to do). The other files are still loaded. The result does not depend on the order of `paths`. Each
// file's rank comes from its name and its pg_config (identity.h). `read` is called after each file, on any thread. Once
// *cancel is true, no further file is read and the bundle is useless.
void LoadFlightRecorder(const std::vector<std::string>& paths, Bundle* bundle,
                        const std::atomic<bool>* cancel = nullptr, const std::function<void()>& read = nullptr);

}  // namespace lockstep
