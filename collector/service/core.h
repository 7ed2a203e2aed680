// The collector's decisions, as a state machine. It decides about jobs and their generations, what is late, which ranks
// are asked for what, when a verdict is printed, and when an incident is complete. It has no threads, sockets, files or
// clock. Its owner passes in received messages and the time, sends messages for it, and does its slow work. So a test
// simulates hours in a second. docs/architecture.md describes the order of messages.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/common/namesakes.h"
#include "collector/detect/detector.h"
#include "collector/incident/store.h"
#include "collector/service/job.h"
#include "collector/service/open_incident.h"
#include "collector/wire/frame.h"
#include "collector/wire/server.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct CoreOptions {
  std::string out = ".";  // parent folder of incidents
  std::string version;
  uint64_t instance = 0;              // random for each process
  std::vector<std::string> fallback;  // fallback endpoints for peers whose relay is silent
  DetectorLimits limits;
  StoreLimits store;
  uint64_t quota = uint64_t{1} << 40;  // maximum bytes of all incidents that this process gathers
  // A job is not judged while members of its communicators are unknown, until this long after this process first heard
  // of it. After a restart agents report one by one, so the others would seem to be missing.
  int64_t gather_after_ns = 10'000'000'000;
  int64_t silent_after_ns = 5'000'000'000;    // limit for a silent agent or relay
  int64_t forget_after_ns = 600'000'000'000;  // limit for a job without any message
  // A round of digests ends when all have arrived. After the first limit, it ends once nothing arrived for the second
  // (or for a quarter of the time so far) and the missing hosts were asked again. It ends after the third limit at the
  // latest.
  int64_t digest_least_ns = 2'000'000'000, digest_quiet_ns = 1'000'000'000, digest_most_ns = 15'000'000'000;
  int64_t evidence_ns = 15'000'000'000;           // limit for all evidence
  size_t fresh_ranks = 16;                        // number of ranks whose stacks are taken when a user asks
  int64_t ask_evidence_again_ns = 5'000'000'000;  // limit for a host without an answer
  size_t evidence_ranks = 64;
  size_t merged_ranks = 256;     // number of ranks that send only stacks
  size_t everything_hosts = 16;  // number of hosts that are asked for whole rings at the same time
  // Maximum number of rounds for silent desyncs in one job, and of ranks in each round.
  size_t desync_gatherings = 4, desync_ranks = 64;
  int64_t desync_confirm_ns = 60'000'000'000;   // a difference that is not seen again within this time is ignored
  int64_t ask_again_ns = 10'000'000'000;        // limit for a host without an answer before it is asked again
  int64_t give_up_ns = 60'000'000'000;          // the limit after which the incident continues without the host
  size_t most_jobs = 1024, most_hosts = 65536;  // maximum in one job
  size_t most_waiting_chunk_bytes = size_t{64} << 20;
};

// Slow work for a thread of the owner. Tasks of one lane run one after the other in order.
struct CoreTask {
  enum class Lane { kAnalysis, kDisk, kFinal };
  Lane lane = Lane::kAnalysis;
  std::function<void()> run;              // on any thread; must not touch the core
  std::function<void(int64_t now)> done;  // afterwards, called by the core's owner on the core's thread
};

class CoreActions {
 public:
  virtual ~CoreActions() = default;
  // May fail silently, because everything is requested again.
  virtual void Send(uint64_t peer, const wire::Message& message) = 0;
  virtual void Work(CoreTask task) = 0;
  // Writes a line to the log.
  virtual void Say(const std::string& line) = 0;
  // Prints a verdict in the form of verdict.txt.
  virtual void Print(const std::string& block) = 0;
  virtual void Decided(const Decision& decision, const std::string& job, int64_t real_ns) = 0;
  // Runs the command of --on-verdict, if there is one. `folder`: of the incident; empty if nothing can be written.
  virtual void OnVerdict(const std::string& job, const std::string& json, const std::string& folder) = 0;
  // Loads the incident's folder, analyzes it and rewrites its verdict files; runs on the final lane, possibly in
  // another process.
  virtual absl::Status Finalise(const std::string& folder, Incident* incident) = 0;
};

// Counted since the start; each is a metric.
struct CoreCounters {
  uint64_t heartbeats = 0, late = 0, hung = 0, recovered = 0, verdicts = 0, rounds = 0, digests = 0, digests_late = 0,
           evidence = 0;
  uint64_t chunks = 0, chunk_bytes = 0, chunks_refused = 0, chunks_put_off = 0, malformed = 0, requests_refused = 0;
  uint64_t jobs = 0, agents = 0, agents_silent = 0, ranks = 0;  // current numbers
  int64_t heartbeat_lag_ns = 0;                                 // age of the oldest part of the newest heartbeats
};

// One thread owns this object.
class CollectorCore {
 public:
  CollectorCore(const CoreOptions& options, CoreActions* actions);
  ~CollectorCore();
  CollectorCore(const CollectorCore&) = delete;
  CollectorCore& operator=(const CollectorCore&) = delete;

  // `mono_ns` never decreases; `real_ns` may jump, because it is only recorded.
  void Receive(int64_t mono_ns, const wire::Received& received);
  // To be called ten times a second. Pauses of seconds between two calls are detected and not counted as waiting.
  void Tick(int64_t mono_ns, int64_t real_ns);
  // Takes an incident whose gathering an earlier process began. Call it before anything is received.
  void Resume(const IncidentState& state);
  // Takes a hang that an earlier process declared, so that the hang is not declared again.
  void Remember(DeclaredBefore before) { before_.push_back(std::move(before)); }

  const CoreCounters& counters() const { return counters_; }
  // Returns whether gathering is in progress or work is running.
  bool busy() const;
  // The states of all jobs, those with problems first.
  std::vector<JobState> States() const;
  JobStatus StatusOf(const std::string& job) const;  // By name, or "name/step/restart"; an empty message if unknown.

 private:
  struct Watcher {
    Address address;
    uint64_t request = 0;
    std::string job;
    int64_t until_ns = 0;
    int64_t next_ns = 0;
    std::vector<uint64_t> kin;  // communicators of the requested job
  };

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

  // Stacks that a user requested.
  struct FreshStacks {
    Address to;
    uint64_t client_request = 0, request = 0;
    Ranks wanted, got;
    StackTree tree;
    std::vector<std::string> refused;
    int64_t until_ns = 0;
  };

  bool Decode(const wire::Message& message, google::protobuf::MessageLite* into);
  void Send(const Address& to, wire::Type type, const google::protobuf::MessageLite& message);
  void OnHello(const wire::Received& received);
  void OnHeartbeat(const wire::Received& received);
  std::optional<uint32_t> FromAgent(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host,
                                    RanksSeen seen, Job* job);
  uint32_t FromRelay(const wire::Received& received, const Heartbeat& heartbeat, RanksSeen seen, Job* job);
  void FollowCommunicators(const Heartbeat& heartbeat, uint32_t child, Job* job);
  void TakeUpIncidents(Job* job);
  void OnLate(const wire::Received& received);
  void OnEnded(const wire::Received& received);
  void OnDigest(const wire::Received& received);
  void OnFullDigest(Job* job, const std::string& host, const Ranks& ranks, std::shared_ptr<DigestEnvelope> digest);
  void OnSample(Job* job, const Ranks& ranks, std::shared_ptr<DigestEnvelope> digest);
  void OnEvidence(const wire::Received& received);
  void OnNoRings(const HostEvidence& evidence);
  void OnStacks(const wire::Received& received);
  void WriteStacksOf(Gathering* incident);
  void LookWhetherDone(Gathering* incident, HostGathering* gathering);
  void OnChunk(const wire::Received& received);
  void OnClient(const wire::Received& received);
  std::string AskFreshStacks(Job* job, const Address& to, uint64_t client_request);
  void TickFreshStacks();
  void OnBye(const wire::Received& received);

  void SendWelcome(const Address& to, uint32_t protocol, const std::string& refused = "");
  SenderKey KeyOfSender(const wire::Received& received, const JobIdentity& identity, const std::string& host) const;
  Job* JobOf(const wire::Received& received, const Heartbeat& heartbeat, const std::string& host);
  Job* JobSaid(const wire::Received& received, const JobIdentity& identity, const std::string& host);
  Job* JobNumber(const JobIdentity& identity, int number);
  Job* KnownJob(const SenderKey& sender, const JobIdentity& identity);
  Job* Find(const std::string& key);
  void Hold(const JobIdentity& identity, const wire::Received& received);
  void TakeEarly(const JobIdentity& identity);
  std::vector<Job*> Named(const std::string& name);
  uint64_t NextRequest() { return request_base_ | ++requests_; }
  int64_t RealNow() const { return real_ns_ + (now_ - tick_ns_); }

  void TickJob(Job* job);
  void LookForSilence(Job* job);
  bool PassedOver(uint64_t peer, int64_t heard_ns) const;
  void LeaveJob(Job* job, const SenderKey& sender);
  void Leave(const SenderKey& sender, const JobIdentity& identity);
  void TickFamilies();
  void LookWhetherOver(Job* job);
  void Decide(Job* job, const Decision& decision);
  void StartRound(Job* job, bool by_hand);
  void StartSamples(Job* job, const std::vector<int32_t>& ranks);
  void AskHosts(Job* job, CollectRequest request, const Ranks& ranks);
  bool AllAreIn(const Job& job) const;
  bool RoundIsIn(Job* job);
  void AskOnceMore(Job* job);
  void FinishRound(Job* job);
  void AfterAnalysis(Job* job);
  void Judge(Job* job, bool all_ranks);
  void Declare(Job* job, const Decision* decision);
  void MakeIncident(Job* job, const Decision* decision);

  // Runs `run` as a task, and then `done` on the core's thread, unless the core, the incident or the job is gone.
  void Work(CoreTask::Lane lane, std::function<void()> run, std::function<void()> done);
  void WorkFor(Gathering* incident, CoreTask::Lane lane, std::function<void()> run,
               std::function<void(Gathering*)> done);
  void WorkFor(Job* job, CoreTask::Lane lane, std::function<void()> run, std::function<void(Job*)> done);

  void TickIncident(Gathering* incident);
  void TickEvidence(Gathering* incident);
  void TickEverything(Gathering* incident);
  void StartEvidence(Gathering* incident);
  void AskForEvidence(Gathering* incident, const std::string& host, HostGathering* gathering);
  void TakeUp(Gathering* incident, Job* job);
  bool WasDeclared(Job* job, const Decision& decision);
  void AfterEvidence(Gathering* incident);
  void WriteVerdict(Gathering* incident, std::function<void(Gathering*)> then);
  void StartEverything(Gathering* incident);
  void AskForEverything(Gathering* incident, const std::string& host, HostGathering* gathering);
  void StartFinal(Gathering* incident);
  void TellProgram(Gathering* incident);
  void AfterVerdict(Gathering* incident);
  void GatherDesync(Job* job, const Desync& desync);
  void ConfirmDesync(Job* job, const Desync& desync);
  void AbandonDesync(Gathering* incident);
  void Commit(Gathering* incident);
  void Tell(Gathering* incident, const std::string& progress, bool done);
  void TellWatchers(const std::string& job, const Incident* incident);
  void TickWatchers();
  void FillJob(const Job& job, JobStatus* status);
  bool HasNamesake(const Job& job) const;
  bool Watches(const Watcher& watcher, const Job& job);
  void SayOnce(Gathering* incident, const std::string& text);

  const CoreOptions options_;
  CoreActions* const actions_;
  CoreCounters counters_;
  int64_t now_ = 0, tick_ns_ = 0, real_ns_ = 0, swept_ns_ = 0;
  uint64_t request_base_ = 0, requests_ = 0;
  size_t waiting_chunk_bytes_ = 0;
  uint64_t gathered_bytes_ = 0;
  HostClocks clocks_;
  absl::flat_hash_map<uint64_t, PeerInfo> peers_;                // by connection
  std::map<std::string, std::unique_ptr<Job>> jobs_;             // by key
  std::map<std::string, Family> families_;                       // by BaseKeyOf()
  std::map<std::string, std::unique_ptr<Gathering>> incidents_;  // by name; complete ones stay for a while
  std::vector<Watcher> watchers_;
  std::vector<DeclaredBefore> before_;
  struct Early {
    std::string base;
    wire::Received received;
    int64_t at_ns = 0;
  };
  std::deque<Early> early_;
  std::list<FreshStacks> fresh_;
  uint32_t children_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  size_t tasks_out_ = 0;
};

}  // namespace lockstep
