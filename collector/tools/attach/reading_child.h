// A child process that reads files: reading a file on a dead server may never return.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "analyzer/util/unique_fd.h"

namespace lockstep {

class ReadingChild {
 public:
  // Forks, so there must be only one thread. `work` runs in the child and writes to the given descriptor.
  explicit ReadingChild(const std::function<void(int to)>& work);
  // Kills the child. Abandons a child that cannot be killed.
  ~ReadingChild();

  // Returns the child's output until it ends, until `deadline_ns` (MonotonicNs), or up to `most` bytes.
  std::string Take(int64_t deadline_ns, size_t most);

 private:
  UniqueFd from_;
  pid_t pid_ = -1;
};

}  // namespace lockstep
