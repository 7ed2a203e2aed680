// Gives views the matrix for a position: built on a worker thread, once for all views with the same position.
#pragma once

#include <QObject>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "gui/model/latest_job.h"
#include "gui/model/matrix/row_order.h"

namespace lockstep::gui {

using StateCounts = std::array<int64_t, static_cast<size_t>(ViewState::kCount)>;

// Immutable.
struct MatrixData {
  DocumentPtr document;
  std::shared_ptr<const CellMatrix> cells;
  RowOrder order;
  std::vector<int32_t> line_of_row;  // -1 if filtered out
  // For each column, over the rows of `order`: how many cells are done, in flight and at fault. The others are kIssued,
  // kNoData or kOutside.
  struct Column {
    uint32_t done = 0, open = 0, fault = 0;
  };
  std::vector<Column> columns;
  std::vector<int64_t> lag;  // one entry per row of `cells`; negative if unknown
  int64_t most_lag = 0;
  StateCounts counts{};  // of all cells of `order`

  int RankOfLine(int line) const { return cells->rank_of_row[order.rows[static_cast<size_t>(line)]]; }
};
using MatrixDataPtr = std::shared_ptr<const MatrixData>;

// Counts the lines [line_first, line_last] and columns [column_first, column_last], clipped to the matrix. `cancel` may
// be null.
StateCounts CountStates(const MatrixData& data, int line_first, int line_last, int column_first, int column_last,
                        const std::atomic<bool>* cancel = nullptr);

// Used on the GUI thread.
class MatrixSource : public QObject {
  Q_OBJECT

 public:
  explicit MatrixSource(QObject* parent = nullptr) : QObject(parent) {}

  // Sets the position: mode, communicator, grouping, filters, pinned ranks. Emits Ready when new data is there; at once
  // if `document` is null. The old data stays until then.
  void Want(const DocumentPtr& document, const Place& place);
  const MatrixDataPtr& data() const { return data_; }
  // Whether data() belongs to the last request.
  bool idle() const { return !job_.busy(); }

 Q_SIGNALS:
  void Ready();

 private:
  MatrixDataPtr data_;
  DocumentPtr wanted_document_;
  Place wanted_;
  bool wanted_any_ = false;
  LatestJob job_;
};

}  // namespace lockstep::gui
