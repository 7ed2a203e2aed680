// File systems on which a ring may be. The recorder creates none elsewhere, and the agent reads none elsewhere.
#pragma once

#include <stdint.h>

namespace lockstep::ring {

// Returns whether a file system (statfs::f_type) needs no server and overwrites data in place. A process waits for a
// server if a page of a mapped file must be fetched or written. If every write takes new space, the process ends with
// SIGBUS when the disk is full, although the file's space was reserved.
inline bool IsFitFileSystem(uint32_t type) noexcept {
  switch (type) {
    case 0x01021994:  // tmpfs
    case 0x858458f6:  // ramfs
    case 0x0000ef53:  // ext2, ext3, ext4
    case 0x58465342:  // XFS
    case 0x794c7630:  // overlayfs: a container's own files
      return true;
    default: return false;
  }
}

}  // namespace lockstep::ring
