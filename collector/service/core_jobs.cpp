// The part of CollectorCore that assigns reports to jobs: heartbeats, late reports, ends, silence, and jobs of the same
// name.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr int64_t kPassedOver = 2 * kSecond;  // a job's heartbeats stopped while another's continue
// Maximum number of small messages (late reports and ends) that wait, and maximum size of each.
constexpr size_t kMostEarly = 65536, kMostEarlyBytes = 16384;
constexpr size_t kMostNameBytes = 200;
constexpr size_t kMostBeats = size_t{1} << 20;  // maximum number of communicators of one job
constexpr size_t kMostBlind = 64;               // maximum number of lines of one sender

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

RanksSeen SeenIn(const Heartbeat& heartbeat) {
  RanksSeen seen;
  seen.alive = Ranks::FromOrNone(heartbeat.alive());
  seen.stopped = Ranks::FromOrNone(heartbeat.stopped());
  seen.in_d = Ranks::FromOrNone(heartbeat.in_d());
  seen.ended = Ranks::FromOrNone(heartbeat.ended());
  seen.records_lost = heartbeat.records_lost();
  seen.lag_ns = heartbeat.oldest_age_ns();
  seen.facts.Add(heartbeat);
  for (const std::string& line : heartbeat.blind()) {
    if (seen.blind.size() < kMostBlind) seen.blind.push_back(CleanUtf8(line, 512));
  }
  return seen;
}

}  // namespace

// An agent's relay answers again, so from now on the agent reports through it.
void CollectorCore::OnBye(const wire::Received& received) {
  for (auto& [key, job] : jobs_) {
    for (auto host = job->hosts.begin(); host != job->hosts.end();) {
      const bool leaves =
          host->second.direct && host->second.address == Address{received.peer, received.message.header.route};
      if (leaves) job->detector.progress().Forget(host->second.child, now_);
      host = leaves ? job->hosts.erase(host) : std::next(host);
    }
  }
}

Job* CollectorCore::Find(const std::string& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second.get();
}

// Senders are identified by their process, over any connection.
CollectorCore::SenderKey CollectorCore::KeyOfSender(const wire::Received& received, const JobIdentity& identity,
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

Job* CollectorCore::JobNumber(const JobIdentity& identity, int number) {
  const std::string base = BaseKeyOf(identity), key = number == 0 ? base : absl::StrCat(base, "#", number + 1);
  if (Job* job = Find(key)) return job;
  if (jobs_.size() >= options_.most_jobs) {
    ++counters_.malformed;
    return nullptr;
  }
  auto job = std::make_unique<Job>(options_.limits);
  job->key = key;
  job->number = number;
  job->name = NameOf(identity);
  if (number > 0) absl::StrAppend(&job->name, "#", number + 1);
  job->identity = identity;
  job->identity.clear_life();
  job->began_real_ns = job->level_real_ns = RealNow();
  job->met_ns = now_;
  job->heard_ns = now_;
  actions_->Say(absl::StrCat("job ", job->name, " of user ", identity.uid(), " is seen",
                             number > 0 ? ": it shares no communicator with the other job of this name" : ""));
  return (jobs_[key] = std::move(job)).get();
}

// Returns the job of a heartbeat. Jobs with the same name are separated (collector/common/namesakes.h).
Job* CollectorCore::JobOf(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host) {
  const JobIdentity& identity = heartbeat.job();
  if (!Plausible(identity)) {
    ++counters_.malformed;
    return nullptr;
  }
  const std::string base = BaseKeyOf(identity);
  if (families_.count(base) == 0 && families_.size() >= options_.most_jobs) {
    ++counters_.malformed;
    return nullptr;
  }
  Family& family = families_[base];
  const SenderKey sender = KeyOfSender(received, identity, host);
  if (family.heard.count(sender.key) == 0 && family.heard.size() >= options_.most_hosts) {
    ++counters_.malformed;
    return nullptr;
  }
  std::vector<uint64_t> comms;
  for (const CommunicatorBeat& beat : heartbeat.moved()) {
    if (beat.size() >= 0) comms.push_back(beat.id());
  }
  std::vector<Namesakes::Move> moves;
  const int number = family.sorted.Say(sender.key, Ranks::FromOrNone(heartbeat.alive()),
                                       Ranks::FromOrNone(heartbeat.ended()), comms, &moves);
  Family::Heard& heard = family.heard[sender.key];
  heard.sender = sender;
  heard.ns = now_;
  for (const Namesakes::Move& move : moves) {
    const auto other = family.heard.find(move.sender);
    if (other == family.heard.end()) continue;
    if (Job* from = Find(move.from == 0 ? base : absl::StrCat(base, "#", move.from + 1)))
      LeaveJob(from, other->second.sender);
    // The sender then reports everything again, which is assigned to the other job.
    SendWelcome({other->second.sender.peer, {}}, wire::kProtocol);
  }
  return number == Namesakes::kUndecided ? nullptr : JobNumber(identity, number);
}

// Returns the job of a report other than a heartbeat. Null if the job is unknown (yet).
Job* CollectorCore::JobSaid(const wire::Received& received, const JobIdentity& identity, const std::string& host) {
  const std::string base = BaseKeyOf(identity);
  const auto family = families_.find(base);
  if (family == families_.end()) return nullptr;
  if (const int number = family->second.sorted.Of(KeyOfSender(received, identity, host).key);
      number != Namesakes::kUndecided) {
    return Find(number == 0 ? base : absl::StrCat(base, "#", number + 1));
  }
  // The sender is behind another relay now, or is a restarted agent. This is unambiguous if there is only one such job.
  Job* only = nullptr;
  for (auto at = jobs_.lower_bound(base); at != jobs_.end() && at->first.compare(0, base.size(), base) == 0; ++at) {
    if (BaseKeyOf(at->second->identity) != base) continue;
    if (only != nullptr) return nullptr;
    only = at->second.get();
  }
  return only;
}

void CollectorCore::OnHeartbeat(const wire::Received& received) {
  Heartbeat heartbeat;
  if (!Decode(received.message, &heartbeat)) return;
  ++counters_.heartbeats;
  const bool direct = !heartbeat.host().empty() && received.message.header.route.empty();
  const std::string host = CleanUtf8(heartbeat.host(), 256);
  if (const auto peer = peers_.find(received.peer); peer != peers_.end()) peer->second.beat_ns = now_;
  if (heartbeat.over()) return Leave(KeyOfSender(received, heartbeat.job(), direct ? host : ""), heartbeat.job());
  Job* job = JobOf(received, heartbeat, direct ? host : "");
  if (job == nullptr) return;
  job->heard_ns = now_;
  RanksSeen seen = SeenIn(heartbeat);
  job->lived |= !seen.alive.empty();
  counters_.heartbeat_lag_ns = seen.lag_ns;
  const std::optional<uint32_t> child = direct ? FromAgent(received, heartbeat, host, std::move(seen), job)
                                               : FromRelay(received, heartbeat, std::move(seen), job);
  if (!child) return;
  FollowCommunicators(heartbeat, *child, job);
  TakeUpIncidents(job);
  if (!early_.empty()) TakeEarly(heartbeat.job());
}

// Notes what an agent of the job says of its host. Returns the number of the agent among those that report
// communicators; nothing: the message does not count.
std::optional<uint32_t> CollectorCore::FromAgent(const wire::Received& received, const Heartbeat& heartbeat,
                                                 const std::string& host, RanksSeen seen, Job* job) {
  if (job->hosts.count(host) == 0 && job->hosts.size() >= options_.most_hosts) {
    ++counters_.malformed;
    return std::nullopt;
  }
  JobHost& entry = job->hosts[host];
  // An agent reports ended processes and their replacements separately. The living process counts.
  if (entry.direct && entry.life != heartbeat.job().life() && !entry.seen.alive.empty() && seen.alive.empty())
    return std::nullopt;
  entry.life = heartbeat.job().life();
  if (entry.child == 0) entry.child = ++children_;
  entry.direct = true;
  entry.address = {received.peer, received.message.header.route};
  entry.heard_ns = now_;
  if (entry.silent) {
    entry.silent = false;
    job->detector.HostBack(host);
    actions_->Say(absl::StrCat("job ", job->name, ": the agent of ", host, " reports again"));
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
      actions_->Say(
          absl::StrCat("job ", job->name, ": ranks ", twice.Text(), " are reported by both ", name, " and ", host));
    }
  }
  entry.seen = std::move(seen);
  entry.ranks = entry.seen.All();
  return entry.child;
}

// The same for a relay, which speaks for many agents.
uint32_t CollectorCore::FromRelay(const wire::Received& received, const Heartbeat& heartbeat, RanksSeen seen,
                                  Job* job) {
  const RelayKey at{received.peer, heartbeat.job().life()};
  const bool fresh = job->relays.count(at) == 0;
  JobRelay& relay = job->relays[at];
  const auto peer = peers_.find(received.peer);
  if (fresh) {
    // The same relay may be listed under an earlier connection.
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
  relay.heard_ns = now_;
  relay.silent = false;
  relay.host = peer != peers_.end() ? peer->second.host : "";
  relay.hosts = heartbeat.hosts();
  relay.silent_hosts = heartbeat.silent_hosts();
  std::set<std::string> named;
  for (const std::string& said : heartbeat.silent_host()) {
    const std::string name = CleanUtf8(said, 256);
    if (const auto entry = job->hosts.find(name);
        entry != job->hosts.end() && entry->second.direct && !entry->second.silent) {
      if (relay.silent_hosts > 0) --relay.silent_hosts;  // only for this relay, because its agent now reports directly
      continue;
    }
    if (named.size() < 64) named.insert(name);
  }
  for (const std::string& name : named) job->detector.HostSilent(now_, name, options_.silent_after_ns);
  for (const std::string& name : relay.silent_named) {
    if (named.count(name) == 0) job->detector.HostBack(name);
  }
  relay.silent_named = std::move(named);
  relay.seen = std::move(seen);
  return relay.child;
}

void CollectorCore::FollowCommunicators(const Heartbeat& heartbeat, uint32_t child, Job* job) {
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
      actions_->Say(absl::StrCat("job ", job->name, ": ", DesyncText(desync), "; the job continues"));
      Keep(&job->desyncs, {now_, DesyncText(desync)});
    }
  }
}

// Incidents of the job whose gathering began before this process started.
void CollectorCore::TakeUpIncidents(Job* job) {
  for (auto& [name, incident] : incidents_) {
    if (!incident->job.empty() || BaseKeyOf(incident->state.identity) != BaseKeyOf(job->identity)) continue;
    const std::vector<uint64_t>& comms = incident->state.comms;
    if (comms.empty() ||
        std::any_of(comms.begin(), comms.end(), [&](uint64_t comm) { return job->communicators.contains(comm); })) {
      TakeUp(incident.get(), job);
    }
  }
}

// Urgent messages overtake the heartbeat that identifies their job, so they wait for it for some seconds.
void CollectorCore::Hold(const JobIdentity& identity, const wire::Received& received) {
  if (early_.size() < kMostEarly && received.message.body.size() <= kMostEarlyBytes && Plausible(identity)) {
    early_.push_back({BaseKeyOf(identity), received, now_});
  }
}

void CollectorCore::TakeEarly(const JobIdentity& identity) {
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

void CollectorCore::OnLate(const wire::Received& received) {
  LateReport report;
  if (!Decode(received.message, &report)) return;
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
  late.waiting = RunsFrom(report.waiting());
  late.missing = RunsFrom(report.missing());
  late.doing = CleanUtf8(report.doing(), 256);
  late.host = CleanUtf8(report.host(), 256);
  ++counters_.late;
  job->detector.Late(now_, late);
}

void CollectorCore::OnEnded(const wire::Received& received) {
  ProcessEnded ended;
  if (!Decode(received.message, &ended)) return;
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
  job->detector.Ended(now_, ended.rank(), kind);
}

// The sender no longer reports this job, but it is not silent.
bool CollectorCore::PassedOver(uint64_t peer, int64_t heard_ns) const {
  const auto info = peers_.find(peer);
  return info != peers_.end() && info->second.beat_ns - heard_ns > kPassedOver &&
         now_ - info->second.beat_ns < options_.silent_after_ns;
}

// A host's agent or a relay no longer reports this job.
void CollectorCore::LeaveJob(Job* job, const SenderKey& sender) {
  if (const auto relay = job->relays.find({sender.peer, sender.life}); !sender.direct && relay != job->relays.end()) {
    job->detector.progress().Forget(relay->second.child, now_);
    job->detector.HostBack(relay->second.host);
    for (const std::string& name : relay->second.silent_named) job->detector.HostBack(name);
    job->relays.erase(relay);
  }
  const auto entry = job->hosts.find(sender.host);
  if (sender.direct && entry != job->hosts.end() && entry->second.address.peer == sender.peer &&
      entry->second.life == sender.life) {
    if (entry->second.direct) job->detector.progress().Forget(entry->second.child, now_);
    job->detector.HostBack(sender.host);
    job->hosts.erase(entry);
  }
}

void CollectorCore::Leave(const SenderKey& sender, const JobIdentity& identity) {
  if (Job* job = KnownJob(sender, identity)) LeaveJob(job, sender);
  const auto family = families_.find(BaseKeyOf(identity));
  if (family == families_.end()) return;
  family->second.sorted.Leave(sender.key);
  family->second.heard.erase(sender.key);
}

Job* CollectorCore::KnownJob(const SenderKey& sender, const JobIdentity& identity) {
  const std::string base = BaseKeyOf(identity);
  const auto family = families_.find(base);
  const int number = family == families_.end() ? Namesakes::kUndecided : family->second.sorted.Of(sender.key);
  return number == Namesakes::kUndecided ? nullptr : Find(number == 0 ? base : absl::StrCat(base, "#", number + 1));
}

// Ranks of a silent sender may have been started elsewhere. After a long silence they are forgotten.
void CollectorCore::TickFamilies() {
  for (auto family = families_.begin(); family != families_.end();) {
    for (auto heard = family->second.heard.begin(); heard != family->second.heard.end();) {
      const int64_t silent = now_ - heard->second.ns;
      if (silent > options_.forget_after_ns) {
        family->second.sorted.Leave(heard->first);
        heard = family->second.heard.erase(heard);
        continue;
      }
      if (silent >= options_.silent_after_ns && silent < options_.silent_after_ns + 2 * kSecond)
        family->second.sorted.Silent(heard->first);
      ++heard;
    }
    // The numbers of the family's jobs are kept as long as the family has jobs.
    const bool over = family->second.heard.empty() && std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
                        return BaseKeyOf(job.second->identity) == family->first;
                      });
    family = over ? families_.erase(family) : std::next(family);
  }
}

void CollectorCore::LookWhetherOver(Job* job) {
  bool anybody = !job->relays.empty(), living = false, ended = false;
  for (const auto& [name, host] : job->hosts) {
    anybody |= host.direct;
    living |= host.direct && (!host.seen.alive.empty() || host.seen.ended.empty());
  }
  for (const auto& [at, relay] : job->relays) living |= !relay.seen.alive.empty() || relay.seen.ended.empty();
  ended = anybody && !living;
  // A job that died is judged first. A job is over if it ended well, if nobody reports it, or if it had ended before
  // this collector started.
  const bool over =
      !anybody || (ended && (!job->lived || job->ended_badly.empty() || job->detector.level() == Level::kHung));
  if (over == job->over) return;
  job->over = over;
  if (over)
    actions_->Say(absl::StrCat("job ", job->name,
                               !anybody     ? ": no agent reports the job any more"
                               : job->lived ? " has ended"
                                            : " had already ended"));
  TellWatchers(job->key, nullptr);
}

void CollectorCore::LookForSilence(Job* job) {
  std::vector<SenderKey> left;
  for (const auto& [name, host] : job->hosts) {
    if (host.direct && now_ - host.heard_ns >= options_.silent_after_ns &&
        PassedOver(host.address.peer, host.heard_ns)) {
      left.push_back({"", name, host.address.peer, host.life, true});
    }
  }
  for (const auto& [at, relay] : job->relays) {
    if (now_ - relay.heard_ns >= options_.silent_after_ns && PassedOver(at.peer, relay.heard_ns))
      left.push_back({"", "", at.peer, at.life, false});
  }
  for (const SenderKey& sender : left) LeaveJob(job, sender);
  for (auto& [name, host] : job->hosts) {
    if (!host.direct) continue;
    const int64_t silent = now_ - host.heard_ns;
    if (silent < options_.silent_after_ns || host.seen.alive.empty()) continue;
    if (!host.silent) {
      host.silent = true;
      actions_->Say(
          absl::StrCat("job ", job->name, ": the agent of ", name, " has gone silent (ranks ", host.ranks.Text(), ")"));
    }
    // Checks whether the host now reports through a relay.
    bool moved = false;
    for (const auto& [at, relay] : job->relays) {
      if (!relay.silent && relay.heard_ns > host.heard_ns && relay.seen.alive.ContainsAll(host.seen.alive))
        moved = true;
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
      actions_->Say(absl::StrCat("job ", job->name, ": the relay on ", entry.host, " has gone silent (", entry.hosts,
                                 " agents behind it)"));
    }
    Ranks others;
    for (const auto& [name, host] : job->hosts) {
      if (host.direct && !host.silent) others.Unite(host.seen.alive);
    }
    for (const auto& [at, other] : job->relays) {
      if (!other.silent) others.Unite(other.seen.alive);
    }
    if (others.ContainsAll(entry.seen.alive)) {
      // The relay's agents now report directly or through other relays.
      job->detector.progress().Forget(entry.child, now_);
      job->detector.HostBack(entry.host);
      relay = job->relays.erase(relay);
    } else {
      job->detector.HostSilent(now_, entry.host, silent);
      ++relay;
    }
  }
}

}  // namespace lockstep
