// Lays the monotonic clocks of many hosts on the collector's own, from the messages that pass: a message cannot arrive
// before it was sent, whichever way it went. Wall clocks, which people and daemons set, play no part. Pure.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_HOST_CLOCKS_H_
#define LOCKSTEP_COLLECTOR_SERVICE_HOST_CLOCKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace lockstep {

// A time of a host's clock on the collector's: at ns +- uncertainty.
struct Moment {
  int64_t ns = 0;
  int64_t uncertainty_ns = 0;
};

class HostClocks {
 public:
  // A message the host stamped `sent_ns` (its CLOCK_MONOTONIC) arrived at `received_ns` (ours).
  void Received(const std::string& boot_id, int64_t sent_ns, int64_t received_ns);
  // The host stamped `answered_ns` (its clock) on the answer to a message that we had sent at `asked_ns` (ours).
  void Answered(const std::string& boot_id, int64_t asked_ns, int64_t answered_ns);
  // nullopt: nothing bounds it from both sides. Bounds that are old are widened by 100 parts in a million.
  std::optional<Moment> At(const std::string& boot_id, int64_t host_ns) const;

 private:
  struct Bounds {
    bool low = false, high = false;
    int64_t low_ns = 0, high_ns = 0;        // of ours minus theirs
    int64_t low_at_ns = 0, high_at_ns = 0;  // host's time of the message that gave it
  };
  absl::flat_hash_map<std::string, Bounds> hosts_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_HOST_CLOCKS_H_
