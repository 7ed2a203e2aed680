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
  std::vector<std::string> endpoints;  // tried in this order; back to the first when it answers again
  Security security;
  int64_t silent_after_ns = 5'000'000'000;  // no message or pong for so long: the next endpoint
  void* context = nullptr;                  // zmq context to share; nullptr: an own one
};

// One thread owns it.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  virtual ~Client() = default;

  virtual int fd() const = 0;
  virtual std::optional<Message> Receive() = 0;
  // Never blocks. kUnavailable: nothing is connected or its queue is full; heartbeats are then dropped by the caller,
  // chunks sent later.
  virtual absl::Status Send(const Message& message) = 0;
  // Sends pings, notices silence, changes endpoints. Call at least once a second. True when the connection was made
  // anew: say Hello, and tell again what was not acknowledged.
  virtual bool Tick(int64_t mono_ns) = 0;
  virtual bool connected() const = 0;  // something was heard within silent_after_ns
  virtual std::string endpoint() const = 0;
  virtual std::string last_error() const = 0;  // e.g. "the server does not know this key"; empty: none
};

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_CLIENT_H_
