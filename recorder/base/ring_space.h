// Memory for the ring: a share of the file system, or else memory of the process alone.
#ifndef LOCKSTEP_RECORDER_BASE_RING_SPACE_H_
#define LOCKSTEP_RECORDER_BASE_RING_SPACE_H_

#include <stdint.h>

namespace lockstep::recorder {

// All rings of a file system together take at most a sixteenth of its size, and of the space that is free without them:
// the rest is NCCL's.
struct RingShare {
  uint64_t bytes = 0;   // of this ring, reserved; 0: there is no room, and nothing is reserved
  uint64_t budget = 0;  // of all rings
  uint64_t others = 0;  // used by the other rings
};

// Reserves space for the empty file `fd` in `job`, the job's folder in `top` (LOCKSTEP_DIR): `wanted` bytes, or the
// largest smaller power of two that fits. `local_ranks` share the budget; 0: unknown. Other processes may do the same
// at the same moment: each announces its size before it counts, and takes no space before all sizes fit. Waits for no
// other process; tries for at most 20 ms.
RingShare ReserveShare(long top, long job, long fd, uint64_t wanted, int32_t local_ranks) noexcept;

// Creates a file of `bytes`, all reserved, that is in no folder and lasts as long as somebody has it open. Returns a
// descriptor, which stays open so that others find it as /proc/PID/fd/NUMBER, or -errno.
long MakeMemoryFile(const char* name, uint64_t bytes) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_RING_SPACE_H_
