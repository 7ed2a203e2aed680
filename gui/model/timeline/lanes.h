// Which lanes the timeline has, and their order.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/model/timeline/times.h"

namespace lockstep::gui {

enum class LaneDetail : uint8_t {
  kHosts,
  kRanks,
  kStreams
};  // one lane per host; per rank; or one per rank for calls and one per stream
enum class LaneChoice : uint8_t { kAll, kSelectionFirst, kSelectionOnly };

struct TimelineLane {
  uint32_t first = 0, count = 0;  // range in TimelineLanes.rows
  LaneFilter filter;
  bool begins_rank = true;  // first lane of its rank
  bool begins_host = true;  // first of consecutive lanes of one host
};

struct TimelineLanes {
  std::vector<TimelineLane> lanes;
  std::vector<int32_t> rows;  // rows of the document
  int relevant = 0;           // number of lanes that come first because of the selection; 0 if only ordered by host

  int RowOf(int lane) const { return rows[lanes[static_cast<size_t>(lane)].first]; }  // the first row of a host
};

// Returns the selected ranks and the members of the selected communicator, or of the selected operation's.
Ranks PeersOf(const Document& document, const Selection& selection);

// Hosts are in the order of their first rank, with ranks ascending. `filtered` is null for no filter.
TimelineLanes OrderLanes(const Document& document, LaneDetail detail, LaneChoice choice, const Selection& selection,
                         const Ranks* filtered);

}  // namespace lockstep::gui
