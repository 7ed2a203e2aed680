#include "gui/model/matrix/source.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace lockstep::gui {
namespace {

// A matrix that is shown or being built. Owns the document, because the document's address identifies the slot.
struct Slot {
  std::mutex mutex;
  DocumentPtr document;
  std::shared_ptr<const CellMatrix> cells;
};

using Key = std::tuple<const Document*, MatrixMode, int32_t>;

std::shared_ptr<Slot> SlotOf(const DocumentPtr& document, MatrixMode mode, int32_t comm) {
  static std::mutex& mutex = *new std::mutex;
  static auto& slots = *new std::map<Key, std::weak_ptr<Slot>>;
  const std::scoped_lock lock(mutex);
  std::erase_if(slots, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Slot>& place = slots[Key(document.get(), mode, comm)];
  std::shared_ptr<Slot> slot = place.lock();
  if (slot == nullptr) {
    slot = std::make_shared<Slot>();
    slot->document = document;
    place = slot;
  }
  return slot;
}

struct SharedData : MatrixData {
  std::shared_ptr<Slot> slot;
};

void CountColumns(MatrixData* data) {
  const CellMatrix& cells = *data->cells;
  const size_t n = static_cast<size_t>(cells.columns);
  data->columns.assign(n, {});
  std::vector<uint8_t> done(n, 0), open(n, 0), fault(n, 0);
  auto flush = [&] {
    for (size_t c = 0; c < n; ++c) {
      data->columns[c].done += done[c];
      data->columns[c].open += open[c];
      data->columns[c].fault += fault[c];
    }
    for (auto* counts : {&done, &open, &fault}) std::fill(counts->begin(), counts->end(), uint8_t{0});
  };
  auto is = [](uint8_t state, ViewState first, ViewState last) {
    return static_cast<uint8_t>(static_cast<uint8_t>(state - static_cast<uint8_t>(first)) <=
                                static_cast<uint8_t>(last) - static_cast<uint8_t>(first));
  };
  int gathered = 0;
  for (const uint32_t row : data->order.rows) {
    const uint8_t* in = cells.Row(static_cast<int>(row));
    for (size_t c = 0; c < n; ++c) {
      done[c] = static_cast<uint8_t>(done[c] + is(in[c], ViewState::kCompleted, ViewState::kOverwritten));
      open[c] = static_cast<uint8_t>(open[c] + is(in[c], ViewState::kEnqueued, ViewState::kWaiting));
      fault[c] = static_cast<uint8_t>(fault[c] + is(in[c], ViewState::kFailed, ViewState::kMissing));
    }
    if (++gathered % 255 == 0) flush();
  }
  flush();
}

void TakeLags(MatrixData* data) {
  const CellMatrix& cells = *data->cells;
  data->lag.assign(static_cast<size_t>(cells.rows), -1);
  for (size_t row = 0; row < data->lag.size(); ++row) {
    const int place = data->document->RowOf(cells.rank_of_row[row]);
    if (place < 0) continue;
    data->lag[row] = data->document->FactsAt(place).lag();
    data->most_lag = std::max(data->most_lag, data->lag[row]);
  }
}

}  // namespace

StateCounts CountStates(const MatrixData& data, int line_first, int line_last, int column_first, int column_last,
                        const std::atomic<bool>* cancel) {
  StateCounts counts{};
  const CellMatrix& cells = *data.cells;
  line_first = std::max(line_first, 0);
  column_first = std::max(column_first, 0);
  line_last = std::min(line_last, data.order.lines() - 1);
  column_last = std::min(column_last, cells.columns - 1);
  // Four tables, because consecutive increments of the same counter would wait for each other in the CPU.
  std::array<std::array<uint32_t, 16>, 4> tables{};
  int gathered = 0;
  for (int line = line_first; line <= line_last; ++line) {
    if (Cancelled(cancel)) return counts;
    const uint8_t* in = cells.Row(static_cast<int>(data.order.rows[static_cast<size_t>(line)]));
    int c = column_first;
    for (; c + 4 <= column_last + 1; c += 4) {
      for (int i = 0; i < 4; ++i) ++tables[static_cast<size_t>(i)][in[c + i] & 15];
    }
    for (; c <= column_last; ++c) ++tables[0][in[c] & 15];
    if (++gathered % 65536 == 0 || line == line_last) {
      for (auto& table : tables) {
        for (size_t s = 0; s < counts.size(); ++s) counts[s] += table[s];
        table.fill(0);
      }
    }
  }
  return counts;
}

void MatrixSource::Want(const DocumentPtr& document, const Place& place) {
  auto rows_differ = [&] {
    return place.matrix_mode != wanted_.matrix_mode || place.grouping != wanted_.grouping ||
           place.filters.isEmpty() != wanted_.filters.isEmpty() ||
           (!place.filters.isEmpty() && place.filtered != wanted_.filtered) || place.pinned != wanted_.pinned ||
           (place.matrix_mode == MatrixMode::kCommunicator && place.matrix_comm != wanted_.matrix_comm);
  };
  if (wanted_any_ && document == wanted_document_ && !rows_differ()) return;
  wanted_any_ = true;
  wanted_document_ = document;
  wanted_ = place;
  if (document == nullptr) {
    job_.Cancel();
    const bool had = data_ != nullptr;
    data_ = nullptr;
    if (had) Q_EMIT Ready();
    return;
  }
  job_.Start(this, [this, document, place](const std::atomic<bool>& cancel) -> LatestJob::Finish {
    auto made = std::make_shared<SharedData>();
    made->document = document;
    const bool comm = place.matrix_mode == MatrixMode::kCommunicator;
    made->slot = SlotOf(document, place.matrix_mode, comm ? place.matrix_comm : -1);
    {
      const std::scoped_lock lock(made->slot->mutex);
      if (made->slot->cells == nullptr) {
        made->slot->cells =
            comm ? BuildCommMatrix(*document, place.matrix_comm, &cancel) : BuildJobMatrix(*document, &cancel);
      }
      made->cells = made->slot->cells;
    }
    if (made->cells == nullptr || cancel) return {};
    made->order = BuildRowOrder(*document, *made->cells, place.grouping,
                                place.filters.isEmpty() ? nullptr : &place.filtered, place.pinned);
    made->line_of_row = LineOfRow(made->order, made->cells->rows);
    if (cancel) return {};
    CountColumns(made.get());
    TakeLags(made.get());
    made->counts = CountStates(*made, 0, made->order.lines() - 1, 0, made->cells->columns - 1, &cancel);
    // LatestJob runs the function only while `this` exists.
    return [this, made] {
      data_ = made;
      Q_EMIT Ready();
    };
  });
}

}  // namespace lockstep::gui
