// Finds communicators whose members issued different operations, while everything still runs.
#ifndef LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_
#define LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recorder/ring/snapshot.h"

namespace lockstep {

struct Desync {
  uint64_t comm = 0;
  std::string name;             // may be empty
  int32_t size = 0;
  uint64_t seq = 0;             // somewhere at or before this collective they differ
  std::vector<size_t> members;  // indexes into the digests given
};

// Compares rolling signature hashes of the members of each communicator at equal sequence numbers. Pure; not thread-safe.
class DesyncWatch {
 public:
  // Communicators that differ and have not been reported: each once. A difference counts when two looks show it, for a
  // progress cell may be read between the writing of its number and of its hash.
  std::vector<Desync> Look(const std::vector<const ring::Snapshot*>& digests);
  // True when a difference was seen once and waits for the second look.
  bool pending() const { return !pending_.empty(); }

 private:
  std::set<uint64_t> reported_;
  std::set<std::pair<uint64_t, uint64_t>> pending_;  // communicator, sequence number
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_
