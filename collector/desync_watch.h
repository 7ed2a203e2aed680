// Finds communicators whose members issued different operations, while everything still runs.
#ifndef LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_
#define LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recorder/ring/snapshot.h"

namespace lockstep {

struct Desync {
  uint64_t comm = 0;
  std::string name;  // may be empty
  int32_t size = 0;
  uint64_t seq = 0;  // at or before this collective they began to differ
  // Seen twice. The first sight is for saving the records before they are overwritten, the second for telling people.
  bool confirmed = false;
  std::vector<size_t> members;  // indexes into the digests given
};

// Compares rolling signature hashes of the members of each communicator at equal sequence numbers, also across looks: a
// fast communicator's members are hardly ever read at the same checkpoint. Pure; not thread-safe.
class DesyncWatch {
 public:
  // Each communicator that differs is returned twice: at the first sight, and once more when it is confirmed. A
  // digest's place in the list must not change from look to look.
  std::vector<Desync> Look(const std::vector<const ring::Snapshot*>& digests);

 private:
  enum class Stage { kEqual, kSeen, kConfirmed };
  struct Comm {
    std::map<uint64_t, uint64_t> hashes;  // sequence number -> the hash met first
    Stage stage = Stage::kEqual;
  };
  // The newest number of a cell may be read between the writing of the number and of its hash; one that stands in two
  // looks was read whole.
  bool Settled(size_t digest, const ring::CommSnapshot& comm);

  std::map<uint64_t, Comm> comms_;
  std::map<std::pair<size_t, uint32_t>, std::pair<uint64_t, uint64_t>> newest_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DESYNC_WATCH_H_
