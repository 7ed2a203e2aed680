// Checks whether recording works: the library, a probe process that calls NCCL under it, the ring it leaves, the real
// NCCL.
#pragma once

#include <string>
#include <vector>

#include "collector/host/environment.h"
#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

struct ProbePlaces {
  std::string program;  // the probe
  std::string library;  // the probe's own NCCL
};
// Looks in ../lib/lockstep/ beside the running program.
ProbePlaces FindProbe();

// Checks the recorder's switches: LOCKSTEP, files named "off", variables that nothing reads.
std::vector<Check> SwitchChecks(const Environment& environment);
// Checks the place of rings: kind of file system, room, owner. `ranks` on this host; 0 if not given, then 8 are
// assumed.
Check SharedMemoryCheck(const Environment& environment, int ranks);
// Preloads the recorder into the probe, linked and opened with dlopen, and reads the rings that it leaves.
std::vector<Check> HookChecks(const Environment& environment, const ProbePlaces& probe);
// Checks the NCCL at `named`, or the first that programs find, with every GPU hidden so that none is used. `recorded`:
// HookChecks found no failure; otherwise a failure here may have the same reason, and is a note.
std::vector<Check> NcclChecks(const Environment& environment, const ProbePlaces& probe, const std::string& named,
                              bool recorded);

// Libraries called libnccl.so* in the places where programs find them, each once, in the order of the search.
std::vector<std::string> FindNccl(const Environment& environment);

}  // namespace lockstep::doctor
