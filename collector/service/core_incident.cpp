// The part of CollectorCore that creates an incident: its verdicts, its beginning and end, and its continuation by a
// later process.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"
#include "collector/common/say.h"
#include "collector/incident/incident.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr size_t kMostHostLines = 16;  // lines about hardware, for `lockstep top`

std::string PlainName(const std::string& name) {
  std::string file = DumpFileName(name);
  file.resize(file.size() - 4);
  return file.substr(0, 80);
}

// Takes the evidence of an incident whose digests are lost.
std::shared_ptr<DigestRound> EvidenceAlone(const IncidentState& state) {
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

void CollectorCore::SayOnce(Gathering* incident, const std::string& text) {
  if (incident->said.size() > 64 || !incident->said.insert(text).second) return;
  actions_->Say(absl::StrCat("incident ", incident->state.name, ": ", text));
}

void CollectorCore::MakeIncident(Job* job, const Decision* decision) {
  ++counters_.verdicts;
  auto made = std::make_unique<Gathering>();
  Gathering* incident = made.get();
  std::string name = DefaultIncidentFolder(PlainName(job->identity.job()), RealNow());
  for (int extra = 2; incidents_.count(name) != 0; ++extra) {
    name = absl::StrCat(DefaultIncidentFolder(PlainName(job->identity.job()), RealNow()), "-", extra);
  }
  IncidentState& state = incident->state;
  state.name = name;
  state.folder = absl::StrCat(options_.out, "/", name);
  state.identity = job->identity;
  state.everything = decision != nullptr || job->asked_everything;
  state.declared = decision != nullptr;
  state.people = job->name;
  state.evidence_request = NextRequest();
  state.everything_request = NextRequest();
  state.stalled_ns = job->round->bundle().known_stalled ? std::max<int64_t>(job->round->bundle().stalled_ns, 1) : 0;
  if (decision != nullptr) {
    state.stalled_ns = std::max<int64_t>(state.stalled_ns, std::max<int64_t>(decision->age_ns, 1));
    job->round->StoodStill(state.stalled_ns);  // no task of the round is running
  }
  job->round->LiesIn(state.folder);
  state.ranks_expected = job->round->bundle().ranks_expected;
  state.captured_real_ns = RealNow();
  state.comms = KinOf(*job);
  for (const auto& [host, entry] : job->hosts) {
    if (!entry.ranks.empty()) state.hosts[host] = entry.ranks;
  }
  incident->job = job->key;
  incident->people = job->name;
  incident->round = job->round;
  incident->phase_ns = now_;
  incident->asking = std::move(job->asking);
  job->asking.clear();
  job->asked_everything = false;
  // Samples of a later round go into a separate bundle.
  job->round = nullptr;
  job->sample_requests.clear();
  job->held.clear();
  job->held_bytes = 0;
  job->incident = name;
  *incident->incident.mutable_job() = job->identity;
  incident->incident.set_path(state.folder);
  incidents_[name] = std::move(made);
  for (const DigestHole& hole : job->holes) incident->missing.push_back(hole.text);
  WriteVerdict(incident, [this](Gathering* incident) {
    if (incident->dead) return TellProgram(incident);
    const std::shared_ptr<DigestRound> round = incident->round;
    const IncidentState state = incident->state;
    auto error = std::make_shared<absl::Status>();
    WorkFor(
        incident, CoreTask::Lane::kAnalysis, [round, state, error] { *error = WriteDigests(state, round->bundle()); },
        [this, error](Gathering* incident) {
          if (!error->ok()) SayOnce(incident, absl::StrCat("the digests could not be stored: ", error->message()));
        });
    StartEvidence(incident);
  });
}

// From the round's bundle. Prints it first, because a full disk must not withhold a verdict from users.
void CollectorCore::WriteVerdict(Gathering* incident, std::function<void(Gathering*)> then) {
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
  WorkFor(
      incident, CoreTask::Lane::kAnalysis,
      [round, written, first, now = now_, most = options_.evidence_ranks, merged = options_.merged_ranks] {
        written->verdict = WithCircumstances(round->verdict(), round->bundle());
        written->text = VerdictText(written->verdict, round->bundle());
        written->json = ReportJson(written->verdict);
        written->redacted = RedactionOf(round->bundle());
        written->evidence = round->EvidenceRanks(most);
        written->merged = round->StackRanks(merged, written->evidence);
        if (!first) written->hosts = FindingsOfHosts(round->bundle(), now, kMostHostLines);
      },
      [this, written, first, then = std::move(then)](Gathering* incident) {
        *incident->incident.mutable_verdict() = written->verdict;
        incident->incident.set_text(written->text);
        incident->json = written->json;
        if (Job* job = Find(incident->job); job != nullptr && job->incident == incident->state.name)
          job->hosts_found = written->hosts;
        incident->state.redacted = written->redacted;
        if (first) {
          actions_->Say(
              absl::StrCat("job ", incident->people, ": verdict ", VerdictName(written->verdict.verdict()),
                           written->verdict.findings_size() > 0 ? ": " + Headline(written->verdict.findings(0)) : ""));
          actions_->Print(written->text);
          for (int32_t rank : written->evidence) {
            for (const auto& [host, ranks] : incident->state.hosts) {
              if (ranks.Contains(rank)) incident->state.evidence[host].Add(rank);
            }
          }
          const Ranks merged = Ranks::Of(written->merged);
          for (const auto& [host, ranks] : incident->state.hosts) {
            if (const Ranks here = ranks.Common(merged); !here.empty()) incident->state.merged[host] = here;
          }
          Tell(incident, "verdict from digests", false);
        }
        const IncidentState state = incident->state;
        const std::vector<std::string> missing = incident->missing;
        const auto store = incident->store;
        const StoreLimits limits = options_.store;
        WorkFor(
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
                SayOnce(incident, absl::StrCat("it is not complete: ", written->status.message()));
                if (*incident->store == nullptr) {
                  // Nothing of it can be stored. The facts that are known were reported.
                  incident->dead = true;
                  incident->done_ns = now_;
                  incident->incident.clear_path();
                  Tell(incident, absl::StrCat("the incident could not be written: ", written->status.message()), true);
                }
              }
              incident->ready = !incident->dead;
              then(incident);
            });
      });
}

void CollectorCore::Tell(Gathering* incident, const std::string& progress, bool done) {
  Job* job = Find(incident->job);
  if (job != nullptr && job->incident == incident->state.name)
    job->last_incident = std::make_shared<Incident>(incident->incident);
  for (const auto& [address, request] : incident->asking) {
    ClientReply reply;
    reply.set_request(request);
    reply.set_progress(progress);
    *reply.mutable_incident() = incident->incident;
    reply.set_done(done);
    Send(address, wire::Type::kClientReply, reply);
  }
  if (done) incident->asking.clear();
  TellWatchers(incident->job, &incident->incident);
}

void CollectorCore::TickIncident(Gathering* incident) {
  if (incident->dead || incident->phase == Gathering::Phase::kDone) return;
  if (incident->ready && !incident->unacknowledged.empty() && !incident->committing) Commit(incident);
  if (incident->working || !incident->ready) return;
  if (incident->phase == Gathering::Phase::kEvidence) return TickEvidence(incident);
  if (incident->phase == Gathering::Phase::kEverything) TickEverything(incident);
}

// Called once the evidence is there, because the action depends on it. The mark in the folder prevents a second call.
void CollectorCore::TellProgram(Gathering* incident) {
  if ((!incident->state.declared && !incident->state.desync.confirmed) || incident->json.empty()) return;
  actions_->OnVerdict(incident->people, incident->json, incident->dead ? "" : incident->state.folder);
}

void CollectorCore::AfterVerdict(Gathering* incident) {
  TellProgram(incident);
  incident->state.everything ? StartEverything(incident) : StartFinal(incident);
}

void CollectorCore::StartFinal(Gathering* incident) {
  incident->phase = Gathering::Phase::kFinal;
  incident->phase_ns = now_;
  incident->working = true;
  const IncidentState state = incident->state;
  const auto store = incident->store;
  std::set<std::string> whole;
  for (const auto& [host, gathering] : incident->everything) {
    if (gathering.done) whole.insert(host);
  }
  WorkFor(
      incident, CoreTask::Lane::kDisk,
      [store, state, whole] {
        if (*store == nullptr) return;
        (*store)
            ->Commit()
            .status()
            .IgnoreError();  // The chunk was not acknowledged, so the agent sends it again, and it is refused then.
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
        CoreActions* const actions = actions_;
        WorkFor(
            gathering, CoreTask::Lane::kFinal,
            [actions, folder, incident, status] { *status = actions->Finalise(folder, incident.get()); },
            [this, incident, status](Gathering* gathering) {
              gathering->working = false;
              gathering->phase = Gathering::Phase::kDone;
              gathering->done_ns = now_;
              if (status->ok()) {
                *gathering->incident.mutable_verdict() = incident->verdict();
                gathering->incident.set_text(incident->text());
                gathering->incident.set_whole(incident->whole());
                // An earlier collector process ended before it reported the verdict, so the program gets it now.
                if (gathering->json.empty()) {
                  gathering->json = ReportJson(incident->verdict());
                  TellProgram(gathering);
                }
              } else {
                SayOnce(gathering, absl::StrCat("the final verdict could not be computed: ", status->message()));
              }
              actions_->Say(absl::StrCat("job ", gathering->people, ": incident ",
                                         incident->whole() ? "complete in " : "as complete as possible, in ",
                                         gathering->state.folder, " (lockstep analyze ", gathering->state.folder, ")"));
              Tell(gathering, incident->whole() ? "everything is on disk" : "what could be gathered is on disk", true);
            });
      });
}

void CollectorCore::TakeUp(Gathering* incident, Job* job) {
  incident->job = job->key;
  if (!job->incident.empty() && job->incident > incident->state.name) return;  // the job has a newer incident
  job->incident = incident->state.name;
  job->last_incident = std::make_shared<Incident>(incident->incident);
}

void CollectorCore::Resume(const IncidentState& state) {
  auto made = std::make_unique<Gathering>();
  Gathering* incident = made.get();
  incident->state = state;
  incident->resumed = true;
  incident->people = state.people.empty() ? state.identity.job() : state.people;
  *incident->incident.mutable_job() = state.identity;
  incident->incident.set_path(state.folder);
  incident->phase_ns = now_;
  incident->working = true;
  incidents_[state.name] = std::move(made);
  actions_->Say(absl::StrCat("incident ", state.name, " was not complete: resuming"));
  const auto store = incident->store;
  const StoreLimits limits = options_.store;
  struct Result {
    absl::Status status;
    std::vector<IncidentStore::File> files;
    VerdictTexts verdict;
    std::shared_ptr<DigestRound> round;
  };
  auto result = std::make_shared<Result>();
  WorkFor(
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
          SayOnce(incident, absl::StrCat("it cannot be resumed: ", result->status.message()));
          incident->dead = true;
          incident->done_ns = now_;
          return;
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
            incident->round = EvidenceAlone(incident->state);
            incident->without_digests = true;
          }
          return StartEvidence(incident);
        }
        AfterVerdict(incident);
      });
}

}  // namespace lockstep
