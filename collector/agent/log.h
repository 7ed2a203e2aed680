// The agent's log: one entry per line, with date and time, and a size limit. A repeated entry appears at most once a
// minute.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "analyzer/util/rotating_file.h"

namespace lockstep {

// One thread owns this object.
class AgentLog {
 public:
  // Appends to `path`. Beyond `most_bytes` the file becomes PATH.1 and a new one is started.
  absl::Status Open(const std::string& path, uint64_t most_bytes = uint64_t{16} << 20);
  // Call after another program renamed the file.
  void Reopen();
  void Write(const std::string& line);

 private:
  void Put(const std::string& line);
  RotatingFile file_;
  struct Said {
    int64_t mono_ns = 0;
    uint64_t left_out = 0;
  };
  std::map<std::string, Said> said_;
};

}  // namespace lockstep
