// What the collector decides, as a state machine: jobs and their generations, who is late, which ranks are asked for
// what, when a verdict is out, and when an incident is whole. No thread, socket, file or clock of its own: its owner
// gives it what was received and the time, sends what it wants sent, and does its work where that takes long. A test
// plays hours in a second. docs/architecture.md gives the order of messages.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_CORE_H_
#define LOCKSTEP_COLLECTOR_SERVICE_CORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
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
  uint64_t instance = 0;              // random, of this process
  std::vector<std::string> fallback;  // fallback endpoints for peers with a silent relay
  DetectorLimits limits;
  StoreLimits store;
  uint64_t quota = uint64_t{1} << 40;  // bytes of all incidents gathered by this process together
  // A job is not judged while members of its communicators are unknown, for up to this long since this process first
  // heard of it: after a restart agents report one by one, and the others would seem to be missing.
  int64_t gather_after_ns = 10'000'000'000;
  int64_t silent_after_ns = 5'000'000'000;    // for a silent agent or relay
  int64_t forget_after_ns = 600'000'000'000;  // a job without any message
  // A round of digests ends when all are in; else after the first limit, once nothing came for the second, or for a
  // quarter of the time so far, and the missing ones were asked again; at the latest after the third.
  int64_t digest_least_ns = 2'000'000'000, digest_quiet_ns = 1'000'000'000, digest_most_ns = 15'000'000'000;
  int64_t evidence_ns = 15'000'000'000;           // for all of it
  size_t fresh_ranks = 16;                        // number of ranks whose stacks are taken on a user's request
  int64_t ask_evidence_again_ns = 5'000'000'000;  // for a host without an answer for this long
  size_t evidence_ranks = 64;
  size_t merged_ranks = 256;                        // number of ranks that send only stacks
  size_t everything_hosts = 16;                     // asked for whole rings at the same time
  size_t desync_gatherings = 4, desync_ranks = 64;  // of one job: for silent desyncs, and for how many ranks each
  int64_t desync_confirm_ns = 60'000'000'000;       // a difference that is not seen again within this time does not
                                                    // count
  int64_t ask_again_ns = 10'000'000'000;            // for a host without an answer
  int64_t give_up_ns = 60'000'000'000;              // the same: continue without it
  size_t most_jobs = 1024, most_hosts = 65536;      // of one job
  size_t most_waiting_chunk_bytes = size_t{64} << 20;
};

// Slow work for a thread of the owner's. Tasks of one lane run one after the other in order.
struct CoreTask {
  enum class Lane { kAnalysis, kDisk, kFinal };
  Lane lane = Lane::kAnalysis;
  std::function<void()> run;              // anywhere; does not touch the core
  std::function<void(int64_t now)> done;  // afterwards, by the core's owner, on the core's thread
};

class CoreActions {
 public:
  virtual ~CoreActions() = default;
  // May fail silently: everything is requested again.
  virtual void Send(uint64_t peer, const wire::Message& message) = 0;
  virtual void Work(CoreTask task) = 0;
  // A line for the log.
  virtual void Say(const std::string& line) = 0;
  // A verdict, as in verdict.txt.
  virtual void Print(const std::string& block) = 0;
  virtual void Decided(const Decision& decision, const std::string& job, int64_t real_ns) = 0;
  // The command of --on-verdict, if there is one. `folder`: of the incident; empty: nothing can be written.
  virtual void OnVerdict(const std::string& job, const std::string& json, const std::string& folder) = 0;
  // Loads the incident's folder, analyzes it and rewrites its verdict files; on the final lane, possibly in another
  // process.
  virtual absl::Status Finalise(const std::string& folder, Incident* incident) = 0;
};

// Since the start; each is a metric.
struct CoreCounters {
  uint64_t heartbeats = 0, late = 0, hung = 0, recovered = 0, verdicts = 0, rounds = 0, digests = 0, digests_late = 0,
           evidence = 0;
  uint64_t chunks = 0, chunk_bytes = 0, chunks_refused = 0, chunks_put_off = 0, malformed = 0, requests_refused = 0;
  uint64_t jobs = 0, agents = 0, agents_silent = 0, ranks = 0;  // now
  int64_t heartbeat_lag_ns = 0;                                 // of the oldest part of the newest heartbeats
};

// One thread owns it.
class CollectorCore {
 public:
  CollectorCore(const CoreOptions& options, CoreActions* actions);
  ~CollectorCore();
  CollectorCore(const CollectorCore&) = delete;
  CollectorCore& operator=(const CollectorCore&) = delete;

  // `mono_ns` never goes back; `real_ns` may jump, it is only recorded.
  void Receive(int64_t mono_ns, const wire::Received& received);
  // Ten times a second. Pauses of seconds between two calls are detected and not counted as waiting.
  void Tick(int64_t mono_ns, int64_t real_ns);
  // An incident whose gathering an earlier process began. Call it before anything is received.
  void Resume(const IncidentState& state);
  // A hang that an earlier process declared: it is not declared again.
  void Remember(DeclaredBefore before) { before_.push_back(std::move(before)); }

  const CoreCounters& counters() const { return counters_; }
  // Gathering is in progress, or work is running.
  bool busy() const;
  // Of every job, those in trouble first.
  std::vector<JobState> States() const;
  JobStatus StatusOf(const std::string& job) const;  // by name, or "name/step/restart"; empty message: unknown

 private:
  struct Watcher {
    Address address;
    uint64_t request = 0;
    std::string job;
    int64_t until_ns = 0;
    int64_t next_ns = 0;
    std::vector<uint64_t> kin;  // communicators of the wanted job
  };

  // The source of a job's reports: an agent's or a relay's process, and its number for the job.
  struct SenderKey {
    std::string key, host;  // host: of an agent
    uint64_t peer = 0;
    uint32_t life = 0;
    bool direct = false;  // an agent without a relay
  };
  // Jobs of the same name.
  struct Family {
    struct Heard {
      SenderKey sender;
      int64_t ns = 0;
    };
    Namesakes sorted;  // senders by SenderKey::key
    std::map<std::string, Heard> heard;
  };

  // Stacks for a user's request.
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

  void TickIncident(Gathering* incident);
  void TickEvidence(Gathering* incident);
  void TickEverything(Gathering* incident);
  void StartEvidence(Gathering* incident);
  void AskForEvidence(Gathering* incident, const std::string& host, HostGathering* gathering);
  void TakeUp(Gathering* incident, Job* job);
  bool WasDeclared(Job* job, const Decision& decision);
  void AfterEvidence(Gathering* incident);
  void WriteVerdict(Gathering* incident, std::function<void()> then);
  void StartEverything(Gathering* incident);
  void AskForEverything(Gathering* incident, const std::string& host, HostGathering* gathering);
  void StartFinal(Gathering* incident);
  void TellProgram(Gathering* incident);
  void AfterVerdict(Gathering* incident);
  void GatherDesync(Job* job, const Desync& desync);
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

#endif  // LOCKSTEP_COLLECTOR_SERVICE_CORE_H_
