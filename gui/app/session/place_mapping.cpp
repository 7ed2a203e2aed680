#include "gui/app/session/place_mapping.h"

#include "gui/model/matrix/cells.h"
#include "gui/model/notes/notes.h"
#include "gui/model/timeline/times.h"

namespace lockstep::gui {
namespace {

int32_t MapComm(const Document& from, const Document& to, int32_t comm) {
  if (comm < 0 || comm >= from.comm_count()) return -1;
  if (const int32_t same = CommByIdentity(to, CommIdentity(from, comm)); same >= 0) return same;
  int32_t found = -1;
  const QString name = from.CommName(comm);
  for (int32_t other = 0; other < to.comm_count(); ++other) {
    if (to.CommName(other) != name) continue;
    if (found >= 0) return -1;
    found = other;
  }
  return found;
}

int64_t MapRecord(const Document& from, const Document& to, const Selection& selection, int32_t comm) {
  const int row = from.RowOf(selection.record_rank), other = to.RowOf(selection.record_rank);
  if (row < 0 || other < 0 || selection.record < 0 || selection.record >= from.OpCount(row)) return -1;
  const IndexOp wanted = from.OpAt(row, selection.record);
  if (wanted.seq < 0 || comm < 0) return -1;
  // Searches only near the old position, counted from either end, because this runs at every step of a linked window.
  const int64_t count = to.OpCount(other), shift = count - from.OpCount(row);
  for (int64_t away = 0; away < 4096; ++away) {
    for (const int64_t at : {selection.record + away, selection.record - away, selection.record + shift + away,
                             selection.record + shift - away}) {
      if (at < 0 || at >= count) continue;
      const IndexOp op = to.OpAt(other, at);
      if (op.kind == wanted.kind && op.seq == wanted.seq && to.CommOf(op) == comm) return at;
    }
  }
  return -1;
}

}  // namespace

Place MapPlace(const Document& from, const Document& to, const Place& place, bool same) {
  Place out = place;
  out.selection.comm = MapComm(from, to, place.selection.comm);
  if (out.selection.comm < 0) out.selection.seq_first = out.selection.seq_last = -1;
  out.selection.record = MapRecord(from, to, place.selection, out.selection.comm);
  if (out.selection.record < 0) out.selection.record_rank = -1;
  out.matrix_comm = MapComm(from, to, place.matrix_comm);
  if (out.matrix_comm < 0) out.matrix_mode = MatrixMode::kJob;
  if (!same) {
    out.matrix = out.timeline = {};
    out.selection.time_begin = 0;
    out.selection.time_end = -1;
  }
  if (out.finding >= to.verdict().findings_size()) out.finding = 0;
  return out;
}

namespace {

void MapRows(int from, int to, Viewport* viewport) {
  if (from == to || from == 0) return;
  const double share = static_cast<double>(to) / from;
  viewport->y0 *= share;
  viewport->y1 *= share;
}

}  // namespace

Viewport MapMatrix(const Document& from, const Document& to, const Place& place, const Place& there) {
  Viewport out = place.matrix;
  if (there.matrix_mode != place.matrix_mode) return {};
  const MatrixShape a = ShapeOfMatrix(from, place.matrix_mode, place.matrix_comm),
                    b = ShapeOfMatrix(to, there.matrix_mode, there.matrix_comm);
  if (out.x1 > out.x0) {
    const double shift =
        place.matrix_mode == MatrixMode::kJob ? b.columns - a.columns : static_cast<double>(a.first_seq - b.first_seq);
    out.x0 += shift;
    out.x1 += shift;
  }
  MapRows(a.rows, b.rows, &out);
  return out;
}

Viewport MapTimeline(const Document& from, const Document& to, const Viewport& shown) {
  Viewport out = shown;
  const int64_t a = TimelineSpanOf(from), b = TimelineSpanOf(to);
  if (out.x1 > out.x0 && a > 0 && b > 0) {
    out.x0 += static_cast<double>(b - a);
    out.x1 += static_cast<double>(b - a);
  }
  MapRows(from.rank_count(), to.rank_count(), &out);
  return out;
}

}  // namespace lockstep::gui
