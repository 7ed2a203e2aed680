// Progress of communicators over many hosts: an agent's report about its host (HostProgress), and the merged reports of
// the children of a relay or the collector (MergedProgress). Pure: no clock, no I/O. Not thread-safe. Times of
// different hosts are never compared: messages contain ages, and every receiver converts these into its own time on
// arrival.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "analyzer/model/rank_set.h"
#include "collector/detect/gap_history.h"
#include "collector/detect/lateness.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

class CommunicatorBeat;  // proto/wire.pb.h

struct HashPoint {
  uint64_t seq = 0, hash = 0;
  bool operator==(const HashPoint&) const = default;
};
// A member whose hash differs from the beat's at the same number.
struct HashOdd {
  int32_t rank = -1;
  HashPoint point;
};

// CommunicatorBeat of proto/wire.proto, as plain values.
struct CommBeat {
  uint64_t comm = 0;
  bool gone = false;                        // the sender has no members any more
  int32_t size = 0;                         // number of members of the communicator on all hosts
  uint64_t issued_min = 0, issued_max = 0;  // collectives, over the sender's members
  uint64_t total_max = 0;                   // including sends and receives
  int64_t issue_age_ns = 0;                 // age of the moment when the first member reached issued_max
  // Age of the newest operation, including sends and receives; 0 if not reported.
  int64_t moved_age_ns = 0;
  Ranks at_min;            // empty if all members of the sender are at issued_min
  Ranks members;           // empty if unchanged since the last report
  int64_t p99_gap_ns = 0;  // measured by the sender
  uint32_t gaps = 0;
  std::string name;                          // empty if unchanged since the last report
  absl::InlinedVector<HashPoint, 8> hashes;  // ascending
  std::vector<HashOdd> odd;
};
CommBeat BeatFromProto(const CommunicatorBeat& proto);  // takes at most 4,096 hash points, and as many odd members
void BeatToProto(const CommBeat& beat, CommunicatorBeat* proto);

// One ring of a host, for HostProgress.
struct RingView {
  int32_t rank = -1;  // job-wide; rings without a rank are skipped
  const ring::Snapshot* digest = nullptr;
};

// The agent's part: scans several times a second, and reports once a second what moved. A communicator without members
// on this host (destroyed, aborted, its table entry reused) is reported as gone once and then forgotten. A process that
// exited is still a member, because others may wait for it.
class HostProgress {
 public:
  void Observe(const std::vector<RingView>& rings);
  // Returns communicators with changes since the last call; with `everything`, all of them (for a new collector). Each
  // beat has at most eight hash points: those that differ, then those whose numbers are divisible by the largest powers
  // of two. So all hosts choose the same ones. Communicators without members on this host come first.
  std::vector<CommBeat> Take(int64_t now, const Lateness& lateness, bool everything = false);

 private:
  struct Member {
    uint64_t issued = 0, total = 0;
    int64_t issued_ns = 0, collective_ns = 0;  // last issue of any operation, and of a collective
    uint64_t newest_point = 0;
    HashPoint last_look;  // number and hash, reported once two scans agree on them
    uint64_t look = 0;    // the last scan that saw the communicator
  };
  struct Point {
    uint64_t seq = 0;
    absl::InlinedVector<std::pair<int32_t, uint64_t>, 2> hashes;  // rank and hash
  };
  struct Comm {
    absl::flat_hash_map<int32_t, Member> members;  // indexed by rank
    int32_t size = 0;
    std::string name;
    bool moved = false, members_told = false;
    std::vector<Point> points;  // not reported yet, ascending by number
  };
  void AddPoint(Comm* comm, Member* member, int32_t rank, HashPoint point);
  void TakePoints(Comm* comm, CommBeat* beat);
  void Leave(uint64_t id, int32_t rank);
  absl::flat_hash_map<uint64_t, Comm> comms_;
  std::vector<uint64_t> gone_;  // not reported yet
  uint64_t look_ = 0;
};

// A communicator, merged from the reports of all children. Times are on the receiver's clock.
struct MergedComm {
  uint64_t id = 0;
  int32_t size = 0;
  std::string name;
  uint64_t issued_min = 0, issued_max = 0, total_max = 0;
  int64_t reached_ns = 0;       // when issued_max was reached
  int64_t behind_since_ns = 0;  // when a member fell behind: at issued_min while others are past it; 0 if none did
  int64_t moved_ns = 0;         // latest issue time in any beat that brought changes
  int64_t p99_gap_ns = 0;       // the largest reported value
  uint32_t gaps = 0;
  uint32_t known = 0;  // number of members that some child reports
  int64_t met_ns = 0;  // when the communicator was first reported
};

class MergedProgress {
 public:
  // A relay forwards hash points; the collector passes them to its DesyncWatch on arrival.
  explicit MergedProgress(bool relay = false) : relay_(relay) {}

  // A child is a direct peer: an agent or a relay.
  void Apply(uint32_t child, int64_t now, const CommBeat& beat);
  // Call this if the child has left permanently, or if its ranks now report through another child. Its members become
  // unknown. A silent child is not forgotten, because others may wait for its members.
  void Forget(uint32_t child);
  // Updates issued_min and behind_since_ns of communicators that moved. Call it at most ten times a second. Each
  // communicator is updated at most once a second.
  void Tick(int64_t now);

  const MergedComm* Find(uint64_t comm) const;
  size_t size() const { return comms_.size(); }
  // Returns the members at issued_min while others are past it; empty if no member is behind.
  Ranks Missing(uint64_t comm) const;
  Ranks Members(uint64_t comm) const;
  // Visits communicators with a member behind, in no particular order.
  void ForEachBehind(const std::function<void(const MergedComm&)>& take) const;
  void ForEach(const std::function<void(const MergedComm&)>& take) const;
  // For a relay: returns the merged changes since the last call, or all communicators with `everything`.
  std::vector<CommBeat> TakeMoved(int64_t now, bool everything = false);

 private:
  struct Part {
    uint32_t child = 0;
    uint64_t min = 0, max = 0;
    Ranks at_min, members;
  };
  // A hash point that a relay holds until every child has reported it.
  struct Point {
    HashPoint point;
    std::vector<uint32_t> children;
    std::vector<HashOdd> odd;
  };
  struct Comm {
    MergedComm merged;
    std::vector<Part> parts;
    // child -> its index in parts; used only if there are many
    absl::flat_hash_map<uint32_t, uint32_t> part_of;
    uint32_t p99_child = 0;
    bool dirty = false, moved = false, behind = false, members_changed = false;
    int64_t scanned_ns = 0;
    std::vector<Point> points;
  };
  Part* PartOf(Comm* comm, uint32_t child, bool add);
  void MarkDirty(uint64_t id, Comm* comm);
  void MarkMoved(uint64_t id, Comm* comm);
  void Scan(uint64_t id, Comm* comm);
  void RemovePart(uint64_t id, uint32_t child);
  void ApplyHashes(uint32_t child, const CommBeat& beat, const Part& part, Comm* comm);

  const bool relay_;
  absl::flat_hash_map<uint64_t, Comm> comms_;
  std::vector<uint64_t> dirty_, moved_, behind_;
  absl::flat_hash_map<uint32_t, absl::flat_hash_set<uint64_t>> comms_of_;  // child -> communicators
};

}  // namespace lockstep
