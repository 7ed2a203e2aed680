#include "gui/view/timeline/pane.h"

#include <QApplication>
#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QTimer>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/model/safe_text.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

constexpr double kShortestShown = 200;   // nanoseconds
constexpr double kNear = 3;              // pixels around the cursor that count as a hit
constexpr double kLeastStreamLane = 10;  // pixels; more lanes need bins, which cannot draw streams
constexpr size_t kMostCsvPieces = 100'000;
constexpr int64_t kCsvOperations = 2'000'000;  // operations that are read for the CSV

}  // namespace

TimelinePane::TimelinePane(Navigator* navigator, QWidget* parent)
    : Pane("Timeline picture",
           "Lanes of ranks over time. Up and down move between lanes, comma and period between operations, Enter "
           "selects.",
           parent),
      navigator_(navigator) {
  setMouseTracking(true);
  setMinimumSize(260, 120);
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    found_.clear();
    // While hidden, does not sort the lanes at every selection.
    if (!own_ && choice_ != LaneChoice::kAll) isVisible() ? RebuildLanes() : static_cast<void>(lanes_stale_ = true);
    update();
  });
  connect(navigator, &Navigator::PlaceChanged, this, [this] {
    // Most changes are scrolling, for which the lanes stay.
    const gui::Place& place = navigator_->place();
    if (place.filters != filters_ || place.filtered != filtered_) RebuildLanes();
    Q_EMIT Scrolled();
    update();
  });
}

void TimelinePane::SetDocument(DocumentPtr document) {
  build_.Cancel();
  refine_.Cancel();
  document_ = std::move(document);
  timeline_ = nullptr;
  raster_ = nullptr;
  raster_lanes_ = nullptr;
  finding_ = false;
  found_.clear();
  cursor_lane_ = -1;
  RebuildLanes();
  StartBuild();
  update();
}

// Reads the whole index, so it starts only when the pane is visible.
void TimelinePane::StartBuild() {
  if (document_ == nullptr || timeline_ != nullptr || build_.busy() || !isVisible()) return;
  built_ = std::make_shared<std::atomic<int>>(0);
  build_.Start(this, [this, document = document_, done = built_](const std::atomic<bool>& cancel) -> LatestJob::Finish {
    std::shared_ptr<const Timeline> timeline = Timeline::Build(document, &cancel, done.get());
    return [this, timeline] {
      timeline_ = timeline;
      update();
      Q_EMIT Changed();
    };
  });
}

void TimelinePane::OrderedLanes() {
  if (lanes_stale_) RebuildLanes();
}

void TimelinePane::showEvent(QShowEvent*) {
  OrderedLanes();
  StartBuild();
}

void TimelinePane::SetDetail(LaneDetail detail) {
  if (detail == detail_) return;
  const int row = cursor_lane_ >= 0 ? lanes_->RowOf(cursor_lane_) : -1;
  detail_ = detail;
  RebuildLanes();
  cursor_lane_ = row < 0 ? -1 : lane_of_row_[static_cast<size_t>(row)];
  Place place = navigator_->place();
  place.timeline.y0 = place.timeline.y1 = 0;
  navigator_->Scroll(place);
  Q_EMIT Scrolled();
  update();
}

void TimelinePane::SetChoice(LaneChoice choice) {
  if (choice == choice_) return;
  choice_ = choice;
  RebuildLanes();
  Q_EMIT Scrolled();
  update();
}

void TimelinePane::RebuildLanes() {
  lanes_stale_ = false;
  filters_ = navigator_->place().filters;
  filtered_ = navigator_->place().filtered;
  if (document_ == nullptr) {
    lanes_ = std::make_shared<TimelineLanes>();
    cause_lanes_.clear();
    cursor_lane_ = -1;
    return;
  }
  const Place& place = navigator_->place();
  auto lanes = std::make_shared<TimelineLanes>(
      OrderLanes(*document_, detail_, choice_, place.selection.empty() ? document_->AnomalyAt(0) : place.selection,
                 place.filters.isEmpty() ? nullptr : &place.filtered));
  const bool same =
      lanes->rows == lanes_->rows && lanes->lanes.size() == lanes_->lanes.size() && lanes->relevant == lanes_->relevant;
  if (same && raster_lanes_ == lanes_.get()) raster_lanes_ = lanes.get();
  lanes_ = std::move(lanes);
  cause_lanes_.clear();
  lane_of_row_.assign(static_cast<size_t>(document_->rank_count()), -1);
  for (int i = 0; i < static_cast<int>(lanes_->lanes.size()); ++i) {
    const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(i)];
    for (uint32_t k = 0; k < lane.count && lane.begins_rank; ++k)
      lane_of_row_[static_cast<size_t>(lanes_->rows[lane.first + k])] = i;
    for (uint32_t k = 0; k < lane.count && lane.begins_rank; ++k) {
      const WaitClass* wait = document_->WaitOf(lanes_->rows[lane.first + k]);
      if (wait == nullptr || (wait->kind() != WaitClass::CAUSE && wait->kind() != WaitClass::IN_CYCLE)) continue;
      cause_lanes_.push_back(i);
      break;
    }
  }
  if (cursor_lane_ >= static_cast<int>(lanes_->lanes.size())) cursor_lane_ = -1;
  if (!same) Q_EMIT Scrolled();
}

double TimelinePane::TallestLane() const { return std::ceil(QFontMetricsF(font()).height() * 1.7); }

QRect TimelinePane::PlotOf(const QSize& size) const {
  const QFontMetricsF metrics(font());
  const int gutter = static_cast<int>(std::min(metrics.averageCharWidth() * 26, size.width() * 0.3));
  const int axis = static_cast<int>(metrics.height()) + 10, legend = static_cast<int>(metrics.height()) + 8;
  return QRect(gutter, axis, std::max(1, size.width() - gutter), std::max(1, size.height() - axis - legend));
}

Viewport TimelinePane::Bounded(Viewport v, const QSize& size) const {
  const double span = timeline_ == nullptr ? 1 : static_cast<double>(timeline_->span_ns());
  const auto count = static_cast<double>(lanes_->lanes.size());
  const QRect plot = PlotOf(size);
  // Leaves some space at the right, so that the ends of open operations are visible.
  const double most = span * 1.02;
  if (!(v.x1 > v.x0)) {
    v.x0 = 0;
    v.x1 = most;
  }
  const double wide = std::clamp(v.x1 - v.x0, std::min(kShortestShown, most), most);
  v.x0 = std::clamp(v.x0, 0.0, most - wide);
  v.x1 = v.x0 + wide;
  const double fewest = plot.height() / TallestLane();
  const double all = std::max(count, fewest);
  // Lanes of calls and streams, and lanes of selected ranks, are large enough to read, unless the user zooms out.
  const double readable = plot.height() / (QFontMetricsF(font()).height() + 3);
  const bool large = detail_ == LaneDetail::kStreams || lanes_->relevant > 0;
  double lanes = v.y1 > v.y0 ? v.y1 - v.y0 : large ? std::min(all, readable) : all;
  if (detail_ == LaneDetail::kStreams) lanes = std::min(lanes, plot.height() / kLeastStreamLane);
  lanes = std::clamp(lanes, std::min(fewest, all), all);
  v.y0 = std::clamp(v.y1 > v.y0 ? v.y0 : 0.0, 0.0, all - lanes);
  v.y1 = v.y0 + lanes;
  return v;
}

Viewport TimelinePane::Shown() const { return Bounded(navigator_->place().timeline, size()); }

void TimelinePane::Show(Viewport viewport) {
  if (timeline_ == nullptr) return;  // there is nothing to scroll yet
  Place place = navigator_->place();
  place.timeline = Bounded(viewport, size());
  navigator_->Scroll(std::move(place));
}

double TimelinePane::XOf(double ns) const {
  const Viewport v = Shown();
  const QRect plot = Plot();
  return plot.left() + (ns - v.x0) / (v.x1 - v.x0) * plot.width();
}

double TimelinePane::TimeAt(double x) const {
  const Viewport v = Shown();
  const QRect plot = Plot();
  return v.x0 + (x - plot.left()) / plot.width() * (v.x1 - v.x0);
}

int TimelinePane::LaneAt(double y) const {
  const Viewport v = Shown();
  const QRect plot = Plot();
  if (y < plot.top() || y >= plot.bottom() + 1) return -1;
  const int lane = static_cast<int>(v.y0 + (y - plot.top()) / plot.height() * (v.y1 - v.y0));
  return lane < static_cast<int>(lanes_->lanes.size()) ? lane : -1;
}

QRectF TimelinePane::LaneRect(int lane) const {
  const Viewport v = Shown();
  const QRect plot = Plot();
  const double height = plot.height() / (v.y1 - v.y0);
  return QRectF(plot.left(), plot.top() + (lane - v.y0) * height, plot.width(), height);
}

void TimelinePane::ZoomTime(double factor, std::optional<double> at_x) {
  Viewport v = Shown();
  const QRect plot = Plot();
  if (!at_x && hover_ && plot.contains(hover_->toPoint())) at_x = hover_->x();
  const double share = at_x ? std::clamp((*at_x - plot.left()) / plot.width(), 0.0, 1.0) : 0.5;
  const double at = v.x0 + share * (v.x1 - v.x0), wide = std::max((v.x1 - v.x0) / factor, kShortestShown);
  v.x0 = at - share * wide;
  v.x1 = v.x0 + wide;
  Show(v);
}

void TimelinePane::ZoomLanes(double factor) {
  Viewport v = Shown();
  const QRect plot = Plot();
  const double share = hover_ && plot.contains(hover_->toPoint()) ? (hover_->y() - plot.top()) / plot.height() : 0.5;
  const double at = v.y0 + share * (v.y1 - v.y0), lanes = (v.y1 - v.y0) / factor;
  v.y0 = at - share * lanes;
  v.y1 = v.y0 + lanes;
  Show(v);
}

void TimelinePane::PanBy(double right, double down) {
  Viewport v = Shown();
  const double dx = right * (v.x1 - v.x0), dy = down * (v.y1 - v.y0);
  Show({v.x0 + dx, v.x1 + dx, v.y0 + dy, v.y1 + dy});
}

void TimelinePane::Fit() {
  Place place = navigator_->place();
  place.timeline = {0, 0, 0, lanes_->relevant > 0 ? static_cast<double>(lanes_->lanes.size()) : 0};
  navigator_->Scroll(std::move(place));
}

// Returns the times of the selected range, otherwise of the selected operation, otherwise of the selected collective on
// the first selected rank. Sets *row to the rank's row, or to -1.
std::optional<std::pair<double, double>> TimelinePane::SelectedTimes(int* row) const {
  *row = -1;
  if (timeline_ == nullptr) return {};
  const Selection& s = navigator_->selection();
  *row = document_->RowOf(s.record_rank >= 0 ? s.record_rank : s.ranks.front());
  if (s.time_end > s.time_begin) {
    return std::pair(static_cast<double>(s.time_begin) - static_cast<double>(timeline_->origin_ns()),
                     static_cast<double>(s.time_end) - static_cast<double>(timeline_->origin_ns()));
  }
  if (*row < 0) return {};
  int64_t record = s.record_rank >= 0 ? s.record : -1;
  if (record < 0 && s.comm >= 0 && s.seq_first >= 0) {
    int64_t budget = 2'000'000;
    record = document_->FindOp(*row, s.comm, s.seq_first, ring::CallKind::kNone, -1, &budget);
  }
  if (record < 0 || record >= document_->OpCount(*row)) return {};
  TimelinePiece pieces[3];
  const int n = timeline_->PiecesOf(*row, document_->OpAt(*row, record), pieces);
  if (n == 0) return {};
  double begin = static_cast<double>(pieces[0].begin), end = begin;
  for (int i = 0; i < n; ++i) {
    begin = std::min(begin, static_cast<double>(pieces[i].begin));
    end = std::max(end, static_cast<double>(pieces[i].end));
  }
  return std::pair(begin, end);
}

void TimelinePane::CentreOnSelection() {
  OrderedLanes();
  int row = -1;
  const auto times = SelectedTimes(&row);
  Viewport v = Shown();
  if (times) {
    const double wide = v.x1 - v.x0;
    // If the item is longer than the picture, shows its start.
    const double middle =
        times->second - times->first > wide ? times->first + wide * 0.4 : (times->first + times->second) / 2;
    v.x0 = middle - wide / 2;
    v.x1 = v.x0 + wide;
  }
  if (const int lane = row < 0 ? -1 : lane_of_row_[static_cast<size_t>(row)]; lane >= 0) {
    const double lanes = v.y1 - v.y0;
    v.y0 = lane + 0.5 - lanes / 2;
    v.y1 = v.y0 + lanes;
    cursor_lane_ = lane;
  }
  Show(v);
  update();
}

void TimelinePane::ZoomToSelection() {
  int row = -1;
  const auto times = SelectedTimes(&row);
  if (!times) {
    CentreOnSelection();
    return;
  }
  Viewport v = Shown();
  const double margin = navigator_->selection().time_end > navigator_->selection().time_begin
                            ? 0
                            : (times->second - times->first) * 0.5 + 1000;
  v.x0 = times->first - margin;
  v.x1 = times->second + margin;
  Show(v);
}

TimelineHit TimelinePane::HitAt(const QPointF& at) const {
  const int lane = LaneAt(at.y());
  if (timeline_ == nullptr || lane < 0 || at.x() < Plot().left()) return {};
  const TimelineLane& l = lanes_->lanes[static_cast<size_t>(lane)];
  const Viewport v = Shown();
  const double near = kNear * (v.x1 - v.x0) / Plot().width();
  TimelineHit best;
  for (uint32_t k = 0; k < l.count && k < 64; ++k) {
    const TimelineHit hit = timeline_->HitAt(lanes_->rows[l.first + k], l.filter, TimeAt(at.x()), near);
    if (hit.row >= 0 && (best.row < 0 || hit.piece.look > best.piece.look)) best = hit;
  }
  return best;
}

QString TimelinePane::HitText(const TimelineHit& hit) const {
  if (hit.row < 0 || timeline_ == nullptr) return {};
  const IndexOp op = document_->OpAt(hit.row, hit.record);
  const RankFacts& facts = document_->FactsAt(hit.row);
  TimelinePiece pieces[3];
  const int n = timeline_->PiecesOf(hit.row, op, pieces);
  QStringList lines = {document_->OpText(op)};
  QString where = QString("rank %1 on %2").arg(document_->RankAt(hit.row)).arg(document_->HostAt(hit.row));
  if (op.stream < facts.streams_size()) where += QString(", stream %1").arg(facts.streams(op.stream));
  lines << where;
  QStringList parts;
  bool gpu = false;
  for (int i = 0; i < n; ++i) {
    const auto length = static_cast<double>(pieces[i].end - pieces[i].begin);
    QString part = TimelineLookName(pieces[i].look);
    if (pieces[i].look != TimelineLook::kUnmeasured) part += " " + AxisDuration(length);
    parts << part;
    gpu |= pieces[i].gpu && pieces[i].look != TimelineLook::kUnmeasured;
  }
  if (!parts.isEmpty()) lines << parts.join(", ");
  lines << "from +" + AxisDuration(static_cast<double>(pieces[0].begin));
  if (!gpu) lines << "its GPU activity was not measured";
  if (facts.clock_uncertainty_ns() < 0) {
    lines << "this host's clock is not aligned with the others";
  } else if (facts.clock_uncertainty_ns() > 0) {
    lines << QString::fromUtf8("this host's clock: \u00b1 ") +
                 AxisDuration(static_cast<double>(facts.clock_uncertainty_ns()));
  }
  return lines.join('\n');
}

QString TimelinePane::SelectionText() const {
  const Selection& s = navigator_->selection();
  QStringList lines;
  if (timeline_ == nullptr) return {};
  if (s.time_end > s.time_begin) {
    lines << QString("from\t+%1\tto\t+%2\t%3")
                 .arg(AxisDuration(static_cast<double>(s.time_begin - timeline_->origin_ns())),
                      AxisDuration(static_cast<double>(s.time_end - timeline_->origin_ns())),
                      AxisDuration(static_cast<double>(s.time_end - s.time_begin)));
  }
  if (const int row = document_->RowOfRecord(s); row >= 0) {
    TimelineHit hit;
    hit.row = row;
    hit.record = s.record;
    TimelinePiece pieces[3];
    if (timeline_->PiecesOf(row, document_->OpAt(row, s.record), pieces) > 0) lines << HitText(hit);
  }
  return lines.join('\n');
}

QString TimelinePane::Csv() const {
  if (timeline_ == nullptr) return {};
  const Viewport shown = Shown();
  const auto count = static_cast<int>(lanes_->lanes.size());
  const int first = std::clamp(static_cast<int>(shown.y0), 0, count),
            last = std::clamp(static_cast<int>(std::ceil(shown.y1)), first, count);
  QString out = "rank,host,stream,operation,piece,begin (ns),end (ns)\n";
  size_t room = kMostCsvPieces;
  int64_t budget = kCsvOperations;
  for (int i = first; i < last; ++i) {
    const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(i)];
    for (uint32_t r = lane.first; r < lane.first + lane.count; ++r) {
      const int row = lanes_->rows[r];
      const std::vector<TimelineHit> hits = timeline_->Pieces(row, lane.filter, shown.x0, shown.x1, 0, room, &budget);
      const QString who = QString("%1,%2,").arg(document_->RankAt(row)).arg(CsvCell(document_->HostAt(row)));
      for (const TimelineHit& hit : hits) {
        out += who + (hit.piece.gpu && hit.stream != kIndexNoStream ? QString::number(hit.stream) : QString()) + ',' +
               CsvCell(document_->OpText(document_->OpAt(row, hit.record))) + ',' + TimelineLookName(hit.piece.look) +
               QString(",%1,%2\n").arg(hit.piece.begin).arg(hit.piece.end);
      }
      room -= std::min(room, hits.size());
      if (room == 0 || budget <= 0) return out + "# and more: zoom in for fewer\n";
    }
  }
  return out;
}

void TimelinePane::Select(Selection selection) {
  own_ = true;
  navigator_->Select(std::move(selection));
  own_ = false;
}

void TimelinePane::SelectHit(const TimelineHit& hit) {
  Select(document_->SelectOp(hit.row, hit.record));
  setAccessibleDescription(HitText(hit));
}

void TimelinePane::SelectLane(int lane) {
  if (lane < 0 || document_ == nullptr) return;
  const TimelineLane& l = lanes_->lanes[static_cast<size_t>(lane)];
  std::vector<int32_t> ranks;
  for (uint32_t k = 0; k < l.count; ++k) ranks.push_back(document_->RankAt(lanes_->rows[l.first + k]));
  Select(Selection::Of(Ranks::Of(std::move(ranks))));
}

void TimelinePane::MoveCursor(int by) {
  const int count = static_cast<int>(lanes_->lanes.size());
  if (count == 0) return;
  const Viewport v = Shown();
  cursor_lane_ = std::clamp(cursor_lane_ < 0 ? static_cast<int>(v.y0) : cursor_lane_ + by, 0, count - 1);
  const double lanes = v.y1 - v.y0;
  if (cursor_lane_ < v.y0) Show({v.x0, v.x1, static_cast<double>(cursor_lane_), cursor_lane_ + lanes});
  if (cursor_lane_ + 1 > v.y1) Show({v.x0, v.x1, cursor_lane_ + 1 - lanes, cursor_lane_ + 1.0});
  const int row = lanes_->RowOf(cursor_lane_);
  const TimelineLane& lane = lanes_->lanes[static_cast<size_t>(cursor_lane_)];
  setAccessibleDescription(lane.count > 1 ? QString("%1, %2 ranks").arg(document_->HostAt(row)).arg(lane.count)
                                          : QString("rank %1 on %2, %3 operations")
                                                .arg(document_->RankAt(row))
                                                .arg(document_->HostAt(row))
                                                .arg(document_->OpCount(row)));
  update();
}

void TimelinePane::Refine(const RasterRequest& request) {
  if (refine_.busy() && refined_for_ == request) return;
  refined_for_ = request;
  refine_.Start(this, [this, timeline = timeline_, lanes = lanes_, request](const std::atomic<bool>& cancel) {
    const auto raster = RasterLanes(*timeline, *lanes, request, INT64_MAX, true, &cancel);
    return [this, raster, lanes] {
      if (raster != nullptr && lanes == lanes_) {
        raster_ = raster;
        raster_lanes_ = lanes.get();
        image_ = QImage();
      }
      update();
      Q_EMIT Changed();
    };
  });
}

void TimelinePane::resizeEvent(QResizeEvent*) { Q_EMIT Scrolled(); }

void TimelinePane::mousePressEvent(QMouseEvent* event) {
  press_ = event->position();
  press_shown_ = Shown();
  moved_ = false;
  const bool pan = event->button() == Qt::MiddleButton || event->modifiers().testFlag(Qt::ShiftModifier);
  drag_ = pan ? Drag::kPan : event->button() == Qt::LeftButton ? Drag::kSelect : Drag::kNone;
}

void TimelinePane::mouseMoveEvent(QMouseEvent* event) {
  hover_ = event->position();
  if (drag_ != Drag::kNone && !moved_)
    moved_ = (event->position() - press_).manhattanLength() >= QApplication::startDragDistance();
  if (drag_ == Drag::kPan && moved_) {
    const QPointF by = event->position() - press_;
    const Viewport& v = press_shown_;
    const double dx = by.x() / Plot().width() * (v.x1 - v.x0), dy = by.y() / Plot().height() * (v.y1 - v.y0);
    Show({v.x0 - dx, v.x1 - dx, v.y0 - dy, v.y1 - dy});
  }
  update();
}

void TimelinePane::mouseReleaseEvent(QMouseEvent* event) {
  const Drag drag = std::exchange(drag_, Drag::kNone);
  const bool moved = std::exchange(moved_, false);
  update();
  if (document_ == nullptr || drag != Drag::kSelect || event->button() != Qt::LeftButton) return;
  if (moved && timeline_ != nullptr && press_.x() >= Plot().left()) {
    const double a = TimeAt(press_.x()), b = TimeAt(event->position().x());
    Selection selection = navigator_->selection();
    selection.time_begin = timeline_->origin_ns() + static_cast<int64_t>(std::max(0.0, std::min(a, b)));
    selection.time_end = timeline_->origin_ns() + static_cast<int64_t>(std::max({0.0, a, b}));
    Select(std::move(selection));
    return;
  }
  const int lane = LaneAt(event->position().y());
  if (lane < 0) return;
  cursor_lane_ = lane;
  const TimelineHit hit = HitAt(event->position());
  if (hit.row >= 0) {
    SelectHit(hit);
  } else {
    SelectLane(lane);
  }
}

void TimelinePane::mouseDoubleClickEvent(QMouseEvent* event) {
  if (HitAt(event->position()).row >= 0) ZoomToSelection();
}

void TimelinePane::leaveEvent(QEvent*) {
  hover_.reset();
  update();
}

void TimelinePane::wheelEvent(QWheelEvent* event) {
  const double turn = (event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x()) / 120.0;
  const bool shift = event->modifiers().testFlag(Qt::ShiftModifier) || event->angleDelta().y() == 0;
  hover_ = event->position();
  if (event->modifiers().testFlag(Qt::ControlModifier)) {
    if (shift) {
      ZoomLanes(std::pow(1.25, turn));
    } else {
      ZoomTime(std::pow(1.25, turn), event->position().x());
    }
  } else {
    PanBy(shift ? -turn * 0.1 : 0, shift ? 0 : -turn * 0.1);
  }
  event->accept();
}

void TimelinePane::keyPressEvent(QKeyEvent* event) {
  const Viewport v = Shown();
  const int page = std::max(1, static_cast<int>(v.y1 - v.y0) - 1);
  switch (event->key()) {
    case Qt::Key_Left: PanBy(-0.1, 0); break;
    case Qt::Key_Right: PanBy(0.1, 0); break;
    case Qt::Key_Up: MoveCursor(-1); break;
    case Qt::Key_Down: MoveCursor(1); break;
    case Qt::Key_PageUp: MoveCursor(-page); break;
    case Qt::Key_PageDown: MoveCursor(page); break;
    case Qt::Key_Home: Show({0, v.x1 - v.x0, v.y0, v.y1}); break;
    case Qt::Key_End: Show({1e18, 1e18 + (v.x1 - v.x0), v.y0, v.y1}); break;
    case Qt::Key_Return:
    case Qt::Key_Enter: SelectLane(cursor_lane_); break;
    case Qt::Key_Escape:
      if (drag_ != Drag::kNone) {
        drag_ = Drag::kNone;
        update();
      } else {
        QWidget::keyPressEvent(event);
      }
      break;
    default: QWidget::keyPressEvent(event);
  }
}

void TimelinePane::Restyle() {
  image_ = QImage();
  update();
  Q_EMIT Scrolled();  // the font's height changes the plot
}

QString TimelinePane::TipAt(const QPoint& at) const {
  const TimelineHit hit = HitAt(at);
  const int lane = LaneAt(at.y());
  if (hit.row >= 0 || lane < 0 || document_ == nullptr) return HitText(hit);
  const TimelineLane& l = lanes_->lanes[static_cast<size_t>(lane)];
  const int row = lanes_->RowOf(lane);
  QString text = l.count > 1
                     ? QString("%1\n%2 ranks").arg(document_->HostAt(row)).arg(l.count)
                     : QString("rank %1 on %2\n%3")
                           .arg(document_->RankAt(row))
                           .arg(document_->HostAt(row), QString::fromStdString(document_->FactsAt(row).state()));
  if (at.x() >= Plot().left() && timeline_ != nullptr) text += "\nnothing recorded at +" + AxisDuration(TimeAt(at.x()));
  return text;
}

}  // namespace lockstep::gui
