// The agent's part of hang detection: finds communicators on this host with an operation in flight for longer than
// their history allows. Decides "late" and "over"; the collector decides whether a late job is hung (detector.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/detect/digest_view.h"
#include "collector/detect/gap_history.h"

namespace lockstep {

// One decision with its figures. Times are the machine's CLOCK_MONOTONIC, in nanoseconds.
struct LateFacts {
  uint64_t comm = 0;      // 0 if the communicator is unknown
  uint64_t sequence = 0;  // the awaited collective; 0 if unknown, or not a collective
  bool over = false;      // the communicator moves again; in_flight_ns is the length of the stop
  int64_t in_flight_ns = 0;
  int64_t limit_ns = 0;    // max(floor, 8 x p99_gap_ns)
  int64_t p99_gap_ns = 0;  // over `gaps` gaps; 0 if none were recorded
  uint32_t gaps = 0;
  std::string doing;  // the longest wait: "AllReduce #41"
};

struct LateEvent : LateFacts {
  int64_t since_ns = 0;          // start of the longest wait, counted as Observe describes
  std::vector<int32_t> waiting;  // slots of this host, ascending
  std::vector<int32_t> missing;  // members on this host that are behind, ascending; usually none
};

// Pure: no clock, no I/O. One object for each restart of a job on a host. Not thread-safe.
class Lateness {
 public:
  explicit Lateness(int64_t floor_ns = 5'000'000'000) : floor_ns_(floor_ns) {}

  // Takes a view of each ring of the host at `now`, several times a second. Views of exited processes stay in the list.
  // Returns what became late and what is over since the last call, each once.
  //
  // These count as in flight, for a communicator and one of its ranks:
  // - a thread inside a call on it, since the call began or the rank last did something on it;
  // - the oldest operation on a marked stream, since the stream's GPU last finished something;
  // - a CPU wait for a stream without markers, for the communicator that was used last: since the wait began or, if
  //   that is later, since the rank last made progress. A CPU wait for a marked stream does not count by itself;
  // - a lead over a member on the same host, since a rank issued the collective that the member has not issued. If the
  //   lead is more than one collective when it is first seen: since that observation.
  std::vector<LateEvent> Observe(int64_t now, const std::vector<DigestView>& views);
  // Returns everything that is late now, for a restarted collector.
  std::vector<LateEvent> Current(int64_t now) const;
  // Ignores the time before `now`, because the agent or the whole job was stopped.
  void Rebase(int64_t now);

  int64_t LimitOf(uint64_t comm) const;
  const GapMeter* MeterOf(uint64_t comm) const;  // null if the communicator was never seen
  // Returns when an observation first showed the latest progress (issued or finished operations); 0 if the slot is
  // unknown.
  int64_t ProgressOf(int32_t slot) const;
  // Like ProgressOf, but for all activity of the rank's threads in recorded calls and waits. Between two operations,
  // CPU and I/O show whether a process is active.
  int64_t ActivityOf(int32_t slot) const;
  // Returns the longest wait of a running process at the last observation, late or not. `waiting` is set to the number
  // of waiting processes, and `doing` to the operation of the longest wait. Both may be null.
  int64_t LongestWait(int64_t now, int32_t* waiting, std::string* doing) const;
  // Returns the earliest time at which a wait that is not late yet reaches its limit; INT64_MAX if there is none.
  int64_t NextLimit() const;

 private:
  struct StreamState {
    uint64_t issued = 0, completed = 0;
    int64_t since_ns = 0;  // when the oldest unfinished ticket became the oldest
  };
  struct SlotState {
    uint64_t progress_mark = 0;
    int64_t activity_seen_ns = 0;
    int64_t first_seen_ns = 0, progress_ns = 0, activity_ns = 0;
    absl::flat_hash_map<uint32_t, StreamState> streams;
    // communicator ID -> number of issued operations, and when that number was first seen
    absl::flat_hash_map<uint64_t, std::pair<uint64_t, int64_t>> comms;
    int64_t waiting_since = 0;  // 0 if the rank is not waiting
    bool alive = true;
    std::string doing;
  };
  struct CommState {
    GapMeter meter;
    uint64_t behind_low = 0;  // collectives issued by the host's lowest member, while others are past it
    int64_t behind_ns = 0;    // when a member fell behind; 0 if none is behind
    // Results of the last observation.
    uint64_t look = 0;
    uint64_t lowest = 0, highest = 0, total = 0;
    int64_t issued_ns = 0;         // issue time of the member with the highest total
    int64_t first_at_highest = 0;  // when the first member issued the highest number of collectives
    int64_t since_ns = 0;          // start of the longest wait; 0 if there is none
    uint64_t sequence = 0;
    std::string doing;
    std::vector<int32_t> waiting;
    bool late = false;
    int64_t late_since_ns = 0;
  };
  CommState* Touch(uint64_t comm);
  void Count(int64_t now, const DigestView& view);
  void FindWaits(int64_t now, const DigestView& view);
  void NoteWait(const DigestView& view, uint64_t comm, int64_t since, uint64_t sequence, const std::string& doing);
  LateEvent EventOf(int64_t now, uint64_t id, const CommState& comm) const;

  const int64_t floor_ns_;
  int64_t rebased_ns_ = 0;
  uint64_t look_ = 0;
  absl::flat_hash_map<int32_t, SlotState> slots_;
  absl::flat_hash_map<uint64_t, CommState> comms_;
  // Members seen in this observation, by communicator: number of collectives, and slot.
  absl::flat_hash_map<uint64_t, std::vector<std::pair<uint64_t, int32_t>>> members_;
};

}  // namespace lockstep
