// Where no ring may lie. Shared by the recorder, which makes none there, and the agent, which reads none there.
#ifndef LOCKSTEP_RECORDER_RING_FILE_SYSTEMS_H_
#define LOCKSTEP_RECORDER_RING_FILE_SYSTEMS_H_

#include <stdint.h>

namespace lockstep::ring {

// The name of a file system (statfs::f_type) that is unfit, else null. A server may hold whoever reads there. A page of
// a mapped file that must be brought or written elsewhere first makes the host wait. One that can no longer be written
// ends it (SIGBUS), which reserved space does not prevent where every write takes new space.
inline const char* UnfitFileSystem(uint32_t type) noexcept {
  switch (type) {
    case 0x6969:
      return "NFS";
    case 0xfe534d42:
    case 0xff534d42:
    case 0x517b:
      return "SMB";
    case 0x00c36400:
      return "Ceph";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x01021997:
      return "9p";
    case 0x65735546:
      return "FUSE";
    case 0x9123683e:
      return "btrfs";
    case 0x2fc12fc1:
      return "ZFS";
    case 0xca451a4e:
      return "bcachefs";
    default:
      return nullptr;
  }
}

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_FILE_SYSTEMS_H_
