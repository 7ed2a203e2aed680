// Fills in a job's communicators and pipeline stages, for `lockstep top`.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/pipeline_name.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_units.h"
#include "collector/service/core/job.h"

namespace lockstep {
namespace {

constexpr size_t kMostMissingRuns = 64;
constexpr size_t kMostStages = 256;
constexpr size_t kMostStaged = size_t{1} << 20;  // maximum number of ranks

void ToMessage(const Ranks& runs, RankSet* message) {
  for (size_t i = 0; i < std::min(runs.runs().size(), kMostMissingRuns); ++i) {
    message->add_first(runs.runs()[i].first);
    message->add_last(runs.runs()[i].last);
  }
}

// Returns the cause of the waits: the name or ID of a communicator or, if none is known, the ranks at the root.
std::string RootName(const Job& job) {
  const Decision& declared = job.detector.declared();
  if (declared.comm != 0)
    return declared.comm_name.empty() ? absl::StrCat(absl::Hex(declared.comm, absl::kZeroPad16)) : declared.comm_name;
  if (declared.roots.empty()) return "";
  const Ranks roots = Ranks::Of(declared.roots);
  return absl::StrCat(roots.size() == 1 ? "rank " : "ranks ", roots.Text(2));
}

// Returns the operation in flight, if the last digests show it and the communicator has not moved since; otherwise
// null.
const Flying* FlyingIn(const Job& job, const MergedComm& comm) {
  if (job.detector.level() == Level::kMoving || comm.moved_ns > job.flying_ns) return nullptr;
  const auto found = job.flying.find(comm.id);
  return found == job.flying.end() ? nullptr : &found->second;
}

}  // namespace

void FillCommunicators(const Job& job, int64_t now, JobStatus* status) {
  // Communicators with the same size, kind of name, state and age in seconds become one line.
  using Fold = std::tuple<int32_t, std::string, int64_t, bool, uint32_t, std::string>;
  std::map<Fold, CommunicatorStatus> lines;
  uint32_t total = 0;
  const MergedProgress& progress = job.detector.progress();
  // While no problem is known, ages differ only by chance.
  const bool calm = job.detector.level() == Level::kMoving, hung = job.detector.level() == Level::kHung;
  const Decision& declared = job.detector.declared();
  const std::string root = hung ? RootName(job) : "";
  progress.ForEach([&](const MergedComm& comm) {
    ++total;
    const bool behind = comm.behind_since_ns != 0;
    const Ranks missing = behind ? progress.Missing(comm.id) : Ranks();
    const Flying* flying = FlyingIn(job, comm);
    const uint32_t in = comm.known - std::min(comm.known, static_cast<uint32_t>(missing.size()));
    std::string standing;
    if (hung && comm.id == declared.comm) {
      standing = "root";
    } else if (!root.empty() && (behind || flying != nullptr)) {
      standing = absl::StrCat("victim of ", root);
    } else if (comm.known > 0 && comm.size > 0 && comm.known < static_cast<uint32_t>(comm.size)) {
      standing = "not recorded";
    }
    const int64_t age = behind ? now - comm.behind_since_ns : now - comm.reached_ns;
    const int64_t bucket = calm ? (age > 10 * kSecond ? 1 : 0) : std::min<int64_t>(age / kSecond, 600);
    const Fold key{comm.size, NamePattern(comm.name), bucket, behind, in, standing};
    const auto found = lines.find(key);
    if (found != lines.end()) {
      CommunicatorStatus& line = found->second;
      line.set_alike(line.alike() + 1);
      line.set_age_ns(std::max(line.age_ns(), age));
      line.set_issued_min(std::min(line.issued_min(), comm.issued_min));
      line.set_issued_max(std::max(line.issued_max(), comm.issued_max));
      if (flying != nullptr && flying->start_recorded)
        line.set_started(line.has_started() ? std::min(line.started(), flying->started) : flying->started);
      return;
    }
    if (lines.size() >= 4 * kMostStatusLines) return;  // guards against hostile names; the total still counts them
    CommunicatorStatus& line = lines[key];
    line.set_id(comm.id);
    line.set_name(comm.name);
    line.set_size(comm.size);
    line.set_issued_min(comm.issued_min);
    line.set_issued_max(comm.issued_max);
    line.set_age_ns(age);
    line.set_limit_ns(job.detector.LimitOf(comm.id));
    line.set_p99_gap_ns(comm.p99_gap_ns);
    line.set_alike(1);
    line.set_in(in);
    line.set_standing(standing);
    if (standing == "root" && !declared.doing.empty()) {
      line.set_doing(declared.doing);
    } else if (flying != nullptr) {
      line.set_doing(absl::StrCat(
          ring::CallName(flying->kind),
          flying->sequence > 0 ? absl::StrCat(" #", CountText(static_cast<uint64_t>(flying->sequence))) : ""));
    }
    if (flying != nullptr && flying->start_recorded) line.set_started(flying->started);
    ToMessage(missing, line.mutable_missing());
  });
  status->set_communicators_total(total);
  std::vector<const CommunicatorStatus*> sorted;
  sorted.reserve(lines.size());
  for (const auto& [key, line] : lines) sorted.push_back(&line);
  std::sort(sorted.begin(), sorted.end(), [](const CommunicatorStatus* a, const CommunicatorStatus* b) {
    return std::make_tuple(a->standing() != "root", -a->age_ns(), a->id()) <
           std::make_tuple(b->standing() != "root", -b->age_ns(), b->id());
  });
  for (const CommunicatorStatus* line : sorted) {
    if (status->communicators_size() >= kMostStatusLines) break;
    *status->add_communicators() = *line;
    if (status->limit_ns() < line->limit_ns()) status->set_limit_ns(line->limit_ns());
  }
}

// Frameworks create pipeline communicators from ascending ranks, so a member's index is its stage.
void FillStages(const Job& job, JobStatus* status) {
  struct Place {
    // The stage is -1 if the rank is in several communicators of the largest size, for example one per pair.
    int32_t size = 0, stage = -1;
  };
  absl::flat_hash_map<int32_t, Place> places;
  const MergedProgress& progress = job.detector.progress();
  progress.ForEach([&](const MergedComm& comm) {
    if (comm.size < 2 || comm.known != static_cast<uint32_t>(comm.size) || !NamesPipeline(comm.name)) return;
    int32_t stage = 0;
    for (const int32_t rank : progress.Members(comm.id).List(kMostStages)) {
      if (places.size() >= kMostStaged) return;
      Place& place = places[rank];
      if (comm.size >= place.size) place = {comm.size, comm.size == place.size ? -1 : stage};
      ++stage;
    }
  });
  std::map<int32_t, std::vector<int32_t>> stages;
  for (const auto& [rank, place] : places) {
    if (place.stage >= 0) stages[place.stage].push_back(rank);
  }
  for (auto& [stage, ranks] : stages) {
    StageStatus* line = status->add_stages();
    line->set_stage(stage);
    Ranks::Of(std::move(ranks)).To(line->mutable_ranks());
  }
}

}  // namespace lockstep
