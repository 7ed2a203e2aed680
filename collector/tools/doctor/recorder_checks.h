// Checks whether recording works: the library, a probe process that calls NCCL under it, the ring that it leaves, the
// real NCCL.
#pragma once

#include <string>
#include <vector>

#include "collector/host/environment.h"
#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

struct ProbePlaces {
  std::string program;  // the probe
  std::string library;  // the NCCL library that the probe loads
};
// Looks in ../lib/lockstep/ next to the running program.
ProbePlaces FindProbe();

// Checks the recorder's switches: LOCKSTEP, files named "off", unknown variables.
std::vector<Check> SwitchChecks(const Environment& environment);
// Checks the folder for rings: file system, free space, owner. `ranks` is the number on this host; 0 assumes 8.
Check SharedMemoryCheck(const Environment& environment, int ranks);
// Preloads the recorder into the probe, linked and opened with dlopen, and reads the resulting rings.
std::vector<Check> HookChecks(const Environment& environment, const ProbePlaces& probe);
// Checks the NCCL at `named`, or the first ones that programs find, with every GPU hidden. `recorded` is true if
// HookChecks found no failure; otherwise a failure here may have the same reason, and is only a note.
std::vector<Check> NcclChecks(const Environment& environment, const ProbePlaces& probe, const std::string& named,
                              bool recorded);

// Returns the libraries called libnccl.so* where programs find them, each once, in search order.
std::vector<std::string> FindNccl(const Environment& environment);

}  // namespace lockstep::doctor
