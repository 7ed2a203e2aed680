// Hashes of one rank's calls, computed when a dump is written. They show where members of a communicator, or ranks with
// the same role, made different calls. A reader of a large job therefore does not decompress most operations.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

enum class Direction : uint8_t { kCollective = 0, kSend = 1, kRecv = 2 };

// A lane: one rank's operations with one numbering.
struct LaneId {
  uint32_t membership = kNoIndex;  // like Op::membership
  Direction direction = Direction::kCollective;
  int32_t peer = 0;  // member rank; 0 for collectives

  bool operator==(const LaneId& other) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const LaneId& lane) {
    return H::combine(std::move(h), lane.membership, lane.direction, lane.peer);
  }
};

// Where a lane's hashes are in History.
struct LaneHistory : LaneId {
  int64_t first_seq = 0, last_seq = -1;
  uint32_t count = 0;
  // Entry begin + i of History::calls and History::program is for block first_block + i; i < blocks. A hash of 0 is
  // unknown.
  int64_t first_block = 0;
  uint32_t begin = 0, blocks = 0;
  // Hashes of single calls in History::singles: the calls before the first whole block, from old_seq on, and the newest
  // calls, from new_seq on.
  int64_t old_seq = 0, new_seq = 0;
  uint32_t old_begin = 0, old_count = 0, new_begin = 0, new_count = 0;
};

struct History {
  std::vector<LaneHistory> lanes;
  std::vector<uint64_t> calls, program;  // each has one entry for each block
  std::vector<uint32_t> singles;

  const LaneHistory* Find(const LaneId& lane) const;  // null if there is none
};

// Returns nothing if the operation has no lane: no communicator, no number, failed, only in the recent table, or
// neither a collective nor a send or receive.
std::optional<LaneId> LaneOf(const Op& op);

// Communicators that different ranks create at the same place in the program get equal hashes. Ignores the values of
// numbers in `name`. Hashes stored in files are computed from this one, so it must never change.
uint64_t CommClassHash(std::string_view name, int32_t size, bool has_parent, uint32_t ordinal);

// classes[i] is the CommClassHash of the communicator of rank.memberships[i]. Hashes of ranks from Flight Recorder
// remain unknown.
History MakeHistory(const Rank& rank, absl::Span<const uint64_t> classes);

RankHistory EncodeHistory(const History& history, int32_t rank);
// Skips inconsistent lanes, and lanes beyond kLsdMaxLanes.
History DecodeHistory(const RankHistory& message);

// Fills the chunk's described, newest_ns, keep and lanes.
void Describe(absl::Span<const Op> ops, OpChunk* chunk);

}  // namespace lockstep
