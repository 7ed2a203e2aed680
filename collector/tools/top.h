// The connection of `lockstep top` to the collector, without its screen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/tools/top_view.h"
#include "collector/wire/client.h"

namespace lockstep {

// One thread owns this object. The client must outlive it.
class TopSession {
 public:
  // `job` is the job as users write it ("name" or "name/step/restart"; empty for all jobs). `role`: from the user's
  // key; operator without keys.
  TopSession(wire::Client* client, std::string job, Hello::Role role)
      : client_(client), job_(std::move(job)), role_(role) {}

  // Requests the state every second, and processes answers. Call it if the client's fd is readable, and at least ten
  // times a second.
  void Step(int64_t mono_ns);
  bool heard() const { return heard_ns_ != 0; }  // whether at least one state has arrived
  int states() const { return states_; }         // number of states that have arrived
  int64_t silent_ns(int64_t mono_ns) const;      // 0 if the collector answers

  const std::vector<JobStatus>& jobs() const { return jobs_; }
  // NCCL calls per second of each job's busiest communicator, between its two newest states. Negative if unknown.
  const std::vector<double>& calls_a_second() const { return rates_; }
  // Returns the collector's last error, once; empty if there is none.
  std::string TakeError();

  // The next functions send a request, which replaces the previous one. lines() returns the answer.

  // Requests stacks of the ranks that other ranks wait for: from the last incident, or fresh ones. With a reader's key,
  // fresh stacks are refused.
  void AskStacks(const JobStatus& job, bool fresh = false);
  void AskRank(const JobStatus& job, int32_t rank);
  void Dump(const JobStatus& job);
  // What has arrived of the answer to the last request; grows while a dump is in progress.
  const std::vector<std::string>& lines() const { return lines_; }
  bool answered() const { return answered_; }  // whether the answer is complete

 private:
  void Ask(ClientRequest request, const JobStatus& job);
  void Take(const ClientReply& reply, int64_t mono_ns);
  double CallsASecond(const JobStatus& now, int64_t passed_ns) const;

  wire::Client* const client_;
  const std::string job_;
  const Hello::Role role_;
  std::vector<JobStatus> jobs_;
  std::vector<double> rates_;
  uint64_t next_request_ = 1, status_request_ = 0, question_ = 0;
  int64_t asked_ns_ = 0, heard_ns_ = 0, started_ns_ = 0;
  bool greeted_ = false;
  int states_ = 0;
  std::vector<std::string> lines_;
  bool answered_ = false;
  std::string error_;
};

}  // namespace lockstep
