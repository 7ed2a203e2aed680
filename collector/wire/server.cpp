#include "collector/wire/server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/unique_fd.h"
#include "collector/common/say.h"
#include "collector/wire/gate.h"
#include "collector/wire/parts.h"
#include "proto/wire.pb.h"

namespace lockstep::wire {
namespace {

constexpr int kSendQueue = 1024;  // maximum number of messages to one peer
constexpr int kServerReceiveQueue = 64;
constexpr int kReadAtOnce = 4096;
constexpr int64_t kReadAgainNs = 1'000'000;  // time between reads while received messages wait for delivery
constexpr size_t kMostPeers = 65536;
constexpr int64_t kProbeAfterNs = 15'000'000'000;
constexpr int64_t kHousekeepingNs = 1'000'000'000;
constexpr double kBurstSeconds = 4;
constexpr int kHeartbeatsPerChunk = 16;

// A token bucket, which refills over time.
class Bucket {
 public:
  bool Take(double amount, double rate, int64_t now) {
    if (last_ns_ == 0) left_ = rate * kBurstSeconds;
    left_ = std::min(rate * kBurstSeconds, left_ + rate * static_cast<double>(now - last_ns_) / 1e9);
    last_ns_ = now;
    if (left_ < amount) return false;
    left_ -= amount;
    return true;
  }

 private:
  double left_ = 0;
  int64_t last_ns_ = 0;
};

struct Peer {
  uint64_t token = 0;
  std::string user;
  Role role = Role::kNone;
  uint64_t generation = 0;  // generation of the keys when the role was looked up
  bool said_hello = false;
  Bucket messages, bytes;
  int64_t heard_ns = 0, probed_ns = 0;
};

Role RoleSaid(Hello::Role role) {
  switch (role) {
    case Hello::AGENT: return Role::kAgent;
    case Hello::RELAY: return Role::kRelay;
    case Hello::OPERATOR: return Role::kOperator;
    case Hello::READER: return Role::kReader;
    default: return Role::kNone;
  }
}

// Limits local sockets to peers that run as this user or root, according to the kernel (SO_PEERCRED). Returns false if
// libzmq cannot check that.
bool AcceptOwnUsersOnly(void* socket) {
  for (const uid_t uid : {geteuid(), uid_t{0}}) {
    if (zmq_setsockopt(socket, ZMQ_IPC_FILTER_UID, &uid, sizeof uid) != 0) return false;
  }
  return true;
}

bool MaySend(Role role, Type type) {
  switch (type) {
    case Type::kHello:
    case Type::kPing:
    case Type::kPong:
    case Type::kBye: return true;
    case Type::kHeartbeat:
    case Type::kLate:
    case Type::kEnded:
    case Type::kDigest:
    case Type::kEvidence:
    case Type::kStacks:
    case Type::kChunk: return role == Role::kAgent || role == Role::kRelay;
    case Type::kClientRequest: return role == Role::kOperator || role == Role::kReader;
    default: return false;  // only servers send these
  }
}

// Each connection needs a descriptor.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

class RouterServer : public Server {
 public:
  RouterServer(const ServerOptions& options) : options_(options), context_(zmq_ctx_new()) {
    std::random_device random;
    next_token_ = (uint64_t{random()} << 32 | random()) >> 1;
  }
  ~RouterServer() override {
    if (gate_ != nullptr && socket_ != nullptr) zmq_socket_monitor(socket_, nullptr, 0);
    if (socket_ != nullptr) {
      wakeup_.Remove(socket_);
      zmq_close(socket_);
    }
    gate_.reset();
    zmq_ctx_term(context_);
  }

  absl::Status Start();

  int fd() const override { return wakeup_.fd(); }
  std::optional<Received> Receive() override;
  absl::Status Send(uint64_t peer, const Message& message) override;
  const std::vector<std::string>& endpoints() const override { return endpoints_; }
  const ServerCounters& counters() const override {
    counters_.refused_keys = gate_->refused_keys();
    counters_.handshakes_failed = gate_->failed_handshakes();
    counters_.connections = gate_->connections();
    return counters_;
  }
  size_t peers() const override { return peers_.size(); }
  bool Knows(uint64_t peer) const override { return identities_.count(peer) != 0; }
  std::vector<uint64_t> Reporters() const override {
    std::vector<uint64_t> reporters;
    for (const auto& [identity, peer] : peers_) {
      if (peer.said_hello && (peer.role == Role::kAgent || peer.role == Role::kRelay)) reporters.push_back(peer.token);
    }
    return reporters;
  }
  int64_t HeardNs(uint64_t peer) const override {
    const auto identity = identities_.find(peer);
    return identity == identities_.end() ? 0 : peers_.at(identity->second).heard_ns;
  }

 private:
  void Read();
  void Take(Incoming* incoming, int64_t now);
  Peer* PeerOf(const Incoming& incoming, int64_t now);
  bool ReaderMay(const Peer& peer, const Message& message);
  void Queue(uint64_t token, Role role, Message message);
  void HousekeepPeers(int64_t now);
  absl::Status Reserve(const std::string& endpoint);
  void Forget(const std::string& identity);

  const ServerOptions options_;
  void* const context_;
  std::unique_ptr<Gate> gate_;
  void* socket_ = nullptr;
  Wakeup wakeup_;
  bool curve_ = false;
  std::vector<std::string> endpoints_;
  std::vector<UniqueFd> locks_;  // locks of local sockets
  mutable ServerCounters counters_;
  uint64_t next_token_ = 1;
  std::unordered_map<std::string, Peer> peers_;           // keyed by libzmq's routing ID
  std::unordered_map<uint64_t, std::string> identities_;  // token -> routing ID
  std::deque<Received> urgent_, chunks_, heartbeats_;
  size_t urgent_bytes_ = 0, chunk_bytes_ = 0;
  int heartbeats_given_ = 0;  // number since the last chunk
  int64_t housekept_ns_ = 0, read_ns_ = 0;
};

absl::Status RouterServer::Start() {
  if (options_.endpoints.empty()) return absl::InvalidArgumentError("no endpoint to listen at");
  const Security& security = options_.security;
  bool open = false;
  for (const std::string& endpoint : options_.endpoints) {
    if (absl::Status status = CheckSecurity(security, endpoint, true); !status.ok()) return status;
    open |= !IsLocal(endpoint);
  }
  curve_ = !security.own_key.empty();
  KeyPair keys;
  if (curve_) {
    absl::StatusOr<KeyPair> own = ReadSecretKey(security.own_key);
    if (!own.ok()) return own.status();
    keys = *std::move(own);
    if (keys.role != Role::kCollector && keys.role != Role::kRelay) {
      return absl::InvalidArgumentError(absl::StrCat("key ", security.own_key, " is of role ", RoleName(keys.role),
                                                     ": a listener needs a key of role collector or relay"));
    }
  } else if (open) {
    Say("WARNING: --insecure: listening without keys. Anyone who reaches the port can send any data, read stacks and "
        "request dumps");
  }
  RaiseFileLimit();
  absl::StatusOr<std::unique_ptr<Gate>> gate = Gate::Start(context_, curve_ ? security.known_keys : "");
  if (!gate.ok()) return gate.status();
  gate_ = *std::move(gate);
  socket_ = zmq_socket(context_, ZMQ_ROUTER);
  if (socket_ == nullptr || !wakeup_.ok())
    return absl::ResourceExhaustedError(absl::StrCat("cannot create a socket: ", zmq_strerror(zmq_errno())));
  bool set = SetBounds(socket_, kSendQueue, kServerReceiveQueue) && SetInt(socket_, ZMQ_ROUTER_MANDATORY, 1) &&
             SetInt(socket_, ZMQ_BACKLOG, 4096);
  // Does not use ZeroMQ's own heartbeats. Libzmq searches their timers linearly, so the cost of each message grows with
  // the connections (a third of a relay's time at 1,536). TCP finds dead peers (SetBounds), and agents send every
  // second.
  if (curve_) {
    set = set && SetString(socket_, ZMQ_ZAP_DOMAIN, "lockstep") && SetInt(socket_, ZMQ_CURVE_SERVER, 1) &&
          SetString(socket_, ZMQ_CURVE_SECRETKEY, keys.secret_key) &&
          SetString(socket_, ZMQ_CURVE_PUBLICKEY, keys.public_key);
  }
  if (!set) return absl::InternalError(absl::StrCat("cannot set up the socket: ", zmq_strerror(zmq_errno())));
  if (absl::Status status = gate_->Monitor(socket_); !status.ok()) return status;
  for (std::string endpoint : options_.endpoints) {
    if (absl::EndsWith(endpoint, ":0") && absl::StartsWith(endpoint, "tcp://")) endpoint.back() = '*';
    const bool local = absl::StartsWith(endpoint, "ipc://");
    if (local) {
      if (!AcceptOwnUsersOnly(socket_)) {
        return absl::UnavailableError(
            absl::StrCat("cannot listen at ", endpoint, ": this libzmq cannot check who connects"));
      }
      if (absl::Status status = Reserve(endpoint); !status.ok()) return status;
    }
    // With IPv6, libzmq would report 127.0.0.1 as an IPv6 address.
    SetInt(socket_, ZMQ_IPV6, absl::StrContains(endpoint, '[') ? 1 : 0);
    // No other user may even connect to the socket's file.
    const mode_t before = local ? umask(0077) : mode_t{0};
    const int bound = zmq_bind(socket_, endpoint.c_str());
    const int error = zmq_errno();
    if (local) umask(before);
    if (bound != 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen at ", endpoint, ": ", zmq_strerror(error)));
    }
    char actual[512];
    size_t size = sizeof actual;
    if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, actual, &size) == 0) endpoints_.emplace_back(actual);
  }
  wakeup_.Add(socket_);
  return absl::OkStatus();
}

// Locks the path, because libzmq would replace the socket file of another process that listens there.
absl::Status RouterServer::Reserve(const std::string& endpoint) {
  const std::string path = absl::StrCat(endpoint.substr(strlen("ipc://")), ".lock");
  // Abstract names are not in the file system, and the kernel refuses taken ones.
  if (path[0] == '@') return absl::OkStatus();
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.ok()) return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", endpoint, ": another process already listens there"));
  locks_.push_back(std::move(lock));
  return absl::OkStatus();
}

Peer* RouterServer::PeerOf(const Incoming& incoming, int64_t now) {
  auto entry = peers_.find(incoming.identity);
  // The peer chooses its routing ID, so the same ID with another key is another peer.
  if (entry != peers_.end() && entry->second.user != incoming.user) {
    Forget(incoming.identity);
    entry = peers_.end();
  }
  if (entry == peers_.end()) {
    if (peers_.size() >= kMostPeers) return nullptr;
    entry = peers_.emplace(incoming.identity, Peer{}).first;
    entry->second.token = ++next_token_;
    entry->second.user = incoming.user;
    identities_[entry->second.token] = incoming.identity;
  }
  Peer& peer = entry->second;
  if (curve_ && peer.generation != gate_->generation()) {
    peer.generation = gate_->generation();
    peer.role = gate_->RoleOf(peer.user);
  }
  peer.heard_ns = now;
  return &peer;
}

void RouterServer::Take(Incoming* incoming, int64_t now) {
  counters_.received++;
  counters_.received_bytes += incoming->header.size() + incoming->body.size();
  Peer* peer = PeerOf(*incoming, now);
  const double more_messages = peer != nullptr && peer->role == Role::kRelay ? 64 : 1;
  const double more_bytes = peer != nullptr && peer->role == Role::kRelay ? 16 : 1;
  if (peer == nullptr || !peer->messages.Take(1, options_.messages_per_second * more_messages, now)) {
    counters_.flooded++;
    return;
  }
  if (incoming->parts != 2) {
    counters_.malformed++;
    return;
  }
  absl::StatusOr<Header> header = DecodeHeader(incoming->header);
  if (!header.ok()) {
    (absl::IsUnimplemented(header.status()) ? counters_.unknown_types : counters_.malformed)++;
    return;
  }
  if (incoming->body.size() > kMostWireBytes) {
    counters_.too_large++;
    return;
  }
  // Counts at least the uncompressed size, because a compressed message costs the sender less than the reader.
  const double bytes = static_cast<double>(std::max<size_t>(incoming->body.size(), header->raw_bytes));
  if (!peer->bytes.Take(bytes, options_.bytes_per_second * more_bytes, now)) {
    counters_.flooded++;
    return;
  }
  Message message{*std::move(header), std::move(incoming->body)};
  const Type type = message.header.type;
  if (type == Type::kPing) {
    (void)Send(peer->token, Bare(Type::kPong));
    return;
  }
  if (type == Type::kPong) return;
  if (type == Type::kHello) {
    Hello hello;
    if (!DecodeBody(message, &hello).ok()) {
      counters_.malformed++;
      return;
    }
    if (!curve_ && !peer->said_hello) peer->role = RoleSaid(hello.role());
    peer->said_hello = true;
  } else if (!peer->said_hello) {
    counters_.malformed++;
    return;
  }
  if (peer->role == Role::kNone || !MaySend(peer->role, type) ||
      (type == Type::kClientRequest && !ReaderMay(*peer, message))) {
    counters_.role_refused++;
    return;
  }
  if (!message.header.route.empty() && peer->role != Role::kRelay) {
    counters_.malformed++;
    return;
  }
  Queue(peer->token, peer->role, std::move(message));
}

// Returns whether the peer may send this request: a reader's request may change nothing. Replies to the reader if not.
bool RouterServer::ReaderMay(const Peer& peer, const Message& message) {
  if (peer.role != Role::kReader) return true;
  ClientRequest request;
  if (!DecodeBody(message, &request).ok()) return false;
  if (request.kind() == ClientRequest::STATUS || request.kind() == ClientRequest::WATCH ||
      request.kind() == ClientRequest::DETAIL)
    return true;
  ClientReply reply;
  reply.set_request(request.request());
  reply.set_error(
      "this key is read-only (role reader); requesting a dump or examining a job needs a key of role operator");
  reply.set_done(true);
  Server::Send(peer.token, Type::kClientReply, reply).IgnoreError();
  return false;
}

void RouterServer::Queue(uint64_t token, Role role, Message message) {
  const size_t bytes = message.body.size();
  if (message.header.type == Type::kHeartbeat) {
    if (heartbeats_.size() >= options_.most_waiting_heartbeats) {
      heartbeats_.pop_front();
      counters_.shed_heartbeats++;
    }
    heartbeats_.push_back({token, role, std::move(message)});
  } else if (message.header.type == Type::kChunk) {
    if (chunk_bytes_ + bytes > options_.most_waiting_chunk_bytes) {
      counters_.shed_chunks++;
      return;
    }
    chunk_bytes_ += bytes;
    chunks_.push_back({token, role, std::move(message)});
  } else {
    urgent_bytes_ += bytes;
    urgent_.push_back({token, role, std::move(message)});
  }
}

void RouterServer::Read() {
  wakeup_.Sleep();
  const int64_t now = MonotonicNs();
  read_ns_ = now;
  if (now - housekept_ns_ > kHousekeepingNs) {
    housekept_ns_ = now;
    HousekeepPeers(now);
  }
  Incoming incoming;
  for (int i = 0; i < kReadAtOnce; i++) {
    if (urgent_bytes_ > options_.most_waiting_urgent_bytes) break;
    if (!ReceiveMessage(socket_, true, &incoming)) return;
    Take(&incoming, now);
  }
  wakeup_.Wake();  // there may be more messages
}

std::optional<Received> RouterServer::Receive() {
  // Checking an empty socket costs as much as reading a message.
  const bool any = !urgent_.empty() || !heartbeats_.empty() || !chunks_.empty();
  if (!any || MonotonicNs() - read_ns_ > kReadAgainNs) Read();
  const auto take = [](std::deque<Received>* queue) {
    std::optional<Received> first(std::move(queue->front()));
    queue->pop_front();
    return first;
  };
  if (!urgent_.empty()) {
    urgent_bytes_ -= urgent_.front().message.body.size();
    return take(&urgent_);
  }
  // One chunk follows sixteen heartbeats, so neither delays the other.
  if (!chunks_.empty() && (heartbeats_.empty() || heartbeats_given_ >= kHeartbeatsPerChunk)) {
    heartbeats_given_ = 0;
    chunk_bytes_ -= chunks_.front().message.body.size();
    return take(&chunks_);
  }
  if (!heartbeats_.empty()) {
    heartbeats_given_++;
    return take(&heartbeats_);
  }
  return std::nullopt;
}

absl::Status RouterServer::Send(uint64_t peer, const Message& message) {
  const auto identity = identities_.find(peer);
  if (identity == identities_.end()) return absl::NotFoundError("the peer is gone");
  const int error = SendMessage(socket_, &identity->second, message);
  wakeup_.WakeIfReadable(socket_);
  if (error == 0) {
    counters_.sent++;
    counters_.sent_bytes += message.body.size() + message.header.route.size() * 8 + 12;
    return absl::OkStatus();
  }
  if (error == EHOSTUNREACH) {
    Forget(std::string(identity->second));
    return absl::NotFoundError("the peer is gone");
  }
  return absl::UnavailableError(absl::StrCat("the peer accepts no more data: ", zmq_strerror(error)));
}

// Pings silent peers, to check whether their connections still exist.
void RouterServer::HousekeepPeers(int64_t now) {
  std::vector<uint64_t> silent;
  for (auto& [identity, peer] : peers_) {
    if (now - std::max(peer.heard_ns, peer.probed_ns) < kProbeAfterNs) continue;
    peer.probed_ns = now;
    silent.push_back(peer.token);
  }
  for (const uint64_t token : silent) {
    (void)Send(token, Bare(Type::kPing));
  }
}

void RouterServer::Forget(const std::string& identity) {
  const auto peer = peers_.find(identity);
  if (peer == peers_.end()) return;
  identities_.erase(peer->second.token);
  peers_.erase(peer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Bind(const ServerOptions& options) {
  auto server = std::make_unique<RouterServer>(options);
  if (const absl::Status status = server->Start(); !status.ok()) return status;
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace lockstep::wire
