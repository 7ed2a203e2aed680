// Which lanes the timeline has, and in which order.
#ifndef LOCKSTEP_GUI_MODEL_TIMELINE_LANES_H_
#define LOCKSTEP_GUI_MODEL_TIMELINE_LANES_H_

#include <cstdint>
#include <vector>

#include "gui/model/timeline.h"

namespace lockstep::gui {

enum class LaneDetail : uint8_t {
  kHosts,
  kRanks,
  kStreams
};  // a lane a host; a rank; its calls and each of its streams
enum class LaneChoice : uint8_t { kAll, kSelectionFirst, kSelectionOnly };

struct TimelineLane {
  uint32_t first = 0, count = 0;  // into TimelineLanes.rows
  LaneFilter filter;
  bool begins_rank = true;  // first lane of its rank
  bool begins_host = true;  // another host than the lane before
};

struct TimelineLanes {
  std::vector<TimelineLane> lanes;
  std::vector<int32_t> rows;  // rows of the document
  int relevant = 0;           // number of lanes that come first because of the selection; 0: order of hosts only

  int RowOf(int lane) const { return rows[lanes[static_cast<size_t>(lane)].first]; }  // the first of a host
};

// Selected ranks, and the members of the selected communicator.
RankIntervals PeersOf(const Document& document, const Selection& selection);

// Hosts in the order of their first rank, ranks ascending within. `filtered` null: no filter.
TimelineLanes OrderLanes(const Document& document, LaneDetail detail, LaneChoice choice, const Selection& selection,
                         const RankIntervals* filtered);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_TIMELINE_LANES_H_
