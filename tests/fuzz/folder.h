// A folder for a fuzzer's files, removed at exit. In memory if possible.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "analyzer/util/scratch_folder.h"

namespace lockstep {

inline const std::string& FuzzFolder() {
  static const ScratchFolder folder("lockstep-fuzz", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!folder.status().ok()) std::abort();
  return folder.path();
}

}  // namespace lockstep
