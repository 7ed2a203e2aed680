// Per-operation aggregates of an incident from its index.lsi: by class of communicator, function, size and host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collector/tools/archive/rows.h"

namespace lockstep::archive {

struct OperationFacts {
  std::map<std::string, std::vector<std::string>>
      comm_hosts;  // by communicator identity, for those with a measured bandwidth; at most 32 hosts
};

// Processes one host at a time, so that memory does not grow with the job. Durations become histograms with 4 % steps.
// A missing or damaged index gives a note and no rows.
absl::Status MakeOperationRows(const std::string& folder, const IncidentName& name, const RowSink& sink,
                               OperationFacts* facts, std::string* notes);

// Durations in steps of 4 %, for medians and percentiles of any number of them.
class Durations {
 public:
  // Adds nanoseconds from the index. 0, which is below its resolution of a microsecond, counts as half of one. Negative
  // values do not count.
  void Add(int64_t ns);
  uint64_t count() const { return count_; }
  // `q` is 0 to 1; returns -1 if there are no durations.
  int64_t Quantile(double q) const;

 private:
  std::map<int, uint64_t> bins_;
  uint64_t count_ = 0;
};

}  // namespace lockstep::archive
