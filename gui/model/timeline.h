// The times of all operations, as lanes can be drawn from them at any zoom: cost goes with pixels, and of what falls
// into one pixel the worst is shown.
#ifndef LOCKSTEP_GUI_MODEL_TIMELINE_H_
#define LOCKSTEP_GUI_MODEL_TIMELINE_H_

#include <QString>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// The number is the severity: of several in one pixel the highest is drawn.
enum class TimelineLook : uint8_t {
  kNothing = 0,
  kUnmeasured = 1,   // issued; when the GPU began or ended was not measured
  kHost = 2,         // the host was in the call
  kQueued = 3,       // on the stream, not reached by the GPU
  kRunning = 4,      // the GPU was in it
  kQueuedOpen = 5,   // still on the stream
  kInFlight = 6,     // not completed; whether the GPU began it was not measured
  kRunningOpen = 7,  // the GPU is still in it
  kHostOpen = 8,     // the host has not returned from the call
  kFailed = 9,       // the call returned an error
  kCount = 10,
};
const char* TimelineLookName(TimelineLook look);

// Times are nanoseconds after Timeline::origin_ns(). An open piece ends where the rank's data was taken.
struct TimelinePiece {
  int64_t begin = 0, end = 0;
  TimelineLook look = TimelineLook::kNothing;
  bool gpu = false;  // in a stream's lane, not in the CPU's
};

struct TimelineHit {
  int row = -1;
  int64_t record = -1;  // place among the rank's operations
  uint8_t stream = kIndexNoStream;
  TimelinePiece piece;
};

// Which pieces of a rank a lane shows.
struct LaneFilter {
  enum class Part : uint8_t { kAll, kCalls, kStream };
  Part part = Part::kAll;
  uint8_t stream = kIndexNoStream;
  bool Shows(const TimelinePiece& piece, uint8_t of_stream) const {
    return part == Part::kAll || (part == Part::kCalls ? !piece.gpu : piece.gpu && of_stream == stream);
  }
};

// Immutable once made; any thread.
class Timeline {
 public:
  // Reads all times once: for a worker thread. Null when *cancel turns true. *done counts ranks.
  static std::shared_ptr<const Timeline> Build(DocumentPtr document, const std::atomic<bool>* cancel = nullptr,
                                               std::atomic<int>* done = nullptr);

  const Document& document() const { return *document_; }
  int64_t origin_ns() const { return origin_; }  // job time
  int64_t span_ns() const { return span_; }      // at least 1
  // Nanoseconds after the origin of a time of the row's clock, not outside of 0..span.
  int64_t At(int row, int64_t ns) const;
  int64_t TakenAt(int row) const {
    return taken_[static_cast<size_t>(row)];
  }  // when the row's data was taken, or its last time
  double bin_ns() const { return static_cast<double>(span_) / bins_; }

  // At most three, in the order of time.
  int PiecesOf(int row, const IndexOp& op, TimelinePiece out[3]) const;

  // Both fill `width` bytes (TimelineLook) for begin..end; what is there already stays if it is worse.
  // From the bins of rows[0..count): no finer than bin_ns, whatever the rows hold.
  void Coarse(const int32_t* rows, size_t count, double begin, double end, int width, uint8_t* out) const;
  // From the operations themselves; looks at no more than *budget of them and takes them off. False: it was not enough.
  bool Exact(int row, LaneFilter filter, double begin, double end, int width, int64_t* budget, uint8_t* out) const;
  // Pieces of at least `shortest` nanoseconds in begin..end, at most `most`.
  std::vector<TimelineHit> Pieces(int row, LaneFilter filter, double begin, double end, double shortest, size_t most,
                                  int64_t* budget) const;
  // The worst piece within `near` nanoseconds of `at`; row -1: none.
  TimelineHit HitAt(int row, LaneFilter filter, double at, double near) const;
  // The newest operation of the row on this communicator with this number, -1 none. `kind` none: a collective; else
  // that kind with this peer. Takes what it looked at off *budget, -2: it was not enough.
  int64_t FindOp(int row, int32_t comm, int64_t seq, ring::CallKind kind, int32_t peer, int64_t* budget) const;

 private:
  struct Block {
    int64_t begin = 0, end = 0;
    TimelineLook worst = TimelineLook::kNothing;
  };
  static constexpr int64_t kBlock = 64;  // operations

  DocumentPtr document_;
  int64_t origin_ = 0, span_ = 1;
  int bins_ = 64;
  std::vector<int64_t> taken_;
  std::vector<uint8_t> looks_;         // rows x bins
  std::vector<uint64_t> first_block_;  // of each row, and the end
  std::vector<Block> blocks_;
};

// From the first to the last time of the incident, from its facts; 0: unknown.
int64_t TimelineSpanOf(const Document& document);

struct TimelineTick {
  double at = 0;  // nanoseconds
  QString label;  // empty: a minor one
};
// Round times with about `apart` pixels between labels.
std::vector<TimelineTick> TimelineTicks(double begin, double end, int width, int apart);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_TIMELINE_H_
