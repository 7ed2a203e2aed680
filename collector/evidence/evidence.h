// Everything that can be learned about one process from outside: stacks of all its threads, what it does, its memory,
// its GPUs, and what the kernel's log says about the hardware. docs/evidence.md tells from where, and what it costs the
// process.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_EVIDENCE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_EVIDENCE_H_

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
  int64_t hardware_window_ns = 3600LL * 1'000'000'000;
  // For the stacks and the GPUs together; what is there by then is kept.
  int64_t deadline_ns = 4'000'000'000;
  // CPU and I/O are read twice, at least so far apart; 0: once, and no difference is told.
  int64_t sample_gap_ns = 1'000'000'000;
  // lockstep-evidence; empty: beside this program.
  std::string helper;
  // The process's ring file: its recorder's helper is asked for what the system refuses; -1: not known. Not taken over,
  // used until the job is done.
  int ring = -1;
  // For tests: another NVML library; empty: the driver's.
  std::string nvml;
};

// One look at a process, which goes on while the caller does other things. What could hang or crash (ptrace, foreign
// ELF files, NVML) happens in children that are killed at the deadline; what cannot be had is said in the report's
// texts. Not thread-safe; jobs do not know each other. The children stay ours to wait for: a caller that waits for any
// child must leave them alone, or the reports lack why one failed.
class EvidenceJob {
 public:
  EvidenceJob(pid_t pid, const EvidenceOptions& options);
  ~EvidenceJob();  // ends the children
  EvidenceJob(const EvidenceJob&) = delete;
  EvidenceJob& operator=(const EvidenceJob&) = delete;

  // Never waits. true: it is done.
  bool Poll();
  // Returns when it is done, at the latest a second after the deadline.
  void Wait();
  // The report so far; `rank` is left for the caller.
  const EvidenceReport& report() const { return report_; }
  pid_t pid() const { return pid_; }

 private:
  struct Child;
  void Start(std::unique_ptr<Child>* child, const char* mode);
  bool PollChild(Child* child);
  void ChildEnded(Child* child);
  void Finish();

  const pid_t pid_;
  const EvidenceOptions options_;
  const int64_t start_;
  Activity before_;
  std::unique_ptr<Child> stacks_, gpus_;
  bool finished_ = false;
  EvidenceReport report_;
};

// The same in one call, for threads that may wait.
EvidenceReport GatherEvidence(pid_t pid, const EvidenceOptions& options);

// Takes the report's stacks, and the report itself, into the analysis' view of the process. Its main thread stands for
// it if that runs Python, else thread `main_tid` (as the process numbers it; 0: none in particular). A second report of
// the same process gives `stack_later`.
void TakeEvidence(const EvidenceReport& report, pid_t main_tid, Process* process);

// Of processes that have ended, for only the kernel's log tells whom the kernel killed for memory: what this host's log
// tells of the last hour, and that put in the place of what was known of it before the end.
ProcessEvidence ReadLogAfterEnd();
void AddLogAfterEnd(const ProcessEvidence& log, Process* process);

// What people read of it, for terminals.
std::string EvidenceText(const EvidenceReport& report);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_EVIDENCE_H_
