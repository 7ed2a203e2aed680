// A file that appears under its name either completely or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Returns "cannot WHAT PATH: why", with advice if the disk is full. The code is PermissionDenied, ResourceExhausted
// (disk or quota full) or Internal.
absl::Status FileError(const std::string& what, const std::string& path, int error);

// Writes all bytes at `offset`, or at the current position if it is -1.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path, int64_t offset = -1);

// The prefix of temporary files. A killed process may leave one, which the folder's owner may remove.
inline constexpr std::string_view kUnfinishedPrefix = ".lockstep.";

// Writes to a temporary file in the folder of `path`; Commit() syncs and renames it. Without Commit, the destructor
// removes it, and an existing file at `path` stays unchanged. After an error in any call but SetMode, later calls
// return that error. Not thread-safe.
class AtomicFile {
 public:
  // The temporary name is `prefix` and six characters.
  explicit AtomicFile(const std::string& path, std::string_view prefix = kUnfinishedPrefix);
  // For paths from a user: a regular file is written as above, with permissions from the umask. Anything else (a
  // pipe, /dev/full) is written directly. "-" is standard output, which stays open.
  static AtomicFile Output(const std::string& path, std::string_view prefix);
  ~AtomicFile();

  // Creates the temporary file with mode 0600. Append and Commit call it if needed; SetMode, WriteAt and SetSize do
  // not.
  absl::Status Open();
  absl::Status SetMode(unsigned mode);
  // Appends; buffers up to 1 MiB.
  absl::Status Append(std::string_view bytes);
  // Writes at `offset`; gaps read as zeros. Do not combine it with Append.
  absl::Status WriteAt(uint64_t offset, const void* data, size_t bytes);
  absl::Status SetSize(uint64_t bytes);
  absl::Status Commit();
  // The temporary file's name, which a signal handler can unlink; empty if there is none.
  std::string temporary() const { return exists_ ? temporary_ : ""; }

 private:
  AtomicFile(const std::string& path, std::string_view prefix, bool output);
  absl::Status Flush();
  absl::Status Fail(const std::string& what, int error);

  const std::string path_;
  const bool output_;
  std::string temporary_, buffer_;
  UniqueFd fd_;
  bool exists_ = false;
  absl::Status status_;
};

// Replaces the whole file with this content and this mode, regardless of the umask. Errors name the file.
absl::Status WriteFileSafely(const std::string& path, std::string_view content, unsigned mode = 0600);

}  // namespace lockstep
