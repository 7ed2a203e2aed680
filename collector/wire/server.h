// The listening side: a ZeroMQ ROUTER with CURVE and bounded resources.
#pragma once

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

// Totals since the start.
struct ServerCounters {
  uint64_t connections = 0, refused_keys = 0, malformed = 0, too_large = 0, unknown_types = 0, role_refused = 0;
  uint64_t handshakes_failed = 0;  // peers without ZMTP, or with another security mechanism
  uint64_t flooded = 0;            // messages dropped because one peer sent more than its share
  uint64_t shed_heartbeats = 0;    // heartbeats dropped because the receiver was too slow
  uint64_t shed_chunks = 0;        // chunks dropped before their acknowledgment; they are sent again
  uint64_t received = 0, received_bytes = 0, sent = 0, sent_bytes = 0;
};

struct ServerOptions {
  std::vector<std::string> endpoints;  // tcp://ADDRESS:PORT (port * or 0 means any free port), ipc://PATH
  Security security;
  // Limits per connection: the sustained rate of messages and (uncompressed) bytes, with bursts of four seconds' worth.
  // Messages beyond them are dropped. A relay may send 64 times as many messages and 16 times as many bytes.
  double messages_per_second = 2000, bytes_per_second = 64e6;
  // Maximum number of waiting heartbeats; beyond it, the oldest are dropped.
  size_t most_waiting_heartbeats = 65536;
  size_t most_waiting_chunk_bytes = size_t{128}
                                    << 20;  // maximum size of waiting chunks; beyond it, the newest are dropped
  // Maximum size of all other waiting messages. Beyond it, nothing is read, so the network slows the senders down.
  size_t most_waiting_urgent_bytes = size_t{512} << 20;
};

// A received message. A peer's first message is always its Hello. The server drops forbidden messages: only agents and
// relays report, only operators and readers send requests, and readers request no dump or examination. It answers pings
// itself. Only a relay's messages have a route.
struct Received {
  uint64_t peer = 0;        // this connection, for Send; never reused
  Role role = Role::kNone;  // from the peer's key, never kCollector; with --insecure, from the peer's Hello
  Message message;
};

// One thread owns it, and must call Receive at least every two seconds: peers leave a server that does not answer pings
// for five seconds.
class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Bind(const ServerOptions& options);
  virtual ~Server() = default;

  // A descriptor for poll. When it is readable, call Receive until it returns nothing.
  virtual int fd() const = 0;
  // Returns the next message; nullopt if there is none. Heartbeats and chunks come after all other messages. Also reads
  // the socket ahead, so a slow caller loses heartbeats instead of blocking its peers.
  virtual std::optional<Received> Receive() = 0;
  // Never blocks: kNotFound if the peer is gone, kUnavailable if its bounded queue is full.
  virtual absl::Status Send(uint64_t peer, const Message& message) = 0;
  absl::Status Send(uint64_t peer, Type type, const google::protobuf::MessageLite& message) {
    const absl::StatusOr<Message> frame = Encode(type, message);
    return frame.ok() ? Send(peer, *frame) : frame.status();
  }
  // Returns the actual endpoints, with their ports.
  virtual const std::vector<std::string>& endpoints() const = 0;
  virtual const ServerCounters& counters() const = 0;
  virtual size_t peers() const = 0;
  // Returns whether the connection is believed to exist. A silent disconnect is detected after about a minute.
  virtual bool Knows(uint64_t peer) const = 0;
  // Returns the connections of agents and relays that have sent their Hello.
  virtual std::vector<uint64_t> Reporters() const = 0;
  // Returns when the peer's last message, including pings, arrived (CLOCK_MONOTONIC); 0 if unknown.
  virtual int64_t HeardNs(uint64_t peer) const = 0;
};

}  // namespace lockstep::wire
