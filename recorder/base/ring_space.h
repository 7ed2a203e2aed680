// Memory for the ring: a share of the file system, or private memory of the process.
#pragma once

#include <stdint.h>

namespace lockstep::recorder {

// All rings on a file system together take at most a sixteenth of its size, and of the space that would be free without
// them. The rest is for NCCL. Each user whose folders this process cannot read gets an equal part.
struct RingShare {
  uint64_t bytes = 0;   // bytes reserved for this ring; 0: there is no space
  uint64_t budget = 0;  // for all rings that this process can count
  uint64_t others = 0;  // used by the other rings
};

// Reserves space for the empty file `fd` in `job`, the job's folder in `top` (LOCKSTEP_DIR): `wanted` bytes, or the
// largest smaller power of two that fits. `local_ranks` processes share the budget; 0 means unknown. Other processes
// may do the same at the same time. Each announces its size before it counts the others, and reserves nothing before
// all sizes fit. Retries for at most 20 ms.
RingShare ReserveShare(long top, long job, long fd, uint64_t wanted, int32_t local_ranks) noexcept;

// Creates a file of `bytes`, all reserved, that is in no folder and exists as long as any process has it open.
// Returns a descriptor, or -errno. The descriptor stays open so that other processes can find it as
// /proc/PID/fd/NUMBER.
long MakeMemoryFile(const char* name, uint64_t bytes) noexcept;

}  // namespace lockstep::recorder
