// Lists and creates folders.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// All names except "." and "..", sorted, at most `limit`. Empty with errno set if the folder cannot be read.
std::vector<std::string> NamesIn(const std::string& folder, size_t limit = 1 << 20);
// Lists an open folder in the same way; the caller keeps it.
std::vector<std::string> NamesIn(int folder, size_t limit = 1 << 20);

// The numeric names in ascending order: processes in "/proc", threads in "/proc/PID/task", descriptors in
// "/proc/PID/fd".
std::vector<int> NumbersIn(const std::string& folder);

// Creates the folder with mode 0700, and missing parent folders with mode 0755. Existing folders stay unchanged.
absl::Status MakeFolder(const std::string& folder);

// Makes new names in the folder durable. Some network file systems do not support this, which is not an error.
absl::Status SyncFolder(const std::string& folder);

}  // namespace lockstep
