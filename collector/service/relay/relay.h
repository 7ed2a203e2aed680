// A relay connects agents (or other relays) to the collector, so the collector's connections and messages do not grow
// with the number of hosts. It forwards digests, evidence, chunks and process exits, and adds the token of their
// connection to the route, which answers follow back. It merges its children's heartbeats, late reports and stacks. It
// stores no files: after it dies, the children report everything again, because their next Welcome contains a different
// instance.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/rank_set.h"
#include "collector/common/heartbeat_facts.h"
#include "collector/common/namesakes.h"
#include "collector/detect/progress.h"
#include "collector/evidence/stack_tree.h"
#include "collector/wire/client.h"
#include "collector/wire/server.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct RelayOptions {
  wire::ServerOptions server;    // address that the children connect to
  wire::ClientOptions upstream;  // the collector, or the next relay
  std::string host, boot_id, version;
  uint64_t instance = 0;  // random for each process
  int64_t heartbeat_ns = 1'000'000'000;
  int64_t late_ns = 250'000'000;  // stacks, and later reports of one wait, are combined for this time
  int64_t silent_after_ns = 5'000'000'000;
};

// Counted since the start.
struct RelayCounters {
  uint64_t forwarded = 0, forwarded_bytes = 0, answers_lost = 0;
  uint64_t heartbeats_in = 0, heartbeats_out = 0, late_in = 0;
  uint64_t chunks_dropped = 0, malformed = 0;
  uint64_t children = 0, children_silent = 0;  // current numbers
};

// Owned by one thread.
class Relay {
 public:
  static absl::StatusOr<std::unique_ptr<Relay>> Start(const RelayOptions& options);
  ~Relay();

  // Does all work that is due. Call it when a descriptor is readable, and at NextNs() at the latest. Returns the number
  // of messages from children that it handled.
  int Step(int64_t mono_ns, int64_t real_ns);
  int server_fd() const { return server_->fd(); }
  int upstream_fd() const { return upstream_->fd(); }
  int64_t NextNs() const { return next_; }

  const std::vector<std::string>& endpoints() const { return server_->endpoints(); }
  const RelayCounters& counters() const { return counters_; }
  const wire::Server& server() const { return *server_; }
  // Returns whether the upstream has sent a Welcome and has not been silent since.
  bool connected() const { return welcomed_ && upstream_->connected(); }
  std::string upstream_error() const { return upstream_->last_error(); }

 private:
  // One job in a child's last heartbeat.
  struct ChildJob {
    std::string job;  // key in jobs_; empty if unknown
    HeartbeatFacts facts;
    int64_t heard_ns = 0;
  };
  struct Child {
    uint64_t peer = 0;
    uint32_t number = 0;  // identifies the child in the merged progress
    uint64_t instance = 0;
    std::string host;
    int64_t heard_ns = 0;
    int64_t beat_ns = 0;  // the child's last heartbeat for any job
    bool silent = false, gone = false;
    // Indexed by serialized identity, with the child's number for jobs with the same name.
    std::map<std::string, ChildJob> jobs;
  };
  struct Job {
    JobIdentity identity;
    MergedProgress progress{true};
    bool fresh = false;  // something arrived since the last heartbeat
    int64_t heard_ns = 0;
  };
  // Reports of one wait from many children.
  struct Late {
    LateReport report;
    Ranks waiting, missing;
    bool dirty = false;
    int64_t sent_ns = 0, heard_ns = 0;
  };

  // Stacks from many children for one request that are not sent yet. The receiver merges again.
  struct Stacks {
    StackReport report;  // excludes tree and ranks
    StackTree tree;
    Ranks ranks;
    bool dirty = false;
    int64_t heard_ns = 0;
  };

  Relay(const RelayOptions& options) : options_(options) {}
  // Decodes a message. If the message is invalid, counts it and returns false.
  bool Decode(const wire::Message& message, google::protobuf::MessageLite* into);
  void FromUpstream(wire::Message message);
  void FromChild(wire::Received received);
  void OnHello(const wire::Received& received);
  void OnHeartbeat(const wire::Received& received);
  void Sort(Child* child, const Heartbeat& beat, const std::string& said);
  bool Named(const wire::Received& received, const JobIdentity& said, JobIdentity* ours);
  void TakeEarly(uint64_t peer);
  void OnEnded(wire::Received received);
  void OnLate(const wire::Received& received);
  void OnStacks(const wire::Received& received);
  void SendStacks(Stacks* stacks);
  void Distribute(const wire::Message& message);
  void DistributeToAll(const wire::Message& message, const CollectRequest& request);
  void Welcomed(const Welcome& welcome);
  void WelcomeChild(uint64_t peer);
  void Forward(wire::Received received);
  void SendUp(wire::Type type, const google::protobuf::MessageLite& message);
  void SendUp(wire::Message message);
  void Flush();
  void SendHeartbeats(int64_t real_ns);
  void SendLate(Late* late);
  void Housekeep();
  void Leave(Child* child, const std::string& job);
  void ReportOver(const JobIdentity& job);
  void Drop(uint64_t peer);
  void ForgetSilentJobs();
  Child* ChildOf(uint64_t peer);
  bool Concerned(const Child& child, const ChildJob& known, const std::string& job, const Ranks& ranks) const;
  bool HasReporter(const std::string& job) const;
  void Unsort(const Child& child, const std::string& said);
  void MarkSilent(const Child& child);

  const RelayOptions options_;
  std::unique_ptr<wire::Server> server_;
  std::unique_ptr<wire::Client> upstream_;
  RelayCounters counters_;
  Heartbeat beat_;                                    // reused for each message, to save allocations
  std::map<uint64_t, Child> children_;                // indexed by connection
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // indexed by serialized identity
  // Indexed by serialized identity, without the number that separates jobs with the same name. Senders are named by
  // ChildKey().
  std::map<std::string, Namesakes> namesakes_;
  struct Early {
    wire::Received received;
    int64_t at_ns = 0;
  };
  static constexpr int64_t kEarlyExpires = 10'000'000'000;
  std::deque<Early> early_;  // messages that arrived before the heartbeat that identifies the job
  std::map<std::string, Late> late_;
  std::map<uint64_t, Stacks> stacks_;          // indexed by request
  std::deque<wire::Message> urgent_, chunks_;  // waiting for the upstream
  size_t urgent_bytes_ = 0, chunk_bytes_ = 0;
  uint32_t numbers_ = 0;
  bool welcomed_ = false;
  uint64_t upstream_instance_ = 0;
  bool everything_ = false;  // the next heartbeats contain everything, not only changes
  int64_t told_all_ns_ = 0;
  int64_t now_ = 0, next_ = 0, next_heartbeat_ = 0, next_late_ = 0, next_housekeeping_ = 0;
};

}  // namespace lockstep
