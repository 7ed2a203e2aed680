// Reads the messages of a .lsd file in order and checks their checksums.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

// Reads ahead and tracks the file offset. One object can read several files, one after the other.
class LsdInput {
 public:
  void Start(int fd);
  // Returns the next `size` bytes, or fewer at the end of the file; valid until the next call.
  absl::Status Peek(size_t size, std::string_view* bytes);
  // Skips bytes that Peek has returned.
  void Skip(size_t size) {
    begin_ += size;
    offset_ += size;
  }
  uint64_t offset() const { return offset_; }

 private:
  int fd_ = -1;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;  // offset of buffer_[begin_] in the file
};

struct LsdMessage {
  enum class Kind { kIntact, kDamaged, kStop } kind = Kind::kStop;
  uint64_t start = 0;      // offset of the message's length
  uint64_t offset = 0;     // offset of the message itself
  std::string_view bytes;  // for kIntact: the message without its checksum; valid until the next call
  std::string text;        // otherwise: the problem
};

// Reads the next message. After kStop (end of file, read error or invalid length), no later message can be found.
LsdMessage NextLsdMessage(LsdInput* input);

}  // namespace lockstep
