#include "collector/wire/parts.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::wire {
namespace {

int DescriptorOf(void* socket) {
  int fd = -1;
  size_t size = sizeof fd;
  return zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
}

}  // namespace

Wakeup::Wakeup() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (ok()) epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event);
}

void Wakeup::Add(void* socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, DescriptorOf(socket), &event);
  Wake();
}

void Wakeup::Remove(void* socket) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, DescriptorOf(socket), nullptr); }

void Wakeup::Wake() {
  if (awake_) return;
  awake_ = event_.Signal();
}

void Wakeup::Sleep() {
  if (!awake_) return;
  event_.Drain();
  awake_ = false;
}

void Wakeup::WakeIfReadable(void* socket) {
  int events = 0;
  size_t size = sizeof events;
  if (zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0) Wake();
}

bool SetInt(void* socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof value) == 0; }

bool SetString(void* socket, int option, const std::string& value) {
  return zmq_setsockopt(socket, option, value.data(), value.size()) == 0;
}

bool SetBounds(void* socket, int send_queue, int receive_queue) {
  // A body slightly over the limit still arrives and is counted as too large. A larger message ends its connection.
  const auto most = static_cast<int64_t>(kMostWireBytes + (size_t{64} << 10));
  return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 && SetInt(socket, ZMQ_SNDHWM, send_queue) &&
         SetInt(socket, ZMQ_RCVHWM, receive_queue) && SetInt(socket, ZMQ_LINGER, 0) &&
         SetInt(socket, ZMQ_HANDSHAKE_IVL, 10'000) && SetInt(socket, ZMQ_TCP_KEEPALIVE, 1) &&
         SetInt(socket, ZMQ_TCP_KEEPALIVE_IDLE, 15) && SetInt(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5) &&
         SetInt(socket, ZMQ_TCP_KEEPALIVE_CNT, 3) && SetInt(socket, ZMQ_TCP_MAXRT, 30'000);
}

bool ForEachPart(void* socket, absl::FunctionRef<void(zmq_msg_t*)> use) {
  for (;;) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    // Parts arrive together, so this never fails in the middle of a message.
    const bool received = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) >= 0;
    if (received) use(&part);
    const bool more = received && zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
    if (!more) return received;
  }
}

bool ReceiveMessage(void* socket, bool with_identity, Incoming* incoming) {
  incoming->parts = with_identity ? -1 : 0;
  incoming->user.clear();
  return ForEachPart(socket, [incoming](zmq_msg_t* part) {
    incoming->parts++;
    std::string* to = incoming->parts == 0   ? &incoming->identity
                      : incoming->parts == 1 ? &incoming->header
                      : incoming->parts == 2 ? &incoming->body
                                             : nullptr;
    if (to != nullptr) to->assign(static_cast<const char*>(zmq_msg_data(part)), zmq_msg_size(part));
    if (incoming->parts == 1) {
      if (const char* user = zmq_msg_gets(part, "User-Id"); user != nullptr) incoming->user = user;
    }
  });
}

int SendMessage(void* socket, const std::string* identity, const Message& message) {
  const std::string header = EncodeHeader(message.header);
  if (identity != nullptr && zmq_send(socket, identity->data(), identity->size(), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
    return zmq_errno();
  if (zmq_send(socket, header.data(), header.size(), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) return zmq_errno();
  // Once the first part is accepted, the others are, too.
  if (zmq_send(socket, message.body.data(), message.body.size(), ZMQ_DONTWAIT) < 0) return zmq_errno();
  return 0;
}

}  // namespace lockstep::wire
