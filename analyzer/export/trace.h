// A bundle as rows of slices for trace viewers: hosts contain ranks, and ranks contain threads (CPU calls) and
// streams (GPU work). All trace formats share this traversal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/export/export.h"
#include "analyzer/export/time.h"

namespace lockstep {

struct TraceRow {
  enum class Kind : uint8_t { kHost, kRank, kLane } kind = Kind::kHost;
  uint64_t id = 0;      // from 1, never reused
  uint64_t parent = 0;  // the row that contains this one; 0 for hosts
  std::string name;     // valid UTF-8 without controls
  int32_t rank = -1;    // for kRank and kLane
  int32_t order = 0;    // position among the rows of the same parent
};

// A period of time on a row. Slices of a row nest: a slice that begins inside another also ends inside it.
struct TraceSlice {
  int64_t begin = 0, end = 0;  // job time, nanoseconds
  std::string name;
  const char* category = "";  // one of a few literals
  const Op* op = nullptr;     // null for a slice from the verdict
  const Rank* rank = nullptr;
  std::string text;  // further text; may be empty
};

// A point in time where an arrow begins or ends.
struct TraceMark {
  int64_t at = 0;
  std::string name;
  const char* category = "";
  std::vector<uint64_t> arrows_from, arrows_to;
};

class TraceSink {
 public:
  explicit TraceSink(const ExportWriter& write) : write_(write) {}
  virtual ~TraceSink() = default;
  virtual void Row(const TraceRow& row) = 0;
  // Called in the order in which slices open and close; `slice` of End is the one passed to Begin.
  virtual void Begin(const TraceRow& row, const TraceSlice& slice) = 0;
  virtual void End(const TraceRow& row, const TraceSlice& slice) = 0;
  virtual void Mark(const TraceRow& row, const TraceMark& mark) = 0;
  const absl::Status& status() const { return status_; }

 protected:
  // After an error, writes nothing more.
  void Write(std::string_view bytes) {
    if (status_.ok()) status_ = write_(bytes);
  }

 private:
  const ExportWriter& write_;
  absl::Status status_;
};

absl::StatusOr<ExportCounts> WalkTrace(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                       const ExportTime& time, TraceSink* sink);

// Texts and numbers that a viewer shows with an operation.
struct TraceFact {
  const char* key;
  int64_t number = 0;
  std::string text;  // used if not empty
};
std::vector<TraceFact> FactsOf(const Bundle& bundle, const TraceSlice& slice);

// Returns the framework's name for the operation, otherwise NCCL's, "AllReduce"; printable.
std::string OperationName(const Bundle& bundle, const Op& op);
// Returns the state in words: "completed", "in flight, not reached", ...
const char* StateName(OpState state);

}  // namespace lockstep
