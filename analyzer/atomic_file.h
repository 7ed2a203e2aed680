// A file that appears under its name whole or not at all.
#ifndef LOCKSTEP_ANALYZER_ATOMIC_FILE_H_
#define LOCKSTEP_ANALYZER_ATOMIC_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace lockstep {

// "cannot WHAT PATH: why", with what to do where the disk is full; the code tells permission and space from the rest.
absl::Status FileError(const std::string& what, const std::string& path, int error);

// Written under a hidden name in the folder of `path`; Commit() syncs and renames. Without it the destructor removes the
// temporary file and an older file of that name is untouched. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Open();
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

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ATOMIC_FILE_H_
