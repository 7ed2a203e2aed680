// One time for all hosts, in nanoseconds of the first host's wall clock, from each rank's own clock.
#ifndef LOCKSTEP_ANALYZER_EXPORT_TIME_H_
#define LOCKSTEP_ANALYZER_EXPORT_TIME_H_

#include <cstdint>
#include <vector>

#include "analyzer/export/export.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Holds a reference to the bundle.
class ExportTime {
 public:
  // Offsets are those of Verdict::clocks; a host without alignment keeps its own wall clock.
  ExportTime(const Bundle& bundle, const Verdict& verdict);

  // 0 stays 0 ("not recorded"); impossible times (negative, or centuries away) become 0 too.
  int64_t ToJob(size_t rank_index, int64_t own_ns) const;
  // When the rank's data was taken; if the source does not contain it, the last event of any rank.
  int64_t Captured(size_t rank_index) const;
  int64_t first_ns() const { return first_; }  // earliest event, 0 none
  int64_t last_ns() const { return last_; }    // latest event
  // When the job stopped: the start of the nearest victims' waits for the first finding; without one, the last event.
  int64_t stop_ns() const { return stop_; }

  // Whether an operation is selected; in job time, `end` 0: not ended.
  bool Near(int64_t begin, int64_t end, const ExportOptions& options) const;

 private:
  const Bundle& bundle_;
  std::vector<int64_t> offset_;  // by rank index, to add
  int64_t first_ = 0, last_ = 0, stop_ = 0;
};

bool Wanted(const ExportOptions& options, int32_t rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EXPORT_TIME_H_
