// Recorded Flight Recorder dumps outside of the repository, for tests that read real files.
#ifndef LOCKSTEP_ANALYZER_TESTING_TRACES_H_
#define LOCKSTEP_ANALYZER_TESTING_TRACES_H_

#include <cstdlib>
#include <filesystem>

namespace lockstep::testing {

// The folder that LOCKSTEP_TRACES names; empty: it is not set, and tests that need it skip.
inline std::filesystem::path TracesFolder() {
  const char* folder = std::getenv("LOCKSTEP_TRACES");
  return folder == nullptr ? "" : folder;
}

}  // namespace lockstep::testing

#endif  // LOCKSTEP_ANALYZER_TESTING_TRACES_H_
