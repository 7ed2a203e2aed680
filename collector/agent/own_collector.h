// The collector of `lockstep agent --alone`: a child process of the agent that listens on an ipc:// socket in the
// runtime folder, so that the tools of this host work without a collector for the cluster.
#ifndef LOCKSTEP_COLLECTOR_AGENT_OWN_COLLECTOR_H_
#define LOCKSTEP_COLLECTOR_AGENT_OWN_COLLECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

struct OwnCollectorOptions {
  std::string folder;  // private (0700); the socket is created in it
  std::string out;     // its incidents; created if missing
  std::string log;     // its standard error
  int64_t late_after_ns = 5'000'000'000;
  std::vector<std::string> more;                // further options of its command line: it reads no configuration file
  std::function<void(const std::string&)> say;  // one line when it ended and is restarted
};

// Collector settings from the environment and, with `files`, from configuration files, as options. Leaves out the
// address, and what the agent itself sets.
absl::StatusOr<std::vector<std::string>> SettledOptions(bool files);

// One thread owns it. The child ends with that thread.
class OwnCollector {
 public:
  static absl::StatusOr<std::unique_ptr<OwnCollector>> Start(const OwnCollectorOptions& options);
  ~OwnCollector();
  OwnCollector(const OwnCollector&) = delete;
  OwnCollector& operator=(const OwnCollector&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Call it about once a second: restarts it after an end, with growing pauses up to a minute.
  void Tick(int64_t mono_ns);
  // Waits for its end up to the limit, then kills it.
  void End(int64_t limit_ns);

 private:
  explicit OwnCollector(const OwnCollectorOptions& options) : options_(options) {}
  absl::Status Spawn();

  const OwnCollectorOptions options_;
  std::vector<std::string> program_;  // the command
  std::string endpoint_;
  UniqueFd lock_;  // one in a folder: a second one would take the socket's name
  pid_t pid_ = -1;
  int64_t began_ns_ = 0, next_ns_ = 0, pause_ns_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_OWN_COLLECTOR_H_
