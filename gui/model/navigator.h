// The user's position: the selection, the visible part of each picture, the filtered ranks. One per window. Views read
// and write it and never call each other; every change can be undone.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/rank_set.h"

namespace lockstep::gui {

// Every field is optional. Ranks are global ranks, `comm` is an index into the document's communicators, and times are
// job time: the rank's clock plus its offset, in nanoseconds.
struct Selection {
  Ranks ranks;
  int32_t comm = -1;
  int64_t seq_first = -1, seq_last = -1;  // sequence numbers of `comm`
  int64_t time_begin = 0, time_end = -1;  // empty if the end is before the start
  int32_t record_rank = -1;               // one operation: its rank,
  int64_t record = -1;                    // and its index among that rank's operations, with 0 the oldest
  bool empty() const { return *this == Selection(); }
  bool operator==(const Selection&) const = default;
  // Selects ranks, or a communicator, or its call number `seq`.
  static Selection Of(Ranks ranks, int32_t comm = -1, int64_t seq = -1);
  static Selection OfRank(int32_t rank) { return Of(Ranks::Between(rank, rank)); }
};

// The visible part of a picture, in the picture's own units (columns and rows of the matrix; nanoseconds and lanes of
// the timeline). If x1 <= x0, everything is visible.
struct Viewport {
  double x0 = 0, x1 = 0, y0 = 0, y1 = 0;
  bool operator==(const Viewport&) const = default;
};

enum class MatrixMode : uint8_t { kJob, kCommunicator };
enum class RowGrouping : uint8_t { kRank, kHost, kStage, kCommunicator, kState };

struct Place {
  Selection selection;
  MatrixMode matrix_mode = MatrixMode::kJob;
  int32_t matrix_comm = -1;  // shown in communicator mode
  RowGrouping grouping = RowGrouping::kRank;
  Viewport matrix, timeline;
  QStringList filters;  // queries (chips) that must all match, as typed
  Ranks filtered;       // ranks that pass them; meaningless without filters
  Ranks pinned;         // they stay at the top of pictures by rank
  int finding = 0;      // the finding that the answer explains
  bool operator==(const Place&) const = default;
};

// Used on the GUI thread.
class Navigator : public QObject {
  Q_OBJECT

 public:
  explicit Navigator(QObject* parent = nullptr) : QObject(parent) {}
  const Place& place() const { return place_; }
  const Selection& selection() const { return place_.selection; }

  // Go and Select add a step that Alt+Left undoes. An equal position changes nothing. Emits the signals of what
  // differs.
  void Go(Place place);
  void Select(Selection selection);
  // For zooming and panning: undo treats consecutive calls as one step.
  void Scroll(Place place);
  // Changes the current step, for consequences such as a picture that scrolls to the selection.
  void Amend(Place place) { Show(std::move(place)); }
  bool CanGoBack() const { return !back_.empty(); }
  bool CanGoForward() const { return !forward_.empty(); }
  void Back() { GoAlong(&back_, &forward_); }
  void Forward() { GoAlong(&forward_, &back_); }
  // For another document: also clears the history.
  void Reset(Place place = {});

 Q_SIGNALS:
  void SelectionChanged();
  void PlaceChanged();  // anything except the selection: mode, viewport, grouping, filters
  void HistoryChanged();

 private:
  void Show(Place place);
  void GoAlong(std::vector<Place>* from, std::vector<Place>* to);

  Place place_;
  std::vector<Place> back_, forward_;  // at most kMost entries each
  bool scrolling_ = false;
  static constexpr size_t kMost = 200;
};

}  // namespace lockstep::gui
