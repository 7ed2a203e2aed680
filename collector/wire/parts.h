// Small libzmq wrappers that server and client share.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/util/clock.h"
#include "analyzer/util/unique_fd.h"
#include "collector/wire/frame.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

// A descriptor for poll. It is readable if one of the added sockets may have a message, or if Wake was called since the
// last Sleep. One thread owns this object.
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
  // Calls Wake if the socket has a message. libzmq's descriptor only reports changes, and any call on the socket may
  // consume a change.
  void WakeIfReadable(void* socket);

 private:
  UniqueFd epoll_;
  EventFd event_;
  bool awake_ = false;
};

bool SetInt(void* socket, int option, int value);
bool SetString(void* socket, int option, const std::string& value);
// Sets the limits, keepalive and linger that server and client share. The queue lengths are in messages.
bool SetBounds(void* socket, int send_queue, int receive_queue);

// The parts of one message. `identity` is the sender's routing ID, if requested. Unexpected further parts are counted
// and dropped.
struct Incoming {
  std::string identity, header, body;
  std::string user;  // the public key that the gate approved; empty without CURVE
  int parts = 0;     // number of parts after the identity
};
// Never blocks. Returns false if no message is waiting.
bool ReceiveMessage(void* socket, bool with_identity, Incoming* incoming);
// Never blocks. `identity` is the receiver's routing ID; null for a socket with one peer. Returns 0 or an errno.
int SendMessage(void* socket, const std::string* identity, const Message& message);

}  // namespace lockstep::wire
