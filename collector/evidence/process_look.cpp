#include "collector/evidence/process_look.h"

#include <poll.h>

#include <algorithm>
#include <atomic>

#include "analyzer/util/time_units.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr int kMostAtATime = 4;
constexpr int64_t kForgetAfter = 10 * kSecond;

std::atomic<int> under_way{0};

}  // namespace

pid_t BusiestThread(const ring::Snapshot& digest) {
  const auto busiest =
      std::max_element(digest.threads.begin(), digest.threads.end(),
                       [](const ring::ThreadSnapshot& a, const ring::ThreadSnapshot& b) { return a.calls < b.calls; });
  return busiest == digest.threads.end() ? 0 : busiest->tid;
}

ProcessLook::~ProcessLook() {
  if (job_ != nullptr) --under_way;
}

void ProcessLook::Continue(pid_t pid, pid_t main_tid, Process* process, int ring, LookPlan plan) {
  const int64_t now = MonotonicNs();
  if (looks_ > 0 && (now - called_ns_ > kForgetAfter || began_ns_ < plan.since_ns)) Forget(process);
  called_ns_ = now;
  if (job_ != nullptr) {
    if (job_->Poll()) Take(main_tid, process);
    return;
  }
  const bool hardware = plan.hardware && !hardware_;
  const bool due = (looks_ < plan.most || hardware) && (looks_ == 0 || now - looked_ns_ >= plan.gap_ns);
  if (!due || under_way >= kMostAtATime) return;
  EvidenceOptions options;
  options.ring = ring;
  options.sample_gap_ns = 0;  // the caller's sampler measures this
  options.gpus = options.hardware_log = hardware;
  hardware_ |= hardware;
  if (looks_ == 0) began_ns_ = now;
  ++under_way;
  job_ = std::make_unique<EvidenceJob>(pid, options);
}

void ProcessLook::Forget(Process* process) {
  if (job_ != nullptr) --under_way;
  job_.reset();
  if (looks_ == 0) return;
  looks_ = 0;
  hardware_ = false;
  process->evidence.reset();
  process->python_stack.clear();
  process->stack.clear();
  process->stack_later.clear();
}

void ProcessLook::Take(pid_t main_tid, Process* process) {
  // If the process has exited in the meantime, the previous sample is better than none.
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
