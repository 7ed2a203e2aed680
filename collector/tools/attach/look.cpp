#include "collector/tools/attach/look.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "analyzer/util/time_units.h"
#include "collector/evidence/process_look.h"
#include "collector/host/proc.h"
#include "collector/host/process_sample.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

constexpr int64_t kApart =
    2 * kSecond;  // minimum time between the two samples of stacks, and between the two of CPU and I/O
constexpr int kPollMs = 20;

struct Looked {
  Process process;
  ProcessSampler sampler;
  ProcessLook look;
  int64_t first_ns = 0;  // when the first sample ended
};

bool Done(const Looked& rank) { return rank.look.looks() >= 2; }

void Continue(pid_t pid, Looked* rank) {
  if (Done(*rank)) return;
  if (rank->look.looks() == 1) {
    const int64_t now = MonotonicNs();
    if (rank->first_ns == 0) rank->first_ns = now;
    if (!rank->look.busy() && now - rank->first_ns < kApart) return;
  }
  rank->look.Continue(pid, 0, &rank->process);
}

void SetGpu(Rank* rank) {
  if (rank->process.evidence == nullptr) return;
  const GpuState* own = nullptr;
  for (const GpuState& gpu : rank->process.evidence->gpus()) {
    if (!gpu.of_process()) continue;
    if (own != nullptr) return;
    own = &gpu;
  }
  if (own == nullptr) return;
  rank->gpu_index = own->index();
  rank->gpu_uuid = own->uuid();
  rank->gpu_pci = own->pci();
}

// Returns a rank like one from a Flight Recorder dump without calls: its calls are unknown.
Rank RankOf(const FoundJob& job, const std::string& host, int32_t number, int32_t local, pid_t pid, Process process) {
  Rank rank;
  rank.rank = number;
  rank.world_size = job.world > 0 ? job.world : -1;
  rank.local_rank = local;
  rank.host = host;
  rank.boot_id = BootId();
  rank.job = job.name;
  rank.restart_count = job.restart_count;
  rank.pid = pid;
  rank.process = std::move(process);
  rank.source = Source::kFlightRecorder;
  SetGpu(&rank);
  return rank;
}

}  // namespace

std::vector<Rank> LookAtRanks(const FoundJob& job, const std::string& host, int64_t limit_ns) {
  const int64_t begin = MonotonicNs();
  std::vector<std::unique_ptr<Looked>> looked(job.ranks.size());
  const ProcessTree before = ProcessTree::Read();
  for (size_t i = 0; i < looked.size(); ++i) {
    looked[i] = std::make_unique<Looked>();
    looked[i]->sampler.Sample(job.ranks[i].pid, before, &looked[i]->process);
  }
  const auto all_done = [&looked] {
    return std::all_of(looked.begin(), looked.end(), [](const auto& rank) { return Done(*rank); });
  };
  while (MonotonicNs() - begin < limit_ns && (!all_done() || MonotonicNs() - begin < kApart)) {
    for (size_t i = 0; i < looked.size(); ++i) Continue(job.ranks[i].pid, looked[i].get());
    poll(nullptr, 0, kPollMs);
  }
  const ProcessTree after = ProcessTree::Read();
  std::vector<Rank> ranks;
  for (size_t i = 0; i < looked.size(); ++i) {
    const RankProcess& found = job.ranks[i];
    Process& process = looked[i]->process;
    looked[i]->sampler.Sample(found.pid, after, &process);
    const std::optional<ProcStat> stat = ReadProcStat(found.pid);
    process.life = Life::kRunning;
    if (!stat || stat->ended()) SetEnd(stat ? stat->wait_status : -1, &process);
    ranks.push_back(RankOf(job, host, found.rank, found.local_rank, found.pid, std::move(process)));
    ranks.back().captured_ns = RealtimeNs();
  }
  for (const EndedRank& ended : job.ended) {
    Process process;
    SetEnd(ended.wait_status, &process);
    ranks.push_back(RankOf(job, host, ended.rank, ended.local_rank, ended.pid, std::move(process)));
  }
  return ranks;
}

}  // namespace lockstep
