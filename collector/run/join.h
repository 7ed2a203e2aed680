// `lockstep run --collector`: an agent for only this job's ranks, and the collector's verdict on the job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/util/scratch_folder.h"
#include "collector/wire/client.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct JoinOptions {
  std::string collector;    // endpoint
  std::string ring_folder;  // the job's folder for rings
  std::string job;          // as in LOCKSTEP_JOB
  int64_t late_after_ns = 0;
  RedactLevel redact = RedactLevel::kNo;
  // Returns the communicators that the job has created so far. They distinguish it from others with the same name.
  std::function<std::vector<uint64_t>()> communicators;
};

// Not thread-safe. Prints the collector's messages on standard error.
class Join {
 public:
  // Starts the agent, which finds its keys like `lockstep agent`. Reads verdicts with keys found like `lockstep top`;
  // without such keys, returns OK but shows no verdicts.
  static absl::StatusOr<std::unique_ptr<Join>> Start(const JoinOptions& options);
  ~Join();

  // Returns -1 if verdicts cannot be read.
  int fd() const { return client_ == nullptr ? -1 : client_->fd(); }
  // Exchanges messages with the collector. Call when fd() is readable, and once a second.
  void Step(int64_t mono_ns);
  // Returns whether the collector reported the job as hung, and not as moving since.
  bool hung() const { return hung_; }
  VerdictKind verdict() const { return verdict_; }
  // Call when the job has ended. Waits two seconds; after an abnormal end (`badly`) or a hang, up to 90 seconds for a
  // complete incident. Then ends the agent.
  void Finish(bool badly);

 private:
  Join() = default;
  void EndAgent();

  JoinOptions options_;
  pid_t agent_ = 0;
  std::optional<ScratchFolder> spool_{std::in_place, "lockstep-spool"};
  std::unique_ptr<wire::Client> client_;
  uint64_t instance_ = 0;
  bool welcome_ = false, hung_ = false, heard_ = false, whole_ = false;
  int64_t asked_ns_ = 0;
  bool known_ = false;  // a request has listed communicators of this job, so answers are about this job
  std::string told_;    // the incident whose verdict was printed
  VerdictKind verdict_ = VERDICT_UNSPECIFIED;
};

}  // namespace lockstep
