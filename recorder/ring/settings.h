// Names of the recorder's settings, in the environment and in the section [recorder] of a configuration file. The
// recorder shares them with the programs that check or describe such a file.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lockstep::ring {

inline constexpr char kConfigFile[] = "/etc/lockstep.conf";
inline constexpr char kConfigVariable[] = "LOCKSTEP_CONFIG";  // names a second file, which is read after the first
inline constexpr size_t kMostConfigBytes = 32 << 10;          // a larger file is refused
inline constexpr size_t kMostFolderPath = 319;                // maximum length of LOCKSTEP_DIR
inline constexpr size_t kMostConfigLine = 512;                // without the line end

// How GPU progress is recorded. kProfiler: no markers; NCCL's profiler interface reports when kernels ran.
enum class GpuMarks : uint32_t { kOff = 0, kDone = 1, kFull = 2, kEvents = 3, kProfiler = 4 };

struct RecorderSetting {
  const char* variable;
  const char* key;
  const char* kind;      // the choices, such as "on|off", otherwise a word that describes the value
  const char* fallback;  // the default, for people to read
  const char* meaning;
};

// docs/options.md is generated from this table.
inline constexpr RecorderSetting kRecorderSettings[] = {
    {"LOCKSTEP", "record", "on|off", "on", "off: record nothing in this process and its children"},
    {"LOCKSTEP_HOOK", "hook", "dlsym|symbols|off", "dlsym",
     "symbols: record only linked calls; dlsym: also functions that the program looks up; off: only forward calls"},
    {"LOCKSTEP_DIR", "dir", "FOLDER", "/dev/shm/lockstep-UID",
     "folder for the ring files, created with mode 0700 (with a group, 0750)"},
    {"LOCKSTEP_GROUP", "group", "GROUP", "",
     "a group (name or number) whose members may read the rings; the process must belong to a member or to root"},
    {"LOCKSTEP_JOB", "job", "NAME", "the launcher's", "name of the job"},
    {"LOCKSTEP_RESTART", "restart", "NUMBER", "the launcher's, else 0", "restart count"},
    {"LOCKSTEP_STEP", "step", "NAME", "the launcher's", "job step"},
    {"LOCKSTEP_HOST", "host", "NAME", "uname", "name of the host"},
    {"LOCKSTEP_RING_KIB", "ring-kib", "NUMBER", "4096",
     "size of the ring, 256 to 65536, rounded down to a power of two; less if space is short"},
    {"LOCKSTEP_GPU", "gpu", "off|done|full|events|watch|profiler|auto", "auto", "how GPU progress is recorded"},
    {"LOCKSTEP_GPU_SAMPLE", "gpu-sample", "NUMBER", "1", "with events: time one in N operations on each stream"},
    {"LOCKSTEP_CUDA", "cuda", "on|off|runtime|driver", "on",
     "layer at which CUDA calls are intercepted; off: only forward them"},
    {"LOCKSTEP_DENY", "deny", "RULES", "", "programs and NCCL versions not to record, separated by semicolons"},
    {"LOCKSTEP_BUDGET", "budget", "N%|Nns|off", "5% and more than 5 us per call",
     "cost at which the recorder starts to record less"},
    {"LOCKSTEP_HELPER", "helper", "on|off", "off", "run a thread in the process that answers questions about it"},
    {"LOCKSTEP_CLOCK", "clock", "counter|monotonic", "counter",
     "monotonic: use clock_gettime instead of the processor's counter"},
};
inline constexpr size_t kRecorderSettingCount = sizeof(kRecorderSettings) / sizeof(kRecorderSettings[0]);

}  // namespace lockstep::ring
