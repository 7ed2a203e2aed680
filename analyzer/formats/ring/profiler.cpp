#include "analyzer/formats/ring/profiler.h"

#include <algorithm>
#include <tuple>

namespace lockstep {
namespace {

constexpr uint32_t kFirstWithKernels = 3;

// All kernels of one operation. An all-to-all has one kernel for each peer and direction.
struct Run {
  bool launched_only = true;  // no kernel has started
  bool unfinished = false;
  // A later operation on the communicator has started, so missing reports of this operation prove nothing.
  bool overtaken = false;
  int64_t started_ns = 0, completed_ns = 0;
};

using Key = std::tuple<uint32_t, uint16_t, uint64_t, int32_t>;

Key KeyOf(uint32_t membership, ring::CallKind kind, uint64_t seq, int32_t peer) {
  return {membership, static_cast<uint16_t>(kind), seq, ring::IsPointToPoint(kind) ? peer : -1};
}

uint32_t MembershipOf(const absl::flat_hash_map<uint32_t, uint32_t>& positions, uint32_t index) {
  auto it = positions.find(index);
  return it == positions.end() ? kNoIndex : it->second;
}

}  // namespace

void ApplyProfiler(const ring::Snapshot& snapshot, const absl::flat_hash_map<uint32_t, uint32_t>& membership_of,
                   Rank* rank) {
  rank->profiler_version = snapshot.profiler.interface_version;
  // Without reports about kernels, this mode shows nothing about the GPU.
  if (rank->gpu_marks == ring::GpuMarks::kProfiler && rank->profiler_version < kFirstWithKernels) {
    rank->gpu_marks = ring::GpuMarks::kOff;
  }
  for (const ring::ProxySnapshot& proxy : snapshot.proxies) {
    const uint32_t membership = proxy.remote ? kNoIndex : MembershipOf(membership_of, proxy.comm);
    if (proxy.ended || membership == kNoIndex) continue;
    NetworkOp op;
    op.membership = membership;
    op.kind = proxy.kind;
    op.seq = proxy.seq == 0 ? kUnknown : static_cast<int64_t>(std::min<uint64_t>(proxy.seq, INT64_MAX));
    op.peer = proxy.peer;
    op.channel = proxy.channel;
    op.send = proxy.send;
    op.steps = proxy.steps;
    op.done = proxy.done;
    op.step = proxy.step;
    op.state = proxy.state;
    op.since_ns = proxy.changed_ns;
    rank->network.push_back(op);
  }
  if (rank->profiler_version < kFirstWithKernels) return;

  absl::flat_hash_map<uint32_t, uint64_t> last_started;
  for (const ring::KernelSnapshot& kernel : snapshot.kernels) {
    if (kernel.started_channels != 0) last_started[kernel.comm] = std::max(last_started[kernel.comm], kernel.order);
  }
  absl::flat_hash_map<Key, Run> runs;
  int64_t uncertainty = 0;
  bool gpu_times = false;
  for (const ring::KernelSnapshot& kernel : snapshot.kernels) {
    const uint32_t membership = MembershipOf(membership_of, kernel.comm);
    if (membership == kNoIndex || kernel.seq == 0 || kernel.copy_engine || kernel.captured) continue;
    Run& run = runs[KeyOf(membership, kernel.kind, kernel.seq, kernel.peer)];
    const bool later = kernel.order < last_started[kernel.comm];
    if (kernel.started_channels == 0) {
      run.unfinished = true;
      run.overtaken |= later;
      continue;
    }
    run.launched_only = false;
    if (run.started_ns == 0 || kernel.started_ns < run.started_ns) run.started_ns = kernel.started_ns;
    run.completed_ns = std::max(run.completed_ns, kernel.completed_ns);
    run.unfinished |= kernel.completed_ns == 0;
    uncertainty = std::max(uncertainty, kernel.uncertainty_ns);
    gpu_times |= kernel.gpu_times;
  }
  if (runs.empty()) return;
  rank->time_source = TimeSource::kProfiler;
  rank->start_recorded = true;
  // Without the GPU's clock, a time is when the CPU received the report.
  constexpr int64_t kHeardLate = 1'000'000;
  rank->time_uncertainty_ns = std::max<int64_t>(gpu_times ? uncertainty : kHeardLate, 1);
  for (Op& op : rank->ops) {
    if (op.membership == kNoIndex || op.seq <= 0) continue;
    auto it = runs.find(KeyOf(op.membership, op.kind, static_cast<uint64_t>(op.seq), op.root_or_peer));
    if (it == runs.end()) continue;
    const Run& run = it->second;
    op.started_ns = run.started_ns;
    if (!run.unfinished) op.completed_ns = run.completed_ns;
    // Failed, captured and queued operations keep their state from the call. States from markers are as exact as states
    // from kernels.
    if (op.state != OpState::kUnknown && op.state != OpState::kIncomplete) continue;
    if (!run.unfinished) {
      op.state = OpState::kCompleted;
    } else if (run.overtaken) {
      continue;
    } else {
      op.state = run.launched_only ? OpState::kEnqueued : OpState::kStarted;
    }
  }
}

}  // namespace lockstep
