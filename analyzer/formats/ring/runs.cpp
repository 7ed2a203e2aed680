#include "analyzer/formats/ring/runs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/util/parts.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

// Processes of one run begin to record within this time of each other.
constexpr int64_t kTogether = 30'000'000'000;
constexpr char kNoName[] = "job";  // the name that the recorder writes by default

struct RunPart {
  std::vector<size_t> rings;
  int64_t began_ns = 0;
  std::set<int32_t> ranks, worlds, parents;
};

bool Share(const std::set<int32_t>& a, const std::set<int32_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int32_t value) { return b.contains(value); });
}

bool OneRun(const RunPart& a, const RunPart& b) {
  if (Share(a.ranks, b.ranks)) return false;
  if (!a.worlds.empty() && !b.worlds.empty() && !Share(a.worlds, b.worlds)) return false;
  if (a.ranks.empty() && b.ranks.empty() && !a.parents.empty() && !b.parents.empty() && !Share(a.parents, b.parents))
    return false;
  return std::abs(a.began_ns - b.began_ns) <= kTogether;
}

void Take(const RunPart& from, RunPart* to) {
  to->rings.insert(to->rings.end(), from.rings.begin(), from.rings.end());
  to->began_ns = std::min(to->began_ns, from.began_ns);
  to->ranks.insert(from.ranks.begin(), from.ranks.end());
  to->worlds.insert(from.worlds.begin(), from.worlds.end());
  to->parents.insert(from.parents.begin(), from.parents.end());
}

}  // namespace

void NameRuns(std::vector<RingInput>* rings) {
  Parts same(rings->size());
  std::map<uint64_t, size_t> first_with;
  const auto counts = [](const RingInput& ring) {
    return ring.snapshot.process.job == kNoName && !ring.snapshot.comms.empty();
  };
  for (size_t i = 0; i < rings->size(); ++i) {
    if (!counts((*rings)[i])) continue;
    for (const ring::CommSnapshot& comm : (*rings)[i].snapshot.comms) {
      if (comm.id != 0) same.Join(first_with.try_emplace(comm.id, i).first->second, i);
    }
  }
  std::map<size_t, RunPart> parts;
  for (size_t i = 0; i < rings->size(); ++i) {
    const RingInput& ring = (*rings)[i];
    if (!counts(ring)) continue;
    const ring::ProcessInfo& process = ring.snapshot.process;
    RunPart& part = parts[same.Find(i)];
    if (part.rings.empty() || process.created_real_ns < part.began_ns) part.began_ns = process.created_real_ns;
    part.rings.push_back(i);
    if (process.rank >= 0) part.ranks.insert(process.rank);
    if (process.world_size > 0) part.worlds.insert(process.world_size);
    if (ring.process.life != Life::kRunning) continue;
    if (const std::optional<ProcStat> stat = ReadProcStat(process.pid)) part.parents.insert(stat->parent);
  }
  std::vector<RunPart> order;
  order.reserve(parts.size());
  for (auto& [at, part] : parts) order.push_back(std::move(part));
  std::stable_sort(order.begin(), order.end(),
                   [](const RunPart& a, const RunPart& b) { return a.began_ns < b.began_ns; });
  std::vector<RunPart> runs;
  for (const RunPart& part : order) {
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const RunPart& run) { return OneRun(run, part); });
    if (same != runs.end()) {
      Take(part, &*same);
    } else {
      runs.push_back(part);
    }
  }
  if (runs.size() < 2) return;
  std::set<std::string> names;
  for (const RunPart& run : runs) {
    std::string name = absl::StrCat(kNoName, "@", UtcText(run.began_ns, "%Y-%m-%dT%H:%M:%S"));
    if (!names.insert(name).second)
      absl::StrAppend(&name, ".", (*rings)[*std::min_element(run.rings.begin(), run.rings.end())].snapshot.process.pid);
    names.insert(name);
    for (size_t i : run.rings) (*rings)[i].snapshot.process.job = name;
  }
}

}  // namespace lockstep
