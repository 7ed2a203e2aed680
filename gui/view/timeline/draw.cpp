// Draws the timeline.
#include <QFont>
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <QTimer>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/timeline/pane.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {

// The data for drawing one frame.
struct TimelinePane::Frame {
  const Theme& theme;
  Viewport shown;
  QRect plot;
  QSize size;
  QFont font;
  QFontMetricsF metrics;
  bool whole = false;  // for export
  double lane_height = 1;
  int first = 0, last = 0;  // visible lanes: [first, last)

  double X(double ns) const { return plot.left() + (ns - shown.x0) / (shown.x1 - shown.x0) * plot.width(); }
  double Y(double lane) const { return plot.top() + (lane - shown.y0) * lane_height; }
  QRectF Lane(int lane) const {
    return {static_cast<double>(plot.left()), Y(lane), static_cast<double>(plot.width()), lane_height};
  }
};

namespace {

const char* ShortName(TimelineLook look) {
  switch (look) {
    case TimelineLook::kHost: return "CPU in call";
    case TimelineLook::kQueued: return "queued";
    case TimelineLook::kUnmeasured: return "GPU not measured";
    case TimelineLook::kHostOpen: return "still in call";
    case TimelineLook::kInFlight: return "in flight, start not measured";
    default: return TimelineLookName(look);
  }
}

constexpr int64_t kAtOnce = 100'000;  // operations that one paint event may read
constexpr int64_t kTextBudget = 60'000;
constexpr int64_t kFindBudget = 300'000;
constexpr double kShapes = 11;  // from this lane height in pixels, looks also differ by shape
constexpr int kMostFlowLanes = 400;
constexpr size_t kMostFlowArrows = 16;  // per collective; beyond this, one line marks the last arrival

struct LookStyle {
  QColor color;
  double top = 0, bottom = 1;  // fraction of a tall lane's height
  bool striped = false;        // open: not finished when the data was captured
};

LookStyle StyleOf(TimelineLook look, const Theme& theme) {
  const bool dark = theme.dark;
  switch (look) {
    case TimelineLook::kUnmeasured: return {dark ? QColor("#5a6268") : QColor("#b4bcc2"), 0.38, 0.62};
    case TimelineLook::kHost: return {dark ? QColor("#8d989f") : QColor("#78858d"), 0, 0.5};
    case TimelineLook::kQueued: return {dark ? QColor("#2f6d94") : QColor("#a5d5f2"), 0.3, 0.7};
    case TimelineLook::kRunning: return {dark ? QColor("#7cc4f2") : QColor("#0072b2")};
    case TimelineLook::kQueuedOpen: return {dark ? QColor("#a8914a") : QColor("#f2dc9a"), 0.3, 0.7, true};
    case TimelineLook::kInFlight: return {dark ? QColor("#c9a63f") : QColor("#eccb66"), 0.15, 0.85, true};
    case TimelineLook::kRunningOpen: return {theme.Of(ViewState::kWaiting).fill, 0, 1, true};
    case TimelineLook::kHostOpen: return {dark ? QColor("#f39c3d") : QColor("#c66900"), 0, 0.6, true};
    case TimelineLook::kFailed: return {theme.Of(ViewState::kFailed).fill};
    default: return {theme.background};
  }
}

QColor InkOn(const QColor& fill) {
  return fill.red() * 299 + fill.green() * 587 + fill.blue() * 114 > 140'000 ? QColor("#101010") : QColor("#ffffff");
}

void Hatch(QPainter* painter, const QRectF& rect, const Theme& theme) {
  QColor color = theme.faint_text;
  color.setAlpha(70);
  painter->fillRect(rect, QBrush(color, Qt::BDiagPattern));
}

void ArrowHead(QPainter* painter, const QPointF& from, const QPointF& to) {
  const QPointF back = from - to;
  const double length = std::sqrt(QPointF::dotProduct(back, back));
  if (length < 1) return;
  const QPointF unit = back / length, side(-unit.y(), unit.x());
  painter->drawPolygon(QPolygonF({to, to + unit * 8 + side * 3.5, to + unit * 8 - side * 3.5}));
}

}  // namespace

QImage TimelinePane::ImageOf(const TimelineRaster& raster, const Theme& theme) const {
  const int width = raster.request.width, height = raster.request.height;
  QImage image(width, height, QImage::Format_RGB32);
  image.fill(theme.background);
  constexpr int kLooks = static_cast<int>(TimelineLook::kCount);
  std::array<QRgb, kLooks> plain = {}, stripe = {};
  std::array<LookStyle, kLooks> styles;
  for (int i = 0; i < kLooks; ++i) {
    styles[static_cast<size_t>(i)] = StyleOf(static_cast<TimelineLook>(i), theme);
    const LookStyle& style = styles[static_cast<size_t>(i)];
    plain[static_cast<size_t>(i)] = style.color.rgb();
    stripe[static_cast<size_t>(i)] =
        style.striped ? (theme.dark ? style.color.lighter(135) : style.color.darker(125)).rgb() : style.color.rgb();
  }
  if (raster.rows == 0) return image;
  const double per_lane = height / (raster.request.y1 - raster.request.y0);
  int row_done = -1, band_done = -1;
  for (int y = 0; y < height; ++y) {
    int row = y;
    double share = 0.5;
    bool gap = false;
    int band = 0;
    if (!raster.row_a_pixel) {
      const double lane = raster.request.y0 + (y + 0.5) / per_lane;
      row = static_cast<int>(std::floor(lane)) - raster.first_lane;
      share = lane - std::floor(lane);
      // Tall lanes are separated by a line of background.
      gap = per_lane >= 4 && (y + 1.5) / per_lane + raster.request.y0 >= std::floor(lane) + 1;
      if (per_lane >= kShapes) share = std::clamp((share * per_lane - 1) / (per_lane - 3), 0.0, 0.999), band = y;
    }
    if (row < 0 || row >= raster.rows || gap) continue;
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
    // Without shapes, all pixel lines of a lane are equal.
    if (row == row_done && band == band_done) {
      std::memcpy(line, image.constScanLine(y - 1), static_cast<size_t>(width) * sizeof(QRgb));
      continue;
    }
    const uint8_t* looks = raster.Row(row);
    if (band == 0) {
      for (int x = 0; x < width; ++x) line[x] = plain[std::min<uint8_t>(looks[x], kLooks - 1)];
    } else {
      std::array<QRgb, kLooks> a = plain, b = stripe;
      for (size_t i = 0; i < kLooks; ++i) {
        if (share < styles[i].top || share >= styles[i].bottom) a[i] = b[i] = theme.background.rgb();
      }
      for (int x = 0; x < width; ++x) line[x] = ((x + y) % 7 < 2 ? b : a)[std::min<uint8_t>(looks[x], kLooks - 1)];
    }
    row_done = row;
    band_done = band;
  }
  return image;
}

void TimelinePane::DrawLooks(QPainter* painter, const Frame& frame, bool whole) {
  const double ratio = whole ? 1 : devicePixelRatioF();
  RasterRequest request;
  request.x0 = frame.shown.x0;
  request.x1 = frame.shown.x1;
  request.y0 = frame.shown.y0;
  request.y1 = frame.shown.y1;
  request.width = static_cast<int>(frame.plot.width() * ratio);
  request.height = static_cast<int>(frame.plot.height() * ratio);
  if (whole) {
    const auto raster = RasterLanes(*timeline_, *lanes_, request, INT64_MAX, true);
    painter->drawImage(frame.plot, ImageOf(*raster, frame.theme));
    return;
  }
  const bool had =
      raster_ != nullptr && raster_lanes_ == lanes_.get() && raster_->request == request &&
      (raster_->exact || timeline_->bin_ns() <= (request.x1 - request.x0) / request.width || refine_.busy());
  if (!had) {
    // If bins are as fine as pixels, few operations need to be read.
    const bool fine = timeline_->bin_ns() <= (request.x1 - request.x0) / request.width;
    const bool parts = detail_ == LaneDetail::kStreams;
    raster_ = RasterLanes(*timeline_, *lanes_, request, fine && !parts ? 50'000 : kAtOnce, !parts);
    if (raster_ == nullptr) raster_ = RasterLanes(*timeline_, *lanes_, request, 0, true);
    raster_lanes_ = lanes_.get();
    image_ = QImage();
    if (!raster_->exact && (!fine || parts)) {
      Refine(request);
    } else {
      refine_.Cancel();
    }
  }
  if (image_.isNull() || image_dark_ != frame.theme.dark || image_.size() != QSize(request.width, request.height)) {
    image_ = ImageOf(*raster_, frame.theme);
    image_dark_ = frame.theme.dark;
  }
  painter->drawImage(frame.plot, image_);
}

void TimelinePane::DrawAxis(QPainter* painter, const Frame& frame) const {
  const QRect& plot = frame.plot;
  painter->setFont(frame.font);
  for (const TimelineTick& tick : TimelineTicks(frame.shown.x0, frame.shown.x1, plot.width(),
                                                static_cast<int>(frame.metrics.averageCharWidth() * 14))) {
    const double x = frame.X(tick.at);
    painter->setPen(frame.theme.grid);
    painter->drawLine(QPointF(x, plot.top() - (tick.label.isEmpty() ? 3 : 7)), QPointF(x, plot.top() - 1));
    if (tick.label.isEmpty()) continue;
    const double width = frame.metrics.horizontalAdvance(tick.label);
    if (x + width / 2 > frame.size.width()) continue;
    painter->setPen(frame.theme.faint_text);
    painter->drawText(QPointF(std::max(x - width / 2, static_cast<double>(plot.left())), plot.top() - 9), tick.label);
  }
  painter->setPen(frame.theme.grid);
  painter->drawLine(plot.topLeft() - QPoint(0, 1), plot.topRight() - QPoint(0, 1));
}

void TimelinePane::DrawGutter(QPainter* painter, const Frame& frame) const {
  const Theme& theme = frame.theme;
  const QRectF gutter(0, frame.plot.top(), frame.plot.left(), frame.plot.height());
  painter->save();
  painter->setClipRect(gutter);
  painter->setFont(frame.font);
  const double line = frame.metrics.height();
  double free_from = gutter.top();  // labels above end here
  double host_from = gutter.top();
  const Selection& selection = navigator_->selection();
  // With thousands of lanes, examines at most two lanes per pixel.
  const int step = std::max(1, static_cast<int>(0.5 / frame.lane_height));
  for (int i = frame.first; i < frame.last; i += step) {
    const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(i)];
    const QRectF rect(0, frame.Y(i), gutter.width(), frame.lane_height);
    const int row = lanes_->RowOf(i);
    const bool selected = selection.ranks.Contains(document_->RankAt(row));
    if (frame.lane_height >= 6 && lane.begins_rank && document_->FactsAt(row).clock_uncertainty_ns() < 0) {
      Hatch(painter, QRectF(gutter.right() - 12, rect.top() + 1, 6, rect.height() - 2), theme);
    }
    const double y = std::max(rect.top(), gutter.top());
    const double text_y = frame.lane_height >= line ? rect.center().y() - line / 2 : y;
    if (lane.begins_host && frame.lane_height >= 3) {
      painter->setPen(theme.grid);
      painter->drawLine(QPointF(0, rect.top()), QPointF(frame.size.width(), rect.top()));
    }
    const double width = gutter.width() - 18;
    if (lane.filter.part == LaneFilter::Part::kStream) {
      if (frame.lane_height < line - 3) continue;
      const RankFacts& facts = document_->FactsAt(row);
      const QString text = lane.filter.stream < facts.streams_size()
                               ? QString("stream %1").arg(facts.streams(lane.filter.stream))
                               : QString("GPU");
      painter->setPen(theme.faint_text);
      painter->drawText(QRectF(6, text_y, width, line), Qt::AlignRight | Qt::AlignVCenter, text);
      continue;
    }
    if (text_y + 0.5 < free_from || text_y + line > gutter.bottom() + 2) continue;
    const QString rank =
        lane.count > 1 ? QString("%L1 ranks").arg(lane.count) : "rank " + QString::number(document_->RankAt(row));
    const double of_rank = frame.metrics.horizontalAdvance(rank);
    painter->setPen(selected ? theme.text : theme.faint_text);
    painter->drawText(QRectF(6, text_y, width, line), Qt::AlignRight | Qt::AlignVCenter, rank);
    if ((lane.begins_host || i == frame.first || frame.lane_height < line) && text_y >= host_from) {
      painter->setPen(theme.text);
      painter->drawText(
          QRectF(6, text_y, std::max(0.0, width - of_rank - 8), line), Qt::AlignLeft | Qt::AlignVCenter,
          frame.metrics.elidedText(document_->HostAt(row), Qt::ElideMiddle, std::max(0.0, width - of_rank - 8)));
      host_from = text_y + line;
    }
    free_from = text_y + line;
  }
  for (const auto& [from, to] : selection.ranks.runs()) {
    // If a run has more ranks than the plot has pixel rows, some are skipped.
    const int apart = std::max(1, (to - from) / std::max(1, frame.plot.height()));
    for (int64_t rank = from; rank <= to; rank += apart) {
      const int row = document_->RowOf(static_cast<int32_t>(rank));
      const int lane = row < 0 ? -1 : lane_of_row_[static_cast<size_t>(row)];
      if (lane < frame.first || lane >= frame.last) continue;
      int end = lane + 1;
      while (end < frame.last && !lanes_->lanes[static_cast<size_t>(end)].begins_rank) ++end;
      painter->fillRect(QRectF(gutter.right() - 5, frame.Y(lane), 4, std::max(frame.lane_height * (end - lane), 2.0)),
                        theme.selection);
    }
  }
  // A cause is marked even if its lane is small.
  painter->setPen(Qt::NoPen);
  painter->setBrush(theme.cause);
  for (const int lane : cause_lanes_) {
    if (lane < frame.first || lane >= frame.last) continue;
    const double y = frame.Y(lane + 0.5), half = std::clamp(frame.lane_height * 0.3, 2.5, 5.0);
    const double x = gutter.right() - 9;
    painter->drawPolygon(
        QPolygonF({QPointF(x, y - half), QPointF(x + half, y), QPointF(x, y + half), QPointF(x - half, y)}));
  }
  if (cursor_lane_ >= frame.first && cursor_lane_ < frame.last && !frame.whole) {
    painter->setPen(QPen(theme.cursor, 1.5, hasFocus() ? Qt::SolidLine : Qt::DotLine));
    painter->setBrush(Qt::NoBrush);
    painter->drawRect(QRectF(1.5, frame.Y(cursor_lane_), gutter.width() - 3, std::max(frame.lane_height, 3.0)));
  }
  painter->restore();
  if (lanes_->relevant > 0 && choice_ != LaneChoice::kAll &&
      lanes_->relevant < static_cast<int>(lanes_->lanes.size())) {
    const double y = frame.Y(lanes_->relevant);
    if (y > frame.plot.top() && y < frame.plot.bottom()) {
      painter->setPen(QPen(theme.selection, 2));
      painter->drawLine(QPointF(0, y), QPointF(frame.size.width(), y));
    }
  }
}

// Draws names inside wide pieces, and hatches where a lane has no data.
void TimelinePane::DrawTexts(QPainter* painter, const Frame& frame) const {
  if (frame.lane_height < 8) return;
  int64_t budget = kTextBudget;
  painter->setFont(frame.font);
  const double shortest = frame.metrics.averageCharWidth() * 8 * (frame.shown.x1 - frame.shown.x0) / frame.plot.width();
  for (int i = frame.first; i < frame.last; ++i) {
    const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(i)];
    const QRectF rect = frame.Lane(i);
    const int row = lanes_->RowOf(i);
    if (lane.count == 1) {
      const RankFacts& facts = document_->FactsAt(row);
      QString unknown;
      if (document_->OpCount(row) == 0) {
        unknown = "no operations recorded";
      } else if (lane.filter.part == LaneFilter::Part::kStream && lane.filter.stream == kIndexNoStream &&
                 !facts.gpu_recorded()) {
        unknown = "GPU activity was not measured";
      }
      const double taken = frame.X(static_cast<double>(timeline_->TakenAt(row)));
      if (!unknown.isEmpty()) {
        Hatch(painter, rect.adjusted(0, 1, 0, -1), frame.theme);
      } else if (taken < rect.right()) {
        Hatch(painter,
              QRectF(QPointF(std::max(taken, rect.left()), rect.top() + 1), QPointF(rect.right(), rect.bottom() - 1)),
              frame.theme);
      }
      if (!unknown.isEmpty() && frame.lane_height >= frame.metrics.height()) {
        painter->setPen(frame.theme.faint_text);
        painter->drawText(rect.adjusted(8, 0, -4, 0), Qt::AlignLeft | Qt::AlignVCenter, unknown);
      }
    }
    if (frame.lane_height < frame.metrics.height() + 2 || lane.count > 1) continue;
    std::vector<TimelineHit> hits =
        timeline_->Pieces(row, lane.filter, frame.shown.x0, frame.shown.x1, shortest, 100, &budget);
    // If pieces overlap, only the worst one gets text.
    std::stable_sort(hits.begin(), hits.end(),
                     [](const TimelineHit& a, const TimelineHit& b) { return a.piece.look > b.piece.look; });
    std::vector<std::pair<double, double>> taken;
    for (const TimelineHit& hit : hits) {
      // In a rank's single lane, GPU pieces cover those of CPU calls.
      if (hit.piece.look == TimelineLook::kQueued ||
          (lane.filter.part == LaneFilter::Part::kAll && hit.piece.look == TimelineLook::kHost))
        continue;
      const double a = std::max(frame.X(static_cast<double>(hit.piece.begin)), rect.left());
      const double b = std::min(frame.X(static_cast<double>(hit.piece.end)), rect.right());
      if (b - a < frame.metrics.averageCharWidth() * 6) continue;
      if (std::any_of(taken.begin(), taken.end(),
                      [&](const auto& other) { return a < other.second && b > other.first; }))
        continue;
      taken.emplace_back(a, b);
      const LookStyle style = StyleOf(hit.piece.look, frame.theme);
      // Text over a narrow shape gets a background.
      const QString text =
          frame.metrics.elidedText(document_->OpText(document_->OpAt(row, hit.record)), Qt::ElideRight, b - a - 8);
      const QRectF box(a + 3, rect.center().y() - frame.metrics.height() / 2, frame.metrics.horizontalAdvance(text) + 4,
                       frame.metrics.height());
      if (style.bottom - style.top < 0.99 || style.striped) painter->fillRect(box, style.color);
      painter->setPen(InkOn(style.color));
      painter->drawText(box, Qt::AlignCenter, text);
    }
  }
}

void TimelinePane::DrawSelection(QPainter* painter, const Frame& frame) const {
  const Theme& theme = frame.theme;
  const Selection& s = navigator_->selection();
  auto range = [&](double x0, double x1, const QString& text) {
    QColor veil = theme.selection;
    veil.setAlpha(28);
    painter->fillRect(QRectF(QPointF(x0, frame.plot.top()), QPointF(x1, frame.plot.bottom() + 1)), veil);
    painter->setPen(QPen(theme.selection, 1));
    painter->drawLine(QPointF(x0, frame.plot.top()), QPointF(x0, frame.plot.bottom()));
    painter->drawLine(QPointF(x1, frame.plot.top()), QPointF(x1, frame.plot.bottom()));
    const double width = frame.metrics.horizontalAdvance(text) + 12;
    const double left = std::clamp((x0 + x1 - width) / 2, static_cast<double>(frame.plot.left()),
                                   std::max<double>(frame.plot.left(), frame.plot.right() - width));
    const QRectF box(left, frame.plot.top() + 3, width, frame.metrics.height() + 4);
    painter->fillRect(box, theme.selection);
    painter->setPen(theme.background);
    painter->drawText(box, Qt::AlignCenter, text);
  };
  if (drag_ == Drag::kSelect && moved_ && hover_) {
    const double a =
        std::clamp(press_.x(), static_cast<double>(frame.plot.left()), static_cast<double>(frame.plot.right()));
    const double b =
        std::clamp(hover_->x(), static_cast<double>(frame.plot.left()), static_cast<double>(frame.plot.right()));
    range(std::min(a, b), std::max(a, b), AxisDuration(std::abs(TimeAt(b) - TimeAt(a))));
  } else if (s.time_end > s.time_begin) {
    const auto origin = static_cast<double>(timeline_->origin_ns());
    const double a = frame.X(static_cast<double>(s.time_begin) - origin),
                 b = frame.X(static_cast<double>(s.time_end) - origin);
    if (b >= frame.plot.left() && a <= frame.plot.right())
      range(a, b, AxisDuration(static_cast<double>(s.time_end - s.time_begin)));
  }
  const int row = document_->RowOfRecord(s);
  if (row < 0) return;
  const IndexOp op = document_->OpAt(row, s.record);
  TimelinePiece pieces[3];
  const int n = timeline_->PiecesOf(row, op, pieces);
  painter->setPen(QPen(theme.selection, 2));
  painter->setBrush(Qt::NoBrush);
  for (int i = frame.first; i < frame.last; ++i) {
    const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(i)];
    if (lane.count > 1 || lanes_->RowOf(i) != row) continue;
    for (int k = 0; k < n; ++k) {
      if (!lane.filter.Shows(pieces[k], op.stream)) continue;
      const double a = frame.X(static_cast<double>(pieces[k].begin)), b = frame.X(static_cast<double>(pieces[k].end));
      if (b < frame.plot.left() - 2 || a > frame.plot.right() + 2) continue;
      painter->drawRect(
          QRectF(QPointF(std::max(a, frame.plot.left() - 4.0), frame.Y(i)),
                 QPointF(std::min(std::max(b, a + 3), frame.plot.right() + 4.0), frame.Y(i) + frame.lane_height)));
    }
  }
}

int64_t TimelinePane::RecordOf(int row, int32_t comm, int64_t seq, ring::CallKind kind, int32_t peer, int64_t* budget) {
  const auto it = found_.find(row);
  if (it != found_.end()) return it->second;
  const int64_t record = document_->FindOp(row, comm, seq, kind, peer, budget);
  if (record != -2) found_[row] = record;
  return record;
}

TimelinePane::FlowPlace TimelinePane::FlowPlaceOf(const Frame& frame, int lane, int64_t record) const {
  FlowPlace place;
  place.row = lanes_->RowOf(lane);
  place.y = place.gpu_y = frame.Y(lane + 0.5);
  place.enter = frame.X(static_cast<double>(timeline_->TakenAt(place.row)));
  if (record < 0) return place;
  const IndexOp op = document_->OpAt(place.row, record);
  for (int i = lane + 1; i < frame.last && lanes_->RowOf(i) == place.row; ++i) {
    const LaneFilter& filter = lanes_->lanes[static_cast<size_t>(i)].filter;
    if (filter.part == LaneFilter::Part::kStream && filter.stream == op.stream) place.gpu_y = frame.Y(i + 0.5);
  }
  TimelinePiece pieces[3];
  const int n = timeline_->PiecesOf(place.row, op, pieces);
  if (n == 0) return place;
  place.known = true;
  place.enter = frame.X(static_cast<double>(pieces[0].begin));
  for (int k = 0; k < n; ++k) {
    if (pieces[k].look == TimelineLook::kRunning) {
      place.released = true;
      place.release = frame.X(static_cast<double>(pieces[k].end));
    }
  }
  return place;
}

// Draws a line from a send to its receive.
void TimelinePane::DrawTransfer(QPainter* painter, const Frame& frame, int record_row, const IndexOp& op,
                                int64_t* budget) {
  const QColor color = frame.theme.link;
  const int32_t comm = document_->CommOf(op);
  const IndexMembership* own = document_->MembershipOf(record_row, comm);
  if (own == nullptr || op.peer < 0 || op.seq < 0) return;
  const auto members = document_->MembersOf(comm);
  const int32_t other_rank = static_cast<size_t>(op.peer) < members.size() ? members[static_cast<size_t>(op.peer)] : -1;
  const int other_row = document_->RowOf(other_rank);
  const bool send = op.kind == ring::CallKind::kSend;
  int64_t other = -1;
  if (other_row >= 0)
    other = RecordOf(other_row, comm, op.seq, send ? ring::CallKind::kRecv : ring::CallKind::kSend, own->member_rank,
                     budget);
  FlowPlace here, there;
  for (int i = frame.first; i < frame.last; ++i) {
    if (!lanes_->lanes[static_cast<size_t>(i)].begins_rank) continue;
    if (lanes_->RowOf(i) == record_row) here = FlowPlaceOf(frame, i, navigator_->selection().record);
    if (lanes_->RowOf(i) == other_row) there = FlowPlaceOf(frame, i, other);
  }
  if (other == -2) finding_ = true;
  if (here.row < 0 || other == -2) return;
  QString text;
  if (other_row < 0)
    text = QString("the other side, rank %1, has no data").arg(other_rank);
  else if (other < 0)
    text = QString("no matching %1 recorded on rank %2").arg(send ? "receive" : "send").arg(other_rank);
  else if (there.row < 0)
    text = QString("%1 on rank %2, which is not shown").arg(send ? "received" : "sent").arg(other_rank);
  painter->setPen(QPen(color, 2, text.isEmpty() ? Qt::SolidLine : Qt::DashLine));
  painter->setBrush(color);
  if (there.row >= 0) {
    const FlowPlace &from = send ? here : there, &to = send ? there : here;
    const QPointF a(from.enter, from.gpu_y), b(to.known ? (to.released ? to.release : to.enter) : to.enter, to.gpu_y);
    painter->drawLine(a, b);
    ArrowHead(painter, a, b);
  }
  if (!text.isEmpty()) {
    painter->setPen(color);
    painter->drawText(QPointF(std::clamp(here.enter + 6, frame.plot.left() + 6.0, frame.plot.right() - 120.0),
                              here.y + frame.lane_height / 2 + frame.metrics.ascent()),
                      text);
  }
}

// Marks and connects the arrivals of the shown ranks at the selected collective. If all of them arrived, also draws
// arrows from the last arrival to the ranks that it released.
void TimelinePane::DrawRelease(QPainter* painter, const Frame& frame, int64_t* budget) {
  const Selection& s = navigator_->selection();
  const QColor color = frame.theme.link;
  std::vector<FlowPlace> places;
  for (int i = frame.first; i < frame.last; ++i) {
    if (!lanes_->lanes[static_cast<size_t>(i)].begins_rank) continue;
    const int row = lanes_->RowOf(i);
    if (document_->MembershipOf(row, s.comm) == nullptr) continue;
    const int64_t record = RecordOf(row, s.comm, s.seq_first, ring::CallKind::kNone, -1, budget);
    if (record == -2) {
      finding_ = true;
      break;
    }
    places.push_back(FlowPlaceOf(frame, i, record));
  }
  const FlowPlace* last = nullptr;
  bool all = true;
  for (const FlowPlace& place : places) {
    all &= place.known;
    if (place.known && (last == nullptr || place.enter > last->enter)) last = &place;
  }
  for (size_t i = 1; i < places.size(); ++i) {
    if (!places[i].known || !places[i - 1].known) continue;
    QColor faint = color;
    faint.setAlpha(110);
    painter->setPen(QPen(faint, 1));
    painter->drawLine(QPointF(places[i - 1].enter, places[i - 1].y), QPointF(places[i].enter, places[i].y));
  }
  for (const FlowPlace& place : places) {
    if (!place.known) {
      // The rank did not arrive, or its record was overwritten.
      painter->setPen(QPen(frame.theme.alarm, 2));
      painter->setBrush(Qt::NoBrush);
      const QPointF at(std::clamp(place.enter, frame.plot.left() + 6.0, frame.plot.right() - 6.0), place.y);
      painter->drawLine(at + QPointF(-4, -4), at + QPointF(4, 4));
      painter->drawLine(at + QPointF(-4, 4), at + QPointF(4, -4));
      continue;
    }
    painter->setPen(QPen(color, 1.5));
    painter->setBrush(&place == last ? color : frame.theme.background);
    painter->drawEllipse(QPointF(place.enter, place.y), 3, 3);
    if (last == nullptr || &place == last || !place.released || !all || places.size() > kMostFlowArrows) continue;
    const QPointF a(last->enter, last->y), b(place.release, place.gpu_y);
    painter->setPen(QPen(color, 1.2));
    painter->setBrush(color);
    painter->drawLine(a, b);
    ArrowHead(painter, a, b);
  }
  if (last != nullptr && all && places.size() > 1) {
    painter->setPen(QPen(color, 1.5));
    if (places.size() > kMostFlowArrows)
      painter->drawLine(QPointF(last->enter, places.front().y), QPointF(last->enter, places.back().y));
    const QString text = QString("last: rank %1").arg(document_->RankAt(last->row));
    const QRectF box(last->enter + 6, last->y - frame.metrics.height() / 2, frame.metrics.horizontalAdvance(text) + 6,
                     frame.metrics.height());
    painter->fillRect(box, frame.theme.background);
    painter->drawText(box, Qt::AlignCenter, text);
  }
}

void TimelinePane::DrawFlows(QPainter* painter, const Frame& frame) {
  finding_ = false;
  const Selection& s = navigator_->selection();
  if (frame.last - frame.first > kMostFlowLanes || detail_ == LaneDetail::kHosts) return;
  painter->save();
  painter->setClipRect(frame.plot);
  painter->setRenderHint(QPainter::Antialiasing);
  int64_t budget = frame.whole ? 5'000'000 : kFindBudget;
  const int record_row = document_->RowOfRecord(s);
  const IndexOp op = record_row >= 0 ? document_->OpAt(record_row, s.record) : IndexOp();
  if (record_row >= 0 && ring::IsPointToPoint(op.kind))
    DrawTransfer(painter, frame, record_row, op, &budget);
  else if (s.comm >= 0 && s.comm < document_->comm_count() && s.seq_first >= 0 && s.seq_first == s.seq_last)
    DrawRelease(painter, frame, &budget);
  painter->restore();
  if (finding_) QTimer::singleShot(0, this, [this] { update(); });
}

// Shows how far the clocks of other hosts may be off at the time under the pointer, otherwise at the selected time.
void TimelinePane::DrawClocks(QPainter* painter, const Frame& frame) const {
  std::optional<double> at;
  int row = -1;
  const auto times = SelectedTimes(&row);
  const Selection& s = navigator_->selection();
  if (hover_ && frame.plot.contains(hover_->toPoint()) && drag_ == Drag::kNone) {
    at = TimeAt(hover_->x());
    const int lane = LaneAt(hover_->y());
    row = lane < 0 ? -1 : lanes_->RowOf(lane);
  } else if (times && s.time_end <= s.time_begin) {
    at = times->first;
  }
  if (!at || row < 0) return;
  const double x = frame.X(*at);
  if (x < frame.plot.left() || x > frame.plot.right()) return;
  const uint32_t host = document_->Entry(row).host;
  const int64_t own = document_->FactsAt(row).clock_uncertainty_ns();
  QColor band = frame.theme.link;
  band.setAlpha(60);
  const int step = std::max(1, static_cast<int>(1 / frame.lane_height));
  for (int i = frame.first; i < frame.last; i += step) {
    const int other = lanes_->RowOf(i);
    if (document_->Entry(other).host == host) continue;
    const int64_t off = document_->FactsAt(other).clock_uncertainty_ns();
    const double y = frame.Y(i), height = std::max(frame.lane_height, 1.0);
    if (off < 0 || own < 0) {
      if (frame.lane_height >= frame.metrics.height() && lanes_->lanes[static_cast<size_t>(i)].begins_rank) {
        painter->setPen(frame.theme.faint_text);
        painter->drawText(QRectF(x + 3, y, 20, height), Qt::AlignLeft | Qt::AlignVCenter, "?");
      }
      continue;
    }
    const double wide =
        (static_cast<double>(off) + static_cast<double>(own)) / (frame.shown.x1 - frame.shown.x0) * frame.plot.width();
    if (wide >= 0.5) painter->fillRect(QRectF(x - wide, y, wide * 2, height).intersected(frame.plot), band);
  }
  painter->setPen(QPen(frame.theme.faint_text, 1, Qt::DashLine));
  painter->drawLine(QPointF(x, frame.plot.top()), QPointF(x, frame.plot.bottom()));
  const QString text = "+" + AxisDuration(*at);
  const double width = frame.metrics.horizontalAdvance(text) + 8;
  const QRectF box(std::min(x + 2, frame.size.width() - width), frame.plot.top() - frame.metrics.height() - 8, width,
                   frame.metrics.height() + 2);
  painter->fillRect(box, frame.theme.background);
  painter->setPen(frame.theme.text);
  painter->drawText(box, Qt::AlignCenter, text);
}

void TimelinePane::DrawLegend(QPainter* painter, const Frame& frame) const {
  painter->setFont(frame.font);
  double x = frame.plot.left() + 2;
  const double y = frame.plot.bottom() + 5, side = frame.metrics.height() - 4;
  for (const TimelineLook look : {TimelineLook::kHost, TimelineLook::kQueued, TimelineLook::kRunning,
                                  TimelineLook::kUnmeasured, TimelineLook::kHostOpen, TimelineLook::kQueuedOpen,
                                  TimelineLook::kRunningOpen, TimelineLook::kInFlight, TimelineLook::kFailed}) {
    const QString text = ShortName(look);
    const double width = frame.metrics.horizontalAdvance(text);
    if (x + side + width + 6 > frame.size.width()) break;
    const LookStyle style = StyleOf(look, frame.theme);
    const QRectF box(x, y, side, side);
    painter->fillRect(QRectF(box.left(), box.top() + style.top * side, side, (style.bottom - style.top) * side),
                      style.color);
    if (style.striped) {
      painter->fillRect(
          QRectF(box.left(), box.top() + style.top * side, side, (style.bottom - style.top) * side),
          QBrush(frame.theme.dark ? style.color.lighter(150) : style.color.darker(140), Qt::BDiagPattern));
    }
    painter->setPen(frame.theme.grid);
    painter->setBrush(Qt::NoBrush);
    painter->drawRect(box);
    painter->setPen(frame.theme.faint_text);
    painter->drawText(QPointF(x + side + 4, y + frame.metrics.ascent() - 2), text);
    x += side + width + 14;
  }
}

void TimelinePane::Draw(QPainter* painter, const QSize& size, bool whole) {
  OrderedLanes();
  const Theme& theme = ThemeFor(palette());
  painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
  if (timeline_ == nullptr || lanes_->lanes.empty()) {
    QString text = "Nothing is open.";
    if (document_ != nullptr && timeline_ == nullptr) {
      const int done = built_ == nullptr ? 0 : built_->load(std::memory_order_relaxed);
      text = QString("Reading the times of %L1 ranks: %2 %")
                 .arg(document_->rank_count())
                 .arg(100 * done / std::max(1, document_->rank_count()));
      if (build_.busy()) QTimer::singleShot(100, this, [this] { update(); });
    } else if (document_ != nullptr) {
      text = "The filters hide every rank.";
    }
    painter->setPen(theme.faint_text);
    painter->drawText(QRect(QPoint(0, 0), size), Qt::AlignCenter, text);
    return;
  }
  Frame frame{theme, Bounded(navigator_->place().timeline, size), PlotOf(size), size, font(), QFontMetricsF(font())};
  frame.whole = whole;
  frame.lane_height = frame.plot.height() / (frame.shown.y1 - frame.shown.y0);
  frame.first = std::clamp(static_cast<int>(frame.shown.y0), 0, static_cast<int>(lanes_->lanes.size()));
  frame.last =
      std::clamp(static_cast<int>(std::ceil(frame.shown.y1)), frame.first, static_cast<int>(lanes_->lanes.size()));
  DrawLooks(painter, frame, whole);
  DrawAxis(painter, frame);
  painter->save();
  painter->setClipRect(frame.plot);
  DrawTexts(painter, frame);
  painter->restore();
  DrawGutter(painter, frame);
  painter->save();
  painter->setClipRect(frame.plot);
  DrawSelection(painter, frame);
  painter->restore();
  DrawFlows(painter, frame);
  if (!whole) DrawClocks(painter, frame);
  DrawLegend(painter, frame);
}

}  // namespace lockstep::gui
