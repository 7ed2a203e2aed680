// The part of CollectorCore that asks few ranks for evidence, and merges the answers: process states, stacks.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_units.h"
#include "collector/incident/incident.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr int64_t kStacksGrace = 2 * kSecond;  // relays hold stacks for a quarter of a second each

}  // namespace

void CollectorCore::StartEvidence(Gathering* incident) {
  incident->phase = Gathering::Phase::kEvidence;
  incident->phase_ns = now_;
  for (const auto& [host, ranks] : incident->state.evidence) incident->evidence[host].ranks = ranks;
  for (const auto& [host, ranks] : incident->state.merged) incident->evidence[host].merged = ranks;
  for (auto& [host, gathering] : incident->evidence) {
    gathering.heard_ns = now_;
    AskForEvidence(incident, host, &gathering);
    // A silent host is unlikely to answer in time. After a restart of this process, no host has reported yet.
    if (!gathering.asked && !incident->resumed) gathering.given_up = true;
  }
}

void CollectorCore::AskForEvidence(Gathering* incident, const std::string& host, HostGathering* gathering) {
  Job* job = Find(incident->job);
  if (job == nullptr) return;
  CollectRequest request;
  request.set_request(incident->state.evidence_request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::EVIDENCE);
  gathering->ranks.To(request.mutable_ranks());
  gathering->merged.To(request.mutable_merged());
  request.set_incident(incident->state.name);
  const auto known = job->hosts.find(host);
  if (known != job->hosts.end()) {
    if (known->second.silent || known->second.address.peer == 0) return;
    gathering->asked_at = known->second.address;
    request.mutable_job()->set_life(known->second.life);
    Send(gathering->asked_at, wire::Type::kCollect, request);
  }
  if (known == job->hosts.end() || (!known->second.direct && gathering->asked)) {
    // The host is behind a relay. Its answer will show the route.
    bool any = known != job->hosts.end();
    for (const auto& [at, relay] : job->relays) {
      if (relay.silent || !relay.seen.All().Intersects(gathering->ranks.empty() ? gathering->merged : gathering->ranks))
        continue;
      request.mutable_job()->set_life(at.life);
      Send({at.peer, {}}, wire::Type::kCollect, request);
      any = true;
    }
    if (!any) return;
  }
  gathering->asked = true;
  gathering->asked_ns = now_;
}

void CollectorCore::OnEvidence(const wire::Received& received) {
  auto evidence = std::make_shared<HostEvidence>();
  if (!Decode(received.message, evidence.get())) return;
  ++counters_.evidence;
  if (!evidence->problem().empty()) return OnNoRings(*evidence);
  for (const auto& [name, incident] : incidents_) {
    if (incident->state.evidence_request != evidence->request() || incident->phase != Gathering::Phase::kEvidence)
      continue;
    const auto host = incident->evidence.find(CleanUtf8(evidence->host(), 256));
    if (host == incident->evidence.end()) return;
    host->second.heard_ns = now_;
    if (evidence->last()) host->second.last = true;  // the stacks arrive in another message, merged on their way
    LookWhetherDone(incident.get(), &host->second);
    if (incident->round == nullptr) return;
    const std::shared_ptr<DigestRound> round = incident->round;
    actions_->Work({CoreTask::Lane::kAnalysis, [round, evidence] { round->TakeEvidence(*evidence); }, [](int64_t) {}});
    return;
  }
}

// The host cannot send the requested data. Do not wait for it, and show users the reason.
void CollectorCore::OnNoRings(const HostEvidence& evidence) {
  for (const auto& [name, incident] : incidents_) {
    const bool everything = incident->state.everything_request == evidence.request();
    if (!everything && incident->state.evidence_request != evidence.request()) continue;
    SayOnce(incident.get(), CleanUtf8(evidence.problem(), 512));
    const auto host = incident->everything.find(CleanUtf8(evidence.host(), 256));
    if (everything && host != incident->everything.end() && host->second.asked && !host->second.done)
      host->second.given_up = true;
    return;
  }
}

void CollectorCore::LookWhetherDone(Gathering* incident, HostGathering* gathering) {
  Ranks all = gathering->ranks;
  all.Unite(gathering->merged);
  gathering->done |= gathering->last && incident->stacks_of.ContainsAll(all);
}

// These stacks were merged by relays, or come from one host. Stacks that arrive after the time for evidence are kept,
// too.
void CollectorCore::OnStacks(const wire::Received& received) {
  auto report = std::make_shared<StackReport>();
  if (!Decode(received.message, report.get())) return;
  for (FreshStacks& fresh : fresh_) {
    if (fresh.request != report->request()) continue;
    fresh.tree.Merge(StackTree::FromMessage(report->tree(), 256));
    fresh.got.Unite(Ranks::FromOrNone(report->ranks()));
    for (const std::string& line : report->refused()) {
      if (fresh.refused.size() < 16) fresh.refused.push_back(CleanUtf8(line, 512));
    }
    return;
  }
  for (const auto& [name, incident] : incidents_) {
    if (incident->state.evidence_request != report->request() || report->request() == 0) continue;
    if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone)
      return;
    const Ranks ranks = Ranks::FromOrNone(report->ranks());
    incident->stacks_of.Unite(ranks);
    for (auto& [host, gathering] : incident->evidence) {
      if (!gathering.merged.Intersects(ranks) && !gathering.ranks.Intersects(ranks)) continue;
      gathering.heard_ns = now_;
      LookWhetherDone(incident.get(), &gathering);
    }
    for (const std::string& line : report->refused()) {
      if (incident->stacks_refused.size() < 64) incident->stacks_refused.push_back(CleanUtf8(line, 512));
    }
    const std::shared_ptr<StackTree> stacks = incident->stacks;
    actions_->Work({CoreTask::Lane::kDisk, [stacks, report] { stacks->Merge(StackTree::FromMessage(report->tree())); },
                    [](int64_t) {}});
    if (incident->phase == Gathering::Phase::kEverything) WriteStacksOf(incident.get());
    return;
  }
}

void CollectorCore::WriteStacksOf(Gathering* incident) {
  if (incident->stacks_of.empty()) return;
  const std::shared_ptr<StackTree> stacks = incident->stacks;
  const std::string folder = incident->state.folder;
  auto status = std::make_shared<absl::Status>();
  WorkFor(
      incident, CoreTask::Lane::kDisk,
      [stacks, folder, status, ranks = incident->stacks_of, refused = incident->stacks_refused] {
        *status = WriteStacks(folder, *stacks, ranks, refused);
      },
      [this, status](Gathering* incident) {
        if (!status->ok())
          SayOnce(incident, absl::StrCat("the merged stacks could not be stored: ", status->message()));
      });
}

void CollectorCore::AfterEvidence(Gathering* incident) {
  WriteStacksOf(incident);
  for (const auto& [host, gathering] : incident->evidence) {
    if (gathering.done || gathering.ranks.empty()) continue;
    incident->missing.push_back(
        absl::StrCat("no evidence arrived in time from ", host, " (ranks ", gathering.ranks.Text(), ")"));
  }
  incident->state.evidence_done = true;
  if (incident->round == nullptr) return AfterVerdict(incident);
  const std::shared_ptr<DigestRound> round = incident->round;
  const IncidentState state = incident->state;
  incident->working = true;
  auto error = std::make_shared<absl::Status>();
  WorkFor(
      incident, CoreTask::Lane::kAnalysis,
      [round, state, error, alone = incident->without_digests] {
        if (!alone) round->Reanalyse(0);
        *error = WriteDigests(state, round->bundle(), alone);
      },
      [this, error](Gathering* incident) {
        if (!error->ok()) SayOnce(incident, absl::StrCat("the digests could not be stored: ", error->message()));
        if (incident->without_digests) {
          // The earlier verdict stays until all data is there.
          incident->working = false;
          incident->round = nullptr;
          return AfterVerdict(incident);
        }
        WriteVerdict(incident, [this](Gathering* incident) {
          if (incident->dead) return TellProgram(incident);
          incident->round = nullptr;  // 24,576 ranks take hundreds of megabytes
          Tell(incident, "verdict with evidence", false);
          AfterVerdict(incident);
        });
      });
}

void CollectorCore::TickEvidence(Gathering* incident) {
  bool all = true;
  for (auto& [host, gathering] : incident->evidence) {
    // An agent of an older version does not send stacks.
    if (gathering.last && now_ - gathering.heard_ns >= kStacksGrace) gathering.done = true;
    if (gathering.done || gathering.given_up) continue;
    all = false;
    // The request was lost, or its agent or this process was restarted.
    const int64_t since = now_ - std::max(gathering.asked_ns, gathering.heard_ns);
    if (since >= (gathering.asked ? options_.ask_evidence_again_ns : kSecond))
      AskForEvidence(incident, host, &gathering);
  }
  // After a restart, agents need time to connect.
  const int64_t most = options_.evidence_ns + (incident->resumed ? options_.ask_again_ns : 0);
  if (all || now_ - incident->phase_ns >= most) AfterEvidence(incident);
}

}  // namespace lockstep
