#include "analyzer/util/http/server.h"

#include <poll.h>
#include <sys/socket.h>

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

namespace lockstep::http {
namespace {

constexpr int kWaiting = 64;          // connections that are not accepted yet
constexpr int64_t kLook = 100 * kMs;  // interval between checks of deadlines
// After a response, reads the client's data for this time: closing with unread data could destroy the response's end.
constexpr int64_t kLinger = 500 * kMs;
// One connection sends at most kPieces of kPiece bytes before the others get their turn.
constexpr size_t kPiece = 64 << 10;
constexpr int kPieces = 4;

}  // namespace

struct Server::Connection {
  enum class Phase { kHandshake, kHead, kAnswer, kSend, kLinger };

  UniqueFd fd;
  std::unique_ptr<Stream> stream;  // destroyed before its socket
  std::string peer;
  Phase phase = Phase::kHandshake;
  short waits_for = POLLIN;
  int64_t until_ns = 0;   // the end of this phase
  int64_t answer_ns = 0;  // the deadline for the whole response
  std::string in;
  Request request;
  // In the phase kAnswer, another thread writes the response and then sets `answered`.
  std::atomic<bool> answered{false};
  std::string head;
  std::shared_ptr<const std::string> body;
  size_t sent = 0;        // bytes sent, of head and body together
  bool admitted = false;  // the response has status 200, so the client receives a page

  ~Connection() { stream.reset(); }
  void SetAnswer(const Response& response) {
    head = ResponseHead(response);
    body = request.head ? nullptr : response.body;
    admitted = response.status == 200;
  }
  // Whether the connection may be closed to make room for others.
  bool Yields() const { return phase != Phase::kAnswer && !admitted; }
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Address address, uint16_t port, Handler handler, Encrypt encrypt,
                                                      const ServerLimits& limits) {
  if (!address.loopback && !encrypt) return absl::InvalidArgumentError("not a loopback address");
  UniqueFd listener(socket(address.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  address.SetPort(port);
  const int on = 1;
  auto* at = reinterpret_cast<sockaddr*>(&address.at);
  if (!listener.ok() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener.get(), at, address.length) != 0 || listen(listener.get(), kWaiting) != 0 ||
      getsockname(listener.get(), at, &address.length) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on port ", port, ": ", strerror(errno)));
  }
  std::unique_ptr<Server> server(
      new Server(std::move(listener), address.port(), std::move(handler), std::move(encrypt), limits));
  if (!server->wake_.ok()) return absl::UnavailableError("too many open files");
  return server;
}

Server::Server(UniqueFd listener, uint16_t port, Handler handler, Encrypt encrypt, const ServerLimits& limits)
    : listener_(std::move(listener)),
      port_(port),
      handler_(std::move(handler)),
      encrypt_(std::move(encrypt)),
      limits_(limits) {
  threads_.emplace_back([this] { Move(); });
  for (size_t i = 0; i < limits_.answers; ++i) threads_.emplace_back([this] { Answer(); });
}

Server::~Server() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
  wake_.Signal();
  for (std::thread& thread : threads_) thread.join();
}

void Server::Answer() {
  for (;;) {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [this] { return ending_ || !requests_.empty(); });
    if (ending_) return;
    const std::shared_ptr<Connection> connection = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    try {
      Response response = handler_(connection->request);
      if (connection->request.gzip) Compress(&response);
      connection->SetAnswer(response);
    } catch (const std::exception&) {
      connection->SetAnswer(TextResponse(500, "Out of memory.\n"));
    }
    connection->answered = true;
    wake_.Signal();
  }
}

bool Server::HasRoom() const {
  return connections_.size() < limits_.connections ||
         std::any_of(connections_.begin(), connections_.end(), [](const auto& one) { return one->Yields(); });
}

bool Server::MakeRoom(const std::string* peer) {
  const auto oldest = std::find_if(connections_.begin(), connections_.end(), [&](const auto& one) {
    return one->Yields() && (peer == nullptr || one->peer == *peer);
  });
  if (oldest == connections_.end()) return false;
  connections_.erase(oldest);
  return true;
}

void Server::AcceptAll() {
  for (int accepted = 0; accepted < kWaiting && HasRoom(); ++accepted) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    UniqueFd fd(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.ok()) {
      if (errno != EAGAIN) poll(nullptr, 0, 10);  // e.g. too many open files
      return;
    }
    auto connection = std::make_shared<Connection>();
    connection->peer = PeerText(from);
    const auto of_peer = std::count_if(connections_.begin(), connections_.end(),
                                       [&](const auto& one) { return one->peer == connection->peer; });
    const bool crowded = encrypt_ && static_cast<size_t>(of_peer) >= limits_.of_one_peer;
    if (crowded && !MakeRoom(&connection->peer)) continue;
    if (connections_.size() >= limits_.connections) MakeRoom(nullptr);
    connection->stream = encrypt_ ? encrypt_(fd.get()) : PlainStream(fd.get());
    if (connection->stream == nullptr) continue;
    connection->fd = std::move(fd);
    connection->until_ns = MonotonicNs() + limits_.head_ns;
    connections_.push_back(std::move(connection));
  }
}

void Server::Move() {
  std::vector<pollfd> ready;
  while (!ending_) {
    ready.clear();
    ready.push_back({wake_.get(), POLLIN, 0});
    ready.push_back({HasRoom() ? listener_.get() : -1, POLLIN, 0});
    for (const auto& one : connections_)
      ready.push_back({one->phase == Connection::Phase::kAnswer ? -1 : one->fd.get(), one->waits_for, 0});
    if (poll(ready.data(), ready.size(), connections_.empty() ? -1 : static_cast<int>(kLook / kMs)) < 0 &&
        errno != EINTR)
      poll(nullptr, 0, 10);  // e.g. no memory
    wake_.Drain();
    const int64_t now = MonotonicNs();
    size_t kept = 0;
    for (size_t i = 0; i < connections_.size(); ++i) {
      std::shared_ptr<Connection> one = std::move(connections_[i]);
      bool stays = true;
      try {
        if (ready[i + 2].revents != 0 || one->answered || now > one->until_ns) stays = Advance(one.get(), now);
        if (stays && one->phase == Connection::Phase::kAnswer && !one->in.empty()) {
          one->in.clear();
          const std::lock_guard lock(mutex_);
          requests_.push_back(one);
          asked_.notify_one();
        }
      } catch (const std::exception&) {  // out of memory: this connection ends
        stays = false;
      }
      if (stays) connections_[kept++] = std::move(one);
    }
    connections_.resize(kept);
    if (ready[1].revents == 0) continue;
    try {
      AcceptAll();
    } catch (const std::exception&) {
    }
  }
}

bool Server::Advance(Connection* connection, int64_t now_ns) {
  using Phase = Connection::Phase;
  if (connection->phase == Phase::kHandshake) {
    const Step step = connection->stream->Begin();
    if (step == Step::kEnded || now_ns > connection->until_ns) return false;
    connection->waits_for = step == Step::kWantWrite ? POLLOUT : POLLIN;
    if (step != Step::kDone) return true;
    connection->phase = Phase::kHead;
  }
  if (connection->phase == Phase::kHead && !ReadHead(connection, now_ns)) return false;
  if (connection->phase == Phase::kAnswer) {
    if (!connection->answered) return true;
    connection->answered = false;
    connection->phase = Phase::kSend;
    connection->answer_ns = now_ns + limits_.answer_ns;
    connection->until_ns = now_ns + limits_.stall_ns;
  }
  if (connection->phase == Phase::kSend && !Send(connection, now_ns)) return false;
  if (connection->phase == Phase::kLinger) {
    char piece[4096];
    connection->waits_for = POLLIN;
    const ssize_t n = recv(connection->fd.get(), piece, sizeof piece, 0);
    return now_ns <= connection->until_ns && (n > 0 || (n < 0 && errno == EAGAIN));
  }
  return true;
}

bool Server::ReadHead(Connection* connection, int64_t now_ns) {
  std::string& in = connection->in;
  size_t end = std::string::npos;
  int refused = 0;
  while (end == std::string::npos && refused == 0) {
    char piece[4096];
    size_t moved = 0;
    const Step step = connection->stream->Read(piece, sizeof piece, &moved);
    if (step == Step::kEnded) return false;
    if (step != Step::kDone) {
      connection->waits_for = step == Step::kWantWrite ? POLLOUT : POLLIN;
      if (now_ns <= connection->until_ns) return true;
      if (in.empty()) return false;
      refused = 408;
      break;
    }
    const size_t looked = in.size() < 3 ? 0 : in.size() - 3;
    in.append(piece, moved);
    end = in.find("\r\n\r\n", looked);
    if (end == std::string::npos && in.size() > kMostHeadBytes) refused = 431;
  }
  if (refused == 0) refused = ParseRequest(std::string_view(in).substr(0, end + 4), &connection->request);
  connection->phase = Connection::Phase::kAnswer;
  // Handlers have no time limit here.
  connection->until_ns = INT64_MAX;
  if (refused == 0) return true;
  in.clear();
  connection->SetAnswer(TextResponse(refused, refused == 408
                                                  ? "The request did not arrive in time.\n"
                                                  : "Only GET and HEAD requests without a body are answered.\n"));
  connection->answered = true;
  return true;
}

bool Server::Send(Connection* connection, int64_t now_ns) {
  const std::string& head = connection->head;
  const size_t bytes = head.size() + (connection->body == nullptr ? 0 : connection->body->size());
  for (int pieces = 0; connection->sent < bytes; ++pieces) {
    connection->waits_for = POLLOUT;
    if (pieces == kPieces) return true;
    const bool in_head = connection->sent < head.size();
    const std::string_view part = in_head ? std::string_view(head).substr(connection->sent)
                                          : std::string_view(*connection->body).substr(connection->sent - head.size());
    size_t moved = 0;
    const Step step = connection->stream->Write(part.data(), std::min(part.size(), kPiece), &moved);
    if (step == Step::kEnded) return false;
    if (step != Step::kDone) {
      if (step == Step::kWantRead) connection->waits_for = POLLIN;
      return now_ns <= connection->until_ns;
    }
    connection->sent += moved;
    connection->until_ns = std::min(connection->answer_ns, now_ns + limits_.stall_ns);
  }
  connection->stream->End();
  connection->body = nullptr;
  connection->phase = Connection::Phase::kLinger;
  connection->until_ns = now_ns + kLinger;
  return true;
}

}  // namespace lockstep::http
