// Settings of the recorder and facts about the job, from the environment and a configuration file (config.h). Every
// value is hostile input: bounded and sanitized.
#ifndef LOCKSTEP_RECORDER_BASE_ENVIRONMENT_H_
#define LOCKSTEP_RECORDER_BASE_ENVIRONMENT_H_

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/settings.h"

namespace lockstep::recorder {

// kProfiler: no marks; NCCL's profiler interface reports when kernels ran.
enum class GpuMode : uint32_t { kOff = 0, kDone = 1, kFull = 2, kEvents = 3, kProfiler = 4 };

inline constexpr uint8_t kCudaRuntime = 1, kCudaDriver = 2;

struct Environment {
  char folder[ring::kMostFolderPath + 1];
  bool folder_is_default;
  char job[96], step[64], host[128];
  char job_folder[128];  // <job>.<restart>
  char note[160];        // settings that were not understood
  uint32_t restart_count;
  int32_t rank, world_size, local_rank;  // -1 unknown
  int32_t local_ranks;                   // on this host; 0 unknown
  uint64_t ring_bytes;                   // a power of two within the layout's limits
  GpuMode gpu;
  uint32_t gpu_sample;  // events: one operation in this many is timed
  uint8_t cuda;         // the layers at which CUDA's calls are recorded: kCudaRuntime, kCudaDriver; 0: none
  char group[64];       // the group whose members may read the ring; empty: the owner alone
  bool monotonic_clock;
  bool helper;  // a thread that answers questions about this process
};

void ReadEnvironment(Environment* env) noexcept;

enum class HookMode {
  kOff,      // every export only forwards, nothing is recorded
  kSymbols,  // dlsym and dlvsym are forwarded unchanged
  kDlsym,
};
// LOCKSTEP_HOOK; anything unknown, and nothing: kDlsym. Always kOff in a set-uid program.
HookMode ReadHookMode() noexcept;

// LOCKSTEP=0 (or off, no, false), LOCKSTEP_HOOK=off, or a set-uid program, whose environment is not to be trusted: do
// nothing in this process.
bool SwitchedOff() noexcept;

// LOCKSTEP_CUDA: on, off, runtime, driver.
uint8_t ReadCudaLayers() noexcept;

uint64_t ProcessStartTicks() noexcept;  // field 22 of /proc/self/stat; 0 unknown
uint64_t PidNamespaceInode() noexcept;
void ReadBootId(char* to, size_t size) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_ENVIRONMENT_H_
