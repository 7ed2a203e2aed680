// Converts each rank's own clock to one time for all hosts: nanoseconds of the first host's wall clock.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/export/export.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Refers to the bundle, which must outlive it.
class ExportTime {
 public:
  // Uses the offsets of Verdict::clocks; a host without alignment keeps its own wall clock.
  ExportTime(const Bundle& bundle, const Verdict& verdict);

  // 0 stays 0 ("not recorded"); impossible times (negative, or centuries away) become 0 too.
  int64_t ToJob(size_t rank_index, int64_t own_ns) const;
  // Returns when the rank's data was taken; if the source does not contain it, the last event of any rank.
  int64_t Captured(size_t rank_index) const;
  int64_t first_ns() const { return first_; }  // earliest event; 0 if none
  int64_t last_ns() const { return last_; }    // latest event
  // Returns when the job stopped: when the nearest victims of the first finding began to wait, or the last event if
  // there is none.
  int64_t stop_ns() const { return stop_; }

  // Returns whether an operation is selected. Times are job times; `end` is 0 if the operation has not ended.
  bool Near(int64_t begin, int64_t end, const ExportOptions& options) const;

 private:
  const Bundle& bundle_;
  std::vector<int64_t> offset_;  // offsets to add, by rank index
  int64_t first_ = 0, last_ = 0, stop_ = 0;
};

bool Wanted(const ExportOptions& options, int32_t rank);

}  // namespace lockstep
