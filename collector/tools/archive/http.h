// One HTTP connection to ClickHouse, through libcurl. Answers are untrusted: their length is limited, and redirects are
// not followed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::archive {

struct Target {
  std::string base;  // "http://HOST:PORT/"
  std::string database;
  std::string user;  // empty for the server's default user
  std::string password;
  std::string ca_file;  // empty for the system's certificates
};

// Parses "http://[USER@]HOST[:PORT]/DATABASE". Refuses a password in it, because all users can read command lines.
// Refuses http to other hosts unless `insecure`. InvalidArgument describes the problem.
absl::StatusOr<Target> ParseTarget(const std::string& url, bool insecure);

// One thread uses this object.
class Http {
 public:
  explicit Http(Target target);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Runs a statement, followed by `body` if it is an INSERT. `settings` apply to the query. Returns the answer;
  // OutOfRange if it is longer than `most_bytes`. Unavailable and DeadlineExceeded are temporary errors. Cancelled
  // after Stop().
  absl::StatusOr<std::string> Post(const std::string& statement, const std::string* body,
                                   const std::vector<std::pair<std::string, std::string>>& settings, int64_t limit_ms,
                                   size_t most_bytes);
  const Target& target() const { return target_; }
  // Ends a running transfer, and prevents new ones. For signal handlers.
  static void Stop();
  static bool stopped();

 private:
  Target target_;
  void* curl_ = nullptr;
};

// Returns whether the answer describes a temporary error. ClickHouse answers almost all errors with 500, so its own
// code in the text decides.
bool IsTemporaryAnswer(long http_status, const std::string& answer);

}  // namespace lockstep::archive
