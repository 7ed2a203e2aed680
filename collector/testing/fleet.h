// A cluster for the collector's tests, without processes or clocks: the collector's core, and simulated agents of a job
// from the analyzer's model. An hour takes milliseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "analyzer/testing/job.h"
#include "collector/service/core/core.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace lockstep::testing {

// A host's agent, as the collector sees it.
struct FleetAgent {
  std::string host;
  uint64_t peer = 0;
  // Set if the agent is behind its own relay, which is `peer`; a new value means that the agent has connected again.
  std::vector<uint64_t> route;
  std::vector<int32_t> ranks;
  bool connected = true, answers_digests = true, answers_evidence = true, sends_files = true;
  bool digests_in_parts = false;
  // Returns how long a digest takes to arrive after the request for it; a negative value means that it is lost. Null
  // means no delay.
  std::function<int64_t(const CollectRequest& request)> digest_delay;
  std::vector<CollectRequest> requests;  // requests that the agent received
  std::map<std::string, Chunk> unacknowledged;
  std::set<std::string> acknowledged, refused;
  ProcessEvidence found;  // evidence for each of the host's ranks
  std::string no_rings;   // reason why the agent has no rings to send; empty if it has rings
};

class Fleet : public CoreActions {
 public:
  // `bundle` is what the ranks' rings contain; `per_host` ranks are on each host node0, node1, ...
  Fleet(const Bundle& bundle, int per_host, const std::string& out, const std::string& job = "train",
        uint64_t first_peer = 100);

  CoreOptions options;
  std::vector<FleetAgent> agents;
  std::unique_ptr<CollectorCore> core;
  int64_t now = 1'000'000'000'000;
  int64_t real_offset = 1'700'000'000'000'000'000;
  // Until `stop_ns`, all counters in heartbeats increase; then they stay. Waits and exits of `bundle` are reported
  // after it.
  int64_t stop_ns = INT64_MAX;
  std::vector<std::string> said, printed, verdicts;  // lines, blocks, JSON of --on-verdict
  std::vector<Decision> decisions;
  std::vector<ClientReply> replies;  // replies to Ask()
  std::map<uint64_t, Welcome> welcomes;
  bool hold_disk = false;   // disk work waits
  bool hold_final = false;  // the final verdict waits
  bool lose_acks = false;
  bool sends_stacks = true;                                     // false for agents of a version without merged stacks
  std::function<void(int32_t rank, RankDigest* digest)> amend;  // changes a rank's digest in addition to `bundle`

  void Start(uint64_t instance = 7);
  void Restart(uint64_t instance);  // restarts the collector; late ranks are reported again
  // Lets time pass: ticks, heartbeats once a second, requested work.
  void Pass(int64_t ns);
  // Passes time until the condition holds or the limit is reached.
  bool PassUntil(int64_t most_ns, const std::function<bool()>& condition);
  void Say(FleetAgent* agent, wire::Type type, const google::protobuf::MessageLite& message,
           wire::Role role = wire::Role::kAgent);
  void Ask(uint64_t peer, wire::Role role, const ClientRequest& request);
  JobIdentity identity() const;
  bool final_waits() const { return !final_.empty(); }
  bool Heard(const std::string& part) const;  // whether a line of `said` contains `part`

  void Send(uint64_t peer, const wire::Message& message) override;
  std::vector<uint64_t> Reporters() const override;
  void Work(CoreTask task) override;
  void Say(const std::string& line) override { said.push_back(line); }
  void Print(const std::string& block) override { printed.push_back(block); }
  void Decided(const Decision& decision, const std::string&, int64_t) override { decisions.push_back(decision); }
  void OnVerdict(const std::string&, const std::string& json, const std::string& folder) override;
  absl::Status Finalise(const std::string& folder, Incident* incident) override;

 private:
  void Heartbeats();
  void Answer(FleetAgent* agent, const wire::Message& message);
  void Deliver();
  void SendFile(FleetAgent* agent, const CollectRequest& request);
  void Resend(FleetAgent* agent);
  void DoWork();
  std::string Packed(int32_t rank) const;

  const Bundle bundle_;
  const std::string job_;
  int64_t next_heartbeat_ = 0, started_ns_ = 0;
  uint64_t beats_ = 0;
  std::deque<CoreTask> tasks_, disk_, final_;
  struct OnItsWay {
    std::string host;
    DigestEnvelope digest;
  };
  std::multimap<int64_t, OnItsWay> on_their_way_;  // arrival time -> digest
  uint64_t chunk_ids_;
};

// A job of tp x pp x dp ranks. `culprit` has the fault at its first operation on "dp" in step 2 (counted from 0). The
// communicators' IDs do not have a ring's form.
Bundle Hung(int tp, int pp, int dp, int culprit, HostFault fault = HostFault::kStall);

// A test with a folder for incidents, which is removed afterwards.
class FleetTest : public ::testing::Test {
 protected:
  std::vector<std::string> Incidents() const;  // paths
  static std::string Content(const std::string& path) { return support::ReadFile(path); }
  static Verdict Read(const std::string& folder);  // returns the result of `lockstep analyze`
  const support::TempFolder temp_;
  const std::string out_ = temp_.path();
};

}  // namespace lockstep::testing
