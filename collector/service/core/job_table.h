// The jobs and their senders. Assigns heartbeats, late reports and exits to jobs, separates jobs with the same name,
// and detects silence.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/common/namesakes.h"
#include "collector/service/core/host_clocks.h"
#include "collector/service/core/job.h"
#include "collector/service/core/shared.h"

namespace lockstep {

// Events that reports cause in other parts of the core.
class JobEvents {
 public:
  virtual ~JobEvents() = default;
  // A heartbeat of the job arrived.
  virtual void Reported(Job* job) = 0;
  // Members of a communicator made different calls; the job continues.
  virtual void Differs(Job* job, const Desync& desync) = 0;
  // The job is over, or has become alive again.
  virtual void BeganOrEnded(Job* job) = 0;
};

class JobTable {
 public:
  JobTable(CoreShared* shared, JobEvents* events) : shared_(*shared), events_(*events) {}

  void Heard(uint64_t peer);  // a message of any type arrived on this connection
  void OnHello(const wire::Received& received);
  void OnHeartbeat(const wire::Received& received);
  void OnLate(const wire::Received& received);
  void OnEnded(const wire::Received& received);
  void OnBye(const wire::Received& received);

  const std::map<std::string, std::unique_ptr<Job>>& jobs() const { return jobs_; }
  const HostClocks& clocks() const { return clocks_; }
  Job* Find(const std::string& key);
  // Returns the live jobs with that name or, if none is alive, all jobs with it. Prefers exact names (MatchName).
  // "NAME#1" is the first of several.
  std::vector<Job*> Named(const std::string& name);
  bool HasNamesake(const Job& job) const;
  // Like FillStatus, but numbers the first job, too, if several have the same name.
  void Fill(const Job& job, JobStatus* status) const;
  // Sends the request to each host that has some of the ranks; to all hosts if `ranks` is empty. Uses each host's own
  // number for the job.
  void AskHosts(const Job& job, CollectRequest request, const Ranks& ranks);
  // Runs `run` as a task and then `done` on the core's thread, unless the core or the job is gone.
  void WorkFor(Job* job, CoreTask::Lane lane, std::function<void()> run, std::function<void(Job*)> done);

  // Call after a time in which this process did not run: no sender counts as silent for that time.
  void Rebase();
  // Finds silent senders, and jobs that are over. Call once a second.
  void LookForSilence();
  // Forgets old entries and counts the rest. Call every few seconds. Drops messages about an unknown job after
  // `hold_early_ns`.
  void Sweep(int64_t hold_early_ns);

 private:
  // The source of a job's reports: the process of an agent or a relay, and its number for the job.
  struct SenderKey {
    std::string key, host;  // `host` is only for an agent
    uint64_t peer = 0;
    uint32_t life = 0;
    bool direct = false;  // an agent without a relay
  };
  // Jobs with the same name.
  struct Family {
    struct Heard {
      SenderKey sender;
      int64_t ns = 0;
    };
    Namesakes sorted;  // senders, indexed by SenderKey::key
    std::map<std::string, Heard> heard;
  };
  // A message about a job that is still unknown.
  struct Early {
    std::string base;
    wire::Received received;
    int64_t at_ns = 0;
  };

  void SendWelcome(const Address& to, uint32_t protocol, const std::string& refused = "");
  SenderKey KeyOfSender(const wire::Received& received, const JobIdentity& identity, const std::string& host) const;
  Job* JobOf(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host);
  Job* JobSaid(const wire::Received& received, const JobIdentity& identity, const std::string& host);
  Job* JobNumber(const JobIdentity& identity, int number);
  Job* KnownJob(const SenderKey& sender, const JobIdentity& identity);
  std::optional<uint32_t> FromAgent(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host,
                                    HeartbeatFacts seen, Job* job);
  uint32_t FromRelay(const wire::Received& received, const Heartbeat& heartbeat, HeartbeatFacts seen, Job* job);
  void FollowCommunicators(const Heartbeat& heartbeat, uint32_t child, Job* job);
  void Hold(const JobIdentity& identity, const wire::Received& received);
  void TakeEarly(const JobIdentity& identity);
  void LeaveJob(Job* job, const SenderKey& sender);
  void Leave(const SenderKey& sender, const JobIdentity& identity);
  // In silence.cpp.
  void LookForSilentFamilies();
  void LookForSilence(Job* job);
  void LookForSilentHosts(Job* job);
  void LookForSilentRelays(Job* job);
  bool PassedOver(uint64_t peer, int64_t heard_ns) const;
  void LookWhetherOver(Job* job);

  CoreShared& shared_;
  JobEvents& events_;
  HostClocks clocks_;
  absl::flat_hash_map<uint64_t, PeerInfo> peers_;     // indexed by connection
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // indexed by key
  std::map<std::string, Family> families_;            // indexed by BaseKeyOf()
  std::deque<Early> early_;
  uint32_t children_ = 0;
};

}  // namespace lockstep
