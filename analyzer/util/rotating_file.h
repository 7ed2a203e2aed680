// A log of bounded size: the current file and the previous one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Appends lines to a file. If it exceeds the size limit, the file is moved to PATH.1 (replacing an older one) and
// started again. Not thread-safe.
class RotatingFile {
 public:
  // kAny: also a link, a pipe or a device, which is never moved.
  enum class Kind { kRegular, kAny };

  // The file is created with `mode` if it is missing.
  absl::Status Open(const std::string& path, int64_t most_bytes = 16 << 20, unsigned mode = 0600,
                    Kind kind = Kind::kRegular);
  // Opens the file again after it was renamed from outside; keeps the old one if that fails.
  absl::Status Reopen();
  bool ok() const { return fd_.ok(); }
  // Writes the line and a line feed with one call. A full disk loses only the line; line feeds become spaces.
  absl::Status Append(std::string_view line);

 private:
  std::string path_;
  unsigned mode_ = 0600;
  Kind kind_ = Kind::kRegular;
  UniqueFd fd_;
  bool regular_ = false;
  int64_t size_ = 0, most_bytes_ = 0;
};

}  // namespace lockstep
