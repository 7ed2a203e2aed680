// File systems that may hold ring files. On others the recorder creates no ring, and the agent reads no ring.
#pragma once

#include <stdint.h>

namespace lockstep::ring {

// Returns whether a file system (statfs::f_type) needs no server and overwrites data in place. With a server, access to
// a mapped page may block. With copy-on-write, every write takes new space, so a full disk ends the process with SIGBUS
// although the file's space was reserved.
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
