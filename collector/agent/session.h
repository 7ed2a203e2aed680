// The agent's side of the protocol: a state machine without threads, clocks or sockets. Its owner passes in the time,
// received messages and a send function, and decides when to call Tick(). One process may have thousands of sessions.
//
//   owner                                                session
//   client->Tick() gave true                             Connected(): Hello
//   while (client->Receive()) Receive(message)           Welcome, CollectRequest, ChunkAck
//   now >= next()                                        Tick(): reads the ranks, tests lateness, sends what is due
//
// Before Welcome, the session sends only Hello. Afterwards it sends in this order: late reports and exits, digests,
// evidence, heartbeats, chunks. If the connection is down, it queues reports and answers (up to kMostQueued and
// kMostQueuedBytes). Progress waits for the next heartbeat, and chunks wait in the store.
//
// On a new connection, the session sends unacknowledged chunks again with their old IDs. After every Welcome, it
// repeats all reports: the members of all communicators, all exits, and late waits. If Welcome shows another collector
// instance, the session also drops queued answers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/rank_set.h"
#include "collector/agent/source.h"
#include "collector/agent/user_share.h"
#include "collector/detect/lateness.h"
#include "collector/evidence/stack_tree.h"
#include "collector/wire/frame.h"

namespace lockstep {

struct AgentSessionOptions {
  std::string host, boot_id, version;
  std::string rack, leaf_switch;  // where the host is; may be empty
  uint64_t instance = 0;          // random for each process
  int64_t heartbeat_ns = 1'000'000'000;
  int64_t look_ns = 500'000'000;          // interval between reads of the ranks; shorter if a limit passes
  int64_t late_after_ns = 5'000'000'000;  // lower bound for the limit of a wait
  double chunk_bytes_per_second = 32e6;   // sent bytes
  std::function<int64_t()> cpu_ns;        // returns the program's CPU time so far; if empty, it is not reported
  // Returns what cannot be observed at the moment, one text per problem. If empty, nothing is reported.
  std::function<std::vector<std::string>()> blind;
  std::function<void(const std::string&)> log;  // logs each decision; may be empty
};

// Totals since the start.
struct AgentSessionCounters {
  uint64_t heartbeats = 0, heartbeats_dropped = 0, heartbeat_bytes = 0, beats_put_off = 0;
  uint64_t late = 0, ended = 0, digests = 0, digest_bytes = 0, evidence = 0;
  uint64_t chunks_sent = 0, chunk_bytes = 0, chunks_sent_again = 0, chunks_acked = 0, chunks_refused = 0;
  // dropped: answers for an earlier collector instance, and messages that did not fit into the queue
  uint64_t requests = 0, malformed = 0, dropped = 0;
};

class AgentSession {
 public:
  // Returns kUnavailable if the message cannot be sent now. Does not keep the message.
  using SendFunction = std::function<absl::Status(const wire::Message&)>;

  // `source` and `store` must outlive this object.
  AgentSession(const AgentSessionOptions& options, AgentSource* source, ChunkStore* store, SendFunction send);
  ~AgentSession();
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  // In all functions, mono_ns is the host's CLOCK_MONOTONIC, as in the rings. real_ns is only forwarded, so its jumps
  // have no effect. Call this after a new connection (wire::Client::Tick returned true).
  void Connected(int64_t mono_ns);
  // Handles any received message. Counts and drops frames that have no meaning here.
  void Receive(const wire::Message& message, int64_t mono_ns);
  // Call at next(), and at once after a process exited or evidence became ready. Cheap if nothing is due.
  void Tick(int64_t mono_ns, int64_t real_ns);
  // Call before this process exits. Sends a last heartbeat for each job. Otherwise the end of a job would look like a
  // silent agent.
  void Leave(int64_t mono_ns, int64_t real_ns);
  int64_t next() const { return next_; }

  bool welcome() const { return welcome_; }
  // Returns why the collector refuses this agent. Empty if it accepts the agent, or has not answered yet.
  const std::string& refused() const { return refused_; }
  const AgentSessionCounters& counters() const { return counters_; }
  // Number of waits that are late now, over all jobs.
  size_t late() const;

 private:
  struct Job;
  struct Queued {
    wire::Message message;
    uint64_t request = 0;  // 0 if the message answers no request
    int order = 0;         // lower values are sent first
  };

  // Stacks of one request's ranks, which go into one tree.
  struct Stacks {
    Ranks merged;  // ranks that contribute only to the tree
    StackTree tree;
    StackReport report;
    Ranks ranks;
  };

  void OnWelcome(const Welcome& welcome, int64_t mono_ns);
  void OnRequest(const CollectRequest& request, int64_t mono_ns);
  void OnAck(const ChunkAck& ack);
  void SayHello(int64_t mono_ns);
  void Look(int64_t mono_ns);
  void LookAtJob(int64_t mono_ns, size_t index, Job* job);
  void TellLate(const Job& job, absl::Span<const RankSight> ranks, const LateEvent& event);
  void TellEnded();
  void TellCost(int64_t mono_ns);
  void SendEvidence(HostEvidence evidence);
  void TellOver(const JobIdentity& job);
  void SendHeartbeat(int64_t mono_ns, int64_t real_ns, size_t index, Job* job);
  void TakeBeats(int64_t mono_ns, Job* job);
  void SendDigest(const CollectRequest& request, int64_t mono_ns);
  void AddAges(const CollectRequest& request, int64_t mono_ns, Digest* digest) const;
  void SendChunks(int64_t mono_ns);
  void Queue(wire::Type type, const google::protobuf::MessageLite& message, uint64_t request, int order);
  void Flush();
  void Log(const std::string& line) const;

  const AgentSessionOptions options_;
  AgentSource* const source_;
  ChunkStore* const store_;
  const SendFunction send_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // indexed by serialized identity
  std::map<uint32_t, UserShare> shares_;              // CPU time spent on the jobs of each user
  std::map<uint64_t, Stacks> stacks_;                 // indexed by request
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  std::map<std::string, int64_t> out_;  // when each chunk was sent
  double chunk_credit_ = 0;
  int64_t credited_ns_ = 0;
  bool connected_ = false, welcome_ = false;
  uint64_t collector_instance_ = 0;
  std::string refused_;
  int64_t next_ = 0, next_heartbeat_ = 0, next_look_ = 0, looked_ns_ = 0, hello_ns_ = 0;
  uint64_t look_ = 0;
  int64_t cost_ns_ = 0, cost_at_ns_ = 0;  // the agent's CPU time, and when it was read
  uint32_t cpu_permille_ = 0;
  AgentSessionCounters counters_;
};

}  // namespace lockstep
