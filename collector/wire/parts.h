// Small libzmq wrappers that server and client share.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/util/clock.h"
#include "analyzer/util/unique_fd.h"
#include "collector/wire/frame.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

// Readable if one of the added sockets is, or if Wake was called since the last Sleep. One thread owns it.
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
  // libzmq's descriptor only reports changes. This replaces a change that an earlier call on the socket consumed.
  void WakeIfReadable(void* socket);

 private:
  UniqueFd epoll_;
  EventFd event_;
  bool awake_ = false;
};

bool SetInt(void* socket, int option, int value);
bool SetString(void* socket, int option, const std::string& value);
// Sets the same sizes, keepalive and linger on both ends.
bool SetBounds(void* socket, int send_queue, int receive_queue);

// The parts of one message, with the sender's identity first if the socket has one. Unexpected further parts are
// counted and dropped.
struct Incoming {
  std::string identity, header, body;
  std::string user;  // CURVE: the public key that the gate approved
  int parts = 0;     // after the identity
};
// Returns false if there is none.
bool ReceiveMessage(void* socket, bool with_identity, Incoming* incoming);
// Never blocks. Returns 0, or the errno.
int SendMessage(void* socket, const std::string* identity, const Message& message);

}  // namespace lockstep::wire
