// The times of all operations, from which lanes are drawn at any zoom. The cost of drawing from bins depends on pixels
// and bins. Each pixel shows the worst of its operations.
#pragma once

#include <QString>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Ordered by severity: if several operations share a pixel, the highest value is drawn.
enum class TimelineLook : uint8_t {
  kNothing = 0,
  kUnmeasured = 1,   // issued; the GPU's start or end was not measured
  kHost = 2,         // the CPU thread was in the call
  kQueued = 3,       // on the stream, not reached by the GPU
  kRunning = 4,      // the GPU was executing it
  kQueuedOpen = 5,   // still on the stream
  kInFlight = 6,     // not completed; the GPU's start was not measured
  kRunningOpen = 7,  // the GPU is still executing it
  kHostOpen = 8,     // the CPU thread has not returned from the call
  kFailed = 9,       // the call returned an error
  kCount = 10,
};
const char* TimelineLookName(TimelineLook look);

// Times are nanoseconds after Timeline::origin_ns(). An open piece ends when the rank's data was captured.
struct TimelinePiece {
  int64_t begin = 0, end = 0;
  TimelineLook look = TimelineLook::kNothing;
  bool gpu = false;  // on the GPU, so in a stream's lane
};

struct TimelineHit {
  int row = -1;
  int64_t record = -1;  // index among the rank's operations
  uint8_t stream = kIndexNoStream;
  TimelinePiece piece;
};

// Selects the pieces of a rank that a lane shows.
struct LaneFilter {
  enum class Part : uint8_t { kAll, kCalls, kStream };
  Part part = Part::kAll;
  uint8_t stream = kIndexNoStream;
  bool Shows(const TimelinePiece& piece, uint8_t of_stream) const {
    return part == Part::kAll || (part == Part::kCalls ? !piece.gpu : piece.gpu && of_stream == stream);
  }
};

// Immutable once created; any thread may use it.
class Timeline {
 public:
  // Reads all times; call it on a worker thread. Returns null if *cancel becomes true. Adds 1 to *done for each rank.
  static std::shared_ptr<const Timeline> Build(DocumentPtr document, const std::atomic<bool>* cancel = nullptr,
                                               std::atomic<int>* done = nullptr);

  const Document& document() const { return *document_; }
  int64_t origin_ns() const { return origin_; }  // job time
  int64_t span_ns() const { return span_; }      // at least 1
  // Converts a time of the row's clock to nanoseconds after the origin, clipped to 0..span.
  int64_t At(int row, int64_t ns) const;
  int64_t TakenAt(int row) const {
    return taken_[static_cast<size_t>(row)];
  }  // when the row's data was captured, after the origin; if unknown, the latest time of its operations
  double bin_ns() const { return static_cast<double>(span_) / bins_; }

  // Fills `out` in the order of time and returns the number of pieces.
  int PiecesOf(int row, const IndexOp& op, TimelinePiece out[3]) const;

  // Coarse and Exact draw begin..end into `width` bytes (TimelineLook). A byte that is already worse stays. Coarse
  // draws the bins of rows[0..count), each bin_ns() wide.
  void Coarse(const int32_t* rows, size_t count, double begin, double end, int width, uint8_t* out) const;
  // Draws the operations themselves. Subtracts the number of operations that it reads from *budget. Returns false, with
  // an incomplete picture, if the budget is too small.
  bool Exact(int row, LaneFilter filter, double begin, double end, int width, int64_t* budget, uint8_t* out) const;
  // Returns at most `most` pieces of at least `shortest` nanoseconds in begin..end. Stops when *budget operations are
  // read.
  std::vector<TimelineHit> Pieces(int row, LaneFilter filter, double begin, double end, double shortest, size_t most,
                                  int64_t* budget) const;
  // Returns the worst piece at `at`, otherwise the worst within `near` nanoseconds; its row is -1 if there is none.
  TimelineHit HitAt(int row, LaneFilter filter, double at, double near) const;

 private:
  struct Block {
    int64_t begin = 0, end = 0;
    TimelineLook worst = TimelineLook::kNothing;
  };
  static constexpr int64_t kBlock = 64;  // number of operations

  DocumentPtr document_;
  int64_t origin_ = 0, span_ = 1;
  int bins_ = 64;
  std::vector<int64_t> taken_;
  std::vector<uint8_t> looks_;         // rows x bins
  std::vector<uint64_t> first_block_;  // one entry per row, and the end
  std::vector<Block> blocks_;
};

// Returns the time from the first event, as in the facts, to the last event or capture; 0 if unknown.
int64_t TimelineSpanOf(const Document& document);

struct TimelineTick {
  double at = 0;  // nanoseconds
  QString label;  // empty for a minor tick
};
// Returns round times with about `apart` pixels between labels.
std::vector<TimelineTick> TimelineTicks(double begin, double end, int width, int apart);

}  // namespace lockstep::gui
