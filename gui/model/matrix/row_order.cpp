#include "gui/model/matrix/row_order.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"

namespace lockstep::gui {
namespace {

// Returns the communicator in which the rank waits, otherwise that of its last operation; -1 if there is none.
int32_t CommOfRank(const Document& document, int row) {
  if (const WaitClass* wait = document.WaitOf(row); wait != nullptr && wait->comm() >= 0) return wait->comm();
  const int64_t ops = document.OpCount(row);
  return ops > 0 ? document.CommOf(document.OpAt(row, ops - 1)) : -1;
}

}  // namespace

const char* RowGroupingName(RowGrouping grouping) {
  switch (grouping) {
    case RowGrouping::kRank: return "rank";
    case RowGrouping::kHost: return "host";
    case RowGrouping::kStage: return "pipeline stage";
    case RowGrouping::kCommunicator: return "communicator";
    case RowGrouping::kState: return "worst state";
  }
  return "rank";
}

ViewState WorstOf(const CellMatrix& matrix, int row) {
  const uint8_t* cells = matrix.Row(row);
  uint8_t lanes[64] = {};
  int column = 0;
  for (; column + 64 <= matrix.columns; column += 64) {
    for (int i = 0; i < 64; ++i) lanes[i] = lanes[i] > cells[column + i] ? lanes[i] : cells[column + i];
  }
  for (; column < matrix.columns; ++column) lanes[0] = std::max(lanes[0], cells[column]);
  const uint8_t worst = *std::max_element(lanes, lanes + 64);
  return worst < static_cast<uint8_t>(ViewState::kCount) ? static_cast<ViewState>(worst) : ViewState::kOutside;
}

RowOrder BuildRowOrder(const Document& document, const CellMatrix& matrix, RowGrouping grouping, const Ranks* filtered,
                       const Ranks& pinned) {
  RowOrder order;
  struct Key {
    int64_t group;  // groups are sorted by this
    uint32_t row;
  };
  std::vector<Key> keys;
  std::vector<QString> names;  // indexed by group, if groups are numbered by first occurrence
  std::vector<ViewState> worst(static_cast<size_t>(matrix.rows), ViewState::kOutside);
  absl::flat_hash_map<int64_t, int64_t> number;
  auto numbered = [&](int64_t what, const auto& name) {
    const auto [it, fresh] = number.try_emplace(what, static_cast<int64_t>(names.size()));
    if (fresh) names.push_back(name());
    return it->second;
  };
  for (int row = 0; row < matrix.rows; ++row) {
    const int32_t rank = matrix.rank_of_row[static_cast<size_t>(row)];
    const bool pin = rank >= 0 && pinned.Contains(rank);
    if (filtered != nullptr && !pin && (rank < 0 || !filtered->Contains(rank))) continue;
    worst[static_cast<size_t>(row)] = WorstOf(matrix, row);
    const int place = document.RowOf(rank);
    int64_t group = 0;
    switch (pin ? RowGrouping::kRank : grouping) {
      case RowGrouping::kRank: break;
      case RowGrouping::kHost: {
        const int64_t host = place < 0 ? -1 : int64_t{document.Entry(place).host};
        group = numbered(host, [&] { return place < 0 ? QString("host unknown") : document.HostAt(place); });
        break;
      }
      case RowGrouping::kStage: {
        const int32_t stage = place < 0 ? -1 : document.FactsAt(place).stage();
        group = numbered(stage, [&] { return stage < 0 ? QString("stage unknown") : QString("stage %1").arg(stage); });
        break;
      }
      case RowGrouping::kCommunicator: {
        const int32_t comm = place < 0 ? -1 : CommOfRank(document, place);
        group = numbered(comm, [&] { return comm < 0 ? QString("no communicator") : document.CommName(comm); });
        break;
      }
      case RowGrouping::kState: group = -static_cast<int64_t>(worst[static_cast<size_t>(row)]); break;
    }
    keys.push_back({pin ? INT64_MIN : group, static_cast<uint32_t>(row)});
  }
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.group < b.group; });
  order.rows.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const ViewState state = worst[keys[i].row];
    if (i == 0 || keys[i].group != keys[i - 1].group) {
      RowGroup group;
      group.first = static_cast<int>(i);
      if (keys[i].group == INT64_MIN) {
        group.name = "pinned";
      } else if (grouping == RowGrouping::kState) {
        group.name = QString::fromLatin1(ViewStateName(state));
      } else if (grouping != RowGrouping::kRank) {
        group.name = names[static_cast<size_t>(keys[i].group)];
        if (group.name.isEmpty()) group.name = "no name";
      }
      order.groups.push_back(std::move(group));
    }
    RowGroup& group = order.groups.back();
    ++group.count;
    group.worst = std::max(group.worst, state);
    if (keys[i].group == INT64_MIN) ++order.pinned;
    order.rows.push_back(keys[i].row);
  }
  return order;
}

std::vector<int32_t> LineOfRow(const RowOrder& order, int rows) {
  std::vector<int32_t> out(static_cast<size_t>(std::max(rows, 0)), -1);
  for (size_t line = 0; line < order.rows.size(); ++line) {
    if (order.rows[line] < out.size()) out[order.rows[line]] = static_cast<int32_t>(line);
  }
  return out;
}

}  // namespace lockstep::gui
