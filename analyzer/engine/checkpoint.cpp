#include "analyzer/engine/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr size_t kMostMounts = 16;
constexpr size_t kMostFile = 300;

// Returns how long ago the rank's last call ended; 0 if unknown, or if a thread is in a call.
int64_t SinceLastCall(const Rank& rank) {
  int64_t last = 0;
  for (const ring::ThreadSnapshot& thread : rank.threads) {
    if (thread.call != ring::CallKind::kNone) return 0;
    last = std::max(last, thread.last_call_ns);
  }
  return last > 0 && rank.captured_ns > last ? rank.captured_ns - last : 0;
}

// Returns the process's I/O in bytes per second; -1 if unknown.
double RateOf(const Process& process) {
  if (process.sample_gap_ns <= 0 || process.io_bytes_between_samples < 0) return -1;
  return static_cast<double>(process.io_bytes_between_samples) * 1e9 / static_cast<double>(process.sample_gap_ns);
}

struct Mount {
  CheckpointMount out;
  std::set<std::string> hosts;
  std::vector<int64_t> since;
};

void Add(const Rank& rank, const std::string& file, Mount* mount) {
  CheckpointMount& out = mount->out;
  out.set_ranks(out.ranks() + 1);
  if (!rank.host.empty()) mount->hosts.insert(rank.host);
  if (const int64_t since = SinceLastCall(rank); since > 0) {
    mount->since.push_back(since);
    if (since > out.longest_ns()) {
      out.set_longest_ns(since);
      out.set_longest_rank(rank.rank);
    }
  }
  const double rate = RateOf(rank.process);
  if (rate < 0) return;
  out.set_sampled(out.sampled() + 1);
  out.set_bytes_per_s(std::max(out.bytes_per_s(), 0.0) + rate);
  if (out.slowest_rank() >= 0 && rate >= out.slowest_bytes_per_s()) return;
  out.set_slowest_bytes_per_s(rate);
  out.set_slowest_rank(rank.rank);
  out.set_slowest_host(rank.host);
  out.set_slowest_file(file.substr(0, kMostFile));
}

}  // namespace

void AddCheckpoints(const Bundle& bundle, Verdict* verdict) {
  std::map<std::string, Mount> mounts;
  for (const Rank& rank : bundle.ranks) {
    // A rank that waits for its peers writes no checkpoint, no matter which code called the wait.
    if (ClassifyActivity(rank.process).stall != Stall::kCheckpoint ||
        PlaceOfProcess(rank.process).where == Whereabouts::kWaits)
      continue;
    const size_t file = CheckpointFile(rank.process);
    const std::vector<std::string>& files = rank.process.written_files;
    const auto [it, fresh] = mounts.try_emplace(MountOfCheckpoint(rank.process));
    if (fresh) {
      it->second.out.set_mount(it->first);
      it->second.out.set_longest_rank(-1);
      it->second.out.set_bytes_per_s(-1);
      it->second.out.set_slowest_bytes_per_s(-1);
      it->second.out.set_slowest_rank(-1);
    }
    Add(rank, file < files.size() ? files[file] : "", &it->second);
  }
  std::vector<CheckpointMount> sorted;
  for (auto& [name, mount] : mounts) {
    mount.out.set_hosts(static_cast<int32_t>(mount.hosts.size()));
    if (!mount.since.empty()) mount.out.set_median_ns(Median(std::move(mount.since)));
    sorted.push_back(std::move(mount.out));
  }
  std::ranges::stable_sort(sorted,
                           [](const CheckpointMount& a, const CheckpointMount& b) { return a.ranks() > b.ranks(); });
  if (sorted.size() > kMostMounts) sorted.resize(kMostMounts);
  for (CheckpointMount& mount : sorted) *verdict->add_checkpoint() = std::move(mount);
}

}  // namespace lockstep
