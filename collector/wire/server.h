// The end that others connect to: a ZeroMQ ROUTER with CURVE, bounded in everything.
#ifndef LOCKSTEP_COLLECTOR_WIRE_SERVER_H_
#define LOCKSTEP_COLLECTOR_WIRE_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/wire/frame.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

// Counted since the start. Each is a metric, too.
struct ServerCounters {
  uint64_t connections = 0, refused_keys = 0, malformed = 0, too_large = 0, unknown_types = 0, role_refused = 0;
  uint64_t handshakes_failed = 0;  // what spoke no ZMTP, or not this server's mechanism
  uint64_t flooded = 0;            // dropped because one peer sent more than its share
  uint64_t shed_heartbeats = 0;    // dropped because the receiver fell behind; digests never are
  uint64_t shed_chunks = 0;        // chunks dropped before their acknowledgment: they come again
  uint64_t received = 0, received_bytes = 0, sent = 0, sent_bytes = 0, send_dropped = 0;
};

struct ServerOptions {
  std::vector<std::string> endpoints;  // tcp://ADDRESS:PORT (port * or 0: any free one), ipc://PATH
  Security security;
  // Per connection, messages and bytes (unpacked) a second it may send for long, with bursts of four times that. A
  // relay, which speaks for many, may send 64 times as many messages and 16 times as many bytes.
  double messages_per_second = 2000, bytes_per_second = 64e6;
  // Heartbeats that wait to be taken; more are shed, oldest first.
  size_t most_waiting_heartbeats = 65536;
  size_t most_waiting_chunk_bytes = size_t{128} << 20;   // more are dropped, newest first
  size_t most_waiting_urgent_bytes = size_t{512} << 20;  // at more, nothing is read: the network holds the senders back
};

// A received message: its sender, the sender's role, and the contents. The first message of a peer is always its Hello.
// Forbidden messages are dropped before: agents and relays report, operators and readers ask, and the server itself
// answers a reader's request for a dump with an error. Only a relay's messages have a route. The server itself answers
// pings.
struct Received {
  uint64_t peer = 0;        // this connection, for Send; never reused
  Role role = Role::kNone;  // from its key; kCollector never; with --insecure from its Hello
  Message message;
};

// One thread owns it, and calls Receive at least once in two seconds: peers that hear no answer to their pings for five
// look for another server.
class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Bind(const ServerOptions& options);
  virtual ~Server() = default;

  // Readable (poll) when Receive may have something: then call Receive until it gives nothing.
  virtual int fd() const = 0;
  // The next message, digests and pushes before heartbeats. nullopt: nothing now. Reads the socket empty first, so that
  // a slow caller sheds heartbeats rather than stopping its peers.
  virtual std::optional<Received> Receive() = 0;
  // Never blocks: kNotFound when the peer is gone, kUnavailable when it takes nothing (its queue is bounded).
  virtual absl::Status Send(uint64_t peer, const Message& message) = 0;
  // Actual endpoints, ports filled in.
  virtual const std::vector<std::string>& endpoints() const = 0;
  virtual const ServerCounters& counters() const = 0;
  virtual size_t peers() const = 0;
  // Whether the connection still exists, as far as known: a silent end is detected after about a minute.
  virtual bool Knows(uint64_t peer) const = 0;
  // When anything last came from it, pings too (CLOCK_MONOTONIC); 0: not known.
  virtual int64_t HeardNs(uint64_t peer) const = 0;
};

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_SERVER_H_
