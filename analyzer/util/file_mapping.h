// A mapped file that others may truncate or change at any time.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

struct MappedRange;

// Immutable and thread-safe. Missing bytes read as zeros, whereas a plain mapping would end the process with SIGBUS.
// For this purpose, the first Open() installs the process's SIGBUS handler.
class FileMapping {
 public:
  // Maps a regular file. Errors: InvalidArgument for other types, DataLoss for an empty file, or those of FileError.
  static absl::StatusOr<std::unique_ptr<FileMapping>> Open(UniqueFd fd, const std::string& path);
  ~FileMapping();

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  // Copies bytes with pread, for parts that another process may change. Returns false if the file is too short or
  // unreadable.
  bool Read(size_t offset, size_t bytes, char* out) const;
  // Returns DataLoss if the file was changed or truncated after Open(), or could not be read.
  absl::Status Unchanged() const;

 private:
  FileMapping() = default;

  UniqueFd fd_;
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
  timespec changed_ = {};
  MappedRange* range_ = nullptr;
};

}  // namespace lockstep
