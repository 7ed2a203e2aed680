// Loads PyTorch Flight Recorder dumps into a Bundle.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/formats/format_reader.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Reads `paths` (pickle or JSON, plain or in gzip, zip or tar files) and merges them into an empty bundle. Files that
// are unusable, damaged, or of another job or attempt become entries in bundle->problems. The result does not depend on
// the order of `paths`. Each file's rank comes from its name and its pg_config (identity.h). Most of the
// older operations of a dump with more than twice its share of limits.entries are left out (older.h). `read` is called
// after each file, on any thread. Once *cancel (may be null) is true, no further file is read and the bundle is
// incomplete.
void LoadFlightRecorder(const std::vector<std::string>& paths, Bundle* bundle, const LoadLimits& limits = {},
                        const std::atomic<bool>* cancel = nullptr, const std::function<void()>& read = nullptr);

}  // namespace lockstep
