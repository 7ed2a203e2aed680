// The top verb's conversation with the collector, without its screen.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_TOP_H_
#define LOCKSTEP_COLLECTOR_TOOLS_TOP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/tools/top_view.h"
#include "collector/wire/client.h"

namespace lockstep {

// One thread owns it. The client must outlive it.
class TopSession {
 public:
  // `job` as people write it ("name" or "name/step/restart"; empty: all jobs). `role`: what the own key says; without
  // keys an operator.
  TopSession(wire::Client* client, std::string job, Hello::Role role)
      : client_(client), job_(std::move(job)), role_(role) {}

  // Requests the state every second, and processes answers. Call it when the client's fd is readable, and at least ten
  // times a second.
  void Step(int64_t mono_ns);
  bool heard() const { return heard_ns_ != 0; }  // a state has come at least once
  int64_t silent_ns(int64_t mono_ns) const;      // 0: it answers

  const std::vector<JobStatus>& jobs() const { return jobs_; }
  // What the collector refused last, and why; taken once.
  std::string TakeError();

  // Each answers later, by lines(). Only one at a time: a new one forgets the one before.
  // Of the ranks that the others wait for: as the last incident has them, or taken now (not with a reader's key).
  void AskStacks(const JobStatus& job, bool fresh = false);
  void AskRank(const JobStatus& job, int32_t rank);
  void Dump(const JobStatus& job);
  // The answer to the last request so far; changes while a dump runs.
  const std::vector<std::string>& lines() const { return lines_; }
  bool answered() const { return answered_; }

 private:
  void Ask(ClientRequest request, const JobStatus& job);
  void Take(const ClientReply& reply, int64_t mono_ns);

  wire::Client* const client_;
  const std::string job_;
  const Hello::Role role_;
  std::vector<JobStatus> jobs_;
  uint64_t next_request_ = 1, status_request_ = 0, question_ = 0;
  int64_t asked_ns_ = 0, heard_ns_ = 0, started_ns_ = 0;
  bool greeted_ = false;
  std::vector<std::string> lines_;
  bool answered_ = false;
  std::string error_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_TOOLS_TOP_H_
