#include "collector/service/core/incidents.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "collector/common/say.h"
#include "collector/incident/incident.h"

namespace lockstep {
namespace {

constexpr size_t kMergedRanks = 256;              // maximum number of ranks that send only stacks
constexpr int64_t kDesyncConfirm = 60 * kSecond;  // a difference not seen again within this time is ignored
constexpr size_t kMostHardwareLines = 16;         // lines about hardware, for `lockstep top`

// Returns a round without digests, to collect the evidence of an incident with lost digests.
std::shared_ptr<DigestRound> RoundWithoutDigests(const IncidentState& state) {
  Bundle bundle;
  for (const auto& [host, ranks] : state.evidence) {
    for (const int32_t number : ranks.List(65536)) {
      Rank rank;
      rank.rank = number;
      rank.host = host;
      bundle.ranks.push_back(std::move(rank));
    }
  }
  std::sort(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  bundle.ranks_expected = state.ranks_expected;
  auto round = std::make_shared<DigestRound>();
  round->Adopt(std::move(bundle));
  return round;
}

}  // namespace

void Incidents::Make(Job* job, const Decision* decision) {
  ++shared_.counters.verdicts;
  Gathering* incident = book_.Add(*job, "");
  IncidentState& state = incident->state;
  state.everything = decision != nullptr || job->asked_everything;
  state.declared = decision != nullptr;
  state.evidence_request = shared_.NextRequest();
  state.stalled_ns = job->round->bundle().known_stalled ? std::max<int64_t>(job->round->bundle().stalled_ns, 1) : 0;
  if (decision != nullptr) {
    state.stalled_ns = std::max<int64_t>(state.stalled_ns, std::max<int64_t>(decision->age_ns, 1));
    job->round->RaiseStalledTime(state.stalled_ns);  // safe, because no task of the round is running
  }
  job->round->SetFolder(state.folder);
  state.ranks_expected = job->round->bundle().ranks_expected;
  for (const auto& [host, entry] : job->hosts) {
    if (!entry.ranks.empty()) state.hosts[host] = entry.ranks;
  }
  incident->round = job->round;
  incident->asking = std::move(job->asking);
  job->asking.clear();
  job->asked_everything = false;
  // Samples of a later round go into a separate bundle.
  job->round = nullptr;
  job->sample_requests.clear();
  job->held.clear();
  job->held_bytes = 0;
  job->incident = state.name;
  for (const DigestHole& hole : job->holes) incident->missing.push_back(hole.text);
  WriteVerdict(incident, [this](Gathering* incident) {
    if (incident->dead) return book_.TellProgram(incident);
    const std::shared_ptr<DigestRound> round = incident->round;
    const IncidentState state = incident->state;
    auto error = std::make_shared<absl::Status>();
    book_.WorkFor(
        incident, CoreTask::Lane::kAnalysis, [round, state, error] { *error = WriteDigests(state, round->bundle()); },
        [this, error](Gathering* incident) {
          if (!error->ok())
            book_.SayOnce(incident, absl::StrCat("the digests could not be stored: ", error->message()));
        });
    evidence_.Start(incident);
  });
}

void Incidents::WriteVerdict(Gathering* incident, std::function<void(Gathering*)> then) {
  struct Written {
    std::string text, json, redacted;
    Verdict verdict;
    absl::Status status;
    std::vector<int32_t> evidence, merged;
    HostFindings hosts;
  };
  auto written = std::make_shared<Written>();
  const std::shared_ptr<DigestRound> round = incident->round;
  const bool first = !incident->ready;
  incident->working = true;
  book_.WorkFor(
      incident, CoreTask::Lane::kAnalysis,
      [round, written, first, now = shared_.now, most = shared_.options.evidence_ranks, merged = kMergedRanks] {
        written->verdict = WithCircumstances(round->verdict(), round->bundle());
        written->text = VerdictText(written->verdict, round->bundle());
        written->json = ReportJson(written->verdict);
        written->redacted = RedactionOf(round->bundle());
        written->evidence = round->EvidenceRanks(most);
        written->merged = round->StackRanks(merged, written->evidence);
        if (!first) written->hosts = FindingsOfHosts(round->bundle(), now, kMostHardwareLines);
      },
      [this, written, first, then = std::move(then)](Gathering* incident) {
        *incident->incident.mutable_verdict() = written->verdict;
        incident->incident.set_text(written->text);
        incident->json = written->json;
        if (Job* job = jobs_.Find(incident->job); job != nullptr && job->incident == incident->state.name)
          job->hosts_found = written->hosts;
        incident->state.redacted = written->redacted;
        if (first) {
          shared_.Say(
              absl::StrCat("job ", incident->state.job_name, ": verdict ", VerdictName(written->verdict.verdict()),
                           written->verdict.findings_size() > 0 ? ": " + Headline(written->verdict.findings(0)) : ""));
          shared_.actions->Print(written->text);
          for (int32_t rank : written->evidence) {
            for (const auto& [host, ranks] : incident->state.hosts) {
              if (ranks.Contains(rank)) incident->state.evidence[host].Add(rank);
            }
          }
          const Ranks merged = Ranks::Of(written->merged);
          for (const auto& [host, ranks] : incident->state.hosts) {
            if (const Ranks here = ranks.Common(merged); !here.empty()) incident->state.merged[host] = here;
          }
          book_.Tell(incident, "first verdict, from a summary of every rank", false);
        }
        const IncidentState state = incident->state;
        const std::vector<std::string> missing = incident->missing;
        const auto store = incident->store;
        const StoreLimits limits = shared_.options.store;
        book_.WorkFor(
            incident, CoreTask::Lane::kDisk,
            [state, written, missing, first, store, limits] {
              if (first) {
                written->status = MakeIncidentFolder(state.folder);
                if (!written->status.ok()) return;
              }
              written->status = WriteVerdictFiles(state, written->text, written->json, false, missing);
              if (!first) return;
              absl::StatusOr<std::unique_ptr<IncidentStore>> opened = IncidentStore::Open(state.folder, limits);
              if (opened.ok()) *store = std::move(*opened);
              written->status.Update(opened.status());
            },
            [this, written, then](Gathering* incident) {
              incident->working = false;
              if (!written->status.ok()) {
                book_.SayOnce(incident, absl::StrCat("incomplete: ", written->status.message()));
                if (*incident->store == nullptr) {
                  // No file of the incident can be stored. The known facts were already reported.
                  book_.Close(incident);
                  incident->incident.clear_path();
                  book_.Tell(incident, absl::StrCat("the incident could not be written: ", written->status.message()),
                             true);
                }
              }
              incident->ready = !incident->dead;
              then(incident);
            });
      });
}

void Incidents::Tick() {
  for (Gathering* incident : book_.All()) Tick(incident);
}

void Incidents::Tick(Gathering* incident) {
  if (incident->dead || incident->phase == Gathering::Phase::kDone) return;
  if (incident->ready && !incident->unacknowledged.empty() && !incident->committing) rings_.Commit(incident);
  if (incident->working || !incident->ready) return;
  if (incident->phase == Gathering::Phase::kEvidence && evidence_.Tick(incident)) return AfterEvidence(incident);
  if (incident->phase != Gathering::Phase::kEverything || !rings_.Tick(incident)) return;
  const DesyncFacts& desync = incident->state.desync;
  if (desync.text.empty() || desync.confirmed || incident->resumed) return StartFinal(incident);
  if (shared_.now - incident->phase_ns > kDesyncConfirm) desyncs_.Abandon(incident);
}

void Incidents::AfterEvidence(Gathering* incident) {
  evidence_.WriteStacksOf(incident);
  for (const auto& [host, gathering] : incident->evidence) {
    if (gathering.done || gathering.ranks.empty()) continue;
    incident->missing.push_back(
        absl::StrCat("evidence did not arrive in time from ", host, " (ranks ", gathering.ranks.Text(), ")"));
  }
  incident->state.evidence_done = true;
  if (incident->round == nullptr) return AfterVerdict(incident);
  const std::shared_ptr<DigestRound> round = incident->round;
  const IncidentState state = incident->state;
  incident->working = true;
  auto error = std::make_shared<absl::Status>();
  book_.WorkFor(
      incident, CoreTask::Lane::kAnalysis,
      [round, state, error, alone = incident->without_digests] {
        if (!alone) round->Reanalyse(0);
        *error = WriteDigests(state, round->bundle(), alone);
      },
      [this, error](Gathering* incident) {
        if (!error->ok()) book_.SayOnce(incident, absl::StrCat("the digests could not be stored: ", error->message()));
        if (incident->without_digests) {
          // The earlier verdict remains until all data has arrived.
          incident->working = false;
          incident->round = nullptr;
          return AfterVerdict(incident);
        }
        WriteVerdict(incident, [this](Gathering* incident) {
          if (incident->dead) return book_.TellProgram(incident);
          incident->round = nullptr;  // it takes hundreds of megabytes for 24,576 ranks
          book_.Tell(incident, "verdict updated with process evidence", false);
          AfterVerdict(incident);
        });
      });
}

void Incidents::AfterVerdict(Gathering* incident) {
  book_.TellProgram(incident);
  incident->state.everything ? rings_.Start(incident) : StartFinal(incident);
}

void Incidents::StartFinal(Gathering* incident) {
  incident->phase = Gathering::Phase::kFinal;
  incident->phase_ns = shared_.now;
  incident->working = true;
  const IncidentState state = incident->state;
  const auto store = incident->store;
  std::set<std::string> whole;
  for (const auto& [host, gathering] : incident->everything) {
    if (gathering.done) whole.insert(host);
  }
  book_.WorkFor(
      incident, CoreTask::Lane::kDisk,
      [store, state, whole] {
        if (*store == nullptr) return;
        (*store)
            ->Commit()
            .status()
            .IgnoreError();  // The chunk was not acknowledged, so the agent sends it again and is then refused.
        for (const IncidentStore::File& file : (*store)->Files()) {
          const bool replaced = absl::EndsWith(file.name, ".evidence.lsd") && whole.count(file.host) != 0;
          if (replaced) unlink(absl::StrCat(state.folder, "/", file.name).c_str());
        }
        (*store)->RemoveParts();
        store->reset();
      },
      [this](Gathering* gathering) {
        auto incident = std::make_shared<Incident>();
        auto status = std::make_shared<absl::Status>();
        const std::string folder = gathering->state.folder;
        CoreActions* const actions = shared_.actions;
        book_.WorkFor(
            gathering, CoreTask::Lane::kFinal,
            [actions, folder, incident, status] { *status = actions->Finalise(folder, incident.get()); },
            [this, incident, status](Gathering* gathering) {
              gathering->working = false;
              gathering->phase = Gathering::Phase::kDone;
              gathering->done_ns = shared_.now;
              if (status->ok()) {
                *gathering->incident.mutable_verdict() = incident->verdict();
                gathering->incident.set_text(incident->text());
                gathering->incident.set_whole(incident->whole());
                // An earlier collector process ended before it ran the command.
                if (gathering->json.empty()) {
                  gathering->json = ReportJson(incident->verdict());
                  book_.TellProgram(gathering);
                }
              } else {
                book_.SayOnce(gathering, absl::StrCat("the final verdict could not be computed: ", status->message()));
              }
              shared_.Say(absl::StrCat("job ", gathering->state.job_name, ": incident ",
                                       incident->whole() ? "complete in " : "as complete as possible, in ",
                                       gathering->state.folder, " (lockstep analyze ", gathering->state.folder, ")"));
              book_.Tell(gathering,
                         incident->whole() ? "everything is on disk" : "everything that could be gathered is on disk",
                         true);
            });
      });
}

void Incidents::TakeUp(Job* job) {
  for (Gathering* incident : book_.All()) {
    const IncidentState& state = incident->state;
    if (!incident->job.empty() || BaseKeyOf(state.identity) != BaseKeyOf(job->identity)) continue;
    if (!state.comms.empty() && std::none_of(state.comms.begin(), state.comms.end(),
                                             [&](uint64_t comm) { return job->communicators.contains(comm); }))
      continue;
    incident->job = job->key;
    if (!job->incident.empty() && job->incident > state.name) continue;  // the job has a newer incident
    job->incident = state.name;
    job->last_incident = std::make_shared<Incident>(incident->incident);
  }
}

void Incidents::Resume(const IncidentState& state) {
  Gathering* incident = book_.Add(state);
  incident->working = true;
  shared_.Say(absl::StrCat("incident ", state.name, " was incomplete: resuming"));
  const auto store = incident->store;
  const StoreLimits limits = shared_.options.store;
  struct Result {
    absl::Status status;
    std::vector<IncidentStore::File> files;
    VerdictTexts verdict;
    std::shared_ptr<DigestRound> round;
  };
  auto result = std::make_shared<Result>();
  book_.WorkFor(
      incident, CoreTask::Lane::kDisk,
      [store, state, limits, result] {
        absl::StatusOr<std::unique_ptr<IncidentStore>> opened = IncidentStore::Open(state.folder, limits);
        result->status = opened.status();
        if (!opened.ok()) return;
        result->files = (*opened)->Files();
        result->verdict = ReadVerdictTexts(state.folder);
        if (absl::StatusOr<Bundle> digests = state.evidence_done ? absl::NotFoundError("") : ReadDigests(state.folder);
            digests.ok()) {
          digests->known_stalled = state.stalled_ns > 0;
          digests->stalled_ns = state.stalled_ns;
          result->round = std::make_shared<DigestRound>();
          result->round->Adopt(*std::move(digests));
        }
        *store = std::move(*opened);
      },
      [this, result](Gathering* incident) {
        incident->working = false;
        if (!result->status.ok()) {
          book_.SayOnce(incident, absl::StrCat("cannot resume it: ", result->status.message()));
          return book_.Close(incident);
        }
        incident->ready = true;
        incident->incident.set_text(result->verdict.text);
        incident->round = result->round;
        incident->json = result->verdict.json;
        for (const IncidentStore::File& file : result->files) {
          if (file.whole && !absl::EndsWith(file.name, ".evidence.lsd")) incident->whole.insert(file.host);
        }
        if (!incident->state.evidence_done) {
          if (incident->round == nullptr) {
            incident->round = RoundWithoutDigests(incident->state);
            incident->without_digests = true;
          }
          return evidence_.Start(incident);
        }
        AfterVerdict(incident);
      });
}

}  // namespace lockstep
