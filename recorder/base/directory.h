// Lists a folder with the system call, because libc's opendir allocates.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "recorder/base/sys.h"

namespace lockstep::recorder {

struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;  // DT_...; 0 if unknown
  char name[];
};

// One pass over the open folder `fd` from its start. The caller supplies the buffer, aligned to 8 bytes.
class Directory {
 public:
  Directory(long fd, char* buffer, long bytes) noexcept : fd_(fd), buffer_(buffer), bytes_(bytes) {
    Sys(SYS_lseek, fd, 0L, 0L /* SEEK_SET */);
  }
  // Returns null at the end. The entry is valid until the next call.
  const DirectoryEntry* Next() noexcept {
    if (at_ >= got_) {
      at_ = 0;
      got_ = Sys(SYS_getdents64, fd_, buffer_, bytes_);
      if (got_ <= 0) return nullptr;
    }
    const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer_ + at_);
    at_ += entry->bytes;
    return entry->bytes == 0 ? nullptr : entry;
  }

 private:
  const long fd_;
  char* const buffer_;
  const long bytes_;
  long at_ = 0, got_ = 0;
};

}  // namespace lockstep::recorder
