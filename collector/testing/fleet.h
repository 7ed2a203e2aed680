// A cluster for the collector's tests, without processes or clocks: agents of a job that is played by the analyzer's
// model of one, and the collector's core between them. Hours pass in milliseconds.
#ifndef LOCKSTEP_COLLECTOR_TESTING_FLEET_H_
#define LOCKSTEP_COLLECTOR_TESTING_FLEET_H_

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
#include "collector/service/core.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace lockstep::testing {

// A host's agent, as far as the collector sees it.
struct FleetAgent {
  std::string host;
  uint64_t peer = 0;
  std::vector<uint64_t> route;  // not empty: it is behind its own relay, which is `peer`; a new value: it connected
                                // again
  std::vector<int32_t> ranks;
  bool connected = true, answers_digests = true, answers_evidence = true, sends_files = true;
  bool digests_in_parts = false;
  // How long each digest takes to arrive, made when it was asked for; negative: it is lost. Null: no time at all.
  std::function<int64_t(const CollectRequest& request)> digest_delay;
  std::vector<CollectRequest> requests;  // received
  std::map<std::string, Chunk> unacknowledged;
  std::set<std::string> acknowledged, refused;
  ProcessEvidence found;  // of each of its ranks, when evidence is asked for
  std::string no_rings;   // not empty: why it has none to send
};

class Fleet : public CoreActions {
 public:
  // `bundle` is what the ranks' rings hold; `per_host` ranks live on each host node0, node1, ...
  Fleet(const Bundle& bundle, int per_host, const std::string& out, const std::string& job = "train",
        uint64_t first_peer = 100);

  CoreOptions options;
  std::vector<FleetAgent> agents;
  std::unique_ptr<CollectorCore> core;
  int64_t now = 1'000'000'000'000;
  int64_t real_offset = 1'700'000'000'000'000'000;
  // Ranks whose counters do not move any more once `stopped_ns` has come; before that, all do.
  int64_t stop_ns = INT64_MAX;
  std::vector<std::string> said, printed, verdicts;  // lines, blocks, JSON of --on-verdict
  std::vector<Decision> decisions;
  std::vector<ClientReply> replies;  // to peers below 100
  std::map<uint64_t, Welcome> welcomes;
  bool hold_disk = false;   // disk work waits
  bool hold_final = false;  // and what makes the verdict on the whole
  bool lose_acks = false;
  bool sends_stacks = true;  // false: agents of a version before there were merged stacks
  std::function<void(int32_t rank, RankDigest* digest)> amend;  // changes a rank's digest beside `bundle`

  void Start(uint64_t instance = 7);
  void Restart(uint64_t instance);  // the collector dies and starts again; late ranks are reported again
  // Lets time pass: ticks, heartbeats once a second, requested work.
  void Pass(int64_t ns);
  // Until it holds, within the limit.
  bool PassUntil(int64_t most_ns, const std::function<bool()>& condition);
  void Say(FleetAgent* agent, wire::Type type, const google::protobuf::MessageLite& message,
           wire::Role role = wire::Role::kAgent);
  void Ask(uint64_t peer, wire::Role role, const ClientRequest& request);
  JobIdentity identity() const;
  bool final_waits() const { return !final_.empty(); }
  bool Heard(const std::string& part) const;  // one of `said` contains it

  void Send(uint64_t peer, const wire::Message& message) override;
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
  std::multimap<int64_t, OnItsWay> on_their_way_;  // when it arrives -> digest
  uint64_t chunk_ids_;
};

// A job of tp x pp x dp ranks in which `culprit` stops in front of its second operation of "dp"; its communicators' ids
// are not a ring's.
Bundle Hung(int tp, int pp, int dp, int culprit, HostFault fault = HostFault::kStall);

// With a folder for incidents, which is removed afterwards.
class FleetTest : public ::testing::Test {
 protected:
  std::vector<std::string> Incidents() const;  // paths
  static std::string Content(const std::string& path) { return support::ReadFile(path); }
  static Verdict Read(const std::string& folder);  // the result of `lockstep analyze`
  const support::TempFolder temp_;
  const std::string out_ = temp_.path();
};

}  // namespace lockstep::testing

#endif  // LOCKSTEP_COLLECTOR_TESTING_FLEET_H_
