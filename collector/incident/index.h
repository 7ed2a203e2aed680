// The viewer's index of an incident. It is created together with the incident, so that users need not wait for it
// later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Creates FOLDER/index.lsi; cancels the work after the time limit. Optional: without it, the viewer creates its own.
absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns);

// Creates each index on a thread of its own. Not thread-safe.
class IncidentIndexes {
 public:
  // Gives running work ten more seconds, then ends it.
  ~IncidentIndexes();
  void Start(const std::string& folder);
  // Returns the errors of finished work, one per line, each only once.
  std::vector<std::string> TakeProblems();

 private:
  struct Job;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace lockstep
