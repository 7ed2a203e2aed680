// File systems on which a ring must not be. The recorder creates none there, and the agent reads none there.
#pragma once

#include <stdint.h>

namespace lockstep::ring {

// The name of an unsuitable file system (statfs::f_type), otherwise null. A reader may hang if a server does not
// answer. The process waits if a page of a mapped file must first be fetched or written elsewhere. It ends with
// SIGBUS if a page can no longer be written; reserving space does not prevent that on a file system where every write
// takes new space.
inline const char* UnfitFileSystem(uint32_t type) noexcept {
  switch (type) {
    case 0x6969: return "NFS";
    case 0xfe534d42:
    case 0xff534d42:
    case 0x517b: return "SMB";
    case 0x00c36400: return "Ceph";
    case 0x0bd00bd0: return "Lustre";
    case 0x47504653: return "GPFS";
    case 0x19830326: return "BeeGFS";
    case 0x01021997: return "9p";
    case 0x65735546: return "FUSE";
    case 0x9123683e: return "btrfs";
    case 0x2fc12fc1: return "ZFS";
    case 0xca451a4e: return "bcachefs";
    default: return nullptr;
  }
}

}  // namespace lockstep::ring
