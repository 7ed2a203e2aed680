// Recorded Flight Recorder dumps outside the repository, for tests that read real files.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lockstep::testing {

// Returns the folder that LOCKSTEP_TRACES names, or an empty path; tests that need the folder are then skipped.
inline std::filesystem::path TracesFolder() {
  const char* folder = std::getenv("LOCKSTEP_TRACES");
  return folder == nullptr ? "" : folder;
}

}  // namespace lockstep::testing
