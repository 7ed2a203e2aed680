#include "analyzer/serve/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_units.h"

namespace lockstep::serve {
namespace {

constexpr int kWaiting = 64;          // connections that no thread has taken yet
constexpr int64_t kLook = 100 * kMs;  // interval at which threads check whether the server is ending
// Time for the browser's remaining request, so that the browser gets the whole answer.
constexpr int64_t kLinger = 500 * kMs;
constexpr size_t kPiece = 256 << 10;

}  // namespace

std::optional<uint32_t> LoopbackAddress(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text == "localhost" ? "127.0.0.1" : text.c_str(), &address) != 1) return std::nullopt;
  const uint32_t number = ntohl(address.s_addr);
  return number >> 24 == 127 ? std::optional(number) : std::nullopt;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(uint32_t address, uint16_t port, Handler handler,
                                                      const ServerLimits& limits) {
  if (address >> 24 != 127) return absl::InvalidArgumentError("not a loopback address");
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  at.sin_port = htons(port);
  const int on = 1;
  socklen_t length = sizeof at;
  if (!listener.ok() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(listener.get(), kWaiting) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on port ", port, ": ", strerror(errno)));
  }
  return std::unique_ptr<Server>(new Server(std::move(listener), ntohs(at.sin_port), std::move(handler), limits));
}

Server::Server(UniqueFd listener, uint16_t port, Handler handler, const ServerLimits& limits)
    : listener_(std::move(listener)), port_(port), handler_(std::move(handler)), limits_(limits) {
  for (size_t i = 0; i < limits_.connections; ++i) threads_.emplace_back([this] { Work(); });
}

Server::~Server() {
  ending_ = true;
  shutdown(listener_.get(), SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
}

void Server::Work() {
  while (!ending_) {
    const UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.ok()) {
      try {
        Serve(connection.get());
      } catch (const std::exception&) {  // out of memory: this connection ends
      }
    } else if (!ending_) {
      poll(nullptr, 0, 10);  // e.g. too many open files
    }
  }
}

bool Server::Wait(int connection, short events, int64_t until_ns) const {
  for (;;) {
    const int64_t left = until_ns - MonotonicNs();
    if (left <= 0 || ending_) return false;
    pollfd ready{connection, events, 0};
    const int n = poll(&ready, 1, static_cast<int>(std::min(left, kLook) / kMs) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool Server::Send(int connection, const Response& response, bool without_body) const {
  const std::string head = ResponseHead(response);
  const std::string_view body = response.body == nullptr || without_body ? "" : std::string_view(*response.body);
  const int64_t until = MonotonicNs() + limits_.answer_ns;
  for (std::string_view part : {std::string_view(head), body}) {
    while (!part.empty()) {
      const ssize_t n = send(connection, part.data(), std::min(part.size(), kPiece), MSG_NOSIGNAL);
      if (n > 0) {
        part.remove_prefix(static_cast<size_t>(n));
      } else if (n < 0 && errno == EAGAIN) {
        if (!Wait(connection, POLLOUT, std::min(until, MonotonicNs() + limits_.stall_ns))) return false;
      } else if (n == 0 || errno != EINTR) {
        return false;
      }
    }
  }
  return true;
}

void Server::Serve(int connection) {
  const int64_t until = MonotonicNs() + limits_.head_ns;
  std::string head;
  char piece[4096];
  size_t end = std::string::npos;
  while (end == std::string::npos && head.size() <= kMostHeadBytes) {
    const ssize_t n = recv(connection, piece, sizeof piece, 0);
    if (n == 0) return;
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR) return;
      if (!Wait(connection, POLLIN, until)) {
        if (!head.empty()) Send(connection, TextResponse(408, "The request did not arrive in time.\n"), false);
        return;
      }
      continue;
    }
    const size_t looked = head.size() < 3 ? 0 : head.size() - 3;
    head.append(piece, static_cast<size_t>(n));
    end = head.find("\r\n\r\n", looked);
  }
  Request request;
  int refused = 431;
  if (end != std::string::npos) refused = ParseRequest(std::string_view(head).substr(0, end + 4), &request);
  Response response = TextResponse(refused, "lockstep serve does not answer such a request.\n");
  if (refused == 0) {
    try {
      response = handler_(request);
      if (request.gzip) Compress(&response);
    } catch (const std::exception&) {
      response = TextResponse(500, "Out of memory.\n");
    }
  }
  if (!Send(connection, response, request.head)) return;
  shutdown(connection, SHUT_WR);
  const int64_t linger = MonotonicNs() + kLinger;
  while (Wait(connection, POLLIN, linger) && recv(connection, piece, sizeof piece, 0) > 0) {
  }
}

}  // namespace lockstep::serve
