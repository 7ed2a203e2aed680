#include "gui/view/matrix/measure.h"

#include <QStringList>

#include <algorithm>
#include <limits>

#include "analyzer/util/wrap.h"
#include "gui/model/matrix/cell_text.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

LineBox Cut(const MatrixData& data, LineBox box) {
  box.line_first = std::max(box.line_first, 0);
  box.column_first = std::max(box.column_first, 0);
  box.line_last = std::min(box.line_last, data.order.lines() - 1);
  box.column_last = std::min(box.column_last, data.cells->columns - 1);
  return box;
}

// The text is computed on a worker thread, the selection on the GUI thread.
constexpr int kMeasuredLines = 256, kSelectedLines = 16;

}  // namespace

bool TimesOfBox(const MatrixData& data, const LineBox& wanted, int most_lines, int64_t* begin_ns, int64_t* end_ns) {
  const LineBox box = Cut(data, wanted);
  const Document& document = *data.document;
  const int lines = box.line_last - box.line_first + 1, looked_at = std::min(lines, most_lines);
  int64_t begin = std::numeric_limits<int64_t>::max(), end = std::numeric_limits<int64_t>::min();
  for (int i = 0; i < looked_at; ++i) {
    const int line =
        box.line_first + (looked_at == 1 ? 0 : static_cast<int>(int64_t{i} * (lines - 1) / (looked_at - 1)));
    const int row = static_cast<int>(data.order.rows[static_cast<size_t>(line)]);
    const int place = document.RowOf(data.cells->rank_of_row[static_cast<size_t>(row)]);
    if (place < 0) continue;
    const int64_t offset = document.FactsAt(place).clock_offset_ns();
    for (const int column : {box.column_first, box.column_last}) {
      const Selection cell = SelectionOfCell(document, *data.cells, row, column);
      if (cell.record < 0) continue;
      const IndexOp op = document.OpAt(place, cell.record);
      if (op.enter_ns == 0) continue;
      begin = std::min(begin, Plus(op.enter_ns, offset));
      end = std::max(end, Plus(std::max({op.enter_ns, op.return_ns, op.completed_ns}), offset));
    }
  }
  if (begin > end) return false;
  *begin_ns = begin;
  *end_ns = end;
  return true;
}

QString MeasureText(const MatrixData& data, const LineBox& wanted, const std::atomic<bool>& cancel) {
  const LineBox box = Cut(data, wanted);
  if (box.empty()) return {};
  const StateCounts counts =
      CountStates(data, box.line_first, box.line_last, box.column_first, box.column_last, &cancel);
  const int lines = box.line_last - box.line_first + 1, columns = box.column_last - box.column_first + 1;
  QStringList states;
  for (size_t s = counts.size(); s-- > 1 && states.size() < 4;) {
    if (counts[s] > 0)
      states << QString("%1 %2").arg(Count(counts[s]), QString::fromLatin1(ViewStateName(static_cast<ViewState>(s))));
  }
  QString text = QString("%1 %2 x %3 %4")
                     .arg(Count(lines), lines == 1 ? "rank" : "ranks", Count(columns), columns == 1 ? "call" : "calls");
  if (!states.isEmpty()) text += ": " + states.join(", ");
  int64_t begin = 0, end = 0;
  if (TimesOfBox(data, box, kMeasuredLines, &begin, &end)) {
    text += "; " + Duration(Minus(end, begin));
  }
  return text;
}

Selection SelectionOfBox(const MatrixData& data, const LineBox& wanted) {
  const LineBox box = Cut(data, wanted);
  Selection selection;
  if (box.empty()) return selection;
  if (box.line_first == box.line_last && box.column_first == box.column_last) {
    return SelectionOfCell(*data.document, *data.cells,
                           static_cast<int>(data.order.rows[static_cast<size_t>(box.line_first)]), box.column_first);
  }
  std::vector<int32_t> ranks;
  for (int line = box.line_first; line <= box.line_last; ++line) {
    if (const int32_t rank = data.RankOfLine(line); rank >= 0) ranks.push_back(rank);
  }
  selection.ranks = Ranks::Of(std::move(ranks));
  if (data.cells->mode == MatrixMode::kCommunicator) {
    selection.comm = data.cells->comm;
    selection.seq_first = data.cells->first_seq + box.column_first;
    selection.seq_last = data.cells->first_seq + box.column_last;
  }
  int64_t begin = 0, end = 0;
  if (TimesOfBox(data, box, kSelectedLines, &begin, &end)) {
    selection.time_begin = begin;
    selection.time_end = end;
  }
  return selection;
}

QString CsvOfBox(const MatrixData& data, const LineBox& wanted) {
  const LineBox box = Cut(data, wanted);
  if (box.empty()) return {};
  const CellMatrix& cells = *data.cells;
  const int64_t columns = box.column_last - box.column_first + 1;
  QString text = "rank,host";
  for (int column = box.column_first; column <= box.column_last; ++column) {
    text += ',' + (cells.mode == MatrixMode::kCommunicator ? QString::number(cells.first_seq + column)
                                                           : QString::number(column - (cells.columns - 1)));
  }
  text += '\n';
  const int last = static_cast<int>(std::min<int64_t>(box.line_last, box.line_first + kMostCsvCells / columns - 1));
  QString names[static_cast<size_t>(ViewState::kCount)];
  for (size_t s = 0; s < static_cast<size_t>(ViewState::kCount); ++s)
    names[s] = ',' + CsvCell(QString::fromLatin1(ViewStateName(static_cast<ViewState>(s))));
  for (int line = box.line_first; line <= last; ++line) {
    const int row = static_cast<int>(data.order.rows[static_cast<size_t>(line)]);
    const int32_t rank = cells.rank_of_row[static_cast<size_t>(row)];
    const int place = data.document->RowOf(rank);
    text += (rank < 0 ? QString() : QString::number(rank)) + ',' +
            (place < 0 ? QString() : CsvCell(data.document->HostAt(place)));
    for (int column = box.column_first; column <= box.column_last; ++column)
      text += names[static_cast<size_t>(cells.At(row, column))];
    text += '\n';
  }
  if (last < box.line_last)
    text += QString("# %1 of %2 rows: zoom in for fewer columns\n")
                .arg(last - box.line_first + 1)
                .arg(box.line_last - box.line_first + 1);
  return text;
}

}  // namespace lockstep::gui
