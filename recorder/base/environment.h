// The recorder's settings and facts about the job, from the environment and a configuration file (config.h). Every
// value is untrusted input: bounded and sanitized.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/settings.h"

namespace lockstep::recorder {

using GpuMode = ring::GpuMarks;

inline constexpr uint8_t kCudaRuntime = 1, kCudaDriver = 2;

struct Environment {
  char folder[ring::kMostFolderPath + 1];
  bool folder_is_default;
  char job[96], step[64], host[128];
  char job_folder[128];  // JOB.RESTART
  char note[160];        // invalid settings
  uint32_t restart_count;
  int32_t rank, world_size, local_rank;  // -1 if unknown
  int32_t local_ranks;                   // number of ranks on this host; 0 if unknown
  uint64_t ring_bytes;                   // a power of two within the layout's limits
  GpuMode gpu;
  uint32_t gpu_sample;  // mode `events`: one operation in this many is timed
  uint8_t cuda;         // the layers at which CUDA calls are recorded: kCudaRuntime, kCudaDriver; 0 if none
  char group[64];       // the group whose members may read the ring; empty: only the owner may
  bool monotonic_clock;
  bool helper;  // whether a thread answers questions about this process
};

void ReadEnvironment(Environment* env) noexcept;

enum class HookMode {
  kOff,      // every export only forwards; nothing is recorded
  kSymbols,  // dlsym and dlvsym are forwarded unchanged
  kDlsym,
};
// Returns LOCKSTEP_HOOK; kDlsym if it is unset or invalid, kOff in a set-uid program.
HookMode ReadHookMode() noexcept;

// Returns true if the recorder must do nothing in this process: LOCKSTEP=0 (or off, no, false), LOCKSTEP_HOOK=off, or a
// set-uid program, whose environment is not trusted.
bool SwitchedOff() noexcept;

// LOCKSTEP_CUDA: on, off, runtime, driver.
uint8_t ReadCudaLayers() noexcept;

uint64_t ProcessStartTicks() noexcept;  // field 22 of /proc/self/stat; 0 if unknown
uint64_t PidNamespaceInode() noexcept;
void ReadBootId(char* to, size_t size) noexcept;

}  // namespace lockstep::recorder
