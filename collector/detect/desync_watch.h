// Finds communicators whose members issued different operations while everything still runs: compares rolling hashes of
// members at equal sequence numbers, over hosts and over time. Pure; not thread-safe.
//
// For every collective, the recorder hashes kind, datatype, reduction, root and count, which NCCL requires to be equal
// on all members. Per-pair counts of an all-to-all, and sends and receives (from which frameworks build gathers and
// uneven all-to-alls), are not in the hash and may differ.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "analyzer/model/rank_set.h"
#include "collector/detect/progress.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct Desync {
  uint64_t comm = 0;
  std::string name;  // may be empty
  int32_t size = 0;
  // The members agree up to collective `after` (0: none) and differ at or before `seq`.
  uint64_t after = 0, seq = 0;
  // A difference is returned first with false, so that records are saved before they are overwritten. Once a later
  // report confirms it, it is returned with true.
  bool confirmed = false;
  // Members that differ from the majority of the reports, ascending. If neither side is larger (as in a communicator of
  // two), both sides are listed, and `even` is set.
  Ranks odd;
  bool even = false;
  uint32_t compared = 0;  // number of members whose reports were compared
};
// Returns "the ranks of communicator dp_0 (size 8) made different calls between collectives #112 and #128; rank 5 ..."
std::string DesyncText(const Desync& desync);
// Returns the text up to the sequence numbers, without the ranks.
std::string DesyncWhere(const Desync& desync);

// Stores the hashes that members of communicators report, from any source.
class DesyncWatch {
 public:
  // Stores the hashes of this many sequence numbers per communicator. More are needed if members are read at different
  // times.
  explicit DesyncWatch(size_t most_points = 32) : most_points_(most_points) {}

  // Takes one beat of a child (an agent or a relay). The beat's hashes apply to all of the child's members except those
  // in `odd`. Returns the desync when the difference is first seen, and again when a later beat confirms it.
  std::vector<Desync> Apply(uint32_t child, const CommBeat& beat);
  // Takes the rings of one host, several times a second. Members are named by RingView::rank. A ring must keep its
  // position in the list. The newest hash may be read between the writes of its sequence number and its value, so it
  // counts only if two calls show it.
  std::vector<Desync> Look(const std::vector<RingView>& rings);
  void Forget(uint64_t comm) { comms_.erase(comm); }

 private:
  struct Side {
    uint64_t hash = 0;
    uint32_t count = 0;
    Ranks ranks;
    bool whole = true;  // `ranks` is complete; false if it would have more than 32 runs
  };
  struct Point {
    uint64_t seq = 0;
    absl::InlinedVector<Side, 1> sides;
  };
  enum class Stage : uint8_t { kEqual, kSeen, kConfirmed };
  struct Comm {
    std::string name;
    int32_t size = 0;
    Stage stage = Stage::kEqual;
    std::vector<Point> points;                     // ascending by number
    absl::flat_hash_map<uint32_t, Ranks> members;  // maps a child to the members for which it reports
    uint64_t seen_seq = 0;                         // collective of the first difference, and the child that reported it
    uint32_t seen_child = 0;
    uint64_t agreed = 0;  // the highest number of a forgotten point without a difference
  };
  // Adds a report. Returns true if members differ at this number.
  bool Say(Comm* comm, uint64_t seq, uint64_t hash, const Ranks& ranks);
  static Desync Describe(uint64_t id, const Comm& comm);

  const size_t most_points_;
  absl::flat_hash_map<uint64_t, Comm> comms_;
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, uint64_t>> newest_;  // indexed by ring and slot: number and hash
};

}  // namespace lockstep
