#include "collector/host/process_sample.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/evidence/redact.h"

namespace lockstep {
namespace {

// The earlier sample is replaced at this age, so that differences cover only the last few seconds.
constexpr int64_t kOldestSample = 2'000'000'000;
constexpr int64_t kLeastGap = 900'000'000;  // shorter intervals are useless, because CPU time is counted in ticks

}  // namespace

bool AtWork(int64_t gap_ns, int64_t cpu_ns, int64_t io_bytes) {
  if (gap_ns <= 0) return false;
  const double seconds = static_cast<double>(gap_ns) / 1e9;
  return static_cast<double>(cpu_ns) > activity::kIdleCpuShare * seconds * 1e9 ||
         static_cast<double>(io_bytes) > activity::kIdleBytesPerSecond * seconds;
}

void ProcessSampler::Unknown(Process* process) {
  process->sample_gap_ns = 0;
  process->cpu_ns_between_samples = process->io_bytes_between_samples = -1;
  idle_since_ns_ = 0;
}

void ProcessSampler::Forget(Process* process) {
  if (!older_.valid) return;
  Unknown(process);
  older_ = Activity();
  older_stack_.clear();
}

void ProcessSampler::Sample(pid_t pid, const ProcessTree& tree, Process* process) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  const Activity now = ReadActivity(pid, tree);
  if (!stat || !now.valid) return;
  // Taking stacks stops the process for a moment. A debugger is still attached at the next sample.
  const bool traced = stat->state == 't';
  if (!traced || traced_) process->state = std::string(1, stat->state);
  traced_ = traced;
  // The thread that delays the process may not be its main one.
  const SleepingThreads threads = ReadThreadsInD(pid);
  const bool running = now.running || threads.running > 0, starved = running && running_;
  running_ = running;
  if (older_.valid) {
    process->sample_gap_ns = now.mono_ns - older_.mono_ns;
    process->cpu_ns_between_samples = now.cpu_ns - older_.cpu_ns;
    process->io_bytes_between_samples = now.io_bytes < 0 || older_.io_bytes < 0 ? -1 : now.io_bytes - older_.io_bytes;
    if (AtWork(process->sample_gap_ns, process->cpu_ns_between_samples, process->io_bytes_between_samples)) {
      idle_since_ns_ = 0;
    } else if (starved) {
      Unknown(process);
    } else if (idle_since_ns_ == 0 && process->sample_gap_ns >= kLeastGap) {
      idle_since_ns_ = older_.mono_ns;
    }
  }
  process->wchan = ReadWchan(pid);
  process->threads_in_d = threads.count;
  if (stat->state != 'D' && !threads.wchan.empty()) process->wchan = threads.wchan;
  WrittenFiles files = ReadWrittenFiles(pid);
  process->written_files = std::move(files.paths);
  process->written_mounts = std::move(files.mounts);
  for (std::string& file : process->written_files) file = HostRedaction().Path(file);
  for (std::string& mount : process->written_mounts) mount = HostRedaction().Mount(mount);
  // Better stacks than the kernel's were already taken.
  if (process->evidence != nullptr && !process->stack.empty()) {
    if (!older_.valid || now.mono_ns - older_.mono_ns >= kOldestSample) older_ = now;
    return;
  }
  std::vector<std::string> stack = ReadKernelStack(pid);
  process->stack = older_.valid ? older_stack_ : stack;
  process->stack_later = older_.valid ? stack : std::vector<std::string>();
  if (!older_.valid || now.mono_ns - older_.mono_ns >= kOldestSample) {
    older_ = now;
    older_stack_ = std::move(stack);
  }
  // If evidence was taken, its reason is more precise.
  if (process->evidence != nullptr && !process->stack_refused.empty()) return;
  process->stack_refused = !process->stack.empty() ? ""
                           : geteuid() == 0
                               ? "the kernel shows no stack of this process"
                               : "only root can read the kernel stack of this process; run Lockstep as root";
}

}  // namespace lockstep
