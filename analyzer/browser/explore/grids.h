// The states of all calls of all ranks as runs: small enough to send completely for any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/browser/explore/calls.h"
#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Communicators that are drawn side by side: "dp_0", "dp_1" and so on form the lane "dp_*".
struct Lanes {
  std::vector<std::string> names;  // the lane with the most members first; at most 40
  std::vector<int32_t> of_comm;    // index into names; -1 if there is none
};
Lanes LanesOf(const Bundle& bundle);

// A row for each rank, a column for each call. Ranks with equal rows share a pattern.
struct PageGrid {
  struct Run {
    uint16_t length = 0;
    uint8_t state = 0;  // a ViewState, or kBehind
  };
  struct Pattern {
    int64_t first = 0;  // column of the first run
    std::vector<Run> runs;
  };
  int64_t columns = 0;
  // Sequence number of column 0; -1 if the columns are all calls in program order, newest last.
  int64_t first_seq = -1;
  std::vector<Pattern> patterns;
  std::vector<int32_t> pattern_of;  // indexed by rank; -1 if it has none
};
// The peers made the call and the rank did not, but the first finding does not name the rank.
inline constexpr uint8_t kBehind = static_cast<uint8_t>(ViewState::kCount);

// Returns first the grid of all calls in program order, then one grid for each lane.
std::vector<PageGrid> MakeGrids(const Bundle& bundle, const ViewFacts& facts, const Lanes& lanes,
                                const CallSource& calls);

}  // namespace lockstep
