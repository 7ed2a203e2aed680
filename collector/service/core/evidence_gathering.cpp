#include "collector/service/core/evidence_gathering.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_units.h"
#include "collector/incident/incident.h"

namespace lockstep {
namespace {

constexpr int64_t kAskEvidenceAgain = 5 * kSecond;  // time without an answer before a host is asked again
constexpr int64_t kStacksGrace = 2 * kSecond;       // relays hold stacks for up to a quarter of a second each

}  // namespace

void EvidenceGathering::Start(Gathering* incident) {
  incident->phase = Gathering::Phase::kEvidence;
  incident->phase_ns = shared_.now;
  for (const auto& [host, ranks] : incident->state.evidence) incident->evidence[host].ranks = ranks;
  for (const auto& [host, ranks] : incident->state.merged) incident->evidence[host].merged = ranks;
  for (auto& [host, gathering] : incident->evidence) {
    gathering.heard_ns = shared_.now;
    RequestEvidence(incident, host, &gathering);
    // A silent host is unlikely to answer in time. But after a restart of this process, no host has reported yet.
    if (!gathering.asked && !incident->resumed) gathering.given_up = true;
  }
}

void EvidenceGathering::RequestEvidence(Gathering* incident, const std::string& host, HostGathering* gathering) {
  Job* job = jobs_.Find(incident->job);
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
    shared_.Send(gathering->asked_at, wire::Type::kCollect, request);
  }
  if (known == job->hosts.end() || (!known->second.direct && gathering->asked)) {
    // The host is behind a relay. Its answer will show the route.
    bool any = known != job->hosts.end();
    for (const auto& [at, relay] : job->relays) {
      if (relay.silent || !relay.seen.All().Intersects(gathering->ranks.empty() ? gathering->merged : gathering->ranks))
        continue;
      request.mutable_job()->set_life(at.life);
      shared_.Send({at.peer, {}}, wire::Type::kCollect, request);
      any = true;
    }
    if (!any) return;
  }
  gathering->asked = true;
  gathering->asked_ns = shared_.now;
}

void EvidenceGathering::OnEvidence(const wire::Received& received) {
  auto evidence = std::make_shared<HostEvidence>();
  if (!shared_.Decode(received.message, evidence.get())) return;
  ++shared_.counters.evidence;
  if (!evidence->problem().empty()) return OnNoRings(*evidence);
  for (Gathering* incident : book_.All()) {
    if (incident->state.evidence_request != evidence->request() || incident->phase != Gathering::Phase::kEvidence)
      continue;
    const auto host = incident->evidence.find(CleanUtf8(evidence->host(), 256));
    if (host == incident->evidence.end()) return;
    host->second.heard_ns = shared_.now;
    if (evidence->last()) host->second.last = true;  // the stacks arrive in a separate message, merged on the way
    LookWhetherDone(incident, &host->second);
    if (incident->round == nullptr) return;
    const std::shared_ptr<DigestRound> round = incident->round;
    shared_.Work(CoreTask::Lane::kAnalysis, [round, evidence] { round->TakeEvidence(*evidence); });
    return;
  }
}

// A host cannot send the requested data. Shows users the reason, and stops waiting for its rings.
void EvidenceGathering::OnNoRings(const HostEvidence& evidence) {
  for (Gathering* incident : book_.All()) {
    const bool everything = incident->state.everything_request == evidence.request();
    if (!everything && incident->state.evidence_request != evidence.request()) continue;
    book_.SayOnce(incident, CleanUtf8(evidence.problem(), 512));
    const auto host = incident->everything.find(CleanUtf8(evidence.host(), 256));
    if (everything && host != incident->everything.end() && host->second.asked && !host->second.done)
      host->second.given_up = true;
    return;
  }
}

void EvidenceGathering::LookWhetherDone(Gathering* incident, HostGathering* gathering) {
  Ranks all = gathering->ranks;
  all.Unite(gathering->merged);
  gathering->done |= gathering->last && incident->stacks_of.ContainsAll(all);
}

void EvidenceGathering::OnStacks(const std::shared_ptr<StackReport>& report) {
  for (Gathering* incident : book_.All()) {
    if (incident->state.evidence_request != report->request() || report->request() == 0) continue;
    if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone)
      return;
    const Ranks ranks = Ranks::FromOrNone(report->ranks());
    incident->stacks_of.Unite(ranks);
    for (auto& [host, gathering] : incident->evidence) {
      if (!gathering.merged.Intersects(ranks) && !gathering.ranks.Intersects(ranks)) continue;
      gathering.heard_ns = shared_.now;
      LookWhetherDone(incident, &gathering);
    }
    for (const std::string& line : report->refused()) {
      if (incident->stacks_refused.size() < 64) incident->stacks_refused.push_back(CleanUtf8(line, 512));
    }
    const std::shared_ptr<StackTree> stacks = incident->stacks;
    shared_.Work(CoreTask::Lane::kDisk, [stacks, report] { stacks->Merge(StackTree::FromMessage(report->tree())); });
    if (incident->phase == Gathering::Phase::kEverything) WriteStacksOf(incident);
    return;
  }
}

void EvidenceGathering::WriteStacksOf(Gathering* incident) {
  if (incident->stacks_of.empty()) return;
  const std::shared_ptr<StackTree> stacks = incident->stacks;
  const std::string folder = incident->state.folder;
  auto status = std::make_shared<absl::Status>();
  book_.WorkFor(
      incident, CoreTask::Lane::kDisk,
      [stacks, folder, status, ranks = incident->stacks_of, refused = incident->stacks_refused] {
        *status = WriteStacks(folder, *stacks, ranks, refused);
      },
      [this, status](Gathering* incident) {
        if (!status->ok())
          book_.SayOnce(incident, absl::StrCat("the merged stacks could not be stored: ", status->message()));
      });
}

bool EvidenceGathering::Tick(Gathering* incident) {
  bool all = true;
  for (auto& [host, gathering] : incident->evidence) {
    // An agent with an older version does not send stacks.
    if (gathering.last && shared_.now - gathering.heard_ns >= kStacksGrace) gathering.done = true;
    if (gathering.done || gathering.given_up) continue;
    all = false;
    // The request was lost, or its agent or this process was restarted.
    const int64_t since = shared_.now - std::max(gathering.asked_ns, gathering.heard_ns);
    if (since >= (gathering.asked ? kAskEvidenceAgain : kSecond)) RequestEvidence(incident, host, &gathering);
  }
  // After a restart, agents need time to reconnect.
  const int64_t most = kEvidenceLimit + (incident->resumed ? kAskAgain : 0);
  return all || shared_.now - incident->phase_ns >= most;
}

}  // namespace lockstep
