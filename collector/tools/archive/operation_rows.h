// Aggregates of an incident's operations, from its index.lsi: by communicator class, function, size and host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collector/tools/archive/rows.h"

namespace lockstep::archive {

struct OperationFacts {
  std::map<std::string, std::vector<std::string>>
      comm_hosts;  // only communicators with a measured bandwidth, by identity; at most 32 hosts each
};

// Processes one host at a time, so memory use does not grow with the job. Durations become histograms with 4 % steps. A
// missing or damaged index adds a note and no rows.
absl::Status MakeOperationRows(const std::string& folder, const IncidentName& name, const RowSink& sink,
                               OperationFacts* facts, std::string* notes);

// A histogram of durations in 4 % steps, for medians and percentiles of any number of values.
class Durations {
 public:
  // Adds nanoseconds from the index, which has a resolution of one microsecond: 0 counts as 500 ns. Ignores negative
  // values.
  void Add(int64_t ns);
  uint64_t count() const { return count_; }
  // `q` is 0 to 1. Returns -1 if there are no durations.
  int64_t Quantile(double q) const;

 private:
  std::map<int, uint64_t> bins_;
  uint64_t count_ = 0;
};

}  // namespace lockstep::archive
