// A child process that reads files, because reading a file on a dead server may never return.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "analyzer/util/atomic_file.h"
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

// Writes a piece of output: its head, which has the size in `bytes`, and its text. Returns false if nobody reads it.
template <typename Head>
bool WritePiece(int to, Head head, std::string_view text) {
  head.bytes = text.size();
  return WriteAll(to, {reinterpret_cast<const char*>(&head), sizeof head}, "").ok() && WriteAll(to, text, "").ok();
}

// Calls take(head, text) for each complete piece, until it returns false.
template <typename Head, typename Take>
void ForEachPiece(std::string_view output, const Take& take) {
  while (output.size() >= sizeof(Head)) {
    Head head;
    std::memcpy(&head, output.data(), sizeof head);
    output.remove_prefix(sizeof head);
    if (head.bytes > output.size() || !take(head, std::string(output.substr(0, head.bytes)))) return;
    output.remove_prefix(head.bytes);
  }
}

}  // namespace lockstep
