// The collector of `lockstep agent --alone`: a child process of the agent that listens on an ipc:// socket in the
// runtime folder. With it, the tools on this host work without a cluster collector.
#pragma once

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
  std::string folder;  // private folder (0700) for the socket
  std::string out;     // folder for the collector's incidents; created if missing
  std::string log;     // file for the collector's standard error
  int64_t late_after_ns = 5'000'000'000;
  // Further options of the collector's command line, because it is started with --no-config.
  std::vector<std::string> more;
  std::function<void(const std::string&)> say;  // logs one line if the collector exited and is restarted
};

// Returns collector settings as options: from the environment and, with `files`, from configuration files. Leaves out
// the address and everything that the agent sets itself.
absl::StatusOr<std::vector<std::string>> SettledOptions(bool files);

// One thread owns this object. The child ends with that thread.
class OwnCollector {
 public:
  static absl::StatusOr<std::unique_ptr<OwnCollector>> Start(const OwnCollectorOptions& options);
  ~OwnCollector();

  const std::string& endpoint() const { return endpoint_; }
  // Restarts the child after it exits, with growing pauses of up to a minute. Call about once a second.
  void Tick(int64_t mono_ns);
  // Ends the child with SIGTERM, or with SIGKILL after the limit, and waits for it.
  void End(int64_t limit_ns);

 private:
  explicit OwnCollector(const OwnCollectorOptions& options) : options_(options) {}
  absl::Status Spawn();

  const OwnCollectorOptions options_;
  std::vector<std::string> program_;
  std::string endpoint_;
  UniqueFd lock_;  // allows only one collector per folder, because a second one would take over the socket's name
  pid_t pid_ = -1;
  int64_t began_ns_ = 0, next_ns_ = 0, pause_ns_ = 0;
};

}  // namespace lockstep
