#include "collector/process_sample.h"

#include <optional>
#include <string>

namespace lockstep {
namespace {

// The earlier sample is replaced when it is this old, so that differences tell of the last seconds only.
constexpr int64_t kOldestSample = 2'000'000'000;

}  // namespace

void ProcessSampler::Sample(pid_t pid, Process* process) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  const Activity now = ReadActivity(pid);
  if (!stat || !now.valid) return;
  process->state = std::string(1, stat->state);
  if (older_.valid) {
    process->sample_gap_ns = now.mono_ns - older_.mono_ns;
    process->cpu_ns_between_samples = now.cpu_ns - older_.cpu_ns;
    process->io_bytes_between_samples = now.io_bytes < 0 || older_.io_bytes < 0 ? -1 : now.io_bytes - older_.io_bytes;
  }
  if (!older_.valid || now.mono_ns - older_.mono_ns >= kOldestSample) older_ = now;
  process->wchan = ReadWchan(pid);
  process->stack = ReadKernelStack(pid);
  process->stack_refused = process->stack.empty() ? "the kernel does not show the stack of this process" : "";
}

}  // namespace lockstep
