// One HTTP conversation with ClickHouse, over libcurl. Answers are not trusted: their length is bounded, redirects are
// not followed.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_HTTP_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_HTTP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::archive {

struct Target {
  std::string base;  // "http://HOST:PORT/"
  std::string database;
  std::string user;  // empty: the server's default
  std::string password;
  std::string ca_file;  // empty: the system's
};

// "http://[USER@]HOST[:PORT]/DATABASE". Refuses a password in it, because all users can read command lines. Refuses
// http off loopback unless `insecure`. InvalidArgument names the problem.
absl::StatusOr<Target> ParseTarget(const std::string& url, bool insecure);

// One thread.
class Http {
 public:
  explicit Http(Target target);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Runs a statement; `body` follows it if it is an INSERT. `settings` of the query. Returns the answer, at most
  // `most_bytes`. Unavailable, DeadlineExceeded: worth another try; other errors are for the user.
  absl::StatusOr<std::string> Post(const std::string& statement, const std::string* body,
                                   const std::vector<std::pair<std::string, std::string>>& settings, int64_t limit_ms,
                                   size_t most_bytes);
  const Target& target() const { return target_; }
  // From now on no transfer begins, and a running one ends: for signal handlers.
  static void Stop();
  static bool stopped();

 private:
  Target target_;
  void* curl_ = nullptr;
};

// Whether the error may be temporary, from the answer's text. ClickHouse answers nearly all errors with 500; its own
// code decides.
bool IsPassing(long http_status, const std::string& answer);

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_HTTP_H_
