// Small wrappers of libzmq that server and client share.
#ifndef LOCKSTEP_COLLECTOR_WIRE_PARTS_H_
#define LOCKSTEP_COLLECTOR_WIRE_PARTS_H_

#include <cstdint>
#include <string>

#include "analyzer/util/clock.h"
#include "analyzer/util/unique_fd.h"
#include "collector/wire/frame.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

// Readable when one of the sockets added is, or Wake was called since the last Sleep. One thread owns it.
class Wakeup {
 public:
  Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  bool ok() const { return epoll_.ok() && event_.ok(); }
  int fd() const { return epoll_.get(); }
  void Add(void* socket);
  void Remove(void* socket);  // before it is closed
  void Wake();
  void Sleep();
  // libzmq's descriptor reports changes only. This replaces a change that an earlier call on the socket consumed.
  void WakeIfReadable(void* socket);

 private:
  UniqueFd epoll_;
  EventFd event_;
  bool awake_ = false;
};

bool SetInt(void* socket, int option, int value);
bool SetString(void* socket, int option, const std::string& value);
// Sizes, keepalive and linger alike on both ends.
bool SetBounds(void* socket, int send_queue, int receive_queue);

// One message's parts, the sender's identity first if the socket has one. Unexpected further parts are counted and
// dropped.
struct Incoming {
  std::string identity, header, body;
  std::string user;  // CURVE: the public key, as the gate approved it
  int parts = 0;     // after the identity
};
// False: nothing there.
bool ReceiveMessage(void* socket, bool with_identity, Incoming* incoming);
// Never blocks. 0, or the errno.
int SendMessage(void* socket, const std::string* identity, const Message& message);

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_PARTS_H_
