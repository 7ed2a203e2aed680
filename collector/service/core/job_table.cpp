#include "collector/service/core/job_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 1024;
// Limits for waiting small messages (late reports and exits): their number, and the size of each.
constexpr size_t kMostEarly = 65536, kMostEarlyBytes = 16384;
constexpr size_t kMostNameBytes = 200;
constexpr size_t kMostBeats = size_t{1} << 20;  // maximum number of communicators of one job

bool Plausible(const JobIdentity& identity) {
  return identity.job().size() <= kMostNameBytes && identity.step().size() <= kMostNameBytes;
}

}  // namespace

void JobTable::Heard(uint64_t peer) {
  if (const auto info = peers_.find(peer); info != peers_.end()) info->second.heard_ns = shared_.now;
}

// The agent has returned to its relay and reports through it.
void JobTable::OnBye(const wire::Received& received) {
  for (auto& [key, job] : jobs_) {
    for (auto host = job->hosts.begin(); host != job->hosts.end();) {
      const bool leaves =
          host->second.direct && host->second.address == Address{received.peer, received.message.header.route};
      if (leaves) job->detector.progress().Forget(host->second.child);
      host = leaves ? job->hosts.erase(host) : std::next(host);
    }
  }
}

Job* JobTable::Find(const std::string& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second.get();
}

// A sender is identified by its process, over any connection.
JobTable::SenderKey JobTable::KeyOfSender(const wire::Received& received, const JobIdentity& identity,
                                          const std::string& host) const {
  const auto peer = peers_.find(received.peer);
  const uint64_t instance = peer != peers_.end() ? peer->second.instance : 0;
  const bool direct = !host.empty() && received.message.header.route.empty() && received.role != wire::Role::kRelay;
  SenderKey sender;
  sender.direct = direct;
  sender.life = identity.life();
  sender.host = direct ? host : "";
  sender.peer = received.peer;
  sender.key = direct ? absl::StrCat(host, "/", instance, "/", identity.life())
                      : absl::StrCat("/relay/", instance != 0 ? instance : received.peer, "/", identity.life());
  return sender;
}

Job* JobTable::JobNumber(const JobIdentity& identity, int number) {
  const std::string base = BaseKeyOf(identity), key = number == 0 ? base : absl::StrCat(base, "#", number + 1);
  if (Job* job = Find(key)) return job;
  if (jobs_.size() >= kMostJobs) {
    ++shared_.counters.malformed;
    return nullptr;
  }
  auto job = std::make_unique<Job>(shared_.options.limits);
  job->key = key;
  job->number = number;
  job->name = NameOf(identity);
  if (number > 0) absl::StrAppend(&job->name, "#", number + 1);
  job->identity = identity;
  job->identity.clear_life();
  job->began_real_ns = job->level_real_ns = shared_.RealNow();
  job->met_ns = shared_.now;
  job->heard_ns = shared_.now;
  shared_.Say(absl::StrCat("new job ", job->name, " of user ", identity.uid(),
                           number > 0 ? ": it shares no communicator with the other job of this name" : ""));
  return (jobs_[key] = std::move(job)).get();
}

// Returns the job of a heartbeat. Separates jobs with the same name (collector/common/namesakes.h).
Job* JobTable::JobOf(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host) {
  const JobIdentity& identity = heartbeat.job();
  if (!Plausible(identity)) {
    ++shared_.counters.malformed;
    return nullptr;
  }
  const std::string base = BaseKeyOf(identity);
  if (families_.count(base) == 0 && families_.size() >= kMostJobs) {
    ++shared_.counters.malformed;
    return nullptr;
  }
  Family& family = families_[base];
  const SenderKey sender = KeyOfSender(received, identity, host);
  if (family.heard.count(sender.key) == 0 && family.heard.size() >= kMostHosts) {
    ++shared_.counters.malformed;
    return nullptr;
  }
  std::vector<uint64_t> comms;
  for (const CommunicatorBeat& beat : heartbeat.moved()) {
    if (beat.size() >= 0) comms.push_back(beat.id());
  }
  std::vector<Namesakes::Move> moves;
  const int number = family.sorted.Report(sender.key, Ranks::FromOrNone(heartbeat.alive()),
                                          Ranks::FromOrNone(heartbeat.ended()), comms, &moves);
  Family::Heard& heard = family.heard[sender.key];
  heard.sender = sender;
  heard.ns = shared_.now;
  for (const Namesakes::Move& move : moves) {
    const auto other = family.heard.find(move.sender);
    if (other == family.heard.end()) continue;
    if (Job* from = Find(move.from == 0 ? base : absl::StrCat(base, "#", move.from + 1)))
      LeaveJob(from, other->second.sender);
    // The sender then repeats all its reports, which are assigned to the other job.
    SendWelcome({other->second.sender.peer, {}}, wire::kProtocol);
  }
  return number == Namesakes::kUndecided ? nullptr : JobNumber(identity, number);
}

// Returns the job of a report other than a heartbeat; null if the job is still unknown.
Job* JobTable::JobSaid(const wire::Received& received, const JobIdentity& identity, const std::string& host) {
  const std::string base = BaseKeyOf(identity);
  const auto family = families_.find(base);
  if (family == families_.end()) return nullptr;
  if (const int number = family->second.sorted.Of(KeyOfSender(received, identity, host).key);
      number != Namesakes::kUndecided) {
    return Find(number == 0 ? base : absl::StrCat(base, "#", number + 1));
  }
  // The sender is unknown: it is behind another relay, or is a restarted agent. If only one job has this name, it is
  // the job.
  Job* only = nullptr;
  for (auto at = jobs_.lower_bound(base); at != jobs_.end() && at->first.compare(0, base.size(), base) == 0; ++at) {
    if (BaseKeyOf(at->second->identity) != base) continue;
    if (only != nullptr) return nullptr;
    only = at->second.get();
  }
  return only;
}

void JobTable::OnHeartbeat(const wire::Received& received) {
  Heartbeat heartbeat;
  if (!shared_.Decode(received.message, &heartbeat)) return;
  ++shared_.counters.heartbeats;
  const bool direct = !heartbeat.host().empty() && received.message.header.route.empty();
  const std::string host = CleanUtf8(heartbeat.host(), 256);
  if (const auto peer = peers_.find(received.peer); peer != peers_.end()) peer->second.beat_ns = shared_.now;
  if (heartbeat.over()) return Leave(KeyOfSender(received, heartbeat.job(), direct ? host : ""), heartbeat.job());
  Job* job = JobOf(received, heartbeat, direct ? host : "");
  if (job == nullptr) return;
  job->heard_ns = shared_.now;
  HeartbeatFacts seen(heartbeat);
  job->lived |= !seen.alive.empty();
  shared_.counters.heartbeat_lag_ns = seen.oldest_age_ns;
  const std::optional<uint32_t> child = direct ? FromAgent(received, heartbeat, host, std::move(seen), job)
                                               : FromRelay(received, heartbeat, std::move(seen), job);
  if (!child) return;
  FollowCommunicators(heartbeat, *child, job);
  events_.Reported(job);
  if (!early_.empty()) TakeEarly(heartbeat.job());
}

// Stores what an agent reports about its host. Returns the agent's number for the merged progress; nullopt if the
// message does not count.
std::optional<uint32_t> JobTable::FromAgent(const wire::Received& received, const Heartbeat& heartbeat,
                                            const std::string& host, HeartbeatFacts seen, Job* job) {
  if (job->hosts.count(host) == 0 && job->hosts.size() >= kMostHosts) {
    ++shared_.counters.malformed;
    return std::nullopt;
  }
  JobHost& entry = job->hosts[host];
  // An agent reports exited processes and their replacements separately. Only the live process counts.
  if (entry.direct && entry.life != heartbeat.job().life() && !entry.seen.alive.empty() && seen.alive.empty())
    return std::nullopt;
  entry.life = heartbeat.job().life();
  if (entry.child == 0) entry.child = ++children_;
  entry.direct = true;
  entry.address = {received.peer, received.message.header.route};
  entry.heard_ns = shared_.now;
  if (entry.silent) {
    entry.silent = false;
    job->detector.HostBack(host);
    shared_.Say(absl::StrCat("job ", job->name, ": the agent of ", host, " is reporting again"));
  }
  if (const auto peer = peers_.find(received.peer); peer != peers_.end()) {
    entry.boot_id = peer->second.boot_id;
    if (!entry.boot_id.empty() && heartbeat.mono_ns() > 0)
      clocks_.Received(entry.boot_id, heartbeat.mono_ns(), shared_.now);
  }
  if (entry.seen.alive != seen.alive) {
    for (const auto& [name, other] : job->hosts) {
      if (name == host || !other.direct || other.silent) continue;
      const Ranks twice = other.seen.alive.Common(seen.alive);
      if (twice.empty() || job->duplicates.ContainsAll(twice)) continue;
      job->duplicates.Unite(twice);
      shared_.Say(
          absl::StrCat("job ", job->name, ": ranks ", twice.Text(), " are reported by both ", name, " and ", host));
    }
  }
  entry.seen = std::move(seen);
  entry.ranks = entry.seen.All();
  return entry.child;
}

// Like FromAgent, for a relay, which reports for many agents.
uint32_t JobTable::FromRelay(const wire::Received& received, const Heartbeat& heartbeat, HeartbeatFacts seen,
                             Job* job) {
  const RelayKey at{received.peer, heartbeat.job().life()};
  const bool fresh = job->relays.count(at) == 0;
  JobRelay& relay = job->relays[at];
  const auto peer = peers_.find(received.peer);
  if (fresh) {
    // The same relay may still be listed under an earlier connection.
    for (auto old = job->relays.begin(); old != job->relays.end();) {
      const auto info = peers_.find(old->first.peer);
      if (old->first.peer != received.peer && old->first.life == at.life && peer != peers_.end() &&
          info != peers_.end() && info->second.instance == peer->second.instance) {
        relay = old->second;
        old = job->relays.erase(old);
      } else {
        ++old;
      }
    }
  }
  if (relay.child == 0) relay.child = ++children_;
  if (relay.silent) job->detector.HostBack(relay.host);
  relay.heard_ns = shared_.now;
  relay.silent = false;
  relay.host = peer != peers_.end() ? peer->second.host : "";
  std::erase_if(seen.silent_named, [&](const std::string& name) {
    const auto entry = job->hosts.find(name);
    const bool reports = entry != job->hosts.end() && entry->second.direct && !entry->second.silent;
    if (reports && seen.silent_hosts > 0) --seen.silent_hosts;  // silent only for this relay
    return reports;
  });
  for (const std::string& name : seen.silent_named)
    job->detector.HostSilent(shared_.now, name, shared_.options.silent_after_ns);
  for (const std::string& name : relay.seen.silent_named) {
    if (seen.silent_named.count(name) == 0) job->detector.HostBack(name);
  }
  relay.seen = std::move(seen);
  return relay.child;
}

void JobTable::FollowCommunicators(const Heartbeat& heartbeat, uint32_t child, Job* job) {
  for (const CommunicatorBeat& proto : heartbeat.moved()) {
    if (!job->communicators.contains(proto.id())) {
      if (job->communicators.size() >= kMostBeats) continue;
      job->communicators.insert(proto.id());
    }
    const CommBeat beat = BeatFromProto(proto);
    job->detector.progress().Apply(child, shared_.now, beat);
    for (const Desync& desync : job->desync.Apply(child, beat)) {
      events_.Differs(job, desync);
      if (!desync.confirmed) continue;
      shared_.Say(absl::StrCat("job ", job->name, ": ", DesyncText(desync), "; the job continues"));
      Keep(&job->desyncs, {shared_.now, DesyncText(desync)});
    }
  }
}

// Urgent messages overtake the heartbeat that identifies their job, so they are held for a few seconds until it
// arrives.
void JobTable::Hold(const JobIdentity& identity, const wire::Received& received) {
  if (early_.size() < kMostEarly && received.message.body.size() <= kMostEarlyBytes && Plausible(identity)) {
    early_.push_back({BaseKeyOf(identity), received, shared_.now});
  }
}

void JobTable::TakeEarly(const JobIdentity& identity) {
  const std::string base = BaseKeyOf(identity);
  std::deque<Early> held;
  held.swap(early_);
  for (Early& early : held) {
    if (early.base != base) {
      early_.push_back(std::move(early));
      continue;
    }
    const size_t before = early_.size();
    early.received.message.header.type == wire::Type::kLate ? OnLate(early.received) : OnEnded(early.received);
    if (early_.size() > before) early_.back().at_ns = early.at_ns;  // the job is still unknown
  }
}

void JobTable::OnLate(const wire::Received& received) {
  LateReport report;
  if (!shared_.Decode(received.message, &report)) return;
  Job* job = JobSaid(received, report.job(), CleanUtf8(report.host(), 256));
  if (job == nullptr) return Hold(report.job(), received);
  LateInput late;
  late.comm = report.communicator();
  late.sequence = report.sequence();
  late.over = report.over();
  late.in_flight_ns = report.in_flight_ns();
  late.limit_ns = report.limit_ns();
  late.p99_gap_ns = report.p99_gap_ns();
  late.gaps = report.gaps();
  late.waiting = Ranks::FromOrNone(report.waiting());
  late.missing = Ranks::FromOrNone(report.missing());
  late.doing = CleanUtf8(report.doing(), 256);
  late.host = CleanUtf8(report.host(), 256);
  ++shared_.counters.late;
  job->detector.Late(shared_.now, late);
}

void JobTable::OnEnded(const wire::Received& received) {
  ProcessEnded ended;
  if (!shared_.Decode(received.message, &ended)) return;
  Job* job = JobSaid(received, ended.job(), CleanUtf8(ended.host(), 256));
  if (job == nullptr) return Hold(ended.job(), received);
  if (ended.rank() < 0 || ended.rank() > kMostRank) return;
  if (!job->ended_told.insert(ended.rank()).second) return;
  const ProcessState& state = ended.state();
  Process process;
  process.life = state.life() == ProcessState::EXITED   ? Life::kExited
                 : state.life() == ProcessState::KILLED ? Life::kKilled
                                                        : Life::kGone;
  process.exit_code = state.exit_code();
  process.signal = state.signal();
  const EndKind kind = KindOfEnd(process);
  if (kind != EndKind::kWell) job->ended_badly.insert(ended.rank());
  job->detector.Ended(shared_.now, ended.rank(), kind);
}

// The host's agent, or a relay, no longer reports this job.
void JobTable::LeaveJob(Job* job, const SenderKey& sender) {
  if (const auto relay = job->relays.find({sender.peer, sender.life}); !sender.direct && relay != job->relays.end()) {
    job->detector.progress().Forget(relay->second.child);
    job->detector.HostBack(relay->second.host);
    for (const std::string& name : relay->second.seen.silent_named) job->detector.HostBack(name);
    job->relays.erase(relay);
  }
  const auto entry = job->hosts.find(sender.host);
  if (sender.direct && entry != job->hosts.end() && entry->second.address.peer == sender.peer &&
      entry->second.life == sender.life) {
    if (entry->second.direct) job->detector.progress().Forget(entry->second.child);
    job->detector.HostBack(sender.host);
    job->hosts.erase(entry);
  }
}

void JobTable::Leave(const SenderKey& sender, const JobIdentity& identity) {
  if (Job* job = KnownJob(sender, identity)) LeaveJob(job, sender);
  const auto family = families_.find(BaseKeyOf(identity));
  if (family == families_.end()) return;
  family->second.sorted.Leave(sender.key);
  family->second.heard.erase(sender.key);
}

Job* JobTable::KnownJob(const SenderKey& sender, const JobIdentity& identity) {
  const std::string base = BaseKeyOf(identity);
  const auto family = families_.find(base);
  const int number = family == families_.end() ? Namesakes::kUndecided : family->second.sorted.Of(sender.key);
  return number == Namesakes::kUndecided ? nullptr : Find(number == 0 ? base : absl::StrCat(base, "#", number + 1));
}

std::vector<Job*> JobTable::Named(const std::string& name) {
  std::vector<Job*> living, alike, same, same_living;
  for (const auto& [key, job] : jobs_) {
    const NameMatch match = MatchName(*job, name);
    if (match == NameMatch::kThis) return {job.get()};
    if (match == NameMatch::kNone) continue;
    alike.push_back(job.get());
    if (!job->over) living.push_back(job.get());
    if (match != NameMatch::kSame) continue;
    // The name is exact: "train" is the generation without step and restart count, not "train/0/1".
    same.push_back(job.get());
    if (!job->over) same_living.push_back(job.get());
  }
  return !same_living.empty() ? same_living : !living.empty() ? living : !same.empty() ? same : alike;
}

bool JobTable::HasNamesake(const Job& job) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& other) {
    return other.second.get() != &job && !other.second->over &&
           BaseKeyOf(other.second->identity) == BaseKeyOf(job.identity);
  });
}

void JobTable::Fill(const Job& job, JobStatus* status) const {
  FillStatus(job, shared_.now, status);
  if (job.number == 0 && HasNamesake(job)) status->mutable_job()->set_job(job.identity.job() + "#1");
}

void JobTable::AskHosts(const Job& job, CollectRequest request, const Ranks& ranks) {
  for (const auto& [name, host] : job.hosts) {
    if (!host.direct || (!ranks.empty() && !ranks.Intersects(host.ranks))) continue;
    request.mutable_job()->set_life(host.life);
    shared_.Send(host.address, wire::Type::kCollect, request);
  }
  for (const auto& [at, relay] : job.relays) {
    request.mutable_job()->set_life(at.life);
    if (ranks.empty() || ranks.Intersects(relay.seen.All())) shared_.Send({at.peer, {}}, wire::Type::kCollect, request);
  }
}

void JobTable::OnHello(const wire::Received& received) {
  Hello hello;
  if (!shared_.Decode(received.message, &hello)) return;
  std::string refused;
  if (hello.min_protocol() > wire::kProtocol) {
    refused =
        absl::StrCat("it needs protocol ", hello.min_protocol(), " or newer, but this collector (",
                     shared_.options.version, ") supports only up to ", wire::kProtocol, ": update the collector");
  }
  if (received.message.header.route.empty()) {
    PeerInfo& peer = peers_[received.peer];
    peer.role = received.role;
    peer.host = CleanUtf8(hello.host(), 256);
    peer.boot_id = CleanUtf8(hello.boot_id(), 256);
    peer.version = CleanUtf8(hello.version(), 64);
    peer.instance = hello.instance();
    peer.heard_ns = shared_.now;
  }
  SendWelcome({received.peer, received.message.header.route},
              std::min<uint32_t>(wire::kProtocol, std::max<uint32_t>(hello.protocol(), 1)), refused);
}

void JobTable::SendWelcome(const Address& to, uint32_t protocol, const std::string& refused) {
  Welcome welcome;
  welcome.set_version(shared_.options.version);
  welcome.set_instance(shared_.options.instance);
  welcome.set_protocol(protocol);
  welcome.set_real_ns(shared_.RealNow());
  welcome.set_refused(refused);
  shared_.Send(to, wire::Type::kWelcome, welcome);
}

void JobTable::WorkFor(Job* job, CoreTask::Lane lane, std::function<void()> run, std::function<void(Job*)> done) {
  shared_.Work(lane, std::move(run), [this, key = job->key, done = std::move(done)] {
    if (Job* job = Find(key)) done(job);
  });
}

}  // namespace lockstep
