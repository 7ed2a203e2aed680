#include "collector/service/core/desyncs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "collector/incident/incident.h"

namespace lockstep {
namespace {

// Maximum number of silent desyncs per job whose rings are requested, and of ranks per desync.
constexpr size_t kDesyncGatherings = 4, kDesyncRanks = 64;
constexpr size_t kMostOthers = 8;  // ranks that agree with the majority, requested for comparison

}  // namespace

// Call when the difference is seen again: its incident is confirmed and reported.
void Desyncs::Confirm(Job* job, const Desync& desync) {
  const auto name = job->desync_incidents.find(desync.comm);
  Gathering* incident = name == job->desync_incidents.end() ? nullptr : book_.Find(name->second);
  if (incident == nullptr) return;
  DesyncFacts& facts = incident->state.desync;
  facts.text = DesyncText(desync);
  facts.where = DesyncWhere(desync);
  facts.odd = desync.odd.List(kDesyncRanks);
  facts.seq = desync.seq;
  facts.confirmed = true;
  const IncidentState state = incident->state;
  shared_.Work(CoreTask::Lane::kDisk, [state] { WriteState(state).IgnoreError(); });
  Verdict verdict;
  AddDesync(facts, &verdict);
  verdict.set_job(job->identity.job());
  incident->json = ReportJson(verdict);
  book_.TellProgram(incident);
}

void Desyncs::Gather(Job* job, const Desync& desync) {
  if (desync.confirmed) return Confirm(job, desync);
  if (job->desync_incidents.size() >= kDesyncGatherings) return;
  // An earlier collector process has reported this difference.
  const std::string identity = job->identity.SerializeAsString();
  if (std::any_of(book_.before.begin(), book_.before.end(), [&](const DeclaredBefore& before) {
        return before.desync_comm == desync.comm && before.identity.SerializeAsString() == identity;
      }))
    return;
  Ranks ranks = Ranks::Of(desync.odd.List(kDesyncRanks));
  size_t others = 0;
  for (const int32_t member : job->detector.progress().Members(desync.comm).List(kDesyncRanks + kMostOthers)) {
    if (ranks.Contains(member) || others == kMostOthers) continue;
    ranks.Add(member);
    ++others;
  }
  if (ranks.empty()) return;
  Gathering* incident = book_.Add(*job, "-desync");
  IncidentState& state = incident->state;
  state.everything = state.evidence_done = true;
  state.ranks_expected = job->world_size;
  state.desync = {
      DesyncText(desync), desync.comm, desync.seq, desync.name, desync.size, desync.odd.List(kDesyncRanks), false,
      DesyncWhere(desync)};
  Ranks left = ranks;
  for (const auto& [host, entry] : job->hosts) {
    const Ranks here = entry.ranks.Common(ranks);
    if (here.empty()) continue;
    state.hosts[host] = here;
    left.Subtract(here);
  }
  if (!left.empty()) state.hosts[""] = left;  // ranks behind relays; the names of their hosts are still unknown
  Verdict verdict;
  AddDesync(state.desync, &verdict);
  *incident->incident.mutable_verdict() = verdict;
  incident->incident.set_text(state.desync.text);
  incident->working = true;
  job->desync_incidents[desync.comm] = state.name;
  const IncidentState copy = state;
  const auto store = incident->store;
  const StoreLimits limits = shared_.options.store;
  auto status = std::make_shared<absl::Status>();
  book_.WorkFor(
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
        incident->ready = *incident->store != nullptr;
        if (!incident->ready) {
          book_.Close(incident);
          book_.SayOnce(incident, absl::StrCat("its rings cannot be kept: ", status->message()));
        }
      });
  rings_.Start(incident);
  for (auto& [host, gathering] : incident->everything) rings_.RequestRings(incident, host, &gathering);
}

void Desyncs::Abandon(Gathering* incident) {
  book_.Close(incident);
  const auto store = incident->store;
  const std::string folder = incident->state.folder;
  shared_.Work(CoreTask::Lane::kDisk, [store, folder] {
    store->reset();
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  });
}

}  // namespace lockstep
