#include "collector/evidence/process_look.h"

#include <poll.h>

#include <atomic>

#include "analyzer/util/time_units.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr int kMostLooks = 2;
constexpr int kMostAtATime = 4;
constexpr int64_t kForgetAfter = 10 * kSecond;

std::atomic<int> under_way{0};

}  // namespace

ProcessLook::~ProcessLook() {
  if (job_ != nullptr) --under_way;
}

void ProcessLook::Continue(pid_t pid, pid_t main_tid, Process* process, int ring) {
  const int64_t now = MonotonicNs();
  if (looks_ > 0 && now - called_ns_ > kForgetAfter) {
    looks_ = 0;
    process->evidence.reset();
    process->python_stack.clear();
    process->stack.clear();
    process->stack_later.clear();
  }
  called_ns_ = now;
  if (job_ != nullptr) {
    if (job_->Poll()) Take(main_tid, process);
    return;
  }
  const bool due = looks_ < kMostLooks && (looks_ == 0 || now - looked_ns_ >= kSecond);
  if (!due || under_way >= kMostAtATime) return;
  EvidenceOptions options;
  options.ring = ring;
  options.sample_gap_ns = 0;  // the caller's sampler does that
  options.gpus = options.hardware_log = looks_ == 0;
  ++under_way;
  job_ = std::make_unique<EvidenceJob>(pid, options);
}

void ProcessLook::Take(pid_t main_tid, Process* process) {
  // Of a process that ended meanwhile the last look is better than none.
  if (job_->report().process().life() != ProcessState::GONE) TakeEvidence(job_->report(), main_tid, process);
  job_.reset();
  --under_way;
  ++looks_;
  looked_ns_ = MonotonicNs();
}

void ProcessLook::Finish(int64_t limit_ns, pid_t main_tid, Process* process) {
  if (job_ == nullptr) return;
  for (const int64_t begin = MonotonicNs(); !job_->Poll() && MonotonicNs() - begin < limit_ns;) poll(nullptr, 0, 10);
  if (job_->Poll()) Take(main_tid, process);
}

}  // namespace lockstep
