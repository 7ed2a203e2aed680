// `lockstep run --collector`: an agent for this job's ranks alone, and the collector's verdict on the job.
#ifndef LOCKSTEP_COLLECTOR_RUN_JOIN_H_
#define LOCKSTEP_COLLECTOR_RUN_JOIN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/evidence/redact.h"
#include "collector/wire/client.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct JoinOptions {
  std::string collector;    // endpoint
  std::string ring_folder;  // of the job
  std::string job;          // as in LOCKSTEP_JOB
  std::string agent;        // program; empty: lockstep-agent beside this one
  int64_t late_after_ns = 0;
  RedactLevel redact = RedactLevel::kNo;
  // Communicators that the job has created so far: they separate it from others of the same name.
  std::function<std::vector<uint64_t>()> kin;
};

// Not thread-safe. Prints the collector's messages on standard error.
class Join {
 public:
  // Starts the agent. Keys: the agent's as `lockstep agent` finds them, those for listening as `lockstep top` does;
  // without the latter only the collector reports the verdict.
  static absl::StatusOr<std::unique_ptr<Join>> Start(const JoinOptions& options);
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  int fd() const { return client_ == nullptr ? -1 : client_->fd(); }
  // Reads the collector's messages. Call when fd() is readable, and once a second.
  void Step(int64_t mono_ns);
  // The collector reports the job as hung, and not as moving again.
  bool hung() const { return hung_; }
  VerdictKind verdict() const { return verdict_; }
  // The job has ended. Gives agent and collector time: after a bad end until they are done with it, otherwise a moment.
  void Finish(bool badly);

 private:
  Join() = default;
  void EndAgent();

  JoinOptions options_;
  pid_t agent_ = 0;
  std::string spool_;
  std::unique_ptr<wire::Client> client_;
  uint64_t instance_ = 0;
  bool welcome_ = false, hung_ = false, heard_ = false, whole_ = false, over_ = false;
  int64_t asked_ns_ = 0;
  bool known_ = false;  // the collector knows communicators of this job, so its answers are about this job
  std::string told_;    // the incident whose verdict was printed
  VerdictKind verdict_ = VERDICT_UNSPECIFIED;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RUN_JOIN_H_
