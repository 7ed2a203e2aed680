// The end that connects: a ZeroMQ DEALER with CURVE and a pinned server key, with fallbacks when the other side goes
// silent.
#ifndef LOCKSTEP_COLLECTOR_WIRE_CLIENT_H_
#define LOCKSTEP_COLLECTOR_WIRE_CLIENT_H_

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

struct ClientOptions {
  // Tried in this order; back to the first when it answers again. What a Welcome names as fallback comes behind them.
  std::vector<std::string> endpoints;
  Security security;
  int64_t silent_after_ns = 5'000'000'000;  // without a message or pong for this long, it tries the next endpoint
  void* context = nullptr;                  // zmq context to share; nullptr: an own one
  int send_queue = 256;                     // messages that wait to be sent before Send refuses more
};

// One thread owns it.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  virtual ~Client() = default;

  // Readable (poll) when something happened: then call Tick, and Receive until it gives nothing. Stays the same for
  // ever.
  virtual int fd() const = 0;
  virtual std::optional<Message> Receive() = 0;
  // Never blocks. kUnavailable: nothing is connected or its queue is full; heartbeats are then dropped by the caller,
  // chunks sent later.
  virtual absl::Status Send(const Message& message) = 0;
  // Sends pings, detects silence, changes endpoints. Call it at least once a second, and when fd() is readable. True if
  // the connection is new and earlier messages may be lost: say Hello, and repeat what was not acknowledged. Nothing is
  // sent before that.
  virtual bool Tick(int64_t mono_ns) = 0;  // CLOCK_MONOTONIC
  virtual bool connected() const = 0;      // something was heard within silent_after_ns
  virtual std::string endpoint() const = 0;
  virtual std::string last_error() const = 0;  // e.g. "the server does not know this key"; empty: none
};

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_CLIENT_H_
