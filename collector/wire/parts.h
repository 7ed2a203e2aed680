// Small libzmq wrappers that server and client share.
#pragma once

#include <zmq.h>

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/unique_fd.h"
#include "collector/wire/frame.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

// A descriptor for poll, readable if an added socket may have a message, or if Wake was called since the last Sleep.
// One thread owns it.
class Wakeup {
 public:
  Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  bool ok() const { return epoll_.ok() && event_.ok(); }
  int fd() const { return epoll_.get(); }
  void Add(void* socket);
  void Remove(void* socket);  // call before closing the socket
  void Wake();
  void Sleep();
  // libzmq's descriptor only reports changes, and any call on the socket may consume one. So this checks for messages.
  void WakeIfReadable(void* socket);

 private:
  UniqueFd epoll_;
  EventFd event_;
  bool awake_ = false;
};

bool SetInt(void* socket, int option, int value);
bool SetString(void* socket, int option, const std::string& value);
// Sets the limits, keepalive and linger that server and client share. Queue sizes are in messages. Returns false, with
// zmq_errno() set, if libzmq refuses a value.
bool SetBounds(void* socket, int send_queue, int receive_queue);

// The parts of one message. `identity` is the sender's routing ID, if requested. Unexpected further parts are counted
// and dropped.
struct Incoming {
  std::string identity, header, body;
  std::string user;  // the public key that the gate approved; empty without CURVE
  int parts = 0;     // number of parts after the identity
};
// Calls `use` with each part of a message. Never blocks. Returns false if no message is waiting.
bool ForEachPart(void* socket, absl::FunctionRef<void(zmq_msg_t*)> use);
// Never blocks. Returns false if no message is waiting.
bool ReceiveMessage(void* socket, bool with_identity, Incoming* incoming);
// Never blocks. `identity`: the receiver, for a ROUTER; otherwise null. Returns 0 or an errno.
int SendMessage(void* socket, const std::string* identity, const Message& message);

}  // namespace lockstep::wire
