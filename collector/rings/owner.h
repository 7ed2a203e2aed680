// Whether the process that wrote a ring still writes it. Process numbers are reused by other jobs, after a reboot and
// in other containers. Pid, start time, boot and pid namespace identify a process; the mapping reveals one that has
// since become another program.
#ifndef LOCKSTEP_COLLECTOR_RINGS_OWNER_H_
#define LOCKSTEP_COLLECTOR_RINGS_OWNER_H_

#include <sys/types.h>

#include <string>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// The inode number of a process's pid namespace; 0: unknown. `process`: "/proc/PID".
uint64_t PidNamespace(const std::string& process);

enum class RingOwner {
  kLives,
  kGone,      // ended, or of an earlier boot
  kReplaced,  // alive, but running another program that does not write this ring
  kUnknown,   // in a container that cannot be examined from here, or access is refused
};

struct RingOwnerFacts {
  RingOwner owner = RingOwner::kUnknown;
  std::string text;  // "pid 4711 is gone"
};

struct RingFile {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;  // without its folder
};
RingOwnerFacts FindRingOwner(const ring::ProcessInfo& process, const RingFile& file);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_OWNER_H_
