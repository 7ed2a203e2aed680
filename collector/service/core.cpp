#include "collector/service/core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

// If there was no tick for this long, this process itself was stopped, so no rank is blamed for that time.
constexpr int64_t kAbsence = 3 * kSecond;
constexpr int64_t kSweepEvery = 10 * kSecond;

}  // namespace

CollectorCore::CollectorCore(const CoreOptions& options, CoreActions* actions) : options_(options), actions_(actions) {
  // Numbers from an earlier collector process must differ from this process's.
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

void CollectorCore::Work(CoreTask::Lane lane, std::function<void()> run, std::function<void()> done) {
  ++tasks_out_;
  actions_->Work({lane, std::move(run), [this, alive = alive_, done = std::move(done)](int64_t now) {
                    if (!*alive) return;
                    --tasks_out_;
                    now_ = std::max(now_, now);
                    done();
                  }});
}

void CollectorCore::WorkFor(Gathering* incident, CoreTask::Lane lane, std::function<void()> run,
                            std::function<void(Gathering*)> done) {
  Work(lane, std::move(run), [this, name = incident->state.name, done = std::move(done)] {
    if (const auto found = incidents_.find(name); found != incidents_.end()) done(found->second.get());
  });
}

void CollectorCore::WorkFor(Job* job, CoreTask::Lane lane, std::function<void()> run, std::function<void(Job*)> done) {
  Work(lane, std::move(run), [this, key = job->key, done = std::move(done)] {
    if (Job* job = Find(key)) done(job);
  });
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
    case wire::Type::kHello: return OnHello(received);
    case wire::Type::kHeartbeat: return OnHeartbeat(received);
    case wire::Type::kLate: return OnLate(received);
    case wire::Type::kEnded: return OnEnded(received);
    case wire::Type::kDigest: return OnDigest(received);
    case wire::Type::kEvidence: return OnEvidence(received);
    case wire::Type::kStacks: return OnStacks(received);
    case wire::Type::kChunk: return OnChunk(received);
    case wire::Type::kClientRequest: return OnClient(received);
    case wire::Type::kBye: return OnBye(received);
    default: return;
  }
}

void CollectorCore::SendWelcome(const Address& to, uint32_t protocol, const std::string& refused) {
  Welcome welcome;
  welcome.set_version(options_.version);
  welcome.set_instance(options_.instance);
  welcome.set_protocol(protocol);
  welcome.set_real_ns(RealNow());
  welcome.set_refused(refused);
  for (const std::string& endpoint : options_.fallback) welcome.add_fallback(endpoint);
  Send(to, wire::Type::kWelcome, welcome);
}

void CollectorCore::OnHello(const wire::Received& received) {
  Hello hello;
  if (!Decode(received.message, &hello)) return;
  std::string refused;
  if (hello.min_protocol() > wire::kProtocol) {
    refused = absl::StrCat("it speaks protocol ", hello.min_protocol(), " and newer, this collector (",
                           options_.version, ") at most ", wire::kProtocol, ": update the collector");
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
  SendWelcome({received.peer, received.message.header.route},
              std::min<uint32_t>(wire::kProtocol, std::max<uint32_t>(hello.protocol(), 1)), refused);
}

void CollectorCore::Tick(int64_t mono_ns, int64_t real_ns) {
  now_ = std::max(now_, mono_ns);
  const int64_t absent = tick_ns_ == 0 ? 0 : now_ - tick_ns_;
  tick_ns_ = now_;
  real_ns_ = real_ns;
  if (absent > kAbsence) {
    actions_->Say(
        absl::StrCat("the collector did not run for ", DurationText(absent), "; no rank is blamed for that time"));
    for (const auto& [key, job] : jobs_) {
      job->detector.Rebase(now_);
      for (auto& [name, host] : job->hosts) host.heard_ns = std::max(host.heard_ns, now_ - kSecond);
      for (auto& [at, relay] : job->relays) relay.heard_ns = std::max(relay.heard_ns, now_ - kSecond);
    }
  }
  std::vector<std::string> keys;
  const bool second = now_ / kSecond != (now_ - std::max<int64_t>(absent, 1)) / kSecond;
  for (const auto& [key, job] : jobs_) keys.push_back(key);
  if (second) TickFamilies();
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
  TickWatchers();
  if (now_ - swept_ns_ < kSweepEvery) return;
  swept_ns_ = now_;
  std::erase_if(early_, [this](const Early& early) { return now_ - early.at_ns > kSweepEvery; });
  absl::erase_if(peers_, [this](const auto& peer) { return now_ - peer.second.heard_ns > options_.forget_after_ns; });
  std::erase_if(jobs_, [this](const auto& job) {
    return now_ - job.second->heard_ns > options_.forget_after_ns && !job.second->analysing;
  });
  for (auto incident = incidents_.begin(); incident != incidents_.end();) {
    const Gathering& gathering = *incident->second;
    const bool old = (gathering.phase == Gathering::Phase::kDone || gathering.dead) &&
                     now_ - gathering.done_ns > options_.forget_after_ns;
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
    for (const auto& [at, relay] : job->relays) {
      counters_.agents += relay.hosts;
      counters_.agents_silent += relay.silent ? relay.hosts : relay.silent_hosts;
    }
    counters_.ranks += job->All().size();
  }
}

}  // namespace lockstep
