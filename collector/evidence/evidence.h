// Evidence about one process from outside: stacks of all its threads, its activity, its memory, its GPUs, and hardware
// errors in the kernel's log. docs/evidence.md lists the sources and their cost to the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/model/bundle.h"
#include "collector/host/proc.h"
#include "proto/evidence.pb.h"

namespace lockstep {

struct EvidenceOptions {
  bool stacks = true;
  bool gpus = true;
  bool hardware_log = true;
  // For the stacks and the GPUs together; later results are dropped.
  int64_t deadline_ns = 4'000'000'000;
  // CPU and I/O are read twice, at least this far apart; 0 means not at all.
  int64_t sample_gap_ns = 1'000'000'000;
  // Path of lockstep-evidence; empty for the one in this program's folder.
  std::string helper;
  // The process's ring file, through which the recorder's helper provides data that the system refuses; -1 if unknown.
  // Not owned, but used until the job is done.
  int ring = -1;
  // Another NVML library, for tests; empty for the driver's.
  std::string nvml;
};

// Gathers evidence about one process, in the background. Work that could hang or crash (ptrace, foreign ELF files,
// NVML) runs in children that are killed at the deadline; the report names what is missing. Not thread-safe; jobs are
// independent. Only this object may reap the children: if the caller waits for any child, it must exclude these.
// Otherwise reports lose the reason for a failure.
class EvidenceJob {
 public:
  EvidenceJob(pid_t pid, const EvidenceOptions& options);
  ~EvidenceJob();  // kills the children

  // Never waits. Returns true if the job is done.
  bool Poll();
  // Waits until the job is done, at most until a second after the deadline.
  void Wait();
  // The report so far; the caller sets `rank`.
  const EvidenceReport& report() const { return report_; }

 private:
  struct Child;
  void Start(std::unique_ptr<Child>* child, const char* mode);
  bool PollChild(Child* child);
  void Finish();

  const pid_t pid_;
  const EvidenceOptions options_;
  const int64_t start_;
  Activity before_;
  std::unique_ptr<Child> stacks_, gpus_;
  bool finished_ = false;
  EvidenceReport report_;
};

// Gathers all evidence in one call, for threads that may block.
EvidenceReport GatherEvidence(pid_t pid, const EvidenceOptions& options);

// Copies the report and its stacks into the analysis's view of the process. The process's main thread represents the
// process if that thread runs Python. Otherwise thread `main_tid` does (in the process's own numbering; 0 for no
// particular one). A second report on the same process becomes `stack_later`.
void TakeEvidence(const EvidenceReport& report, pid_t main_tid, Process* process);

// Reads the last hour of this host's kernel log after processes exit. Only that log shows which processes the kernel
// killed because memory ran out. AddLogAfterEnd replaces what earlier evidence has about the log.
ProcessEvidence ReadLogAfterEnd();
void AddLogAfterEnd(const ProcessEvidence& log, Process* process);

// Returns the evidence as text for a terminal.
std::string EvidenceText(const EvidenceReport& report);

}  // namespace lockstep
