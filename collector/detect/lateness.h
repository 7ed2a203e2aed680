// The agent's part of hang detection: which communicators of this host have an operation in flight for longer than
// their own past allows. Decides "late" and "over"; the collector decides whether a late job is hung (detector.h).
#ifndef LOCKSTEP_COLLECTOR_DETECT_LATENESS_H_
#define LOCKSTEP_COLLECTOR_DETECT_LATENESS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/detect/digest_view.h"
#include "collector/detect/gap_history.h"

namespace lockstep {

// One decision, with its figures. Times are the machine's CLOCK_MONOTONIC, nanoseconds.
struct LateEvent {
  uint64_t comm = 0;      // 0: the communicator of the wait is unknown
  uint64_t sequence = 0;  // the awaited collective; 0: unknown, or no collective
  bool over = false;      // it moves again; in_flight_ns is the length of the stop
  int64_t since_ns = 0;   // in flight since
  int64_t in_flight_ns = 0;
  int64_t limit_ns = 0;    // max(floor, 8 x p99_gap_ns)
  int64_t p99_gap_ns = 0;  // of `gaps` gaps; 0: nothing learned
  uint32_t gaps = 0;
  std::vector<int32_t> waiting;  // slots of this host, ascending
  std::vector<int32_t> missing;  // members on this host that are behind, ascending; usually none
  std::string doing;             // the longest wait: "AllReduce #41"
};

// Pure: no clock, no I/O. One for every generation of a job on a host. Not thread-safe. Memory: the communicators and
// streams of the host's rings.
class Lateness {
 public:
  explicit Lateness(int64_t floor_ns = 5'000'000'000) : floor_ns_(floor_ns) {}

  // The rings of the host at `now` (several times a second; a look costs what the views hold). Views of processes that
  // have ended stay in the list. Returns what became late, and what is over, at this look: each once.
  //
  // In flight is, for a communicator and a rank of it:
  //  - a thread inside a call on it, since the call began or the rank last did something on it;
  //  - the oldest operation on a marked stream, since the stream's GPU last finished something;
  //  - a host wait on such a stream, likewise; a host wait of which nothing is known is laid to the communicator used
  //    last, since the rank last made progress; one on a marked stream without unfinished operations waits for no
  //    communication and is not late;
  //  - being ahead of a member on the same host, since the first operation that this one lacks was issued.
  std::vector<LateEvent> Observe(int64_t now, const std::vector<DigestView>& views);
  // What is late now, for a collector that was restarted.
  std::vector<LateEvent> Current(int64_t now) const;
  // The time before `now` does not count: the agent or the whole job was stopped.
  void Rebase(int64_t now);

  int64_t LimitOf(uint64_t comm) const;
  const GapMeter* MeterOf(uint64_t comm) const;  // null: never seen
  // When a look first showed new progress (issued or finished operations); 0: never seen.
  int64_t ProgressOf(int32_t slot) const;
  // The same for anything that its threads do in recorded calls and waits. A process may be active between two
  // operations: this shows it, CPU and I/O show the rest.
  int64_t ActivityOf(int32_t slot) const;
  // The longest wait of a running process at the last look, late or not. `waiting`: the number of processes that wait;
  // `doing`: the operation of the longest wait. Both may be null.
  int64_t LongestWait(int64_t now, int32_t* waiting, std::string* doing) const;
  // When the longest wait below its limit reaches the limit; INT64_MAX: there is no wait.
  int64_t NextLimit() const;

 private:
  struct StreamState {
    uint64_t issued = 0, completed = 0;
    int64_t since_ns = 0;  // since when the oldest unfinished ticket has been the oldest
  };
  struct SlotState {
    uint64_t progress_mark = 0;
    int64_t activity_seen_ns = 0;
    int64_t first_seen_ns = 0, progress_ns = 0, activity_ns = 0;
    absl::flat_hash_map<uint32_t, StreamState> streams;
    absl::flat_hash_map<uint64_t, std::pair<uint64_t, int64_t>> comms;  // id -> total, and when it was first seen
    int64_t waiting_since = 0;                                          // 0: not waiting
    bool alive = true;
    std::string doing;
  };
  struct CommState {
    GapMeter meter;
    uint64_t behind_low = 0;  // number of the host's lowest member while others are past it
    int64_t behind_ns = 0;    // since when; 0: no member is behind
    // Of the last look.
    uint64_t look = 0;
    uint64_t lowest = 0, highest = 0, total = 0;
    int64_t issued_ns = 0;         // of the member with the highest total
    int64_t first_at_highest = 0;  // when the first of those with the highest number of collectives issued it
    int64_t since_ns = 0;          // the earliest in flight; 0: none
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
  absl::flat_hash_map<uint64_t, std::vector<std::pair<uint64_t, int32_t>>> members_;  // of this look: collectives, slot
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_LATENESS_H_
