// Loads PyTorch Flight Recorder dumps, pickle or JSON, one file a rank, into a Bundle.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_LOADER_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_LOADER_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Reads `paths` and merges them into an empty bundle. A file that cannot be read, is not a Flight Recorder dump, is
// refused or is damaged becomes an entry of bundle->problems (path, offset, what, what to do); the other files are
// still loaded. The result does not depend on the order of `paths`. The rank is the number that ends the file's name
// (before an extension .json, .pkl or .pickle); files without one are problems.
// `read` is called after each file, on any thread; no further file is read, and the bundle is of no use, when *cancel
// turns true.
void LoadFlightRecorder(const std::vector<std::string>& paths, Bundle* bundle,
                        const std::atomic<bool>* cancel = nullptr, const std::function<void()>& read = nullptr);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_LOADER_H_
