// A file that appears whole or not at all: written under a temporary name beside it, then renamed. What is no regular
// file (a pipe, /dev/full) is written as it is.
#ifndef LOCKSTEP_ANALYZER_UTIL_OUTPUT_FILE_H_
#define LOCKSTEP_ANALYZER_UTIL_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

class OutputFile {
 public:
  // `tag` is part of the temporary name: ".lockstep-TAG.XXXXXX".
  OutputFile(std::string path, std::string_view tag);
  // Writes to a descriptor that is open already, and leaves it open. `name` is for messages.
  OutputFile(int fd, std::string name);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Without a Commit that succeeded nothing is left behind.
  ~OutputFile();

  // The first call opens the file. After an error every later call returns the same error. Buffers up to 1 MiB.
  absl::Status Append(std::string_view bytes);
  // Everything on disk, then under its own name.
  absl::Status Commit();
  // The name that a signal handler has to unlink; empty: none.
  const std::string& temporary() const { return temporary_; }

 private:
  absl::Status Open();
  absl::Status Flush();
  absl::Status Fail(int error);

  const std::string path_, tag_;
  std::string temporary_, buffer_;
  int fd_ = -1;
  bool opened_ = false, borrowed_ = false;
  absl::Status status_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_OUTPUT_FILE_H_
