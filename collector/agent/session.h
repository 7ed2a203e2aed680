// The agent's side of the protocol, as a state machine without threads, clocks and sockets. Its owner passes in the
// time, received messages and a function that sends. A process may have thousands of sessions. The owner decides when
// to call Tick().
//
//  owner                                                session
//  client->Tick() gave true                             Connected(): Hello
//  while (client->Receive()) Receive(message)           Welcome, CollectRequest, ChunkAck
//  now >= next()                                        Tick(): reads the ranks, tests lateness, sends what is due
//
// Order: only Hello is sent before Welcome. Then, whenever something can be sent: late reports and ends of processes,
// digests, evidence, heartbeats, chunks. Heartbeats that cannot be sent are dropped. Everything else waits (up to
// kMostQueued) and is sent after the reconnection. If Welcome shows another instance of the collector, the session
// reports everything again: members of all communicators, all ends, and late waits. Answers that waited for the old
// instance are dropped, and chunks are sent again with their old ids.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collector/agent/source.h"
#include "collector/agent/user_share.h"
#include "collector/common/rank_set.h"
#include "collector/detect/lateness.h"
#include "collector/evidence/stack_tree.h"
#include "collector/wire/frame.h"

namespace lockstep {

struct AgentSessionOptions {
  std::string host, boot_id, version;
  std::string rack, leaf_switch;  // the position of the host; may be empty
  uint64_t instance = 0;          // random for each process
  int64_t heartbeat_ns = 1'000'000'000;
  int64_t look_ns = 500'000'000;          // interval between reads of the ranks; shorter if a limit passes
  int64_t late_after_ns = 5'000'000'000;  // minimum of a wait's limit
  size_t heartbeat_bytes_per_rank = 512;
  double chunk_bytes_per_second = 32e6;   // sent bytes
  size_t chunks_out = 4;                  // maximum of chunks that were sent and not acknowledged
  int64_t ack_after_ns = 30'000'000'000;  // a chunk is sent again if it is not acknowledged within this time
  std::function<int64_t()> cpu_ns;  // the program's own CPU time so far; without this function, it is not reported
  // Returns what cannot be observed at the moment, one per line. Without this function, nothing is reported.
  std::function<std::vector<std::string>()> blind;
  std::function<void(const std::string&)> log;  // one line for each decision, with its figures; may be empty
};

// Counted since the start.
struct AgentSessionCounters {
  uint64_t heartbeats = 0, heartbeats_dropped = 0, heartbeat_bytes = 0, beats_put_off = 0;
  uint64_t late = 0, ended = 0, digests = 0, digest_bytes = 0, evidence = 0;
  uint64_t chunks_sent = 0, chunk_bytes = 0, chunks_sent_again = 0, chunks_acked = 0, chunks_refused = 0;
  uint64_t requests = 0, malformed = 0, dropped = 0;  // dropped: answers that waited too long or too large in total
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

  // To be called if the connection is new (wire::Client::Tick returned true). mono_ns is the host's CLOCK_MONOTONIC, as
  // in the rings. real_ns is only passed on, so its jumps have no effect.
  void Connected(int64_t mono_ns);
  // Takes any received message; frames that have no meaning here are counted and dropped.
  void Receive(const wire::Message& message, int64_t mono_ns);
  // To be called at next(), and at once after a process ended or evidence is ready. Cheap if nothing is due.
  void Tick(int64_t mono_ns, int64_t real_ns);
  // To be called before the process ends. Reports each job once more, so that a job whose processes just ended does not
  // look like one whose agent fell silent.
  void Leave(int64_t mono_ns, int64_t real_ns);
  int64_t next() const { return next_; }

  bool welcome() const { return welcome_; }
  // Returns why the collector refuses this agent; empty if it accepts the agent or has not answered.
  const std::string& refused() const { return refused_; }
  // The fallback endpoints that the other side named, in case it becomes silent.
  const std::vector<std::string>& fallback() const { return fallback_; }
  const AgentSessionCounters& counters() const { return counters_; }
  // Number of waits that are late now, over all jobs.
  size_t late() const;

 private:
  struct Job;
  struct Queued {
    wire::Message message;
    uint64_t request = 0;  // 0 if the message is not an answer
    int order = 0;         // smaller ones are sent first
  };

  // Stacks of one request's ranks, collected for one tree.
  struct Stacks {
    Ranks merged;  // ranks that send only merged stacks
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
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // by serialized identity
  std::map<uint32_t, UserShare> shares_;              // by user: CPU time spent on the user's jobs
  std::map<uint64_t, Stacks> stacks_;                 // by request
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  std::map<std::string, int64_t> out_;  // when each chunk was sent
  double chunk_credit_ = 0;
  int64_t credited_ns_ = 0;
  bool connected_ = false, welcome_ = false;
  uint64_t collector_instance_ = 0;
  std::string refused_;
  std::vector<std::string> fallback_;
  int64_t next_ = 0, next_heartbeat_ = 0, next_look_ = 0, looked_ns_ = 0, hello_ns_ = 0;
  uint64_t look_ = 0;
  int64_t cost_ns_ = 0, cost_at_ns_ = 0;  // the agent's CPU time, and when it was read
  uint32_t cpu_permille_ = 0;
  AgentSessionCounters counters_;
};

}  // namespace lockstep
