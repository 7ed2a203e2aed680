// A log of limited size: the current file and the previous one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Appends lines to a file. If the file exceeds the size limit, it is renamed to PATH.1 (replacing an older one), and
// a new one begins. If PATH is a symbolic link, this happens to its target. Not thread-safe.
class RotatingFile {
 public:
  // kAny: also a symbolic link, a pipe or a device. Pipes and devices are never renamed.
  enum class Kind { kRegular, kAny };

  // Opens the file for appending; creates it with `mode` if it is missing.
  absl::Status Open(const std::string& path, int64_t most_bytes = 16 << 20, unsigned mode = 0600,
                    Kind kind = Kind::kRegular);
  // Reopens the file after someone else renamed it; keeps the old one if that fails.
  absl::Status Reopen();
  bool ok() const { return fd_.ok(); }
  // Writes the line and a line feed with one call. On a full disk only this line is lost. Line feeds in it become
  // spaces.
  absl::Status Append(std::string_view line);

 private:
  absl::Status OpenAt(const std::string& path);

  std::string path_, real_path_;
  unsigned mode_ = 0600;
  Kind kind_ = Kind::kRegular;
  UniqueFd fd_;
  bool regular_ = false;
  int64_t size_ = 0, most_bytes_ = 0;
};

}  // namespace lockstep
