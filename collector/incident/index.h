// The index of an incident, which the viewer draws from, made when the incident is written so that nobody has to wait
// for it later.
#ifndef LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_
#define LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Makes FOLDER/index.lsi, at most for so long. Nothing depends on it: without it the viewer makes its own.
absl::Status MakeIncidentIndex(const std::string& folder, int64_t limit_ns);

// Does that on a thread of its own, for each folder once. Not thread-safe.
class IncidentIndexes {
 public:
  // Gives what is under way ten seconds more, then ends it.
  ~IncidentIndexes();
  void Start(const std::string& folder);
  // What went wrong with those that have ended, a line each; once.
  std::vector<std::string> TakeProblems();

 private:
  struct Job;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_INCIDENT_INDEX_H_
