// The collector's decisions, as a state machine: tracks jobs, finds late ranks and requests data from hosts. Decides
// when to print a verdict, and when an incident is complete. Has no threads, sockets, files or clock. Its owner passes
// in received messages and the time, sends messages for it, and does its slow work. docs/architecture.md describes the
// order of messages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collector/service/core/clients.h"
#include "collector/service/core/incidents.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/rounds.h"
#include "collector/service/core/shared.h"

namespace lockstep {

// Owned by one thread.
class CollectorCore : private JobEvents {
 public:
  CollectorCore(const CoreOptions& options, CoreActions* actions);
  CollectorCore(const CollectorCore&) = delete;
  CollectorCore& operator=(const CollectorCore&) = delete;

  // `mono_ns` never decreases; `real_ns` may jump, because it is only recorded.
  void Receive(int64_t mono_ns, const wire::Received& received);
  // Call ten times a second. Pauses of seconds between two calls are detected and do not count as waiting.
  void Tick(int64_t mono_ns, int64_t real_ns);
  // Takes over an incident that an earlier process began to gather. Call it before any message is received.
  void Resume(const IncidentState& state) { incidents_.Resume(state); }
  // Takes over a hang that an earlier process declared, so that it is not declared again.
  void Remember(DeclaredBefore before) { incidents_.book().before.push_back(std::move(before)); }

  const CoreCounters& counters() const { return shared_.counters; }
  // Returns whether gathering is in progress or work is running.
  bool busy() const { return shared_.working() || incidents_.book().gathering(); }
  // Returns the states of all jobs, jobs with problems first.
  std::vector<JobState> States() const;
  // `job` is a name, or "name/step/restart"; returns an empty status if it is unknown.
  JobStatus StatusOf(const std::string& job) const;

 private:
  void Reported(Job* job) override { incidents_.TakeUp(job); }
  void Differs(Job* job, const Desync& desync) override { incidents_.desyncs().Gather(job, desync); }
  void BeganOrEnded(Job* job) override { clients_.Tell(job->key, nullptr); }
  void OnStacks(const wire::Received& received);

  CoreShared shared_;
  JobTable jobs_;
  Clients clients_;
  Incidents incidents_;
  Rounds rounds_;
  int64_t swept_ns_ = 0;
};

}  // namespace lockstep
