#include "gui/model/matrix/cell_text.h"

#include <cmath>

#include "analyzer/util/wrap.h"
#include "gui/model/safe_text.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

struct What {
  Selection selection;
  bool has_op = false;
  IndexOp op;
  int place = -1;
};

What Of(const Document& document, const CellMatrix& matrix, int row, int column) {
  What what;
  what.selection = SelectionOfCell(document, matrix, row, column);
  what.place = document.RowOf(matrix.rank_of_row[static_cast<size_t>(row)]);
  if (what.place >= 0 && what.selection.record >= 0) {
    what.op = document.OpAt(what.place, what.selection.record);
    what.has_op = true;
  }
  return what;
}

bool Inside(const CellMatrix& matrix, int row, int column) {
  return row >= 0 && row < matrix.rows && column >= 0 && column < matrix.columns;
}

QString RankName(const CellMatrix& matrix, int row) {
  const int32_t rank = matrix.rank_of_row[static_cast<size_t>(row)];
  return rank >= 0 ? QString("rank %1").arg(rank) : QString("member %1, rank unknown").arg(row);
}

}  // namespace

QStringList CellLines(const Document& document, const CellMatrix& matrix, int row, int column) {
  QStringList lines;
  if (!Inside(matrix, row, column)) return lines;
  const What what = Of(document, matrix, row, column);
  QString who = RankName(matrix, row);
  if (what.place >= 0) {
    QStringList where;
    if (const QString host = document.HostAt(what.place); !host.isEmpty()) where << host;
    if (const int32_t gpu = document.Entry(what.place).gpu; gpu >= 0) where << QString("GPU %1").arg(gpu);
    if (!where.isEmpty()) who += " (" + where.join(", ") + ")";
  }
  lines << who;
  if (what.has_op) {
    lines << document.OpText(what.op);
  } else if (what.selection.comm >= 0) {
    lines << QString("#%1 on %2").arg(what.selection.seq_first).arg(document.CommName(what.selection.comm));
  }
  const ViewState state = matrix.At(row, column);
  lines << QString::fromLatin1(ViewStateName(state)) +
               (state < ViewState::kWaiting ? QString() : QString(": ") + ViewStateMeaning(state));
  if (what.has_op && what.op.enter_ns != 0) {
    QString when;
    if (document.facts().last_ns() != 0) {
      const int64_t before =
          Minus(Minus(document.facts().last_ns(), what.op.enter_ns), document.FactsAt(what.place).clock_offset_ns());
      if (before >= 0) when = QString("called %1 before the last record").arg(Duration(before));
    }
    QString took;
    if (what.op.completed_ns != 0) {
      took = QString("done %1 after the call").arg(Duration(Minus(what.op.completed_ns, what.op.enter_ns)));
    } else if (what.op.return_ns == 0) {
      took = "the call has not returned";
    }
    if (!when.isEmpty() && !took.isEmpty()) when += "; ";
    if (!(when + took).isEmpty()) lines << when + took;
  }
  if (what.place >= 0) {
    const RankFacts& facts = document.FactsAt(what.place);
    if (!facts.state().empty()) lines << QString("now: %1").arg(QString::fromStdString(facts.state()).left(120));
    if (facts.lag() > 0) lines << QString("%1 collectives behind").arg(facts.lag());
  }
  return lines;
}

QString CellSpoken(const Document& document, const CellMatrix& matrix, int row, int column) {
  if (!Inside(matrix, row, column)) return {};
  QString text = RankName(matrix, row);
  if (matrix.mode == MatrixMode::kCommunicator) {
    text += QString(", sequence number %1").arg(matrix.first_seq + column);
  } else {
    const What what = Of(document, matrix, row, column);
    if (what.has_op) text += ", " + document.OpText(what.op);
    const int before = matrix.columns - 1 - column;
    text += before == 0   ? QString(", what comes next")
            : before == 1 ? QString(", last call")
                          : QString(", %1 calls back").arg(before);
  }
  return text + ", " + QString::fromLatin1(ViewStateName(matrix.At(row, column)));
}

QString CellsAsTsv(const Document& document, const CellMatrix& matrix, const std::vector<int>& rows, int column_first,
                   int column_last, int limit) {
  QString text = "rank\thost\tcommunicator\tsequence\toperation\tstate\n";
  int64_t written = 0;
  const int64_t all = static_cast<int64_t>(rows.size()) * std::max(column_last - column_first + 1, 0);
  for (const int row : rows) {
    for (int column = column_first; column <= column_last && written < limit; ++column) {
      if (!Inside(matrix, row, column)) continue;
      const What what = Of(document, matrix, row, column);
      ++written;
      const int32_t rank = matrix.rank_of_row[static_cast<size_t>(row)];
      text += QString("%1\t%2\t%3\t%4\t%5\t%6\n")
                  .arg(rank < 0 ? QString() : QString::number(rank),
                       what.place < 0 ? QString() : Plain(document.HostAt(what.place)),
                       what.selection.comm < 0 ? QString() : Plain(document.CommName(what.selection.comm)),
                       what.selection.seq_first < 0 ? QString() : QString::number(what.selection.seq_first),
                       what.has_op ? QString::fromLatin1(ring::CallName(what.op.kind)) : QString(),
                       QString::fromLatin1(ViewStateName(matrix.At(row, column))));
    }
    if (written >= limit) break;
  }
  if (written < all) text += QString(".. %1 of %2 cells\n").arg(written).arg(all);
  return text;
}

}  // namespace lockstep::gui
