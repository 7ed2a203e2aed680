// Measures how fast each kind and size of operation is, over all communicators of one size and the hosts that they
// span.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr size_t kMostSpeeds = 256, kMostHostsOfSpeed = 64, kMostHostSpeeds = 2048;

struct SpeedKey {
  ring::CallKind kind;
  int64_t bytes;
  int32_t ranks;
  uint32_t hosts;
  bool operator<(const SpeedKey& o) const {
    return std::tie(kind, bytes, ranks, hosts) < std::tie(o.kind, o.bytes, o.ranks, o.hosts);
  }
};

// A tenth of the operations are slower than the low bandwidth, and a tenth are faster than the high one.
template <typename Out>
void SetQuantiles(const LinkUse& use, int32_t ranks, std::vector<int64_t> transfers_ns, Out* out) {
  out->set_operations(static_cast<int64_t>(transfers_ns.size()));
  out->set_bus_bytes_per_s(BusBandwidth(use, ranks, Quantile(&transfers_ns, 0.5)));
  out->set_low_bus_bytes_per_s(BusBandwidth(use, ranks, Quantile(&transfers_ns, 0.9)));
  out->set_high_bus_bytes_per_s(BusBandwidth(use, ranks, Quantile(&transfers_ns, 0.1)));
}

// Adds the slowest hosts. If there is only one communicator, all its hosts have its speed.
void AddHosts(const Bundle& bundle, const std::vector<const LinkUse*>& uses, int32_t ranks, size_t most, Speed* out) {
  if (uses.size() < 2) return;
  std::map<std::string_view, std::vector<int64_t>> by_host;
  for (const LinkUse* use : uses) {
    std::set<std::string_view> hosts;
    for (const uint32_t r : use->ranks) hosts.insert(bundle.ranks[r].host);
    for (const std::string_view host : hosts) {
      std::vector<int64_t>& all = by_host[host];
      all.insert(all.end(), use->transfers_ns.begin(), use->transfers_ns.end());
    }
  }
  by_host.erase("");
  if (by_host.size() < 2) return;
  out->set_hosts_measured(static_cast<int32_t>(by_host.size()));
  std::vector<HostSpeed> speeds;
  speeds.reserve(by_host.size());
  for (auto& [host, transfers_ns] : by_host) {
    HostSpeed& speed = speeds.emplace_back();
    speed.set_host(std::string(host));
    SetQuantiles(*uses.front(), ranks, std::move(transfers_ns), &speed);
  }
  std::stable_sort(speeds.begin(), speeds.end(),
                   [](const HostSpeed& a, const HostSpeed& b) { return a.bus_bytes_per_s() < b.bus_bytes_per_s(); });
  for (size_t i = 0; i < std::min({speeds.size(), kMostHostsOfSpeed, most}); ++i)
    *out->add_by_host() = std::move(speeds[i]);
}

}  // namespace

std::vector<Speed> FindSpeeds(const Timing& timing, const std::vector<LinkUse>& uses) {
  const Bundle& bundle = timing.model.bundle;
  std::map<SpeedKey, std::vector<const LinkUse*>> groups;
  for (const LinkUse& use : uses) {
    if (use.bytes <= 0 || use.usual_ns <= 2 * use.noise_ns) continue;
    groups[{use.kind, use.bytes, MembersOf(bundle, use), use.hosts}].push_back(&use);
  }
  struct Group {
    const SpeedKey* key;
    const std::vector<const LinkUse*>* uses;
    double total_ns;
  };
  std::vector<Group> order;
  for (const auto& [key, list] : groups) {
    double total_ns = 0;
    for (const LinkUse* use : list) {
      for (const int64_t ns : use->transfers_ns) total_ns += static_cast<double>(ns);
    }
    order.push_back({&key, &list, total_ns});
  }
  std::stable_sort(order.begin(), order.end(), [](const Group& a, const Group& b) { return a.total_ns > b.total_ns; });
  std::vector<Speed> speeds;
  size_t hosts_left = kMostHostSpeeds;
  for (const Group& group : order) {
    if (speeds.size() == kMostSpeeds) break;
    const LinkUse& first = *group.uses->front();
    std::vector<int64_t> transfers_ns;
    std::set<uint32_t> comms;
    for (const LinkUse* use : *group.uses) {
      transfers_ns.insert(transfers_ns.end(), use->transfers_ns.begin(), use->transfers_ns.end());
      comms.insert(use->comm);
    }
    Speed& out = speeds.emplace_back();
    out.set_operation(ring::CallName(group.key->kind));
    out.set_bytes(group.key->bytes);
    out.set_ranks(group.key->ranks);
    out.set_hosts(static_cast<int32_t>(group.key->hosts));
    out.set_communicators(static_cast<int32_t>(comms.size()));
    out.set_clock(ClockText(bundle.ranks[first.ranks[0]], timing.ranks[first.ranks[0]]));
    SetQuantiles(first, group.key->ranks, std::move(transfers_ns), &out);
    AddHosts(bundle, *group.uses, group.key->ranks, hosts_left, &out);
    hosts_left -= static_cast<size_t>(out.by_host_size());
  }
  return speeds;
}

}  // namespace lockstep
