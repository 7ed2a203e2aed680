#include "collector/common/heartbeat_facts.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

constexpr size_t kMostKinds = 64;
constexpr size_t kMostAgents = 8;
constexpr size_t kMostText = 64;
constexpr size_t kMostLines = 64, kMostLinesOfHost = 4, kMostName = 256;

void AddLine(const std::string& line, size_t most, std::set<std::string>* lines) {
  if (lines->size() < most) lines->insert(line);
}

// Returns "0.2.0", or if there are several "0.2.0 (1,016 ranks), 0.1.0 (8 ranks)", most frequent first.
std::string Folded(const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<size_t, std::string>> order;
  order.reserve(counts.size());
  for (const auto& [name, count] : counts) order.emplace_back(count, name);
  std::sort(order.rbegin(), order.rend());
  if (order.size() == 1) return order[0].second;
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 4); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", order[i].second, " (", CountText(order[i].first),
                    order[i].first == 1 ? " rank)" : " ranks)");
  }
  if (order.size() > 4) absl::StrAppend(&text, ", and ", order.size() - 4, " others");
  return text;
}

}  // namespace

void HeardFacts::Add(const std::string& version, const std::string& mode, const Ranks& ranks, uint32_t call_ns,
                     uint64_t ring_bytes) {
  const std::pair<std::string, std::string> key(CleanUtf8(version, kMostText), CleanUtf8(mode, kMostText));
  if (ranks.empty() || (kinds_.size() >= kMostKinds && kinds_.count(key) == 0)) return;
  Kind& kind = kinds_[key];
  kind.ranks.Unite(ranks);
  kind.call_ns = std::max(kind.call_ns, call_ns);
  kind.ring_bytes += ring_bytes;
}

void HeardFacts::Add(const Heartbeat& heartbeat) {
  for (const RecorderFacts& facts : heartbeat.recorders())
    Add(facts.version(), facts.gpu_mode(), Ranks::FromOrNone(facts.ranks()), facts.call_ns(), facts.ring_bytes());
  for (const std::string& version : heartbeat.agent_version()) {
    if (!version.empty() && agents_.size() < kMostAgents) agents_.insert(CleanUtf8(version, kMostText));
  }
  agent_cpu_permille_ = std::max(agent_cpu_permille_, heartbeat.agent_cpu_permille());
}

void HeardFacts::Add(const HeardFacts& other) {
  for (const auto& [key, kind] : other.kinds_) Add(key.first, key.second, kind.ranks, kind.call_ns, kind.ring_bytes);
  for (const std::string& version : other.agents_) {
    if (agents_.size() < kMostAgents) agents_.insert(version);
  }
  agent_cpu_permille_ = std::max(agent_cpu_permille_, other.agent_cpu_permille_);
}

void HeardFacts::To(Heartbeat* heartbeat) const {
  for (const auto& [key, kind] : kinds_) {
    RecorderFacts* facts = heartbeat->add_recorders();
    kind.ranks.To(facts->mutable_ranks());
    facts->set_version(key.first);
    facts->set_gpu_mode(key.second);
    facts->set_call_ns(kind.call_ns);
    facts->set_ring_bytes(kind.ring_bytes);
  }
  for (const std::string& version : agents_) heartbeat->add_agent_version(version);
  heartbeat->set_agent_cpu_permille(agent_cpu_permille_);
}

void HeardFacts::To(JobStatus* status) const {
  std::map<std::string, size_t> versions, modes;
  uint32_t call_ns = 0;
  uint64_t ring_bytes = 0;
  for (const auto& [key, kind] : kinds_) {
    if (!key.first.empty()) versions[key.first] += kind.ranks.size();
    if (!key.second.empty()) modes[key.second] += kind.ranks.size();
    call_ns = std::max(call_ns, kind.call_ns);
    ring_bytes += kind.ring_bytes;
  }
  std::string text = versions.empty() ? "" : absl::StrCat("recorder ", Folded(versions));
  for (const std::string& version : agents_)
    absl::StrAppend(&text, version == *agents_.begin() ? (text.empty() ? "agent " : ", agent ") : " and ", version);
  status->set_versions(text);
  if (!modes.empty()) status->set_mode(Folded(modes));
  status->set_call_ns(call_ns);
  status->set_ring_bytes(ring_bytes);
  status->set_agent_cpu_share(agent_cpu_permille_ / 1000.0);
}

HeartbeatFacts::HeartbeatFacts(const Heartbeat& heartbeat)
    : alive(Ranks::FromOrNone(heartbeat.alive())),
      stopped(Ranks::FromOrNone(heartbeat.stopped())),
      in_d(Ranks::FromOrNone(heartbeat.in_d())),
      ended(Ranks::FromOrNone(heartbeat.ended())),
      records_lost(heartbeat.records_lost()),
      oldest_age_ns(std::max<int64_t>(0, heartbeat.oldest_age_ns())),
      hosts(heartbeat.host().empty() ? heartbeat.hosts() : 1),
      silent_hosts(heartbeat.silent_hosts()) {
  for (const std::string& host : heartbeat.silent_host())
    AddLine(CleanUtf8(host, kMostName), kMostLines, &silent_named);
  for (const std::string& line : heartbeat.blind())
    AddLine(CleanUtf8(line, 2 * kMostName), heartbeat.host().empty() ? kMostLines : kMostLinesOfHost, &blind);
  recorders.Add(heartbeat);
}

void HeartbeatFacts::Add(const HeartbeatFacts& other, int64_t age_ns) {
  alive.Unite(other.alive);
  stopped.Unite(other.stopped);
  in_d.Unite(other.in_d);
  ended.Unite(other.ended);
  records_lost += other.records_lost;
  oldest_age_ns = std::max(oldest_age_ns, age_ns + other.oldest_age_ns);
  hosts += other.hosts;
  silent_hosts += other.silent_hosts;
  for (const std::string& host : other.silent_named) AddLine(host, kMostLines, &silent_named);
  for (const std::string& line : other.blind) AddLine(line, kMostLines, &blind);
  recorders.Add(other.recorders);
}

void HeartbeatFacts::AddSilent(const HeartbeatFacts& other, const std::string& host) {
  ended.Unite(other.ended);
  records_lost += other.records_lost;
  silent_hosts += std::max<uint32_t>(1, other.hosts) + other.silent_hosts;
  AddLine(host, kMostLines, &silent_named);
  recorders.Add(other.recorders);
}

void HeartbeatFacts::To(Heartbeat* heartbeat) const {
  alive.To(heartbeat->mutable_alive());
  stopped.To(heartbeat->mutable_stopped());
  in_d.To(heartbeat->mutable_in_d());
  ended.To(heartbeat->mutable_ended());
  heartbeat->set_records_lost(records_lost);
  heartbeat->set_oldest_age_ns(oldest_age_ns);
  heartbeat->set_hosts(hosts);
  heartbeat->set_silent_hosts(silent_hosts);
  for (const std::string& host : silent_named) heartbeat->add_silent_host(host);
  for (const std::string& line : blind) heartbeat->add_blind(line);
  recorders.To(heartbeat);
}

Ranks HeartbeatFacts::All() const {
  Ranks all = alive;
  all.Unite(ended);
  return all;
}

}  // namespace lockstep
