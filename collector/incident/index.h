// The index of an incident for the viewer. It is made when the incident is written, so that users need not wait for it
// later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Makes FOLDER/index.lsi, within the limit. Optional: without it the viewer makes its own.
absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns);

// Makes indexes on its own thread, once for each folder. Not thread-safe.
class IncidentIndexes {
 public:
  // Gives running work ten more seconds, then ends it.
  ~IncidentIndexes();
  void Start(const std::string& folder);
  // Returns the errors of finished work, one a line, and only once.
  std::vector<std::string> TakeProblems();

 private:
  struct Job;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace lockstep
