// Converts the monotonic clocks of many hosts to the collector's own. Relies only on the fact that a message cannot
// arrive before it was sent, in either direction. Ignores wall clocks, which people and daemons set. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace lockstep {

// A time on a host's clock, converted to the collector's: `ns`, plus or minus the uncertainty.
struct Moment {
  int64_t ns = 0;
  int64_t uncertainty_ns = 0;
};

class HostClocks {
 public:
  // Call when a message arrives: sent at `sent_ns` (the host's CLOCK_MONOTONIC), received at `received_ns` (this
  // host's).
  void Received(const std::string& boot_id, int64_t sent_ns, int64_t received_ns);
  // Call when an answer arrives: requested at `asked_ns` (this host's clock), answered at `answered_ns` (the host's).
  void Answered(const std::string& boot_id, int64_t asked_ns, int64_t answered_ns);
  // Converts a host's time. Returns nullopt if the host's clock is not bounded on both sides. Old bounds are widened by
  // 100 parts per million.
  std::optional<Moment> At(const std::string& boot_id, int64_t host_ns) const;

 private:
  struct Bounds {
    bool low = false, high = false;
    int64_t low_ns = 0, high_ns = 0;        // this host's clock minus the other's
    int64_t low_at_ns = 0, high_at_ns = 0;  // time of the message that gave the bound, on the other host's clock
  };
  absl::flat_hash_map<std::string, Bounds> hosts_;
};

}  // namespace lockstep
