#include "gui/model/notes/notes.h"

#include <QDateTime>

#include <algorithm>

namespace lockstep::gui {

QString CommIdentity(const Document& document, int32_t comm) {
  if (comm < 0 || comm >= document.comm_count()) return {};
  const QString id = QString::fromUtf8(document.index().text(document.CommEntry(comm).id));
  return id.isEmpty() ? document.CommName(comm) : id;
}

int32_t CommByIdentity(const Document& document, const QString& identity) {
  if (identity.isEmpty()) return -1;
  for (int32_t comm = 0; comm < document.comm_count(); ++comm) {
    if (CommIdentity(document, comm) == identity) return comm;
  }
  return -1;
}

Selection SelectionOfMark(const Document& document, const Mark& mark) {
  Selection out;
  out.ranks = mark.ranks;
  out.comm = CommByIdentity(document, mark.comm);
  if (out.comm >= 0 && mark.seq_first >= 0 && mark.seq_last >= mark.seq_first)
    out.seq_first = mark.seq_first, out.seq_last = mark.seq_last;
  if (mark.time_end >= mark.time_begin) out.time_begin = mark.time_begin, out.time_end = mark.time_end;
  const int row = document.RowOf(mark.record_rank);
  if (row >= 0 && mark.record >= 0 && mark.record < document.OpCount(row))
    out.record_rank = mark.record_rank, out.record = mark.record;
  return out;
}

Mark MarkOfSelection(const Document& document, const Selection& selection, const QString& text) {
  Mark out;
  out.text = text.left(kMostMarkText);
  out.made = QDateTime::currentDateTimeUtc().toString(Qt::ISODate);
  out.ranks = selection.ranks;
  out.comm = CommIdentity(document, selection.comm);
  out.seq_first = selection.seq_first;
  out.seq_last = selection.seq_last;
  out.time_begin = selection.time_begin;
  out.time_end = selection.time_end;
  out.record_rank = selection.record_rank;
  out.record = selection.record;
  return out;
}

}  // namespace lockstep::gui
