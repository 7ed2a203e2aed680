// A file that appears under its name whole or not at all.
#ifndef LOCKSTEP_ANALYZER_UTIL_ATOMIC_FILE_H_
#define LOCKSTEP_ANALYZER_UTIL_ATOMIC_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

// "cannot WHAT PATH: why", with what to do where the disk is full; the code tells permission and space from the rest.
absl::Status FileError(const std::string& what, const std::string& path, int error);

// Written under a hidden name in the folder of `path`; Commit() syncs and renames. Without it the destructor removes
// the temporary file and an older file of that name is untouched. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Mode 0600, whatever the umask says.
  absl::Status Open();
  absl::Status SetMode(unsigned mode);
  // Bytes from `offset`; a gap that is never written reads as zeros.
  absl::Status WriteAt(uint64_t offset, const void* data, size_t bytes);
  absl::Status SetSize(uint64_t bytes);
  absl::Status Commit();

 private:
  const std::string path_;
  std::string temporary_;
  int fd_ = -1;
  bool exists_ = false;
};

// A whole file of that content, with this mode whatever the umask says. On error the message names the file.
absl::Status WriteFileSafely(const std::string& path, std::string_view content, unsigned mode = 0600);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_ATOMIC_FILE_H_
