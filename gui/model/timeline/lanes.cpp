#include "gui/model/timeline/lanes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::gui {

Ranks PeersOf(const Document& document, const Selection& selection) {
  int32_t comm = selection.comm;
  const int row = document.RowOfRecord(selection);
  if (comm < 0 && row >= 0) comm = document.CommOf(document.OpAt(row, selection.record));
  Ranks out = selection.ranks;
  if (comm < 0 || comm >= document.comm_count()) return out;
  out.Unite(document.KnownMembers(comm));
  return out;
}

TimelineLanes OrderLanes(const Document& document, LaneDetail detail, LaneChoice choice, const Selection& selection,
                         const Ranks* filtered) {
  TimelineLanes out;
  const bool chosen = choice != LaneChoice::kAll && (!selection.ranks.empty() || selection.comm >= 0);
  const Ranks peers = chosen ? PeersOf(document, selection) : Ranks();
  // 0: selected, 1: a peer, 2: the rest.
  auto group_of = [&](int row) {
    const int32_t rank = document.RankAt(row);
    return !chosen ? 2 : selection.ranks.Contains(rank) ? 0 : peers.Contains(rank) ? 1 : 2;
  };
  absl::flat_hash_map<uint32_t, int> host_order;
  std::vector<int> by_rank(static_cast<size_t>(document.rank_count()));
  std::iota(by_rank.begin(), by_rank.end(), 0);
  std::stable_sort(by_rank.begin(), by_rank.end(),
                   [&](int a, int b) { return document.RankAt(a) < document.RankAt(b); });
  struct Key {
    int group, host, row;
  };
  std::vector<Key> keys;
  std::vector<int> best_of_host;
  for (const int row : by_rank) {
    const int host = host_order.emplace(document.Entry(row).host, static_cast<int>(host_order.size())).first->second;
    if (filtered != nullptr && !filtered->Contains(document.RankAt(row))) continue;
    const int group = group_of(row);
    if (choice == LaneChoice::kSelectionOnly && chosen && group == 2) continue;
    if (static_cast<size_t>(host) >= best_of_host.size()) best_of_host.resize(static_cast<size_t>(host) + 1, 2);
    best_of_host[static_cast<size_t>(host)] = std::min(best_of_host[static_cast<size_t>(host)], group);
    keys.push_back({group, host, row});
  }
  if (detail == LaneDetail::kHosts) {
    for (Key& key : keys) key.group = best_of_host[static_cast<size_t>(key.host)];
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Key& a, const Key& b) { return std::pair(a.group, a.host) < std::pair(b.group, b.host); });
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto place = static_cast<uint32_t>(out.rows.size());
    out.rows.push_back(keys[i].row);
    const bool begins_host = i == 0 || keys[i].host != keys[i - 1].host || keys[i].group != keys[i - 1].group;
    if (detail == LaneDetail::kHosts && !begins_host) {
      ++out.lanes.back().count;
      continue;
    }
    TimelineLane lane;
    lane.first = place;
    lane.count = 1;
    lane.begins_host = begins_host;
    if (detail != LaneDetail::kStreams) {
      out.lanes.push_back(lane);
    } else {
      lane.filter.part = LaneFilter::Part::kCalls;
      out.lanes.push_back(lane);
      lane.begins_rank = lane.begins_host = false;
      lane.filter.part = LaneFilter::Part::kStream;
      const RankFacts& facts = document.FactsAt(keys[i].row);
      for (int s = 0; s < std::min(facts.streams_size(), int{kIndexNoStream}); ++s) {
        lane.filter.stream = static_cast<uint8_t>(s);
        out.lanes.push_back(lane);
      }
      // Adds a lane for GPU work on streams that the source does not name.
      const absl::Span<const uint8_t> streams = document.index().columns(static_cast<size_t>(keys[i].row)).stream;
      if (facts.streams_size() == 0 ||
          (!streams.empty() && std::memchr(streams.data(), kIndexNoStream, streams.size()) != nullptr)) {
        lane.filter.stream = kIndexNoStream;
        out.lanes.push_back(lane);
      }
    }
    if (keys[i].group < 2) out.relevant = static_cast<int>(out.lanes.size());
  }
  return out;
}

}  // namespace lockstep::gui
