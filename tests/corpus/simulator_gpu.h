// The simulator's internal state: GPUs, streams and operations in flight. Only simulator*.cpp include it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/corpus/simulator.h"

namespace lockstep::corpus {

enum EventType : uint32_t { kHostEvent, kErrorEvent, kCollectiveEvent, kPartlyEvent, kPairEvent };

enum class Work : uint8_t { kCompute, kJoin, kCollective, kPointToPoint };

// An unfinished item on a stream.
struct Simulator::Item {
  // Time when the CPU thread issued the item and everything that the item waits for so far completed.
  int64_t ready = 0;
  int64_t ns = 0;                               // for a computation: its length
  int64_t latest = 0;                           // for a group: when the last of its completed sends and receives ended
  uint64_t record = 0;                          // number of the item's (first) record, from 1; 0 if there is none
  int32_t next = -1;                            // next item on the same stream
  int32_t first_waiter = -1, next_waiter = -1;  // items of other streams that wait for this one
  uint32_t seq = 0;                             // collective: number in the communicator's order on this GPU
  std::array<uint32_t, 8> instrs{};             // the item's operations
  std::array<uint32_t, 8> seqs{};
  uint8_t ops = 0, open = 0;  // number of operations; number of incomplete ones
  uint8_t stream = 0;
  uint8_t held_by = 0;  // 1 + slot whose next completion releases the item; 0: none
  Work work = Work::kCompute;
  Slot slot = kWorld;
  bool waits = false, arrived = false;
  uint32_t mark = 0;  // for a launch of a graph, see Simulator::Mark; 0 if there is none
  bool mark_end = false;
};

struct Simulator::Stream {
  int64_t last_done = 0;
  int32_t head = -1, tail = -1;
};

struct Simulator::Gpu {
  std::array<Stream, kStreams> streams;
  std::vector<Item> items;
  int32_t free = -1;
  std::array<uint32_t, kSlots> launched{}, exchanged{};  // collectives and sized all-to-alls put on the stream
  CallKind host_waits = CallKind::kNone;
  bool capturing = false;
  uint64_t init_record = 0;
  uint64_t group_record = 0;  // number of the open group's first record; 0 if there is none yet
  std::vector<int32_t> held;
  Random random{0};
};

// An unfinished collective that at least one member has reached.
struct Simulator::Instance {
  uint32_t seq = 0, kind = 0;  // kind 0: collective; 1: sized all-to-all
  uint32_t arrived = 0;
  int64_t last = 0;
  const Instr* first = nullptr;
  uint64_t most_bytes = 0;
  bool other_kind = false, other_bytes = false, other_root = false;
};

struct Simulator::CommRun {
  int64_t broken_at = kNever;
  std::vector<Instance> open;
};

}  // namespace lockstep::corpus
