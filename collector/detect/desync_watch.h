// Finds communicators whose members issued different operations, while everything still runs: rolling hashes of members
// are compared at equal sequence numbers, over hosts and over time. Pure; not thread-safe.
//
// The recorder hashes, for every collective, kind, datatype, reduction, root and count: what NCCL demands to be equal
// on all members. Splits of an all-to-all with counts of its own per pair, and sends and receives (of which frameworks
// make gathers and uneven all-to-alls), are not in the hash and can differ freely.
#ifndef LOCKSTEP_COLLECTOR_DETECT_DESYNC_WATCH_H_
#define LOCKSTEP_COLLECTOR_DETECT_DESYNC_WATCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "collector/common/rank_runs.h"
#include "collector/detect/progress.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct Desync {
  uint64_t comm = 0;
  std::string name;  // may be empty
  int32_t size = 0;
  // They differ after collective `after` (equal there; 0: from the first on) and at or before `seq`.
  uint64_t after = 0, seq = 0;
  // Seen twice. The first sight serves to save the records before they are overwritten, the second to report it.
  bool confirmed = false;
  // The members that differ from the majority of the reports, ascending. If neither side is larger (a communicator of
  // two), both: `even`.
  RankRuns odd;
  bool even = false;
  uint32_t compared = 0;  // members with a report at `seq`
};
// "the ranks of communicator dp_0 (size 8) issued different operations between collectives #112 and #128: rank 5 ..."
std::string DesyncText(const Desync& desync);
// Its first part, without the ranks.
std::string DesyncWhere(const Desync& desync);

// Hashes that members of communicators report, from any source.
class DesyncWatch {
 public:
  // This many points of each communicator are remembered: members with different reading times need more.
  explicit DesyncWatch(size_t most_points = 32) : most_points_(most_points) {}

  // One beat of a child; its points apply to all its members except the odd ones. Returns differences: each
  // communicator at the first sight, and again when a later beat confirms it. The cost depends on the size of the beat.
  std::vector<Desync> Apply(uint32_t child, const CommBeat& beat);
  // The rings of one host, several times a second; `member` of a ring stands for its rank. A ring must keep its place
  // in the list. The newest number of a ring may be read between the writes of number and hash: it counts once two
  // looks show it.
  std::vector<Desync> Look(const std::vector<RingView>& rings);
  void Forget(uint64_t comm) { comms_.erase(comm); }

 private:
  struct Side {
    uint64_t hash = 0;
    uint32_t count = 0;
    RankRuns ranks;
    bool whole = true;  // `ranks` are complete. A side that is nearly everybody keeps only the first
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
    std::vector<Point> points;                        // ascending by number
    absl::flat_hash_map<uint32_t, RankRuns> members;  // child -> members that it reports for
    uint64_t seen_seq = 0;                            // the first sight: number and reporter
    uint32_t seen_child = 0;
    uint64_t agreed = 0;  // the highest number of forgotten points without a difference
  };
  // True if a member differs there.
  bool Say(Comm* comm, uint64_t seq, uint64_t hash, const RankRuns& ranks);
  static Desync Describe(uint64_t id, const Comm& comm);

  const size_t most_points_;
  absl::flat_hash_map<uint64_t, Comm> comms_;
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, uint64_t>> newest_;  // ring and slot -> number, hash
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_DESYNC_WATCH_H_
