// The part of CollectorCore that gathers an incident: verdict from digests, evidence, everything, verdict on the whole.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/load_merge.h"
#include "analyzer/redact.h"
#include "analyzer/report.h"
#include "collector/collector_core.h"
#include "collector/incident.h"
#include "collector/say.h"

namespace lockstep {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStacksGrace = 2 * kSecond;  // relays hold stacks for a quarter of a second each
constexpr size_t kMostHostLines = 16;          // about hardware, for `lockstep top`
constexpr int64_t kActiveFor = 2 * kSecond;  // a host that sends nothing for so long holds nobody else up

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
    job->round->StoodStill(state.stalled_ns);  // no task of the round is out
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
  // Samples of a later round go into a bundle of their own.
  job->round = nullptr;
  job->sample_requests.clear();
  job->held.clear();
  job->held_bytes = 0;
  job->incident = name;
  *incident->incident.mutable_job() = job->identity;
  incident->incident.set_path(state.folder);
  incidents_[name] = std::move(made);
  for (const DigestHole& hole : job->holes) incident->missing.push_back(hole.text);
  const bool declared = decision != nullptr;
  WriteVerdict(incident, [this, name, declared] {
    const auto found = incidents_.find(name);
    if (found == incidents_.end()) return;
    Gathering* incident = found->second.get();
    if (declared) {
      actions_->OnVerdict(incident->people, ReportJson(incident->incident.verdict()), incident->dead ? "" : ToldMark(incident->state.folder));
    }
    if (incident->dead) return;
    const std::shared_ptr<DigestRound> round = incident->round;
    const IncidentState state = incident->state;
    auto error = std::make_shared<absl::Status>();
    actions_->Work({CoreTask::Lane::kAnalysis, [round, state, error] { *error = WriteDigests(state, round->bundle()); },
                    [this, alive = alive_, name, error](int64_t) {
                      if (!*alive || error->ok()) return;
                      if (const auto at = incidents_.find(name); at != incidents_.end()) {
                        SayOnce(at->second.get(), absl::StrCat("the digests could not be kept: ", error->message()));
                      }
                    }});
    StartEvidence(incident);
  });
}

// From the round's bundle, to the screen first: a full disk must not keep a verdict from people.
void CollectorCore::WriteVerdict(Gathering* incident, std::function<void()> then) {
  struct Written {
    std::string text, json, redacted;
    Verdict verdict;
    absl::Status status;
    std::vector<int32_t> evidence, merged;
    HostFindings hosts;
  };
  auto written = std::make_shared<Written>();
  const std::shared_ptr<DigestRound> round = incident->round;
  const std::string name = incident->state.name;
  const bool first = !incident->ready;
  incident->working = true;
  ++tasks_out_;
  actions_->Work(
      {CoreTask::Lane::kAnalysis,
       [round, written, first, now = now_, most = options_.evidence_ranks, merged = options_.merged_ranks] {
         written->verdict = round->verdict();
         written->text = ReportText(round->verdict(), round->bundle());
         written->json = ReportJson(round->verdict());
         written->redacted = RedactionOf(round->bundle());
         written->evidence = round->EvidenceRanks(most);
         written->merged = round->StackRanks(merged, written->evidence);
         if (!first) written->hosts = FindingsOfHosts(round->bundle(), now, kMostHostLines);
       },
       [this, alive = alive_, name, written, first, then](int64_t now) {
         if (!*alive) return;
         --tasks_out_;
         now_ = std::max(now_, now);
         const auto found = incidents_.find(name);
         if (found == incidents_.end()) return;
         Gathering* incident = found->second.get();
         *incident->incident.mutable_verdict() = written->verdict;
         incident->incident.set_text(written->text);
         if (Job* job = Find(incident->job); job != nullptr && job->incident == name) job->hosts_found = written->hosts;
         incident->state.redacted = written->redacted;
         if (first) {
           actions_->Say(absl::StrCat("job ", incident->people, ": verdict ", VerdictName(written->verdict.verdict()),
                                      written->verdict.findings_size() > 0 ? ": " + written->verdict.findings(0).summary() : ""));
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
         ++tasks_out_;
         actions_->Work({CoreTask::Lane::kDisk,
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
                         [this, alive, name, written, then](int64_t now) {
                           if (!*alive) return;
                           --tasks_out_;
                           now_ = std::max(now_, now);
                           const auto found = incidents_.find(name);
                           if (found == incidents_.end()) return;
                           Gathering* incident = found->second.get();
                           incident->working = false;
                           if (!written->status.ok()) {
                             SayOnce(incident, absl::StrCat("it is not complete: ", written->status.message()));
                             if (*incident->store == nullptr) {
                               // Nothing of it can be kept. What is known has been said.
                               incident->dead = true;
                               incident->done_ns = now_;
                               incident->incident.clear_path();
                               Tell(incident, absl::StrCat("the incident could not be written: ", written->status.message()), true);
                             }
                           }
                           incident->ready = !incident->dead;
                           then();
                         }});
       }});
}

void CollectorCore::Tell(Gathering* incident, const std::string& progress, bool done) {
  Job* job = Find(incident->job);
  if (job != nullptr && job->incident == incident->state.name) job->last_incident = std::make_shared<Incident>(incident->incident);
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

void CollectorCore::StartEvidence(Gathering* incident) {
  incident->phase = Gathering::Phase::kEvidence;
  incident->phase_ns = now_;
  for (const auto& [host, ranks] : incident->state.evidence) incident->evidence[host].ranks = ranks;
  for (const auto& [host, ranks] : incident->state.merged) incident->evidence[host].merged = ranks;
  for (auto& [host, gathering] : incident->evidence) {
    gathering.heard_ns = now_;
    AskForEvidence(incident, host, &gathering);
    // Who is silent now will hardly speak in time; after a restart of this process nobody has spoken yet.
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
  } else {
    // Behind a relay; which route leads there the answer will tell.
    bool any = false;
    for (const auto& [at, relay] : job->relays) {
      if (relay.silent || !relay.seen.All().Intersects(gathering->ranks.empty() ? gathering->merged : gathering->ranks)) continue;
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
  for (const auto& [name, incident] : incidents_) {
    if (incident->state.evidence_request != evidence->request() || incident->phase != Gathering::Phase::kEvidence) continue;
    const auto host = incident->evidence.find(CleanUtf8(evidence->host(), 256));
    if (host == incident->evidence.end()) return;
    host->second.heard_ns = now_;
    if (evidence->last()) host->second.last = true;  // the stacks come in another message, merged on their way
    LookWhetherDone(incident.get(), &host->second);
    if (incident->round == nullptr) return;
    const std::shared_ptr<DigestRound> round = incident->round;
    actions_->Work({CoreTask::Lane::kAnalysis, [round, evidence] { round->TakeEvidence(*evidence); }, [](int64_t) {}});
    return;
  }
}

void CollectorCore::LookWhetherDone(Gathering* incident, HostGathering* gathering) {
  Ranks all = gathering->ranks;
  all.Unite(gathering->merged);
  gathering->done |= gathering->last && incident->stacks_of.ContainsAll(all);
}

// Merged by relays, or of one host. What comes after the evidence's time is kept, too.
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
    if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone) return;
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
    actions_->Work({CoreTask::Lane::kDisk, [stacks, report] { stacks->Merge(StackTree::FromMessage(report->tree())); }, [](int64_t) {}});
    if (incident->phase == Gathering::Phase::kEverything) WriteStacksOf(incident.get());
    return;
  }
}

void CollectorCore::WriteStacksOf(Gathering* incident) {
  if (incident->stacks_of.empty()) return;
  const std::shared_ptr<StackTree> stacks = incident->stacks;
  const std::string folder = incident->state.folder, name = incident->state.name;
  auto status = std::make_shared<absl::Status>();
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kDisk,
                  [stacks, folder, status, ranks = incident->stacks_of, refused = incident->stacks_refused] {
                    *status = WriteStacks(folder, *stacks, ranks, refused);
                  },
                  [this, alive = alive_, name, status](int64_t) {
                    if (!*alive) return;
                    --tasks_out_;
                    const auto found = incidents_.find(name);
                    if (!status->ok() && found != incidents_.end()) {
                      SayOnce(found->second.get(), absl::StrCat("the merged stacks could not be kept: ", status->message()));
                    }
                  }});
}

void CollectorCore::AfterEvidence(Gathering* incident) {
  const std::string name = incident->state.name;
  WriteStacksOf(incident);
  for (const auto& [host, gathering] : incident->evidence) {
    if (gathering.done || gathering.ranks.empty()) continue;
    incident->missing.push_back(absl::StrCat("no evidence came in time from ", host, " (ranks ", gathering.ranks.Text(), ")"));
  }
  incident->state.evidence_done = true;
  if (incident->round == nullptr) return incident->state.everything ? StartEverything(incident) : StartFinal(incident);
  const std::shared_ptr<DigestRound> round = incident->round;
  const IncidentState state = incident->state;
  incident->working = true;
  auto error = std::make_shared<absl::Status>();
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kAnalysis,
                  [round, state, error, alone = incident->without_digests] {
                    if (!alone) round->Reanalyse(0);
                    *error = WriteDigests(state, round->bundle(), alone);
                  },
                  [this, alive = alive_, name, error](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    const auto found = incidents_.find(name);
                    if (found == incidents_.end()) return;
                    if (!error->ok()) SayOnce(found->second.get(), absl::StrCat("the digests could not be kept: ", error->message()));
                    if (found->second->without_digests) {
                      // The verdict that was written before stands until the whole is there.
                      found->second->working = false;
                      found->second->round = nullptr;
                      return found->second->state.everything ? StartEverything(found->second.get()) : StartFinal(found->second.get());
                    }
                    WriteVerdict(found->second.get(), [this, name] {
                      const auto at = incidents_.find(name);
                      if (at == incidents_.end() || at->second->dead) return;
                      Gathering* incident = at->second.get();
                      incident->round = nullptr;  // 24,576 ranks are hundreds of megabytes
                      Tell(incident, "verdict with evidence", false);
                      incident->state.everything ? StartEverything(incident) : StartFinal(incident);
                    });
                  }});
}

void CollectorCore::StartEverything(Gathering* incident) {
  incident->phase = Gathering::Phase::kEverything;
  incident->phase_ns = now_;
  for (const auto& [host, ranks] : incident->state.hosts) incident->everything[host].ranks = ranks;
  for (const std::string& host : incident->whole) {
    if (const auto entry = incident->everything.find(host); entry != incident->everything.end()) entry->second.done = true;
  }
}

void CollectorCore::AskForEverything(Gathering* incident, const std::string& host, HostGathering* gathering) {
  Job* job = Find(incident->job);
  if (job == nullptr) return;
  CollectRequest request;
  request.set_request(incident->state.everything_request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::EVERYTHING);
  request.set_incident(incident->state.name);
  if (!incident->state.desync.text.empty()) gathering->ranks.To(request.mutable_ranks());
  const auto known = job->hosts.find(host);
  if (known != job->hosts.end() && known->second.address.peer != 0 && !known->second.silent) {
    gathering->asked_at = known->second.address;
    request.mutable_job()->set_life(known->second.life);
    Send(gathering->asked_at, wire::Type::kCollect, request);
  }
  if (known == job->hosts.end() || !known->second.direct) {
    // Behind a relay, perhaps another one by now.
    gathering->ranks.To(request.mutable_ranks());
    for (const auto& [at, relay] : job->relays) {
      const bool may = !relay.silent && (relay.seen.All().Intersects(gathering->ranks));
      request.mutable_job()->set_life(at.life);
      if (may && at.peer != gathering->asked_at.peer) Send({at.peer, {}}, wire::Type::kCollect, request);
    }
  }
  if (!gathering->asked) gathering->heard_ns = now_;
  gathering->asked = true;
  gathering->asked_ns = now_;
}

void CollectorCore::OnChunk(const wire::Received& received) {
  auto chunk = std::make_shared<Chunk>();
  if (!Decode(received.message, chunk.get())) return;
  const Address from{received.peer, received.message.header.route};
  ++counters_.chunks;
  counters_.chunk_bytes += chunk->data().size();
  const auto refuse = [&](const std::string& why) {
    ++counters_.chunks_refused;
    ChunkAck ack;
    ack.add_id(chunk->id());
    ack.set_refused(why);
    Send(from, wire::Type::kAck, ack);
  };
  const auto found = incidents_.find(chunk->incident());
  if (found == incidents_.end()) return refuse("this collector gathers no such incident");
  Gathering* incident = found->second.get();
  if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone) {
    return refuse("the incident is closed");
  }
  if (gathered_bytes_ + chunk->raw_bytes() > options_.quota) {
    SayOnce(incident, absl::StrCat("the quota of ", options_.quota, " bytes is reached: what comes now is refused"));
    return refuse("the collector's quota is reached");
  }
  if (!incident->ready || waiting_chunk_bytes_ + chunk->data().size() > options_.most_waiting_chunk_bytes) {
    ++counters_.chunks_put_off;  // comes again
    return;
  }
  for (auto* hosts : {&incident->evidence, &incident->everything}) {
    auto host = hosts->find(chunk->host());
    if (host == hosts->end()) host = hosts->find("");
    if (host != hosts->end()) host->second.heard_ns = now_;
  }
  const size_t bytes = chunk->data().size();
  waiting_chunk_bytes_ += bytes;
  const std::string name = incident->state.name;
  const auto store = incident->store;
  struct Result {
    IncidentStore::Put put = IncidentStore::Put::kLater;
    std::string why;
  };
  auto result = std::make_shared<Result>();
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kDisk, [store, chunk, result] { result->put = (*store)->Take(*chunk, &result->why); },
                  [this, alive = alive_, name, chunk, result, from, bytes](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    waiting_chunk_bytes_ -= bytes;
                    const auto found = incidents_.find(name);
                    if (found == incidents_.end()) return;
                    ChunkAck ack;
                    ack.add_id(chunk->id());
                    switch (result->put) {
                      case IncidentStore::Put::kTaken:
                        gathered_bytes_ += chunk->raw_bytes();
                        found->second->unacknowledged[chunk->id()] = from;
                        return;
                      case IncidentStore::Put::kDuplicate:
                        return Send(from, wire::Type::kAck, ack);
                      case IncidentStore::Put::kRefused:
                        ++counters_.chunks_refused;
                        ack.set_refused(result->why);
                        return Send(from, wire::Type::kAck, ack);
                      case IncidentStore::Put::kLater:
                        ++counters_.chunks_put_off;
                        if (result->why != "it is being written") SayOnce(found->second.get(), result->why + "; chunks wait at the agents");
                        return;
                    }
                  }});
}

void CollectorCore::Commit(Gathering* incident) {
  incident->committing = true;
  struct Result {
    absl::StatusOr<std::vector<std::string>> ids;
    std::vector<IncidentStore::File> files;
  };
  auto result = std::make_shared<Result>();
  const auto store = incident->store;
  const std::string name = incident->state.name;
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kDisk,
                  [store, result] {
                    result->ids = (*store)->Commit();
                    result->files = (*store)->Files();
                  },
                  [this, alive = alive_, name, result](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    const auto found = incidents_.find(name);
                    if (found == incidents_.end()) return;
                    Gathering* incident = found->second.get();
                    incident->committing = false;
                    if (!result->ids.ok()) {
                      SayOnce(incident, absl::StrCat(result->ids.status().message(), "; chunks wait at the agents"));
                      incident->unacknowledged.clear();
                      return;
                    }
                    std::map<Address, ChunkAck> acks;
                    for (const std::string& id : *result->ids) {
                      const auto sender = incident->unacknowledged.find(id);
                      if (sender == incident->unacknowledged.end()) continue;
                      acks[sender->second].add_id(id);
                      incident->unacknowledged.erase(sender);
                    }
                    for (const auto& [address, ack] : acks) Send(address, wire::Type::kAck, ack);
                    for (const IncidentStore::File& file : result->files) {
                      if (!file.whole || absl::EndsWith(file.name, ".evidence.lsd")) continue;
                      if (const auto host = incident->everything.find(file.host); host != incident->everything.end()) {
                        host->second.done = true;
                      } else {
                        incident->whole.insert(file.host);
                      }
                    }
                  }});
}

void CollectorCore::TickIncident(Gathering* incident) {
  if (incident->dead || incident->phase == Gathering::Phase::kDone) return;
  if (incident->ready && !incident->unacknowledged.empty() && !incident->committing) Commit(incident);
  if (incident->working || !incident->ready) return;
  Job* job = Find(incident->job);
  switch (incident->phase) {
    case Gathering::Phase::kEvidence: {
      bool all = true;
      for (auto& [host, gathering] : incident->evidence) {
        // An agent of an older version sends no stacks of its own.
        if (gathering.last && now_ - gathering.heard_ns >= kStacksGrace) gathering.done = true;
        if (gathering.done || gathering.given_up) continue;
        all = false;
        // Lost on its way, or its agent was started anew, or this process.
        const int64_t since = now_ - std::max(gathering.asked_ns, gathering.heard_ns);
        if (since >= (gathering.asked ? options_.ask_evidence_again_ns : kSecond)) AskForEvidence(incident, host, &gathering);
      }
      // After a restart the agents need their time to find here.
      const int64_t most = options_.evidence_ns + (incident->resumed ? options_.ask_again_ns : 0);
      if (all || now_ - incident->phase_ns >= most) AfterEvidence(incident);
      return;
    }
    case Gathering::Phase::kEverything: {
      size_t active = 0, left = 0, done = 0;
      for (auto& [host, gathering] : incident->everything) {
        if (gathering.done) ++done;
        if (gathering.done || gathering.given_up) continue;
        ++left;
        if (!gathering.asked) continue;
        if (host.empty() && !incident->whole.empty() && now_ - gathering.heard_ns > options_.ask_again_ns / 2) {
          gathering.done = true;  // which hosts these are nobody knew: whoever has them has sent
          --left;
          continue;
        }
        if (now_ - gathering.heard_ns > options_.give_up_ns) {
          gathering.given_up = true;
          --left;
          SayOnce(incident, absl::StrCat("nothing more came from ", host, " for ", DurationText(options_.give_up_ns), ": going on without it"));
          continue;
        }
        const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
        const bool elsewhere = job != nullptr && known != job->hosts.end() && !known->second.silent && known->second.address.peer != 0 &&
                               !(known->second.address == gathering.asked_at);
        if (elsewhere || (now_ - gathering.asked_ns > options_.ask_again_ns && now_ - gathering.heard_ns > options_.ask_again_ns)) {
          AskForEverything(incident, host, &gathering);
        }
        if (now_ - gathering.heard_ns <= kActiveFor) ++active;
      }
      for (auto& [host, gathering] : incident->everything) {
        if (active >= options_.everything_hosts) break;
        if (gathering.asked || gathering.done || gathering.given_up) continue;
        const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
        if (job == nullptr || known == job->hosts.end() || known->second.silent) {
          // Its agent may come back, or come at all after a restart of the collector.
          if (now_ - incident->phase_ns > options_.give_up_ns) gathering.given_up = true;
          continue;
        }
        AskForEverything(incident, host, &gathering);
        ++active;
      }
      if (left != 0 || !incident->unacknowledged.empty() || incident->committing) return;
      if (!incident->state.desync.text.empty() && !incident->state.desync.confirmed && !incident->resumed) {
        if (now_ - incident->phase_ns > options_.desync_confirm_ns) AbandonDesync(incident);
        return;
      }
      StartFinal(incident);
      return;
    }
    default:
      return;
  }
}

void CollectorCore::StartFinal(Gathering* incident) {
  incident->phase = Gathering::Phase::kFinal;
  incident->phase_ns = now_;
  incident->working = true;
  const std::string name = incident->state.name;
  const IncidentState state = incident->state;
  const auto store = incident->store;
  std::set<std::string> whole;
  for (const auto& [host, gathering] : incident->everything) {
    if (gathering.done) whole.insert(host);
  }
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kDisk,
                  [store, state, whole] {
                    if (*store == nullptr) return;
                    (*store)->Commit().status().IgnoreError();  // unacknowledged: comes again, and is refused
                    for (const IncidentStore::File& file : (*store)->Files()) {
                      const bool replaced = absl::EndsWith(file.name, ".evidence.lsd") && whole.count(file.host) != 0;
                      if (replaced) unlink(absl::StrCat(state.folder, "/", file.name).c_str());
                    }
                    (*store)->RemoveParts();
                    store->reset();
                  },
                  [this, alive = alive_, name](int64_t now) {
                    if (!*alive) return;
                    now_ = std::max(now_, now);
                    const auto found = incidents_.find(name);
                    if (found == incidents_.end()) {
                      --tasks_out_;
                      return;
                    }
                    auto incident = std::make_shared<Incident>();
                    auto status = std::make_shared<absl::Status>();
                    const std::string folder = found->second->state.folder;
                    CoreActions* const actions = actions_;
                    actions_->Work({CoreTask::Lane::kFinal,
                                    [actions, folder, incident, status] { *status = actions->Finalise(folder, incident.get()); },
                                    [this, alive, name, incident, status](int64_t now) {
                                      if (!*alive) return;
                                      --tasks_out_;
                                      now_ = std::max(now_, now);
                                      const auto found = incidents_.find(name);
                                      if (found == incidents_.end()) return;
                                      Gathering* gathering = found->second.get();
                                      gathering->working = false;
                                      gathering->phase = Gathering::Phase::kDone;
                                      gathering->done_ns = now_;
                                      if (status->ok()) {
                                        *gathering->incident.mutable_verdict() = incident->verdict();
                                        gathering->incident.set_text(incident->text());
                                        gathering->incident.set_whole(incident->whole());
                                      } else {
                                        SayOnce(gathering, absl::StrCat("the verdict on the whole could not be made: ", status->message()));
                                      }
                                      actions_->Say(absl::StrCat("job ", gathering->people, ": incident ",
                                                                 incident->whole() ? "whole in " : "as whole as it will be in ",
                                                                 gathering->state.folder, " (lockstep analyze ", gathering->state.folder, ")"));
                                      Tell(gathering, incident->whole() ? "everything is on disk" : "what could be gathered is on disk", true);
                                    }});
                  }});
}

void CollectorCore::TakeUp(Gathering* incident, Job* job) {
  incident->job = job->key;
  if (!job->incident.empty() && job->incident > incident->state.name) return;  // a newer one
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
  actions_->Say(absl::StrCat("incident ", state.name, " was not whole: going on"));
  const std::string name = state.name;
  const auto store = incident->store;
  const StoreLimits limits = options_.store;
  struct Result {
    absl::Status status;
    std::vector<IncidentStore::File> files;
    VerdictTexts verdict;
    std::shared_ptr<DigestRound> round;
  };
  auto result = std::make_shared<Result>();
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kDisk,
                  [store, state, limits, result] {
                    absl::StatusOr<std::unique_ptr<IncidentStore>> opened = IncidentStore::Open(state.folder, limits);
                    result->status = opened.status();
                    if (!opened.ok()) return;
                    result->files = (*opened)->Files();
                    result->verdict = ReadVerdictTexts(state.folder);
                    if (absl::StatusOr<Bundle> digests = state.evidence_done ? absl::NotFoundError("") : ReadDigests(state.folder); digests.ok()) {
                      digests->known_stalled = state.stalled_ns > 0;
                      digests->stalled_ns = state.stalled_ns;
                      result->round = std::make_shared<DigestRound>();
                      result->round->Adopt(*std::move(digests));
                    }
                    *store = std::move(*opened);
                  },
                  [this, alive = alive_, name, result](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    Gathering* incident = incidents_[name].get();
                    incident->working = false;
                    if (!result->status.ok()) {
                      SayOnce(incident, absl::StrCat("it cannot be taken up: ", result->status.message()));
                      incident->dead = true;
                      incident->done_ns = now_;
                      return;
                    }
                    incident->ready = true;
                    incident->incident.set_text(result->verdict.text);
                    incident->round = result->round;
                    // Started before it was killed? The mark tells.
                    if (incident->state.declared && !result->verdict.json.empty()) {
                      actions_->OnVerdict(incident->people, result->verdict.json, ToldMark(incident->state.folder));
                    }
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
                    incident->state.everything ? StartEverything(incident) : StartFinal(incident);
                  }});
}

}  // namespace lockstep
