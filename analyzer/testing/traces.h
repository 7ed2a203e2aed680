// Recorded Flight Recorder dumps outside the repository, for tests that read real files.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lockstep::testing {

// Returns the folder that LOCKSTEP_TRACES names, or an empty path. Then tests that need the folder skip.
inline std::filesystem::path TracesFolder() {
  const char* folder = std::getenv("LOCKSTEP_TRACES");
  return folder == nullptr ? "" : folder;
}

}  // namespace lockstep::testing
