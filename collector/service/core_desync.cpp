// The part of CollectorCore that saves the records of a silent desync while the job continues.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "collector/incident/incident.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr size_t kMostOthers = 8;  // ranks that agree with the majority, for comparison

}  // namespace

// The difference was seen again: its incident counts.
void CollectorCore::ConfirmDesync(Job* job, const Desync& desync) {
  const auto name = job->desync_incidents.find(desync.comm);
  const auto found = name == job->desync_incidents.end() ? incidents_.end() : incidents_.find(name->second);
  if (found == incidents_.end()) return;
  DesyncFacts& facts = found->second->state.desync;
  facts.text = DesyncText(desync);
  facts.where = DesyncWhere(desync);
  facts.odd = RanksOf(desync.odd, options_.desync_ranks);
  facts.seq = desync.seq;
  facts.confirmed = true;
  const IncidentState state = found->second->state;
  actions_->Work({CoreTask::Lane::kDisk, [state] { WriteState(state).IgnoreError(); }, [](int64_t) {}});
  Verdict verdict;
  AddDesync(facts, &verdict);
  verdict.set_job(job->identity.job());
  found->second->json = ReportJson(verdict);
  TellProgram(found->second.get());
}

// When a difference is first seen, requests the rings of the ranks that differ, and of a few others, before they are
// overwritten. When it is seen again, the incident counts. For each communicator, DesyncWatch reports each of these two
// events once.
void CollectorCore::GatherDesync(Job* job, const Desync& desync) {
  if (desync.confirmed) return ConfirmDesync(job, desync);
  if (job->desync_incidents.size() >= options_.desync_gatherings) return;
  // An earlier collector process has reported this difference.
  const std::string identity = job->identity.SerializeAsString();
  if (std::any_of(before_.begin(), before_.end(), [&](const DeclaredBefore& before) {
        return before.desync_comm == desync.comm && before.identity.SerializeAsString() == identity;
      }))
    return;
  Ranks ranks = Ranks::Of(RanksOf(desync.odd, options_.desync_ranks));
  size_t others = 0;
  for (const int32_t member :
       RanksOf(job->detector.progress().Members(desync.comm), options_.desync_ranks + kMostOthers)) {
    if (ranks.Contains(member) || others == kMostOthers) continue;
    ranks.Add(member);
    ++others;
  }
  if (ranks.empty()) return;
  auto made = std::make_unique<Gathering>();
  Gathering* incident = made.get();
  std::string plain = DumpFileName(job->identity.job());
  plain.resize(plain.size() - 4);
  const std::string folder = absl::StrCat(DefaultIncidentFolder(plain.substr(0, 80), RealNow()), "-desync");
  std::string name = folder;
  for (int extra = 2; incidents_.count(name) != 0; ++extra) name = absl::StrCat(folder, "-", extra);
  IncidentState& state = incident->state;
  state.name = name;
  state.folder = absl::StrCat(options_.out, "/", name);
  state.identity = job->identity;
  state.comms = KinOf(*job);
  state.people = job->name;
  state.everything = state.evidence_done = true;
  state.everything_request = NextRequest();
  state.ranks_expected = job->world_size;
  state.captured_real_ns = RealNow();
  state.desync = {DesyncText(desync),
                  desync.comm,
                  desync.seq,
                  desync.name,
                  desync.size,
                  RanksOf(desync.odd, options_.desync_ranks),
                  false,
                  DesyncWhere(desync)};
  Ranks left = ranks;
  for (const auto& [host, entry] : job->hosts) {
    const Ranks here = entry.ranks.Common(ranks);
    if (here.empty()) continue;
    state.hosts[host] = here;
    left.Subtract(here);
  }
  if (!left.empty()) state.hosts[""] = left;  // ranks behind relays, on hosts whose names are not known yet
  incident->job = job->key;
  incident->people = job->name;
  incident->phase_ns = now_;
  *incident->incident.mutable_job() = job->identity;
  incident->incident.set_path(state.folder);
  Verdict verdict;
  AddDesync(state.desync, &verdict);
  *incident->incident.mutable_verdict() = verdict;
  incident->incident.set_text(state.desync.text);
  incident->working = true;
  incidents_[name] = std::move(made);
  job->desync_incidents[desync.comm] = name;
  const IncidentState copy = state;
  const auto store = incident->store;
  const StoreLimits limits = options_.store;
  auto status = std::make_shared<absl::Status>();
  WorkFor(
      incident, CoreTask::Lane::kDisk,
      [copy, store, limits, status, json = ReportJson(verdict)] {
        *status = MakeIncidentFolder(copy.folder);
        if (!status->ok()) return;
        *status = WriteVerdictFiles(copy, copy.desync.text + "\n", json, false, {});
        absl::StatusOr<std::unique_ptr<IncidentStore>> opened = IncidentStore::Open(copy.folder, limits);
        status->Update(opened.status());
        if (opened.ok()) *store = *std::move(opened);
      },
      [this, status](Gathering* incident) {
        incident->working = false;
        incident->dead = *incident->store == nullptr;
        incident->ready = !incident->dead;
        if (incident->dead) {
          incident->done_ns = now_;
          SayOnce(incident, absl::StrCat("its rings cannot be kept: ", status->message()));
        }
      });
  StartEverything(incident);
  for (auto& [host, gathering] : incident->everything) AskForEverything(incident, host, &gathering);
}

// Drops the incident, because a failed group reverted its operations and no member differs any more.
void CollectorCore::AbandonDesync(Gathering* incident) {
  incident->dead = true;
  incident->done_ns = now_;
  const auto store = incident->store;
  const std::string folder = incident->state.folder;
  actions_->Work({CoreTask::Lane::kDisk,
                  [store, folder] {
                    store->reset();
                    std::error_code error;
                    std::filesystem::remove_all(folder, error);
                  },
                  [](int64_t) {}});
}

}  // namespace lockstep
