// Bounds the memory that the dumps of a large job take. Leaves out older operations, and keeps hashes of the
// collectives among them, which show where the members of a group made different calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/formats/fr/file.h"

namespace lockstep::fr {

// Collectives of the group FileData::used[group], by their numbers.
struct CallRange {
  uint32_t group = 0;
  int64_t first = 0, last = -1;
};

// How many of its newest operations each of `files` dumps keeps, if all of them together keep about `entries`.
size_t NewestOfEach(uint64_t entries, size_t files);

// If the file has more than twice `newest` operations, keeps only the newest ones, the newest collectives of every
// group, all that have not completed, and `needed`. Sets UsedGroup::older and Rank::not_loaded.
void LeaveOutOlder(size_t newest, absl::Span<const CallRange> needed, FileData* file);

// Returns for each file the collectives that were left out although the members' hashes differ: for each communicator,
// those of the first block that differs. `memberships` is as MergeGroups sets it. Empty if nothing differs.
std::vector<std::vector<CallRange>> DifferingCalls(const std::vector<FileData>& files,
                                                   const std::vector<std::vector<uint32_t>>& memberships);

}  // namespace lockstep::fr
