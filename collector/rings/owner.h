// Determines whether the process that wrote a ring still writes to it. PIDs are reused by other jobs, after a reboot
// and in other containers. PID, start time, boot and PID namespace identify a process; its mapped files show whether it
// has since started another program.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// Returns the inode number of a process's PID namespace; 0 if unknown. `process` is "/proc/PID".
uint64_t PidNamespace(const std::string& process);

enum class RingOwner {
  kLives,
  kGone,      // exited, or from an earlier boot
  kReplaced,  // alive, but runs another program, which does not write this ring
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

// Returns whether a process ("/proc/PID") maps the file; nullopt if its mappings cannot be read.
std::optional<bool> MapsRing(const std::string& process, const RingFile& file);

RingOwnerFacts FindRingOwner(const ring::ProcessInfo& process, const RingFile& file);

}  // namespace lockstep
