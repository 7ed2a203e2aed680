#include "collector/service/relay/relay.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

constexpr int64_t kLateExpires = 60 * kSecond;
constexpr int64_t kPassedOver = 2 * kSecond;  // a job's heartbeats stopped while those of another job continue
constexpr size_t kMostLate = 65536;
constexpr size_t kMostStacks = 64;  // maximum number of requests with open stacks
constexpr int kMostRefused = 64;
constexpr int kBeatsPerHeartbeat = 4096;
constexpr int kReadAtOnce = 1024;
constexpr size_t kReusedBytes = 16384;  // larger heartbeats are not decoded into the reused message
// If a heartbeat is lost, its numbers are repeated only when something moves. So everything is repeated at this
// interval.
constexpr int64_t kEverythingEvery = 30 * kSecond;
constexpr int64_t kRetryFull = 5'000'000;        // pause before the next attempt if the upstream's queue is full
constexpr int64_t kForgetChild = 600 * kSecond;  // a child that is silent for this long is forgotten
constexpr size_t kMostChildren = 16384;
// Limits for data that waits while the upstream accepts none. Chunks beyond the first limit are dropped (they are sent
// again). Beyond the second limit, the children's connections are not read, so the network slows the children down.
constexpr size_t kMostChunkQueue = size_t{64} << 20, kMostUrgentBytes = size_t{128} << 20;
constexpr size_t kMostName = 256;
constexpr size_t kMostJobsOfHost = 64;

std::string LateKey(const LateReport& report) {
  return absl::StrCat(report.job().SerializeAsString(), "/", report.communicator(), "/", report.sequence(), "/",
                      report.over());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(const RelayOptions& options) {
  std::unique_ptr<Relay> relay(new Relay(options));
  absl::StatusOr<std::unique_ptr<wire::Server>> server = wire::Server::Bind(options.server);
  if (!server.ok()) return server.status();
  absl::StatusOr<std::unique_ptr<wire::Client>> upstream = wire::Client::Connect(options.upstream);
  if (!upstream.ok()) return upstream.status();
  relay->server_ = *std::move(server);
  relay->upstream_ = *std::move(upstream);
  return relay;
}

Relay::~Relay() = default;

int Relay::Step(int64_t mono_ns, int64_t real_ns) {
  now_ = mono_ns;
  if (upstream_->Tick(now_)) {
    welcomed_ = false;
    Hello hello = wire::MakeHello(Hello::RELAY, options_.instance);
    hello.set_host(options_.host);
    hello.set_boot_id(options_.boot_id);
    upstream_->Send(wire::Type::kHello, hello).IgnoreError();
  }
  while (std::optional<wire::Message> message = upstream_->Receive()) FromUpstream(*std::move(message));
  bool more = false;
  int taken = 0;
  for (; urgent_bytes_ < kMostUrgentBytes; taken++) {
    std::optional<wire::Received> received = server_->Receive();
    if (!received) break;
    FromChild(*std::move(received));
    if (taken == kReadAtOnce) {
      more = true;
      break;
    }
  }
  if (welcomed_) {
    Flush();
    if (now_ >= next_late_) {
      for (auto& [key, late] : late_) {
        if (late.dirty) SendLate(&late);
      }
      for (auto& [request, stacks] : stacks_) {
        if (stacks.dirty) SendStacks(&stacks);
      }
      next_late_ = now_ + options_.late_ns;
    }
    if (now_ >= next_heartbeat_) {
      SendHeartbeats(real_ns);
      next_heartbeat_ = std::max(now_ + options_.heartbeat_ns / 2, next_heartbeat_ + options_.heartbeat_ns);
    }
  }
  if (now_ >= next_housekeeping_) {
    Housekeep();
    next_housekeeping_ = now_ + kSecond;
  }
  next_ = std::min({next_late_, next_heartbeat_, next_housekeeping_});
  if (!welcomed_) next_ = now_ + kSecond / 5;
  if (!urgent_.empty() || !chunks_.empty()) next_ = std::min(next_, now_ + kRetryFull);
  if (more) next_ = now_;
  return taken;
}

bool Relay::Decode(const wire::Message& message, google::protobuf::MessageLite* into) {
  const bool valid = wire::DecodeBody(message, into).ok();
  if (!valid) counters_.malformed++;
  return valid;
}

void Relay::FromUpstream(wire::Message message) {
  if (message.header.type == wire::Type::kWelcome && message.header.route.empty()) {
    if (Welcome welcome; Decode(message, &welcome)) Welcomed(welcome);
    return;
  }
  if (message.header.route.empty()) {
    if (message.header.type == wire::Type::kCollect) Distribute(message);
    return;
  }
  const uint64_t peer = message.header.route.back();
  message.header.route.pop_back();
  if (!server_->Send(peer, message).ok()) counters_.answers_lost++;  // the request or the message will be repeated
}

void Relay::Welcomed(const Welcome& welcome) {
  if (!welcome.refused().empty()) {
    Say(absl::StrCat("relay: ", upstream_->endpoint(), " refuses this relay: ", welcome.refused()));
    return;
  }
  welcomed_ = true;
  everything_ = true;  // also after a reconnection, because messages in transit may be lost
  if (upstream_instance_ == welcome.instance()) return;
  // The upstream is a different collector or relay. The children repeat everything that is not kept here: exits, waits,
  // members. Unsent exits and waits are dropped, because a wait that was late then may be over.
  std::erase_if(urgent_, [this](const wire::Message& message) {
    const bool told_again = message.header.type == wire::Type::kLate || message.header.type == wire::Type::kEnded;
    if (told_again) urgent_bytes_ -= message.body.size();
    return told_again;
  });
  late_.clear();
  upstream_instance_ = welcome.instance();
  for (const auto& [peer, child] : children_) WelcomeChild(peer);
  ForgetSilentJobs();
}

void Relay::WelcomeChild(uint64_t peer) {
  Welcome welcome;
  welcome.set_version(options_.version);
  // The instance depends on this relay and its upstream. If either is new, the children report everything again.
  welcome.set_instance(upstream_instance_ * 0x9e3779b97f4a7c15 + options_.instance);
  welcome.set_protocol(wire::kProtocol);
  welcome.set_real_ns(RealtimeNs());
  for (const std::string& endpoint : options_.upstream.endpoints) welcome.add_fallback(endpoint);
  server_->Send(peer, wire::Type::kWelcome, welcome).IgnoreError();
}

Relay::Child* Relay::ChildOf(uint64_t peer) {
  const auto child = children_.find(peer);
  return child == children_.end() ? nullptr : &child->second;
}

void Relay::FromChild(wire::Received received) {
  if (Child* child = ChildOf(received.peer); child != nullptr) {
    child->heard_ns = now_;
    if (child->silent) {
      child->silent = false;
      for (const auto& [said, job] : child->jobs) {
        if (const auto found = jobs_.find(job.job); found != jobs_.end()) found->second->fresh = true;
      }
    }
  }
  switch (received.message.header.type) {
    case wire::Type::kHello:
      // A child relay sends its Hello to this relay; no Hello is forwarded.
      return received.message.header.route.empty() ? OnHello(received) : void(counters_.malformed++);
    case wire::Type::kBye: return Drop(received.peer);
    case wire::Type::kHeartbeat: return OnHeartbeat(received);
    case wire::Type::kLate: return OnLate(received);
    case wire::Type::kStacks: return OnStacks(received);
    case wire::Type::kEnded: return OnEnded(std::move(received));
    case wire::Type::kDigest:
    case wire::Type::kEvidence:
    case wire::Type::kChunk: return Forward(std::move(received));
    default:
      // Tools connect to the collector directly.
      counters_.malformed++;
  }
}

void Relay::OnHello(const wire::Received& received) {
  Hello hello;
  if (!Decode(received.message, &hello)) return;
  Child* child = ChildOf(received.peer);
  if (child == nullptr) {
    if (children_.size() >= kMostChildren) {
      counters_.malformed++;
      return;
    }
    Child fresh;
    // The same process over another connection continues; a restarted process on the same host replaces its
    // predecessor.
    for (auto old = children_.begin(); old != children_.end();) {
      const bool same = hello.instance() != 0 && old->second.instance == hello.instance();
      const bool predecessor = old->second.host == hello.host() && (old->second.gone || !server_->Knows(old->first));
      if (!same && !predecessor) {
        ++old;
      } else if (same) {
        fresh = std::move(old->second);
        old = children_.erase(old);
      } else {
        const uint64_t peer = old->first;
        ++old;
        Drop(peer);
      }
    }
    if (fresh.number == 0) fresh.number = ++numbers_;
    fresh.peer = received.peer;
    child = &children_.emplace(received.peer, std::move(fresh)).first->second;
  }
  child->instance = hello.instance();
  child->host = hello.host().substr(0, kMostName);
  child->heard_ns = now_;
  child->silent = child->gone = false;
  if (upstream_instance_ != 0) WelcomeChild(received.peer);
}

void Relay::OnHeartbeat(const wire::Received& received) {
  Heartbeat large;
  Heartbeat& beat = received.message.header.raw_bytes <= kReusedBytes ? beat_ : large;
  Child* child = ChildOf(received.peer);
  if (child == nullptr || !wire::DecodeBody(received.message, &beat).ok()) {
    counters_.malformed++;
    return;
  }
  counters_.heartbeats_in++;
  const std::string key = beat.job().SerializeAsString();
  child->beat_ns = now_;
  if (beat.over()) return Leave(child, key);
  const bool too_many =
      child->jobs.count(key) == 0 && received.role != wire::Role::kRelay && child->jobs.size() >= kMostJobsOfHost;
  if (too_many || key.size() > 4 * kMostName) {
    counters_.malformed++;
    return;
  }
  ChildJob& said = child->jobs[key];
  said.facts = HeartbeatFacts(beat);
  said.heard_ns = now_;
  Sort(child, beat, key);
  const auto found = jobs_.find(said.job);
  if (found == jobs_.end()) return;
  Job* const job = found->second.get();
  job->fresh = true;
  job->heard_ns = now_;
  for (const CommunicatorBeat& moved : beat.moved()) job->progress.Apply(child->number, now_, BeatFromProto(moved));
  if (!early_.empty()) TakeEarly(received.peer);
}

void Relay::OnEnded(wire::Received received) {
  ProcessEnded ended;
  if (!Decode(received.message, &ended)) return;
  JobIdentity ours;
  if (!Named(received, ended.job(), &ours)) return;
  if (ours.life() != ended.job().life()) {
    *ended.mutable_job() = ours;
    absl::StatusOr<wire::Message> frame = wire::Encode(wire::Type::kEnded, ended);
    if (!frame.ok()) return;
    frame->header.route = received.message.header.route;
    received.message = *std::move(frame);
  }
  Forward(std::move(received));
}

void Relay::OnLate(const wire::Received& received) {
  LateReport report;
  if (!Decode(received.message, &report)) return;
  JobIdentity ours;
  if (!Named(received, report.job(), &ours)) return;
  *report.mutable_job() = ours;
  counters_.late_in++;
  const std::string key = LateKey(report);
  auto entry = late_.find(key);
  if (entry == late_.end()) {
    if (late_.size() >= kMostLate) return;  // the child's heartbeats also report it
    entry = late_.emplace(key, Late{}).first;
    entry->second.report = report;
  }
  Late& late = entry->second;
  LateReport& merged = late.report;
  late.waiting.Unite(Ranks::FromOrNone(report.waiting()));
  late.missing.Unite(Ranks::FromOrNone(report.missing()));
  // The longest wait and its limit represent all merged reports.
  if (report.in_flight_ns() > merged.in_flight_ns()) {
    merged.set_in_flight_ns(report.in_flight_ns());
    merged.set_limit_ns(report.limit_ns());
    merged.set_p99_gap_ns(report.p99_gap_ns());
    merged.set_gaps(report.gaps());
    merged.set_doing(report.doing());
  }
  if (late.sent_ns != 0) merged.clear_host();
  late.heard_ns = now_;
  late.dirty = true;
  // The first report is sent at once; later ones are combined.
  if (late.sent_ns == 0 && welcomed_) SendLate(&late);
}

void Relay::SendLate(Late* late) {
  late->waiting.To(late->report.mutable_waiting());
  late->missing.To(late->report.mutable_missing());
  SendUp(wire::Type::kLate, late->report);
  late->waiting = late->missing = Ranks();
  late->report.set_in_flight_ns(0);
  late->sent_ns = now_;
  late->dirty = false;
}

void Relay::OnStacks(const wire::Received& received) {
  StackReport report;
  if (!wire::DecodeBody(received.message, &report).ok() ||
      (stacks_.size() >= kMostStacks && stacks_.count(report.request()) == 0)) {
    counters_.malformed++;
    return;
  }
  Stacks& stacks = stacks_[report.request()];
  *stacks.report.mutable_job() = report.job();
  stacks.report.set_request(report.request());
  stacks.tree.Merge(StackTree::FromMessage(report.tree()));
  stacks.ranks.Unite(Ranks::FromOrNone(report.ranks()));
  for (std::string& line : *report.mutable_refused()) {
    if (stacks.report.refused_size() < kMostRefused) stacks.report.add_refused(line.substr(0, 2 * kMostName));
  }
  stacks.heard_ns = now_;
  stacks.dirty = true;
}

void Relay::SendStacks(Stacks* stacks) {
  *stacks->report.mutable_tree() = stacks->tree.ToMessage();
  stacks->ranks.To(stacks->report.mutable_ranks());
  SendUp(wire::Type::kStacks, stacks->report);
  stacks->report.Clear();
  stacks->tree.Clear();
  stacks->ranks = Ranks();
  stacks->dirty = false;
}

void Relay::Forward(wire::Received received) {
  wire::Message& message = received.message;
  if (message.header.route.size() >= wire::kMostHops) return;
  message.header.route.push_back(received.peer);
  counters_.forwarded++;
  counters_.forwarded_bytes += message.body.size();
  SendUp(std::move(message));
}

void Relay::SendUp(wire::Type type, const google::protobuf::MessageLite& message) {
  if (absl::StatusOr<wire::Message> frame = wire::Encode(type, message); frame.ok()) SendUp(*std::move(frame));
}

void Relay::SendUp(wire::Message message) {
  const bool chunk = message.header.type == wire::Type::kChunk;
  std::deque<wire::Message>& queue = chunk ? chunks_ : urgent_;
  if (welcomed_ && queue.empty() && (!chunk || urgent_.empty()) && upstream_->Send(message).ok()) return;
  if (chunk && chunk_bytes_ + message.body.size() > kMostChunkQueue) {
    counters_.chunks_dropped++;
    return;
  }
  (chunk ? chunk_bytes_ : urgent_bytes_) += message.body.size();
  queue.push_back(std::move(message));
}

void Relay::Flush() {
  for (auto [queue, bytes] : {std::make_pair(&urgent_, &urgent_bytes_), std::make_pair(&chunks_, &chunk_bytes_)}) {
    while (!queue->empty()) {
      if (!upstream_->Send(queue->front()).ok()) return;
      *bytes -= queue->front().body.size();
      queue->pop_front();
    }
  }
}

bool Relay::Concerned(const Child& child, const ChildJob& known, const std::string& job, const Ranks& ranks) const {
  if (child.gone || known.job != job) return false;
  if (ranks.empty()) return true;
  const HeartbeatFacts& facts = known.facts;
  return facts.alive.Intersects(ranks) || facts.ended.Intersects(ranks) || facts.stopped.Intersects(ranks) ||
         facts.in_d.Intersects(ranks);
}

// Sends a request to the children with the wanted ranks, using each child's own number for the job.
void Relay::Distribute(const wire::Message& message) {
  CollectRequest request;
  if (!Decode(message, &request)) return;
  if (request.phase() == CollectRequest::EXAMINE) return DistributeToAll(message, request);
  const std::string job = request.job().SerializeAsString();
  Ranks ranks = Ranks::FromOrNone(request.ranks());
  ranks.Unite(Ranks::FromOrNone(request.merged()));
  for (const auto& [peer, child] : children_) {
    if (!child.gone && child.jobs.empty()) (void)server_->Send(peer, message);  // its jobs are still unknown
    for (const auto& [said, known] : child.jobs) {
      if (!Concerned(child, known, job, ranks)) continue;
      if (said == job) {
        (void)server_->Send(peer, message);
        continue;
      }
      CollectRequest own = request;
      own.mutable_job()->ParseFromString(said);
      server_->Send(peer, wire::Type::kCollect, own).IgnoreError();
    }
  }
}

// No agent has reported the job to examine, so this asks all children, and reports their number upstream.
void Relay::DistributeToAll(const wire::Message& message, const CollectRequest& request) {
  HostEvidence asked;
  asked.set_host(options_.host);
  asked.set_request(request.request());
  asked.set_last(true);
  for (const auto& [peer, child] : children_) {
    if (!child.gone && server_->Send(peer, message).ok()) asked.set_asked(asked.asked() + 1);
  }
  SendUp(wire::Type::kEvidence, asked);
}

void Relay::SendHeartbeats(int64_t real_ns) {
  if (now_ - told_all_ns_ > kEverythingEvery) everything_ = true;
  for (auto& [key, job] : jobs_) {
    Heartbeat beat;
    *beat.mutable_job() = job->identity;
    beat.set_real_ns(real_ns);
    HeartbeatFacts facts;
    bool any = false;
    for (const auto& [peer, child] : children_) {
      for (const auto& [said, last] : child.jobs) {
        if (last.job != key) continue;
        any = true;
        child.silent ? facts.AddSilent(last.facts, child.host) : facts.Add(last.facts, now_ - last.heard_ns);
      }
    }
    if (!any) continue;
    facts.To(&beat);
    job->progress.Tick(now_);
    const std::vector<CommBeat> moved = job->progress.TakeMoved(now_, everything_);
    job->fresh = false;
    size_t next = 0;
    do {
      beat.clear_moved();
      if (next > 0) {  // only the first part contains this
        beat.clear_recorders();
        beat.clear_blind();
      }
      for (; next < moved.size() && beat.moved_size() < kBeatsPerHeartbeat; next++)
        BeatToProto(moved[next], beat.add_moved());
      if (upstream_->Send(wire::Type::kHeartbeat, beat).ok()) {
        counters_.heartbeats_out++;
      } else {
        everything_ = true;
        return;
      }
    } while (next < moved.size());
  }
  if (everything_) told_all_ns_ = now_;
  everything_ = false;
}

void Relay::Housekeep() {
  counters_.children = children_.size();
  counters_.children_silent = 0;
  std::vector<uint64_t> over;
  for (auto& [peer, child] : children_) {
    child.heard_ns = std::max(child.heard_ns, server_->HeardNs(peer));  // an agent without jobs sends only pings
    const int64_t unheard = now_ - child.heard_ns;
    if (unheard <= options_.silent_after_ns && !child.gone) child.silent = false;
    if (!child.gone && unheard > options_.silent_after_ns / 2) {
      (void)server_->Send(peer, wire::Bare(wire::Type::kPing));  // checks whether the connection still exists
      if (!server_->Knows(peer)) {
        // The child's ranks may now report through another child, so its numbers no longer count.
        child.gone = child.silent = true;
        for (const auto& [key, said] : child.jobs) {
          if (const auto job = jobs_.find(said.job); job != jobs_.end()) job->second->progress.Forget(child.number);
        }
      }
    }
    if (unheard > options_.silent_after_ns && !child.silent) {
      child.silent = true;
      MarkSilent(child);
    }
    if (unheard > kForgetChild || (child.gone && child.jobs.empty())) over.push_back(peer);
    // The child still reports, but not this job: the job has ended, or another generation of it has begun.
    std::vector<std::string> left;
    for (const auto& [key, said] : child.jobs) {
      const bool passed_over = child.beat_ns - said.heard_ns > kPassedOver;
      if (!child.silent && (passed_over || now_ - said.heard_ns > options_.silent_after_ns)) left.push_back(key);
    }
    for (const std::string& key : left) Leave(&child, key);
    counters_.children_silent += child.silent;
  }
  for (const uint64_t peer : over) Drop(peer);
  std::erase_if(late_, [&](const auto& late) { return now_ - late.second.heard_ns > kLateExpires; });
  std::erase_if(stacks_, [&](const auto& stacks) { return now_ - stacks.second.heard_ns > kLateExpires; });
  std::erase_if(jobs_, [&](const auto& job) {
    return now_ - job.second->heard_ns > options_.silent_after_ns && !HasReporter(job.first);
  });
  while (!early_.empty() && now_ - early_.front().at_ns > kEarlyExpires) early_.pop_front();
}

void Relay::Drop(uint64_t peer) {
  const auto child = children_.find(peer);
  if (child == children_.end()) return;
  for (const auto& [key, said] : child->second.jobs) {
    if (const auto job = jobs_.find(said.job); job != jobs_.end()) job->second->progress.Forget(child->second.number);
    Unsort(child->second, key);
  }
  children_.erase(child);
}

}  // namespace lockstep
