// Does recording work here: the library, a probe process that calls NCCL under it, the ring it leaves, the real NCCL.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_RECORDER_CHECKS_H_
#define LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_RECORDER_CHECKS_H_

#include <string>
#include <vector>

#include "collector/host/environment.h"
#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

struct ProbePlaces {
  std::string program;  // the probe
  std::string library;  // its own NCCL
};
// ../lib/lockstep/ beside the running program.
ProbePlaces FindProbe();

// What the recorder's switches say: LOCKSTEP, files named "off", variables that nothing reads.
std::vector<Check> SwitchChecks(const Environment& environment);
// The place of rings: kind of file system, room, owner. `ranks` on this host; 0: not given, 8 are assumed.
Check SharedMemoryCheck(const Environment& environment, int ranks);
// Preloads the recorder into the probe, linked and opened by hand, and reads the rings that it leaves.
std::vector<Check> HookChecks(const Environment& environment, const ProbePlaces& probe);
// The NCCL that `named` is, or the first found where programs look; with every GPU hidden, so that none is touched.
// `recorded`: HookChecks found nothing bad; otherwise what fails here need not be this library's fault, and is a note.
std::vector<Check> NcclChecks(const Environment& environment, const ProbePlaces& probe, const std::string& named,
                              bool recorded);

// Libraries called libnccl.so* in the places where programs find them, each once, in the order in which they look.
std::vector<std::string> FindNccl(const Environment& environment);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_RECORDER_CHECKS_H_
