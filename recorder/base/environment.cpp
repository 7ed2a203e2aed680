#include "recorder/base/environment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "recorder/base/config.h"
#include "recorder/base/switches.h"
#include "recorder/base/sys.h"
#include "recorder/ring/layout.h"

namespace lockstep::recorder {
namespace {

const char* First(const char* const* names) noexcept {
  for (; *names != nullptr; ++names) {
    const char* value = strncmp(*names, "LOCKSTEP_", 9) == 0 ? Setting(*names) : getenv(*names);
    if (value != nullptr && *value != 0) return value;
  }
  return nullptr;
}

// Returns `otherwise` unless the text is a whole decimal number within [low, high].
int64_t Number(const char* text, int64_t low, int64_t high, int64_t otherwise) noexcept {
  if (text == nullptr || *text == 0) return otherwise;
  int64_t value = 0;
  for (const char* c = text; *c != 0; ++c) {
    if (*c < '0' || *c > '9' || value > (INT64_MAX - 9) / 10) return otherwise;
    value = value * 10 + (*c - '0');
  }
  return value < low || value > high ? otherwise : value;
}

// Keeps only characters that are safe in a file name. The name never begins with a dot.
void Sanitise(char* to, size_t size, const char* from, const char* otherwise) noexcept {
  size_t n = 0;
  for (; from != nullptr && *from != 0 && n + 1 < size; ++from) {
    const char c = *from;
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '-' || (c == '.' && n > 0);
    to[n++] = good ? c : '_';
  }
  to[n] = 0;
  if (n == 0) CopyText(to, size, otherwise);
}

bool Is(const char* value, const char* word) noexcept {
  for (; *value != 0 && *word != 0; ++value, ++word) {
    const char lower = *value >= 'A' && *value <= 'Z' ? static_cast<char>(*value + 32) : *value;
    if (lower != *word) return false;
  }
  return *value == *word;
}

bool IsOff(const char* value) noexcept {
  return value != nullptr && (Is(value, "0") || Is(value, "off") || Is(value, "no") || Is(value, "false"));
}

// Returns whether all streams share one hardware queue. There, a marker's memory operation behind unfinished work
// blocks all other streams; an event does not (docs/results.md).
bool OneQueue() noexcept {
  const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && Is(connections, "1");
}

// A prime number rarely divides the number of operations in a step, so over many steps every operation is timed.
constexpr uint32_t kWatchSample = 61;

// Returns the mode that LOCKSTEP_GPU requests. One operation in *sample is timed, unless LOCKSTEP_GPU_SAMPLE is set.
GpuMode ReadGpuMode(uint32_t* sample, char* note, size_t note_bytes) noexcept {
  const char* value = Setting("LOCKSTEP_GPU");
  const bool one_queue = OneQueue();
  *sample = 1;
  const GpuMode automatic = one_queue ? GpuMode::kOff : GpuMode::kDone;
  if (value == nullptr || *value == 0 || Is(value, "auto")) return automatic;
  if (IsOff(value)) return GpuMode::kOff;
  if (Is(value, "done")) return GpuMode::kDone;
  if (Is(value, "full")) return GpuMode::kFull;
  if (Is(value, "events")) return GpuMode::kEvents;
  if (Is(value, "watch")) {
    if (one_queue) *sample = kWatchSample;
    return one_queue ? GpuMode::kEvents : GpuMode::kFull;
  }
  if (Is(value, "profiler")) return GpuMode::kProfiler;
  snprintf(note, note_bytes, "LOCKSTEP_GPU has an unknown value; using %s",
           automatic == GpuMode::kOff ? "off" : "done");
  return automatic;
}

}  // namespace

void ReadEnvironment(Environment* env) noexcept {
  memset(env, 0, sizeof(*env));
  const char* folder = Setting("LOCKSTEP_DIR");
  env->folder_is_default = folder == nullptr || *folder == 0 || strlen(folder) >= sizeof(env->folder);
  if (env->folder_is_default) {
    snprintf(env->folder, sizeof(env->folder), "/dev/shm/lockstep-%u", static_cast<unsigned>(Sys(SYS_geteuid)));
    if (folder != nullptr && *folder != 0) {
      snprintf(env->note, sizeof(env->note), "LOCKSTEP_DIR is longer than %zu characters; using %.64s",
               ring::kMostFolderPath, env->folder);
    }
  } else {
    CopyText(env->folder, sizeof(env->folder), folder);
  }
  const char* const jobs[] = {"LOCKSTEP_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
                              "LSB_JOBID",    "JOB_ID",       "FLUX_JOB_ID",         nullptr};
  const char* job = First(jobs);
  char by_port[24];
  // Some jobs have no name, such as torchrun's standalone jobs ("none"). On one host, such jobs use different ports.
  if (job == nullptr || Is(job, "none")) {
    const int64_t port = Number(getenv("MASTER_PORT"), 1, 65535, -1);
    if (port > 0) {
      snprintf(by_port, sizeof(by_port), "port-%d", static_cast<int>(port));
      job = by_port;
    }
  }
  Sanitise(env->job, sizeof(env->job), job, "job");
  const char* const steps[] = {"LOCKSTEP_STEP", "SLURM_STEP_ID", nullptr};
  Sanitise(env->step, sizeof(env->step), First(steps), "");
  const char* const restarts[] = {"LOCKSTEP_RESTART", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", nullptr};
  env->restart_count = static_cast<uint32_t>(Number(First(restarts), 0, 1000000000, 0));
  snprintf(env->job_folder, sizeof(env->job_folder), "%.96s.%u", env->job, env->restart_count);

  constexpr int64_t kMost = 1 << 24;
  const char* const ranks[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", nullptr};
  const char* const sizes[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", nullptr};
  const char* const locals[] = {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                nullptr};
  // Slurm's task counts are not used, because one task may start several ranks.
  const char* const local_sizes[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", nullptr};
  env->rank = static_cast<int32_t>(Number(First(ranks), 0, kMost, -1));
  env->world_size = static_cast<int32_t>(Number(First(sizes), 1, kMost, -1));
  env->local_rank = static_cast<int32_t>(Number(First(locals), 0, kMost, -1));
  env->local_ranks = static_cast<int32_t>(Number(First(local_sizes), 1, kMost, 0));

  utsname name{};
  uname(&name);
  const char* host = Setting("LOCKSTEP_HOST");
  Sanitise(env->host, sizeof(env->host), host != nullptr && *host != 0 ? host : name.nodename, "host");

  const int64_t asked =
      Number(Setting("LOCKSTEP_RING_KIB"), 1, ring::kMaxFileBytes >> 10, ring::kDefaultFileBytes >> 10);
  env->ring_bytes = ring::kMinFileBytes;
  while (env->ring_bytes * 2 <= static_cast<uint64_t>(asked) << 10) env->ring_bytes *= 2;

  uint32_t usual_sample = 1;
  env->gpu = ReadGpuMode(&usual_sample, env->note, sizeof(env->note));
  const char* sample = Setting("LOCKSTEP_GPU_SAMPLE");
  env->gpu_sample = static_cast<uint32_t>(Number(sample, 1, 1000000, 0));
  if (env->gpu_sample == 0) {
    env->gpu_sample = usual_sample;
    if (sample != nullptr && *sample != 0 && env->note[0] == 0)
      snprintf(env->note, sizeof(env->note),
               "LOCKSTEP_GPU_SAMPLE is not a number from 1 to 1000000; one in %u operations is timed", usual_sample);
  }
  env->cuda = ReadCudaLayers();
  const char* hook = Setting("LOCKSTEP_HOOK");
  if (hook != nullptr && *hook != 0 && !IsOff(hook) && !Is(hook, "symbols") && !Is(hook, "dlsym") &&
      env->note[0] == 0) {
    snprintf(env->note, sizeof(env->note), "LOCKSTEP_HOOK has an unknown value; using dlsym");
  }
  const char* helper = Setting("LOCKSTEP_HELPER");
  env->helper = helper != nullptr && (Is(helper, "on") || Is(helper, "1"));
  if (helper != nullptr && *helper != 0 && !env->helper && !IsOff(helper) && env->note[0] == 0) {
    snprintf(env->note, sizeof(env->note), "LOCKSTEP_HELPER has an unknown value; using off");
  }
  const char* clock = Setting("LOCKSTEP_CLOCK");
  env->monotonic_clock = clock != nullptr && Is(clock, "monotonic");
  CopyText(env->group, sizeof(env->group), Setting("LOCKSTEP_GROUP"));
  if (const char* problem = ConfigProblem(); problem != nullptr && env->note[0] == 0)
    CopyText(env->note, sizeof(env->note), problem);
}

HookMode ReadHookMode() noexcept {
  if (PrivilegedProgram()) return HookMode::kOff;
  const char* value = Setting("LOCKSTEP_HOOK");
  if (value == nullptr) return HookMode::kDlsym;
  if (IsOff(value)) return HookMode::kOff;
  return Is(value, "symbols") ? HookMode::kSymbols : HookMode::kDlsym;
}

bool SwitchedOff() noexcept {
  return PrivilegedProgram() || IsOff(Setting("LOCKSTEP")) || ReadHookMode() == HookMode::kOff;
}
uint8_t ReadCudaLayers() noexcept {
  const char* value = Setting("LOCKSTEP_CUDA");
  if (IsOff(value)) return 0;
  if (value != nullptr && Is(value, "runtime")) return kCudaRuntime;
  if (value != nullptr && Is(value, "driver")) return kCudaDriver;
  return kCudaRuntime | kCudaDriver;
}

uint64_t ProcessStartTicks() noexcept {
  char text[1024];
  if (ReadStart("/proc/self/stat", text, sizeof(text)) <= 0) return 0;
  const char* at = strrchr(text, ')');  // the name in parentheses may contain anything
  if (at == nullptr) return 0;
  for (int field = 2; field < 22 && at != nullptr; ++field) {
    at = strchr(at + 1, ' ');
  }
  if (at == nullptr) return 0;
  uint64_t value = 0;
  for (++at; *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

uint64_t PidNamespaceInode() noexcept {
  char text[64];
  const long got = Sys(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", text, sizeof(text) - 1);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* at = strchr(text, '[');
  uint64_t value = 0;
  for (at = at == nullptr ? text + got : at + 1; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + static_cast<uint64_t>(*at - '0');
  }
  return value;
}

void ReadBootId(char* to, size_t size) noexcept {
  char text[64] = {};  // empty if the file cannot be read
  ReadStart("/proc/sys/kernel/random/boot_id", text, sizeof(text));
  for (char* c = text; *c != 0; ++c) {
    if (*c == '\n') *c = 0;
  }
  CopyText(to, size, text);
}

}  // namespace lockstep::recorder
