// Converts each rank's own clock to job time: nanoseconds of the wall clock of the first host with offset 0 in
// Verdict::clocks.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/export/export.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Refers to the bundle, which must outlive this object.
class ExportTime {
 public:
  // Uses the offsets in Verdict::clocks; a host that is not aligned keeps its own wall clock.
  ExportTime(const Bundle& bundle, const Verdict& verdict);

  // 0 stays 0 ("not recorded"); impossible times (negative, or centuries away) also become 0.
  int64_t ToJob(size_t rank_index, int64_t own_ns) const;
  // Returns when the rank's data was captured; if the source does not contain that, the last event of any rank.
  int64_t Captured(size_t rank_index) const;
  int64_t first_ns() const { return first_; }  // earliest event; 0 if there is none
  int64_t last_ns() const { return last_; }    // latest event
  // Returns when the job stopped: when a rank first began to wait for the first finding's culprits. If there is no such
  // rank, returns the time of the last event.
  int64_t stop_ns() const { return stop_; }

  // Returns whether an operation is selected. Times are job times; `begin` is 0 if unknown (then selected), `end` is 0
  // if the operation has not finished.
  bool Near(int64_t begin, int64_t end, const ExportOptions& options) const;

 private:
  const Bundle& bundle_;
  std::vector<int64_t> offset_;  // offset of each rank, by rank index
  int64_t first_ = 0, last_ = 0, stop_ = 0;
};

bool Wanted(const ExportOptions& options, int32_t rank);

}  // namespace lockstep
