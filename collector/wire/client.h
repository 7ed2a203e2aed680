// The connecting side: a ZeroMQ DEALER with CURVE, a pinned server key, and fallbacks for a silent server.
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

struct ClientOptions {
  // Tried in this order; the client returns to the first when it responds again. Fallbacks from a Welcome follow.
  std::vector<std::string> endpoints;
  Security security;
  // If no message or pong arrives for this long, the client drops the connection and tries the next endpoint. With a
  // single endpoint, it waits four times as long and then reconnects.
  int64_t silent_after_ns = 5'000'000'000;
  void* context = nullptr;  // zmq context to share; nullptr to create one
  int send_queue = 256;     // maximum number of messages in the send queue; Send refuses more
};

// One thread owns this object.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  virtual ~Client() = default;

  // A descriptor for poll, which never changes. When it is readable, call Tick, then Receive until it returns nothing.
  virtual int fd() const = 0;
  virtual std::optional<Message> Receive() = 0;
  // Never blocks. kUnavailable if nothing is connected or the queue is full; the caller then drops heartbeats, and
  // sends chunks later.
  virtual absl::Status Send(const Message& message) = 0;
  absl::Status Send(Type type, const google::protobuf::MessageLite& message) {
    const absl::StatusOr<Message> frame = Encode(type, message);
    return frame.ok() ? Send(*frame) : frame.status();
  }
  // Sends pings, detects silence, changes endpoints. Call it at least once a second, and if fd() is readable. Returns
  // true if the connection is new and earlier messages may be lost: then send Hello, and repeat what was not
  // acknowledged. Until Tick has returned true, Send fails.
  virtual bool Tick(int64_t mono_ns) = 0;  // CLOCK_MONOTONIC
  virtual bool connected() const = 0;      // whether a message arrived within silent_after_ns
  virtual std::string endpoint() const = 0;
  // For example "the server does not know this key"; empty if there is none.
  virtual std::string last_error() const = 0;
};

}  // namespace lockstep::wire
