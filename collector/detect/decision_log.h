// The detector's decisions as text: one JSON object a line, with every figure a decision rests on, for a file that
// people and scripts read months later.
#ifndef LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_
#define LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "collector/detect/detector.h"
#include "collector/detect/lateness.h"

namespace lockstep {

// No newline. `real_ns`: wall clock of the decision; `job`: as people call it, "name/step/restart".
std::string DecisionJson(const Decision& decision, const std::string& job, int64_t real_ns);
// An agent's own, `host` its host.
std::string DecisionJson(const LateEvent& event, const std::string& job, const std::string& host, int64_t real_ns);

// Appends lines to a file. Beyond `most_bytes` the file is moved to PATH.1 (replacing an older one) and begun anew.
class DecisionLog {
 public:
  DecisionLog() = default;
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;
  ~DecisionLog();

  // Created 0600 when it is not there. Refuses links and anything but a regular file.
  absl::Status Open(const std::string& path, int64_t most_bytes = 16 << 20);
  bool open() const { return fd_ >= 0; }
  // Whole lines only: one write. A full disk costs the line, never more; the first failure is returned.
  absl::Status Append(const std::string& line);

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0, most_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_
