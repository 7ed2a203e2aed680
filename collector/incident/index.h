// The index of an incident for the viewer. It is made when the incident is written, so that nobody waits for it later.
#ifndef LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_
#define LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Makes FOLDER/index.lsi, within the limit. Optional: without it the viewer makes its own.
absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns);

// Does that on its own thread, once for each folder. Not thread-safe.
class IncidentIndexes {
 public:
  // Gives running work ten more seconds, then ends it.
  ~IncidentIndexes();
  void Start(const std::string& folder);
  // Errors of the finished ones, one a line; once.
  std::vector<std::string> TakeProblems();

 private:
  struct Job;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_
