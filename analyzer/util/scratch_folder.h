// A folder for temporary files. The destructor removes it with its contents.
#pragma once

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/system.h"

namespace lockstep {

class ScratchFolder {
 public:
  // PARENT/NAME-XXXXXX
  explicit ScratchFolder(const std::string& name, const std::string& parent = TemporaryFolder())
      : path_(parent + "/" + name + "-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) status_ = FileError("make", path_, errno);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (status_.ok()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  const absl::Status& status() const { return status_; }

 private:
  std::string path_;
  absl::Status status_;
};

}  // namespace lockstep
