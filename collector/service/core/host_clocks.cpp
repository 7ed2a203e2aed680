#include "collector/service/core/host_clocks.h"

#include <algorithm>

namespace lockstep {
namespace {

// The quartz clocks of two hosts drift apart by less than this.
constexpr int64_t kDriftPerMillion = 100;

int64_t Drift(int64_t from_ns, int64_t to_ns) {
  const int64_t apart = to_ns > from_ns ? to_ns - from_ns : from_ns - to_ns;
  return apart / 1'000'000 * kDriftPerMillion + 1;
}

}  // namespace

void HostClocks::Received(const std::string& boot_id, int64_t sent_ns, int64_t received_ns) {
  // The other clock showed `sent_ns` no later than this one showed `received_ns`: ours - theirs <= received - sent.
  Bounds& bounds = hosts_[boot_id];
  const int64_t high = received_ns - sent_ns;
  if (bounds.high && high >= bounds.high_ns + Drift(bounds.high_at_ns, sent_ns)) return;
  bounds.high = true;
  bounds.high_ns = high;
  bounds.high_at_ns = sent_ns;
}

void HostClocks::Answered(const std::string& boot_id, int64_t asked_ns, int64_t answered_ns) {
  Bounds& bounds = hosts_[boot_id];
  const int64_t low = asked_ns - answered_ns;
  if (bounds.low && low <= bounds.low_ns - Drift(bounds.low_at_ns, answered_ns)) return;
  bounds.low = true;
  bounds.low_ns = low;
  bounds.low_at_ns = answered_ns;
}

std::optional<Moment> HostClocks::At(const std::string& boot_id, int64_t host_ns) const {
  const auto found = hosts_.find(boot_id);
  if (found == hosts_.end() || !found->second.low || !found->second.high) return std::nullopt;
  const Bounds& bounds = found->second;
  const int64_t high = bounds.high_ns + Drift(bounds.high_at_ns, host_ns);
  const int64_t low = bounds.low_ns - Drift(bounds.low_at_ns, host_ns);
  // If the clocks drift more than expected, `low` exceeds `high`, and the middle is still the best estimate.
  const int64_t middle = low + (high - low) / 2;
  return Moment{host_ns + middle, std::max<int64_t>(1, (std::max(high, low) - std::min(high, low) + 1) / 2)};
}

}  // namespace lockstep
