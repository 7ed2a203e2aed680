// A listening socket for HTTP. One thread transfers the bytes of all connections, so a slow client
// delays nobody; other threads create the responses.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/util/http/address.h"
#include "analyzer/util/http/message.h"
#include "analyzer/util/http/stream.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep::http {

struct ServerLimits {
  // Maximum number of connections. A new one replaces the oldest connection that neither waits for a handler nor
  // receives a page. If there is none, the new one waits or is closed.
  size_t connections = 256;
  size_t of_one_peer = 64;            // with TLS: for each client address; a new one replaces an old one, or is closed
  size_t answers = 16;                // maximum number of handlers that run at the same time
  int64_t head_ns = 5'000'000'000;    // for the TLS handshake and the request
  int64_t stall_ns = 30'000'000'000;  // while the client reads no byte of the response
  int64_t answer_ns = 1'800'000'000'000;  // for the whole response
};

class Server {
 public:
  // Several threads call it.
  using Handler = std::function<Response(const Request&)>;
  // Makes a stream from an accepted socket, which it does not own; null if out of memory.
  using Encrypt = std::function<std::unique_ptr<Stream>(int fd)>;
  // Port 0 means any free port. Without `encrypt`, an address other than loopback is InvalidArgument. Unavailable if it
  // cannot listen, for example because the port is in use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Address address, uint16_t port, Handler handler,
                                                       Encrypt encrypt = nullptr, const ServerLimits& limits = {});
  // Closes the connections and waits for running handlers.
  ~Server();

  uint16_t port() const { return port_; }

 private:
  struct Connection;
  Server(UniqueFd listener, uint16_t port, Handler handler, Encrypt encrypt, const ServerLimits& limits);
  void Move();
  void AcceptAll();
  // Whether a new connection has room, or another one may be closed for it.
  bool HasRoom() const;
  // Closes the oldest connection that may be closed (Connection::Yields), of this client or, if null, of any. Returns
  // false if there is none.
  bool MakeRoom(const std::string* peer);
  // Makes as much progress as possible. Returns false if the connection ends.
  bool Advance(Connection* connection, int64_t now_ns);
  bool ReadHead(Connection* connection, int64_t now_ns);
  bool Send(Connection* connection, int64_t now_ns);
  void Answer();

  const UniqueFd listener_;
  const uint16_t port_;
  const Handler handler_;
  const Encrypt encrypt_;
  const ServerLimits limits_;
  EventFd wake_;                                          // a response is ready, or the server ends
  std::vector<std::shared_ptr<Connection>> connections_;  // only for the thread that transfers bytes
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::shared_ptr<Connection>> requests_;  // guarded by mutex_
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::http
