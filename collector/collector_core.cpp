#include "collector/collector_core.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/load_merge.h"
#include "analyzer/report.h"
#include "collector/incident.h"
#include "collector/say.h"

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
// Without a tick for so long, this process itself was stopped: nobody may be blamed for that time.
constexpr int64_t kAbsence = 3 * kSecond;
constexpr int64_t kSaySame = 30 * kSecond;
constexpr int64_t kPassedOver = 2 * kSecond;  // a job's heartbeats stopped and another's go on
constexpr int64_t kSweepEvery = 10 * kSecond;
constexpr int64_t kWatchFor = 60 * kSecond;
constexpr size_t kMostWatchers = 4096;
constexpr size_t kMostEarly = 65536;      // small ones: late reports and ends
constexpr size_t kMostJobsInReply = 64;
constexpr size_t kMostLines = 32;         // of late and desync lines kept
constexpr size_t kMostNameBytes = 200;
constexpr size_t kMostBeats = size_t{1} << 20;  // communicators of one job

std::string KeyOf(const JobIdentity& identity) {
  return absl::StrCat(identity.uid(), "/", identity.job(), "/", identity.step(), "/", identity.restart_count());
}

std::string NameOf(const JobIdentity& identity) {
  std::string name = identity.job().empty() ? "unnamed" : identity.job();
  if (!identity.step().empty() || identity.restart_count() != 0) {
    absl::StrAppend(&name, "/", identity.step().empty() ? "0" : identity.step(), "/", identity.restart_count());
  }
  return name;
}

bool Plausible(const JobIdentity& identity) {
  return identity.job().size() <= kMostNameBytes && identity.step().size() <= kMostNameBytes;
}

RankRuns RunsFrom(const RankSet& message) {
  RankRuns runs;
  const absl::StatusOr<Ranks> ranks = Ranks::From(message);
  if (!ranks.ok()) return runs;
  for (const Ranks::Run& run : ranks->runs()) runs.push_back({run.first, run.last});
  return runs;
}

Ranks RanksFrom(const RankSet& message) {
  absl::StatusOr<Ranks> ranks = Ranks::From(message);
  return ranks.ok() ? *std::move(ranks) : Ranks();
}

void Keep(std::vector<std::string>* lines, std::string line) {
  lines->push_back(std::move(line));
  if (lines->size() > kMostLines) lines->erase(lines->begin());
}

// "rank 878 (RANK_NOT_ARRIVED)", "ranks 8 and 7 more (...)".
std::string FirstCulprit(const Finding& finding) {
  const int culprits = finding.culprit_ranks_size();
  return absl::StrCat(culprits == 0   ? "nobody to be named"
                      : culprits == 1 ? absl::StrCat("rank ", finding.culprit_ranks(0))
                                      : absl::StrCat("ranks ", finding.culprit_ranks(0), " and ", culprits - 1, " more"),
                      " (", FindingKind_Name(finding.kind()), ")");
}

bool IsStall(VerdictKind kind) { return kind == VERDICT_HUNG || kind == VERDICT_DESYNC || kind == VERDICT_CRASHED; }

}  // namespace

CollectorCore::CollectorCore(const CoreOptions& options, CoreActions* actions) : options_(options), actions_(actions) {
  // Numbers of another life of the collector must not be taken for this one's.
  request_base_ = (options.instance & 0x7fffffff) << 32;
}

CollectorCore::~CollectorCore() { *alive_ = false; }

bool CollectorCore::busy() const {
  if (tasks_out_ != 0) return true;
  for (const auto& [name, incident] : incidents_) {
    if (incident->phase != Gathering::Phase::kDone && !incident->dead) return true;
  }
  return false;
}

bool CollectorCore::Decode(const wire::Message& message, google::protobuf::MessageLite* into) {
  if (wire::DecodeBody(message, into).ok()) return true;
  ++counters_.malformed;
  return false;
}

void CollectorCore::Send(const Address& to, wire::Type type, const google::protobuf::MessageLite& message) {
  absl::StatusOr<wire::Message> encoded = wire::Encode(type, message);
  if (!encoded.ok()) {
    actions_->Say(absl::StrCat("a message could not be sent: ", encoded.status().message()));
    return;
  }
  encoded->header.route = to.route;
  actions_->Send(to.peer, *encoded);
}

void CollectorCore::Receive(int64_t mono_ns, const wire::Received& received) {
  now_ = std::max(now_, mono_ns);
  if (const auto peer = peers_.find(received.peer); peer != peers_.end()) peer->second.heard_ns = now_;
  switch (received.message.header.type) {
    case wire::Type::kHello:
      return OnHello(received);
    case wire::Type::kHeartbeat:
      return OnHeartbeat(received);
    case wire::Type::kLate:
      return OnLate(received);
    case wire::Type::kEnded:
      return OnEnded(received);
    case wire::Type::kDigest:
      return OnDigest(received);
    case wire::Type::kEvidence:
      return OnEvidence(received);
    case wire::Type::kStacks:
      return OnStacks(received);
    case wire::Type::kChunk:
      return OnChunk(received);
    case wire::Type::kClientRequest:
      return OnClient(received);
    case wire::Type::kBye:
      return OnBye(received);
    default:
      return;
  }
}

// An agent whose relay answers again: it is heard through that from now on.
void CollectorCore::OnBye(const wire::Received& received) {
  for (auto& [key, job] : jobs_) {
    for (auto host = job->hosts.begin(); host != job->hosts.end();) {
      const bool leaves = host->second.direct && host->second.address == Address{received.peer, received.message.header.route};
      if (leaves) job->detector.progress().Forget(host->second.child, now_);
      host = leaves ? job->hosts.erase(host) : std::next(host);
    }
  }
}

void CollectorCore::OnHello(const wire::Received& received) {
  Hello hello;
  if (!Decode(received.message, &hello)) return;
  Welcome welcome;
  welcome.set_version(options_.version);
  welcome.set_instance(options_.instance);
  welcome.set_protocol(std::min<uint32_t>(wire::kProtocol, std::max<uint32_t>(hello.protocol(), 1)));
  welcome.set_real_ns(RealNow());
  for (const std::string& endpoint : options_.fallback) welcome.add_fallback(endpoint);
  if (hello.min_protocol() > wire::kProtocol) {
    welcome.set_refused(absl::StrCat("it speaks protocol ", hello.min_protocol(), " and newer, this collector (", options_.version, ") at most ",
                                     wire::kProtocol, ": update the collector"));
  }
  if (received.message.header.route.empty()) {
    PeerInfo& peer = peers_[received.peer];
    peer.role = received.role;
    peer.host = CleanUtf8(hello.host(), 256);
    peer.boot_id = CleanUtf8(hello.boot_id(), 256);
    peer.version = CleanUtf8(hello.version(), 64);
    peer.instance = hello.instance();
    peer.heard_ns = now_;
  }
  Send({received.peer, received.message.header.route}, wire::Type::kWelcome, welcome);
}

Job* CollectorCore::Find(const std::string& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second.get();
}

std::vector<Job*> CollectorCore::Named(const std::string& name) {
  std::vector<Job*> exact, alike;
  for (const auto& [key, job] : jobs_) {
    if (job->name == name) exact.push_back(job.get());
    if (job->identity.job() == name || name.empty()) alike.push_back(job.get());
  }
  if (exact.size() == 1) return exact;
  // Of one job's generations the living are meant; when none lives, all.
  std::vector<Job*> living;
  for (Job* job : alike) {
    if (!job->over) living.push_back(job);
  }
  return living.empty() ? alike : living;
}

// Two jobs of one name, user, step and restart are told apart by their communicators, and by ranks that both have.
Job* CollectorCore::JobOf(const JobIdentity& identity, const Heartbeat* heartbeat, const std::string& host) {
  if (!Plausible(identity)) {
    ++counters_.malformed;
    return nullptr;
  }
  const std::string base = KeyOf(identity);
  std::vector<std::string>& keys = keys_of_[base];
  Job* by_host = nullptr;
  Job* by_comm = nullptr;
  Job* free = nullptr;
  const Ranks ranks = heartbeat == nullptr ? Ranks() : RanksFrom(heartbeat->alive());
  for (const std::string& key : keys) {
    Job* job = Find(key);
    if (job == nullptr) continue;
    if (!host.empty() && job->hosts.count(host) != 0) by_host = job;
    if (heartbeat == nullptr) continue;
    for (const CommunicatorBeat& beat : heartbeat->moved()) {
      if (job->communicators.contains(beat.id())) by_comm = job;
    }
    Ranks others;
    for (const auto& [name, other] : job->hosts) {
      if (name != host && other.direct && !other.silent) others.Unite(other.seen.alive);
    }
    if (!ranks.Intersects(others)) free = job;
  }
  if (by_comm != nullptr) {
    if (by_host != nullptr && by_host != by_comm) {
      // It was taken for another job's while nothing was known of its communicators.
      by_host->detector.progress().Forget(by_host->hosts[host].child, now_);
      by_host->hosts.erase(host);
    }
    return by_comm;
  }
  if (by_host != nullptr) return by_host;
  if (heartbeat == nullptr) return keys.size() == 1 ? Find(keys[0]) : nullptr;
  if (free != nullptr) return free;
  if (jobs_.size() >= options_.most_jobs) {
    ++counters_.malformed;
    return nullptr;
  }
  auto job = std::make_unique<Job>(options_.limits);
  int number = 1;
  job->key = base;
  while (jobs_.count(job->key) != 0) job->key = absl::StrCat(base, "#", ++number);
  job->name = NameOf(identity);
  if (number > 1) absl::StrAppend(&job->name, "#", number);
  job->identity = identity;
  job->began_real_ns = job->level_real_ns = RealNow();
  job->heard_ns = now_;
  keys.push_back(job->key);
  actions_->Say(absl::StrCat("job ", job->name, " of user ", identity.uid(), " is seen",
                             number > 1 ? ": another job of this name runs with the same ranks" : ""));
  Job* made = job.get();
  jobs_[made->key] = std::move(job);
  // An incident of it that was being gathered before this process began.
  for (auto& [name, incident] : incidents_) {
    if (incident->job.empty() && KeyOf(incident->state.identity) == base) TakeUp(incident.get(), made);
  }
  return made;
}

void CollectorCore::OnHeartbeat(const wire::Received& received) {
  Heartbeat heartbeat;
  if (!Decode(received.message, &heartbeat)) return;
  ++counters_.heartbeats;
  const Address address{received.peer, received.message.header.route};
  const bool direct = !heartbeat.host().empty() && address.route.empty();
  const std::string host = CleanUtf8(heartbeat.host(), 256);
  if (const auto peer = peers_.find(received.peer); peer != peers_.end()) peer->second.beat_ns = now_;
  if (heartbeat.over()) return Leave(heartbeat.job(), received.peer, direct ? host : "");
  Job* job = JobOf(heartbeat.job(), &heartbeat, direct ? host : "");
  if (job == nullptr) return;
  job->heard_ns = now_;
  RanksSeen seen;
  seen.alive = RanksFrom(heartbeat.alive());
  seen.stopped = RanksFrom(heartbeat.stopped());
  seen.in_d = RanksFrom(heartbeat.in_d());
  seen.ended = RanksFrom(heartbeat.ended());
  seen.records_lost = heartbeat.records_lost();
  seen.lag_ns = heartbeat.oldest_age_ns();
  seen.facts.Add(heartbeat);
  job->lived |= !seen.alive.empty();
  counters_.heartbeat_lag_ns = seen.lag_ns;
  uint32_t child = 0;
  if (direct) {
    if (job->hosts.count(host) == 0 && job->hosts.size() >= options_.most_hosts) {
      ++counters_.malformed;
      return;
    }
    JobHost& entry = job->hosts[host];
    if (entry.child == 0) entry.child = ++children_;
    entry.direct = true;
    entry.address = address;
    entry.heard_ns = now_;
    if (entry.silent) {
      entry.silent = false;
      job->detector.HostBack(host);
      actions_->Say(absl::StrCat("job ", job->name, ": the agent of ", host, " is heard again"));
    }
    if (const auto peer = peers_.find(received.peer); peer != peers_.end()) {
      entry.boot_id = peer->second.boot_id;
      if (!entry.boot_id.empty() && heartbeat.mono_ns() > 0) clocks_.Received(entry.boot_id, heartbeat.mono_ns(), now_);
    }
    if (entry.seen.alive != seen.alive) {
      for (const auto& [name, other] : job->hosts) {
        if (name == host || !other.direct || other.silent) continue;
        const Ranks twice = other.seen.alive.Common(seen.alive);
        if (twice.empty() || job->duplicates.ContainsAll(twice)) continue;
        job->duplicates.Unite(twice);
        actions_->Say(absl::StrCat("job ", job->name, ": ranks ", twice.Text(), " are claimed by ", name, " and by ", host));
      }
    }
    entry.seen = std::move(seen);
    entry.ranks = entry.seen.All();
    child = entry.child;
  } else {
    const bool fresh = job->relays.count(received.peer) == 0;
    JobRelay& relay = job->relays[received.peer];
    const auto peer = peers_.find(received.peer);
    if (fresh) {
      // The same relay over another connection.
      for (auto old = job->relays.begin(); old != job->relays.end();) {
        const auto info = peers_.find(old->first);
        if (old->first != received.peer && peer != peers_.end() && info != peers_.end() && info->second.instance == peer->second.instance) {
          relay = old->second;
          old = job->relays.erase(old);
        } else {
          ++old;
        }
      }
    }
    if (relay.child == 0) relay.child = ++children_;
    if (relay.silent) job->detector.HostBack(relay.host);
    relay.heard_ns = now_;
    relay.silent = false;
    relay.host = peer != peers_.end() ? peer->second.host : "";
    relay.hosts = heartbeat.hosts();
    relay.silent_hosts = heartbeat.silent_hosts();
    std::set<std::string> named;
    for (const std::string& name : heartbeat.silent_host()) {
      if (named.size() < 64) named.insert(CleanUtf8(name, 256));
    }
    for (const std::string& name : named) job->detector.HostSilent(now_, name, options_.silent_after_ns);
    for (const std::string& name : relay.silent_named) {
      if (named.count(name) == 0) job->detector.HostBack(name);
    }
    relay.silent_named = std::move(named);
    relay.seen = std::move(seen);
    child = relay.child;
  }
  for (const CommunicatorBeat& proto : heartbeat.moved()) {
    if (!job->communicators.contains(proto.id())) {
      if (job->communicators.size() >= kMostBeats) continue;
      job->communicators.insert(proto.id());
    }
    const CommBeat beat = BeatFromProto(proto);
    job->detector.progress().Apply(child, now_, beat);
    for (const Desync& desync : job->desync.Apply(child, beat)) {
      GatherDesync(job, desync);
      if (!desync.confirmed) continue;
      actions_->Say(absl::StrCat("job ", job->name, ": ", DesyncText(desync), "; the job runs on"));
      Keep(&job->desyncs, DesyncText(desync));
    }
  }
  if (!early_.empty()) TakeEarly(heartbeat.job());
}

bool CollectorCore::TooEarly(const JobIdentity& identity, const wire::Received& received) {
  const std::string base = KeyOf(identity);
  const auto keys = keys_of_.find(base);
  if (keys != keys_of_.end() && !keys->second.empty()) return false;
  if (early_.size() < kMostEarly && Plausible(identity)) early_.push_back({base, received, now_});
  return true;
}

void CollectorCore::TakeEarly(const JobIdentity& identity) {
  const std::string base = KeyOf(identity);
  std::deque<Early> left, mine;
  for (Early& early : early_) (early.base == base ? mine : left).push_back(std::move(early));
  early_ = std::move(left);
  for (const Early& early : mine) {
    early.received.message.header.type == wire::Type::kLate ? OnLate(early.received) : OnEnded(early.received);
  }
}

void CollectorCore::OnLate(const wire::Received& received) {
  LateReport report;
  if (!Decode(received.message, &report) || TooEarly(report.job(), received)) return;
  Job* job = JobOf(report.job(), nullptr, CleanUtf8(report.host(), 256));
  if (job == nullptr) return;
  LateInput late;
  late.comm = report.communicator();
  late.sequence = report.sequence();
  late.over = report.over();
  late.in_flight_ns = report.in_flight_ns();
  late.limit_ns = report.limit_ns();
  late.p99_gap_ns = report.p99_gap_ns();
  late.gaps = report.gaps();
  late.waiting = RunsFrom(report.waiting());
  late.missing = RunsFrom(report.missing());
  late.doing = CleanUtf8(report.doing(), 256);
  late.host = CleanUtf8(report.host(), 256);
  ++counters_.late;
  job->detector.Late(now_, late);
}

void CollectorCore::OnEnded(const wire::Received& received) {
  ProcessEnded ended;
  if (!Decode(received.message, &ended) || TooEarly(ended.job(), received)) return;
  Job* job = JobOf(ended.job(), nullptr, CleanUtf8(ended.host(), 256));
  if (job == nullptr || ended.rank() < 0 || ended.rank() > kMostRank) return;
  if (!job->ended_told.insert(ended.rank()).second) return;
  const ProcessState& state = ended.state();
  const bool badly = state.life() != ProcessState::EXITED || state.exit_code() != 0;
  if (badly) job->ended_badly.insert(ended.rank());
  job->detector.Ended(now_, ended.rank(), badly);
}

void CollectorCore::OnDigest(const wire::Received& received) {
  auto digest = std::make_shared<DigestEnvelope>();
  if (!Decode(received.message, digest.get())) return;
  Job* job = nullptr;
  for (const auto& [key, candidate] : jobs_) {
    if (candidate->request != 0 && candidate->request == digest->request()) job = candidate.get();
  }
  const std::string host = CleanUtf8(digest->host(), 256);
  if (job == nullptr || job->analysing || host.empty()) return;
  ++counters_.digests;
  job->digest_ns = now_;
  if (job->complete.count(host) != 0) return;  // twice, after a reconnection
  JobHost* entry = nullptr;
  if (const auto known = job->hosts.find(host); known != job->hosts.end()) {
    entry = &known->second;
  } else if (job->hosts.size() < options_.most_hosts) {
    entry = &job->hosts[host];
    entry->heard_ns = now_;
  }
  if (entry == nullptr) return;
  if (!entry->direct) entry->address = {received.peer, received.message.header.route};
  // Which ranks these are stands inside; a first look is enough here.
  Ranks ranks;
  for (const std::string& packed : digest->ranks()) {
    const int32_t rank = RankOfDigest(packed);
    if (rank < 0 || rank > kMostRank) continue;
    ranks.Add(rank);
  }
  job->got.Unite(ranks);
  if (!entry->direct) entry->ranks.Unite(ranks);
  const uint32_t part = ++job->parts[host];
  if (!digest->refused().empty() || part >= std::max<uint32_t>(digest->parts(), 1)) job->complete.insert(host);
  const std::shared_ptr<DigestRound> round = job->round;
  const bool samples = job->samples;
  actions_->Work({CoreTask::Lane::kAnalysis,
                  [round, digest, samples, now = now_] { samples ? round->Sample(*digest, now) : round->Add(*digest); }, [](int64_t) {}});
}

void CollectorCore::AskHosts(Job* job, const CollectRequest& request, const Ranks& ranks) {
  for (const auto& [name, host] : job->hosts) {
    if (!host.direct || (!ranks.empty() && !ranks.Intersects(host.ranks))) continue;
    Send(host.address, wire::Type::kCollect, request);
  }
  for (const auto& [peer, relay] : job->relays) {
    if (ranks.empty() || ranks.Intersects(relay.seen.All())) Send({peer, {}}, wire::Type::kCollect, request);
  }
}

void CollectorCore::StartRound(Job* job, bool by_hand) {
  ++counters_.rounds;
  job->request = NextRequest();
  job->samples = false;
  job->by_hand = by_hand;
  job->asked_ns = job->digest_ns = now_;
  job->wanted = job->All();
  job->got = Ranks();
  job->parts.clear();
  job->complete.clear();
  job->round = std::make_shared<DigestRound>();
  CollectRequest request;
  request.set_request(job->request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::DIGEST);
  AskHosts(job, request, {});
}

void CollectorCore::StartSamples(Job* job, const std::vector<int32_t>& ranks) {
  if (job->round == nullptr) return StartRound(job, false);
  job->request = NextRequest();
  job->samples = true;
  job->by_hand = false;
  job->asked_ns = job->digest_ns = now_;
  job->wanted = Ranks::Of(ranks);
  job->got = Ranks();
  job->parts.clear();
  job->complete.clear();
  CollectRequest request;
  request.set_request(job->request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::DIGEST);
  job->wanted.To(request.mutable_ranks());
  AskHosts(job, request, job->wanted);
}

bool CollectorCore::RoundIsIn(const Job& job) const {
  bool all = job.got.ContainsAll(job.wanted);
  if (!job.samples) {
    for (const auto& [name, host] : job.hosts) {
      if (host.direct && !host.silent && job.complete.count(name) == 0) all = false;
      // What a silent agent, or one that has refused, speaks for will not come.
    }
    if (!all) {
      Ranks left = job.wanted;
      left.Subtract(job.got);
      bool only_silent = true;
      for (const auto& [name, host] : job.hosts) {
        if (!host.direct) continue;
        if (host.silent || job.complete.count(name) != 0) left.Subtract(host.seen.All());
        else only_silent = false;
      }
      for (const auto& [peer, relay] : job.relays) {
        if (relay.silent) left.Subtract(relay.seen.All());
      }
      all = left.empty() && only_silent;
    }
  }
  if (all) return true;
  const int64_t since = now_ - job.asked_ns;
  if (since >= options_.digest_most_ns) return true;
  return since >= options_.digest_least_ns && now_ - job.digest_ns >= options_.digest_quiet_ns;
}

void CollectorCore::FinishRound(Job* job) {
  job->analysing = true;
  job->digests_in_ns = now_;
  const std::string key = job->key;
  const std::shared_ptr<DigestRound> round = job->round;
  const std::shared_ptr<bool> alive = alive_;
  ++tasks_out_;
  if (job->samples) {
    actions_->Work({CoreTask::Lane::kAnalysis, [] {}, [this, alive, key](int64_t now) {
                      if (!*alive) return;
                      --tasks_out_;
                      now_ = std::max(now_, now);
                      if (Job* job = Find(key)) Judge(job, false);
                    }});
    return;
  }
  DigestRound::Facts facts;
  facts.job = job->identity.job();
  facts.ranks_expected = job->world_size;
  facts.holes = job->Holes(now_);
  facts.clocks = clocks_;
  facts.asked_ns = job->asked_ns;
  facts.late_after_ns = options_.limits.late_after;
  facts.dead_settle_ns = options_.limits.dead_settle;
  actions_->Work({CoreTask::Lane::kAnalysis, [round, facts] { round->Analyse(facts); },
                  [this, alive, key](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    if (Job* job = Find(key)) AfterAnalysis(job);
                  }});
}

void CollectorCore::AfterAnalysis(Job* job) {
  job->analysing = false;
  job->request = 0;
  job->world_size = std::max(job->world_size, job->round->bundle().ranks_expected);
  if (job->said_round_ns == 0 || job->by_hand || now_ - job->said_round_ns > kSaySame) {
    job->said_round_ns = now_;
    const Verdict& verdict = job->round->verdict();
    actions_->Say(absl::StrCat("job ", job->name, ": digests of ", CountText(job->round->ranks()), " of ", CountText(static_cast<uint64_t>(std::max(0, job->world_size))),
                               " ranks in ", DurationText(job->digests_in_ns - job->asked_ns), ", read in ", DurationText(now_ - job->digests_in_ns), ": ",
                               verdict.findings_size() == 0 ? VerdictName(verdict.verdict()) : FirstCulprit(verdict.findings(0))));
  }
  if (job->by_hand) {
    job->by_hand = false;
    return MakeIncident(job, nullptr);
  }
  Judge(job, true);
}

void CollectorCore::Judge(Job* job, bool all_ranks) {
  job->analysing = false;
  job->request = 0;
  if (job->detector.level() == Level::kHung) return;
  const Decision decision = job->detector.Judge(now_, job->round->root(), all_ranks);
  Decide(job, decision);
  if (decision.hung()) Declare(job, &decision);
}

// By an earlier life of this collector. The job may have stood still all the while; and who is told of it, is told once.
bool CollectorCore::WasDeclared(Job* job) {
  const std::string identity = job->identity.SerializeAsString();
  for (auto before = before_.begin(); before != before_.end(); ++before) {
    if (before->identity.SerializeAsString() != identity || !before->Is(job->round->verdict())) continue;
    actions_->Say(absl::StrCat("job ", job->name, ": this was declared before: ", before->folder));
    before_.erase(before);
    return true;
  }
  return false;
}

void CollectorCore::Declare(Job* job, const Decision* decision) {
  if (WasDeclared(job)) return;
  if (IsStall(job->round->verdict().verdict())) return MakeIncident(job, decision);
  // The digests alone look like a job that might still move; the detector knows better.
  job->analysing = true;
  const std::shared_ptr<DigestRound> round = job->round;
  const std::shared_ptr<bool> alive = alive_;
  const std::string key = job->key;
  const Decision held = *decision;
  ++tasks_out_;
  actions_->Work({CoreTask::Lane::kAnalysis, [round, held] { round->Reanalyse(std::max<int64_t>(held.age_ns, 1)); },
                  [this, alive, key, held](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    if (Job* job = Find(key)) {
                      job->analysing = false;
                      MakeIncident(job, &held);
                    }
                  }});
}

void CollectorCore::Decide(Job* job, const Decision& decision) {
  actions_->Decided(decision, job->name, RealNow());
  switch (decision.level) {
    case Level::kLate:
      Keep(&job->lates, decision.reason);
      // One rank that stops makes thousands of communicators late; every one is in the decision log.
      if (job->said_late_ns == 0 || now_ - job->said_late_ns > kSaySame) {
        actions_->Say(absl::StrCat("job ", job->name, ": late: ", decision.reason));
        job->said_late_ns = now_;
      }
      break;
    case Level::kHung:
      ++counters_.hung;
      actions_->Say(absl::StrCat("job ", job->name, ": hung (", decision.rule, "): ", decision.reason));
      break;
    case Level::kRecovered:
      ++counters_.recovered;
      job->said_late_ns = job->said_round_ns = 0;
      actions_->Say(absl::StrCat("job ", job->name, ": recovered after ", DurationText(decision.age_ns), ": ", decision.reason));
      break;
    case Level::kMoving:
      break;
  }
}

// The sender speaks, and not of this job any more: that is no silence.
bool CollectorCore::PassedOver(uint64_t peer, int64_t heard_ns) const {
  const auto info = peers_.find(peer);
  return info != peers_.end() && info->second.beat_ns - heard_ns > kPassedOver && now_ - info->second.beat_ns < options_.silent_after_ns;
}

// A host's agent, or (no host) a relay, speaks of a job no more.
void CollectorCore::Leave(const JobIdentity& identity, uint64_t peer, const std::string& host) {
  const auto keys = keys_of_.find(KeyOf(identity));
  if (keys == keys_of_.end()) return;
  for (const std::string& key : keys->second) {
    Job* job = Find(key);
    if (job == nullptr) continue;
    if (const auto relay = job->relays.find(peer); host.empty() && relay != job->relays.end()) {
      job->detector.progress().Forget(relay->second.child, now_);
      job->detector.HostBack(relay->second.host);
      for (const std::string& name : relay->second.silent_named) job->detector.HostBack(name);
      job->relays.erase(relay);
    }
    if (const auto entry = job->hosts.find(host); !host.empty() && entry != job->hosts.end() && entry->second.address.peer == peer) {
      if (entry->second.direct) job->detector.progress().Forget(entry->second.child, now_);
      job->detector.HostBack(host);
      job->hosts.erase(entry);
    }
  }
}

void CollectorCore::LookWhetherOver(Job* job) {
  bool anybody = !job->relays.empty(), living = false, ended = false;
  for (const auto& [name, host] : job->hosts) {
    anybody |= host.direct;
    living |= host.direct && (!host.seen.alive.empty() || host.seen.ended.empty());
  }
  for (const auto& [peer, relay] : job->relays) living |= !relay.seen.alive.empty() || relay.seen.ended.empty();
  ended = anybody && !living;
  // A job that died is judged first; one that ended well is over, and so is one that nobody speaks of, and one that had
  // ended before this collector began.
  const bool over = !anybody || (ended && (!job->lived || job->ended_badly.empty() || job->detector.level() == Level::kHung));
  if (over == job->over) return;
  job->over = over;
  if (over) actions_->Say(absl::StrCat("job ", job->name, !anybody ? ": nobody speaks of it any more" : job->lived ? " has ended" : " had ended before"));
  TellWatchers(job->key, nullptr);
}

void CollectorCore::LookForSilence(Job* job) {
  std::vector<std::pair<uint64_t, std::string>> left;
  for (const auto& [name, host] : job->hosts) {
    if (host.direct && now_ - host.heard_ns >= options_.silent_after_ns && PassedOver(host.address.peer, host.heard_ns)) {
      left.emplace_back(host.address.peer, name);
    }
  }
  for (const auto& [peer, relay] : job->relays) {
    if (now_ - relay.heard_ns >= options_.silent_after_ns && PassedOver(peer, relay.heard_ns)) left.emplace_back(peer, "");
  }
  for (const auto& [peer, name] : left) Leave(job->identity, peer, name);
  for (auto& [name, host] : job->hosts) {
    if (!host.direct) continue;
    const int64_t silent = now_ - host.heard_ns;
    if (silent < options_.silent_after_ns || host.seen.alive.empty()) continue;
    if (!host.silent) {
      host.silent = true;
      actions_->Say(absl::StrCat("job ", job->name, ": the agent of ", name, " has gone silent (ranks ", host.ranks.Text(), ")"));
    }
    // Through a relay now?
    bool moved = false;
    for (const auto& [peer, relay] : job->relays) {
      if (!relay.silent && relay.heard_ns > host.heard_ns && relay.seen.alive.ContainsAll(host.seen.alive)) moved = true;
    }
    if (moved) {
      job->detector.progress().Forget(host.child, now_);
      job->detector.HostBack(name);
      host.direct = host.silent = false;
      host.child = 0;
    } else {
      job->detector.HostSilent(now_, name, silent);
    }
  }
  for (auto relay = job->relays.begin(); relay != job->relays.end();) {
    JobRelay& entry = relay->second;
    const int64_t silent = now_ - entry.heard_ns;
    if (silent < options_.silent_after_ns) {
      ++relay;
      continue;
    }
    if (!entry.silent) {
      entry.silent = true;
      actions_->Say(absl::StrCat("job ", job->name, ": the relay on ", entry.host, " has gone silent (", entry.hosts, " agents behind it)"));
    }
    Ranks others;
    for (const auto& [name, host] : job->hosts) {
      if (host.direct && !host.silent) others.Unite(host.seen.alive);
    }
    for (const auto& [peer, other] : job->relays) {
      if (!other.silent) others.Unite(other.seen.alive);
    }
    if (others.ContainsAll(entry.seen.alive)) {
      // Its agents have found another way.
      job->detector.progress().Forget(entry.child, now_);
      job->detector.HostBack(entry.host);
      relay = job->relays.erase(relay);
    } else {
      job->detector.HostSilent(now_, entry.host, silent);
      ++relay;
    }
  }
}

void CollectorCore::TickJob(Job* job) {
  // In what is over nobody can be late.
  const bool judged = job->lived && (!job->over || job->detector.level() == Level::kHung);
  if (judged) {
    for (const Decision& decision : job->detector.Tick(now_)) Decide(job, decision);
  }
  if (job->analysing) return;
  if (job->request != 0 && job->over && !job->by_hand) {
    job->request = 0;  // whom it asked speaks of the job no more
  } else if (job->request != 0) {
    if (RoundIsIn(*job)) FinishRound(job);
  } else if (job->dump_wanted) {
    job->dump_wanted = false;
    StartRound(job, true);
  } else if (judged && !job->over) {
    const Wish wish = job->detector.Wanted(now_);
    if (wish.digests) {
      StartRound(job, false);
    } else if (!wish.samples.empty()) {
      StartSamples(job, wish.samples);
    }
  }
  if (job->detector.level() != job->level) {
    job->level = job->detector.level();
    job->level_real_ns = RealNow();
    TellWatchers(job->key, nullptr);
  }
}

void CollectorCore::Tick(int64_t mono_ns, int64_t real_ns) {
  now_ = std::max(now_, mono_ns);
  const int64_t absent = tick_ns_ == 0 ? 0 : now_ - tick_ns_;
  tick_ns_ = now_;
  real_ns_ = real_ns;
  if (absent > kAbsence) {
    actions_->Say(absl::StrCat("the collector did not run for ", DurationText(absent), "; nobody is blamed for that time"));
    for (const auto& [key, job] : jobs_) {
      job->detector.Rebase(now_);
      for (auto& [name, host] : job->hosts) host.heard_ns = std::max(host.heard_ns, now_ - kSecond);
      for (auto& [peer, relay] : job->relays) relay.heard_ns = std::max(relay.heard_ns, now_ - kSecond);
    }
  }
  std::vector<std::string> keys;
  const bool second = now_ / kSecond != (now_ - std::max<int64_t>(absent, 1)) / kSecond;
  for (const auto& [key, job] : jobs_) keys.push_back(key);
  for (const std::string& key : keys) {
    Job* job = Find(key);
    if (second) {
      LookForSilence(job);
      LookWhetherOver(job);
    }
    TickJob(job);
  }
  std::vector<Gathering*> incidents;
  for (const auto& [name, incident] : incidents_) incidents.push_back(incident.get());
  for (Gathering* incident : incidents) TickIncident(incident);
  TickFreshStacks();
  for (Watcher& watcher : watchers_) {
    if (now_ < watcher.next_ns) continue;
    watcher.next_ns = now_ + kSecond;
    ClientReply reply;
    reply.set_request(watcher.request);
    for (Job* job : Named(watcher.job)) {
      if (reply.jobs_size() < static_cast<int>(kMostJobsInReply)) FillStatus(*job, now_, RealNow(), reply.add_jobs());
    }
    Send(watcher.address, wire::Type::kClientReply, reply);
  }
  if (now_ - swept_ns_ < kSweepEvery) return;
  swept_ns_ = now_;
  std::erase_if(early_, [this](const Early& early) { return now_ - early.at_ns > kSweepEvery; });
  std::erase_if(watchers_, [this](const Watcher& watcher) { return now_ > watcher.until_ns; });
  absl::erase_if(peers_, [this](const auto& peer) { return now_ - peer.second.heard_ns > options_.forget_after_ns; });
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (now_ - job->second->heard_ns > options_.forget_after_ns && !job->second->analysing) {
      std::vector<std::string>& of = keys_of_[KeyOf(job->second->identity)];
      std::erase(of, job->first);
      if (of.empty()) keys_of_.erase(KeyOf(job->second->identity));
      job = jobs_.erase(job);
    } else {
      ++job;
    }
  }
  for (auto incident = incidents_.begin(); incident != incidents_.end();) {
    const Gathering& gathering = *incident->second;
    const bool old = (gathering.phase == Gathering::Phase::kDone || gathering.dead) && now_ - gathering.done_ns > options_.forget_after_ns;
    incident = old && !gathering.working ? incidents_.erase(incident) : std::next(incident);
  }
  counters_.jobs = counters_.agents = counters_.agents_silent = counters_.ranks = 0;
  for (const auto& [key, job] : jobs_) {
    if (job->over) continue;
    ++counters_.jobs;
    for (const auto& [name, host] : job->hosts) {
      counters_.agents += host.direct;
      counters_.agents_silent += host.direct && host.silent;
    }
    for (const auto& [peer, relay] : job->relays) {
      counters_.agents += relay.hosts;
      counters_.agents_silent += relay.silent ? relay.hosts : relay.silent_hosts;
    }
    counters_.ranks += job->All().size();
  }
}

void CollectorCore::OnClient(const wire::Received& received) {
  ClientRequest request;
  if (!Decode(received.message, &request)) return;
  const Address from{received.peer, received.message.header.route};
  ClientReply reply;
  reply.set_request(request.request());
  const auto fail = [&](std::string why) {
    ++counters_.requests_refused;
    reply.set_error(std::move(why));
    reply.set_done(true);
    Send(from, wire::Type::kClientReply, reply);
  };
  // Behind a relay, the relay has looked at the key.
  const bool may_look = received.role == wire::Role::kOperator || received.role == wire::Role::kReader || received.role == wire::Role::kRelay;
  const bool may_dump = received.role == wire::Role::kOperator || received.role == wire::Role::kRelay;
  if (!may_look) return fail("this key is no operator's or reader's");
  const std::vector<Job*> jobs = Named(request.job());
  const auto list = [](const std::vector<Job*>& jobs) {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(jobs.size(), 16); ++i) absl::StrAppend(&names, i == 0 ? "" : ", ", jobs[i]->name);
    return names;
  };
  switch (request.kind()) {
    case ClientRequest::STATUS: {
      if (!request.job().empty() && jobs.empty()) return fail(absl::StrCat("no job '", request.job(), "' is known; known: ", list(Named(""))));
      for (Job* job : jobs) {
        if (reply.jobs_size() < static_cast<int>(kMostJobsInReply)) FillStatus(*job, now_, RealNow(), reply.add_jobs());
      }
      reply.set_done(true);
      return Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::WATCH: {
      for (Watcher& watcher : watchers_) {
        if (watcher.address == from && watcher.request == request.request()) {
          watcher.until_ns = now_ + kWatchFor;
          return;
        }
      }
      if (watchers_.size() >= kMostWatchers) return fail("too many watch already");
      watchers_.push_back({from, request.request(), request.job(), now_ + kWatchFor, now_});
      return;
    }
    case ClientRequest::DETAIL: {
      if (jobs.size() != 1) return fail(jobs.empty() ? "no such job" : absl::StrCat("which job? ", list(jobs)));
      if (request.missing_stacks() && request.fresh()) {
        if (!may_dump) return fail("this key may only look (role reader); taking stacks stops processes for a moment and needs one of role operator");
        if (std::string why = AskFreshStacks(jobs[0], from, request.request()); !why.empty()) return fail(why);
        return;
      }
      FillDetail(*jobs[0], now_, request, &reply);
      reply.set_done(true);
      return Send(from, wire::Type::kClientReply, reply);
    }
    case ClientRequest::DUMP: {
      if (!may_dump) return fail("this key may only look (role reader); taking a dump needs one of role operator");
      if (jobs.empty()) {
        return fail(request.job().empty() ? std::string("no job is known: does an agent run on its hosts, and is it let in?")
                                          : absl::StrCat("no job '", request.job(), "' is known; known: ", list(Named(""))));
      }
      if (jobs.size() > 1) return fail(absl::StrCat("which job? ", list(jobs)));
      Job* job = jobs[0];
      if (job->asking.size() >= 64) return fail("too many wait for a dump of this job already");
      for (const auto& [address, number] : job->asking) {
        if (address == from && number == request.request()) return;  // said again
      }
      job->asking.push_back({from, request.request()});
      job->asked_everything |= request.everything();
      job->dump_wanted = true;
      reply.set_progress(absl::StrCat("asking ", job->All().size(), " ranks of job ", job->name, " for digests"));
      return Send(from, wire::Type::kClientReply, reply);
    }
    default:
      return fail("this collector does not know such a request: update it");
  }
}

JobStatus CollectorCore::StatusOf(const std::string& job) const {
  JobStatus status;
  for (const auto& [key, candidate] : jobs_) {
    if (candidate->name == job || candidate->identity.job() == job) {
      FillStatus(*candidate, now_, RealNow(), &status);
      break;
    }
  }
  return status;
}

}  // namespace lockstep
