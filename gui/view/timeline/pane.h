// The picture in TimelineView: lanes below a time axis, with labels on the left and a legend below.
#pragma once

#include <QImage>
#include <QPointF>
#include <QRect>
#include <QString>
#include <QStringList>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gui/model/latest_job.h"
#include "gui/model/navigator.h"
#include "gui/model/timeline/lanes.h"
#include "gui/model/timeline/raster.h"
#include "gui/model/timeline/times.h"
#include "gui/view/pane.h"

namespace lockstep::gui {

class TimelinePane : public Pane {
  Q_OBJECT

 public:
  TimelinePane(Navigator* navigator, QWidget* parent);

  void SetDocument(DocumentPtr document);
  void SetDetail(LaneDetail detail);
  void SetChoice(LaneChoice choice);
  LaneDetail detail() const { return detail_; }
  LaneChoice choice() const { return choice_; }
  const Timeline* timeline() const { return timeline_.get(); }
  const TimelineLanes& lanes() const { return *lanes_; }  // for the last selection that was handled
  Viewport Shown() const;                                 // x in nanoseconds after the origin, y in lanes
  QRect Plot() const { return PlotOf(size()); }
  bool Idle() const { return !build_.busy() && !refine_.busy() && !finding_; }

  void ZoomTime(double factor,
                std::optional<double> at_x = {});  // keeps the position under the cursor, or the middle, in place
  void ZoomLanes(double factor);
  void PanBy(double right, double down);  // shares of the visible part
  void Fit();
  void CentreOnSelection();
  void ZoomToSelection();
  void Draw(QPainter* painter, const QSize& size, bool whole) override;  // `whole`: for export

  int LaneAt(double y) const;       // -1 if there is none
  QRectF LaneRect(int lane) const;  // in coordinates of the widget
  double XOf(double ns) const;
  double TimeAt(double x) const;
  TimelineHit HitAt(const QPointF& at) const;
  QString HitText(const TimelineHit& hit) const;  // at most six lines
  QString SelectionText() const;
  QString Csv() const;  // the visible pieces, at most kMostCsvPieces

 Q_SIGNALS:
  void Scrolled();  // the visible part or the lanes changed
  void Changed();   // the timeline is built, or the pane is idle again

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  QString TipAt(const QPoint& at) const override;
  void Restyle() override;

 private:
  struct Frame;  // the data for drawing one frame
  void StartBuild();
  void RebuildLanes();
  void OrderedLanes();  // rebuilds lanes that are out of date because the selection changed while the pane was hidden
  void Show(Viewport viewport);
  Viewport Bounded(Viewport viewport, const QSize& size) const;
  QRect PlotOf(const QSize& size) const;
  double TallestLane() const;
  void Refine(const RasterRequest& request);
  void SelectHit(const TimelineHit& hit);
  void SelectLane(int lane);
  void MoveCursor(int by);
  void Select(Selection selection);  // without changing the lanes under the cursor

  void DrawLooks(QPainter* painter, const Frame& frame, bool whole);
  void DrawAxis(QPainter* painter, const Frame& frame) const;
  void DrawGutter(QPainter* painter, const Frame& frame) const;
  void DrawTexts(QPainter* painter, const Frame& frame) const;
  void DrawSelection(QPainter* painter, const Frame& frame) const;
  // Where an operation of a lane is drawn, in pixels.
  struct FlowPlace {
    int row = -1;
    bool known = false, released = false;
    double enter = 0, release = 0;
    double y = 0, gpu_y = 0;
  };
  FlowPlace FlowPlaceOf(const Frame& frame, int lane, int64_t record) const;
  void DrawTransfer(QPainter* painter, const Frame& frame, int record_row, const IndexOp& op, int64_t* budget);
  void DrawRelease(QPainter* painter, const Frame& frame, int64_t* budget);
  void DrawFlows(QPainter* painter, const Frame& frame);
  void DrawClocks(QPainter* painter, const Frame& frame) const;
  void DrawLegend(QPainter* painter, const Frame& frame) const;
  QImage ImageOf(const TimelineRaster& raster, const Theme& theme) const;
  int64_t RecordOf(int row, int32_t comm, int64_t seq, ring::CallKind kind, int32_t peer, int64_t* budget);
  std::optional<std::pair<double, double>> SelectedTimes(int* row) const;

  Navigator* navigator_;
  DocumentPtr document_;
  std::shared_ptr<const Timeline> timeline_;
  std::shared_ptr<const TimelineLanes> lanes_ = std::make_shared<TimelineLanes>();
  LaneDetail detail_ = LaneDetail::kRanks;
  LaneChoice choice_ = LaneChoice::kSelectionFirst;

  std::shared_ptr<const TimelineRaster> raster_;
  const TimelineLanes* raster_lanes_ = nullptr;
  QImage image_;
  bool image_dark_ = false;
  LatestJob build_, refine_;
  std::shared_ptr<std::atomic<int>> built_;
  bool finding_ = false, own_ = false, lanes_stale_ = false;
  RasterRequest refined_for_;
  absl::flat_hash_map<int, int64_t> found_;  // indexed by row: the record of the selected collective

  QStringList filters_;  // the filters for which the lanes were built
  Ranks filtered_;
  std::vector<int> lane_of_row_;  // first lane that shows the row; -1 if there is none
  std::vector<int> cause_lanes_;  // lanes of ranks that the analysis names as causes
  int cursor_lane_ = -1;
  std::optional<QPointF> hover_;
  QPointF press_;
  Viewport press_shown_;
  enum class Drag : uint8_t { kNone, kSelect, kPan };
  Drag drag_ = Drag::kNone;
  bool moved_ = false;
};

}  // namespace lockstep::gui
