#include "collector/wire/client.h"

#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"
#include "collector/wire/parts.h"
#include "proto/wire.pb.h"

namespace lockstep::wire {
namespace {

constexpr int kReceiveQueue = 256;
constexpr int64_t kOwnAbsence = 3 * kSecond / 2;
constexpr int64_t kMostBackOff = 5 * kSecond;
constexpr int64_t kMostProbeGap = 60 * kSecond;
constexpr int kConnectMs = 4000;
constexpr size_t kMostFallbacks = 8;
constexpr int kCloseLingerMs = 500;
constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_CLOSED | ZMQ_EVENT_CONNECT_RETRIED;

// One connection, from its first packet to its end. A link never reconnects on its own.
struct Link {
  void* socket = nullptr;
  void* monitor = nullptr;
  std::string endpoint;
  size_t key = 0;
  bool shaken = false;  // the handshake is complete
  bool up = false;      // the handshake is complete and the socket accepts messages
  int64_t started_ns = 0, heard_ns = 0, pinged_ns = 0;
};

class DealerClient : public Client {
 public:
  explicit DealerClient(const ClientOptions& options)
      : options_(options),
        own_context_(options.context == nullptr),
        context_(own_context_ ? zmq_ctx_new() : options.context) {}
  ~DealerClient() override {
    if (main_.socket != nullptr && main_.up && own_context_) {
      AwaitPong();
      SetInt(main_.socket, ZMQ_LINGER, kCloseLingerMs);
    }
    Close(&main_);
    Close(&probe_);
    if (own_context_) zmq_ctx_term(context_);
  }

  absl::Status Start();

  int fd() const override { return wakeup_.fd(); }
  std::optional<Message> Receive() override;
  absl::Status Send(const Message& message) override;
  bool Tick(int64_t mono_ns) override;
  bool connected() const override { return main_.up && told_ && now_ - main_.heard_ns <= options_.silent_after_ns; }
  std::string endpoint() const override { return main_.endpoint; }
  std::string last_error() const override { return error_; }

 private:
  std::vector<std::string> Endpoints() const;
  bool Open(const std::string& endpoint, size_t key, Link* link);
  void Close(Link* link);
  // Returns false and the reason if the link has ended, or was not established in time.
  bool Watch(Link* link, std::string* why);
  void Ping(Link* link);
  void AwaitPong();
  void Failed(const std::string& why);
  void TryNext();
  void Probe();
  void TakeFallbacks(const Message& message);

  const ClientOptions options_;
  const bool own_context_;
  void* const context_;
  KeyPair own_;
  std::vector<std::string> keys_;  // keys of servers; empty without CURVE
  Wakeup wakeup_;
  std::vector<std::string> fallbacks_;
  Link main_, probe_;
  size_t at_ = 0;         // index of the combination of endpoint and key
  size_t first_key_ = 0;  // index of the key for the next probe of the first endpoint
  int failures_ = 0;      // number since the last received message
  int64_t now_ = 0, next_try_ns_ = 0, next_probe_ns_ = 0, probe_gap_ns_ = 0;
  bool fresh_ = false;  // the connection is new and not reported yet
  bool told_ = false;   // Tick has reported this connection
  std::string error_;
  uint64_t monitors_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

absl::Status DealerClient::Start() {
  if (options_.endpoints.empty()) return absl::InvalidArgumentError("no endpoint to connect to");
  bool open = false;
  for (const std::string& endpoint : options_.endpoints) {
    if (absl::Status status = CheckSecurity(options_.security, endpoint, false); !status.ok()) return status;
    open |= !IsLocal(endpoint);
  }
  if (!options_.security.own_key.empty()) {
    absl::StatusOr<KeyPair> own = ReadSecretKey(options_.security.own_key);
    if (!own.ok()) return own.status();
    own_ = *std::move(own);
    absl::StatusOr<std::vector<std::string>> keys = ServerKeys(options_.security);
    if (!keys.ok()) return keys.status();
    keys_ = *std::move(keys);
  } else if (open) {
    Say("WARNING: --insecure: sending without keys. Anyone on the network path can read and change the data");
  }
  if (!wakeup_.ok() || context_ == nullptr)
    return absl::ResourceExhaustedError("cannot create a socket: too many open files");
  now_ = MonotonicNs();
  probe_gap_ns_ = 2 * options_.silent_after_ns;
  TryNext();
  // If no socket can be created for an endpoint, the endpoint will never work.
  if (main_.socket == nullptr) return absl::InvalidArgumentError(error_);
  return absl::OkStatus();
}

std::vector<std::string> DealerClient::Endpoints() const {
  std::vector<std::string> all = options_.endpoints;
  for (const std::string& endpoint : fallbacks_) {
    if (std::find(all.begin(), all.end(), endpoint) == all.end()) all.push_back(endpoint);
  }
  return all;
}

bool DealerClient::Open(const std::string& endpoint, size_t key, Link* link) {
  link->endpoint = endpoint;
  link->key = key;
  link->started_ns = link->heard_ns = now_;
  link->socket = zmq_socket(context_, ZMQ_DEALER);
  link->monitor = zmq_socket(context_, ZMQ_PAIR);
  const std::string name =
      absl::StrCat("inproc://lockstep.client.", reinterpret_cast<uintptr_t>(this), ".", ++monitors_);
  bool ready = link->socket != nullptr && link->monitor != nullptr &&
               SetBounds(link->socket, options_.send_queue, kReceiveQueue) &&
               SetInt(link->socket, ZMQ_RECONNECT_IVL, -1) && SetInt(link->socket, ZMQ_IMMEDIATE, 1) &&
               SetInt(link->socket, ZMQ_CONNECT_TIMEOUT, kConnectMs) && SetInt(link->socket, ZMQ_IPV6, 1) &&
               SetInt(link->monitor, ZMQ_LINGER, 0);
  if (ready && !keys_.empty()) {
    ready = SetString(link->socket, ZMQ_CURVE_SERVERKEY, keys_[key]) &&
            SetString(link->socket, ZMQ_CURVE_PUBLICKEY, own_.public_key) &&
            SetString(link->socket, ZMQ_CURVE_SECRETKEY, own_.secret_key);
  }
  ready = ready && zmq_socket_monitor(link->socket, name.c_str(), kEvents) == 0 &&
          zmq_connect(link->monitor, name.c_str()) == 0 && zmq_connect(link->socket, endpoint.c_str()) == 0;
  if (!ready) {
    error_ = absl::StrCat("cannot connect to ", endpoint, ": ", zmq_strerror(zmq_errno()));
    Close(link);
    return false;
  }
  wakeup_.Add(link->socket);
  wakeup_.Add(link->monitor);
  return true;
}

void DealerClient::Close(Link* link) {
  if (link->socket != nullptr) zmq_socket_monitor(link->socket, nullptr, 0);
  for (void* socket : {link->monitor, link->socket}) {
    if (socket == nullptr) continue;
    wakeup_.Remove(socket);
    zmq_close(socket);
  }
  *link = Link{};
}

bool DealerClient::Watch(Link* link, std::string* why) {
  Incoming event;
  while (ReceiveMessage(link->monitor, false, &event)) {
    uint16_t kind = 0;
    uint32_t value = 0;
    if (event.header.size() < sizeof kind + sizeof value) continue;
    memcpy(&kind, event.header.data(), sizeof kind);
    memcpy(&value, event.header.data() + sizeof kind, sizeof value);
    switch (kind) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        link->shaken = true;
        link->heard_ns = now_;
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        *why = absl::StrCat(link->endpoint, " does not know this key (public key ", own_.public_key,
                            "): put its .pub file into the server's folder of known keys");
        return false;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        *why =
            absl::StrCat(link->endpoint,
                         keys_.empty() ? " requires keys, and none are configured here"
                                       : " has a different key than the given one, has no key, or is not a collector");
        return false;
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      case ZMQ_EVENT_DISCONNECTED:
      case ZMQ_EVENT_CLOSED:
        *why = link->shaken ? absl::StrCat("the connection to ", link->endpoint, " ended")
               : keys_.empty()
                   ? absl::StrCat(link->endpoint, " does not respond, or requires keys")
                   : absl::StrCat(link->endpoint, " does not respond, or has a different key than the given one");
        return false;
      default: break;
    }
  }
  if (link->shaken && !link->up) {
    // The handshake is reported before the socket accepts messages.
    int events = 0;
    size_t size = sizeof events;
    link->up = zmq_getsockopt(link->socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLOUT) != 0;
    if (!link->up || (events & ZMQ_POLLIN) != 0) wakeup_.Wake();
  }
  if (!link->up && now_ - link->started_ns > options_.silent_after_ns) {
    *why = absl::StrCat(link->endpoint, " does not respond");
    return false;
  }
  return true;
}

void DealerClient::Ping(Link* link) {
  if (!link->up || now_ - std::max(link->heard_ns, link->pinged_ns) < options_.silent_after_ns / 3) return;
  link->pinged_ns = now_;
  (void)SendMessage(link->socket, nullptr, Bare(Type::kPing));
  wakeup_.WakeIfReadable(link->socket);
}

// Call before closing the connection. Closing a TCP connection with unread input resets it, and the other side may lose
// the last messages. A pong shows that it has read them.
void DealerClient::AwaitPong() {
  if (SendMessage(main_.socket, nullptr, Bare(Type::kPing)) != 0) return;
  const int64_t end = MonotonicNs() + int64_t{kCloseLingerMs} * 1'000'000;
  for (int64_t left = end - MonotonicNs(); left > 0; left = end - MonotonicNs()) {
    zmq_pollitem_t item{main_.socket, 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, static_cast<long>(left / 1'000'000 + 1)) < 0 && zmq_errno() != EINTR) return;
    for (Incoming incoming; ReceiveMessage(main_.socket, false, &incoming);) {
      const absl::StatusOr<Header> header = DecodeHeader(incoming.header);
      if (header.ok() && header->type == Type::kPong) return;
    }
  }
}

void DealerClient::Failed(const std::string& why) {
  error_ = why;
  const bool was_up = main_.up;
  Close(&main_);
  told_ = fresh_ = false;
  failures_++;
  const std::vector<std::string> all = Endpoints();
  const size_t ways = all.size() * std::max<size_t>(keys_.size(), 1);
  at_ = (at_ + 1) % ways;
  // Tries every combination once without delay, then with growing delays that differ between clients.
  int64_t delay = 0;
  if (failures_ >= static_cast<int>(ways) || (was_up && ways == 1)) {
    const int doublings = std::min(failures_ - static_cast<int>(ways), 6);
    delay = std::min(kMostBackOff, (kSecond / 10) << std::max(doublings, 0));
    delay += delay * static_cast<int64_t>(random_() % 1000) / 1000;
  }
  next_try_ns_ = now_ + delay;
  if (delay == 0) TryNext();
}

void DealerClient::TryNext() {
  const std::vector<std::string> all = Endpoints();
  const size_t keys = std::max<size_t>(keys_.size(), 1);
  at_ %= all.size() * keys;
  if (!Open(all[at_ / keys], at_ % keys, &main_)) next_try_ns_ = now_ + kSecond;
}

// While connected to a fallback: returns to the first endpoint once it responds again.
void DealerClient::Probe() {
  const size_t keys = std::max<size_t>(keys_.size(), 1);
  if (probe_.socket == nullptr) {
    if (!main_.up || main_.endpoint == options_.endpoints[0]) return;
    if (next_probe_ns_ == 0)
      next_probe_ns_ = now_ + probe_gap_ns_ + static_cast<int64_t>(random_() % 1000) * probe_gap_ns_ / 1000;
    if (now_ < next_probe_ns_) return;
    const std::string error = error_;
    if (!Open(options_.endpoints[0], first_key_, &probe_)) next_probe_ns_ = now_ + kMostProbeGap;
    error_ = error;
    return;
  }
  std::string why;
  bool answered = false;
  if (Watch(&probe_, &why)) {
    if (probe_.up && probe_.pinged_ns == 0) {
      probe_.pinged_ns = now_;
      (void)SendMessage(probe_.socket, nullptr, Bare(Type::kPing));
    }
    Incoming incoming;
    while (probe_.up && ReceiveMessage(probe_.socket, false, &incoming)) answered = true;
    if (!answered && now_ - probe_.started_ns <= options_.silent_after_ns) return;
  }
  if (!answered) {
    Close(&probe_);
    first_key_ = (first_key_ + 1) % keys;
    probe_gap_ns_ = std::min(kMostProbeGap, probe_gap_ns_ * 3 / 2);
    next_probe_ns_ = 0;
    return;
  }
  // Tells the fallback server that this client now uses another connection.
  if (main_.up && told_ && SendMessage(main_.socket, nullptr, Bare(Type::kBye)) == 0)
    SetInt(main_.socket, ZMQ_LINGER, kCloseLingerMs);
  Close(&main_);
  main_ = std::exchange(probe_, Link{});
  main_.heard_ns = now_;
  at_ = main_.key;
  failures_ = 0;
  probe_gap_ns_ = 2 * options_.silent_after_ns;
  next_probe_ns_ = 0;
  told_ = false;
  fresh_ = true;
}

bool DealerClient::Tick(int64_t mono_ns) {
  // Does not count time in which this process did not run, because messages from that time are still unread.
  if (mono_ns - now_ > kOwnAbsence) main_.heard_ns += mono_ns - now_;
  now_ = mono_ns;
  wakeup_.Sleep();
  std::string why;
  if (main_.socket == nullptr && now_ >= next_try_ns_) TryNext();
  if (main_.socket != nullptr) {
    const bool was_up = main_.up;
    if (!Watch(&main_, &why)) {
      Failed(why);
    } else if (main_.up && !was_up) {
      fresh_ = true;
    }
  }
  if (main_.up) {
    // Without another endpoint, an existing connection gets more time.
    const int64_t patience = options_.silent_after_ns * (options_.endpoints.size() + fallbacks_.size() > 1 ? 1 : 4);
    if (now_ - main_.heard_ns > patience) {
      Failed(absl::StrCat(main_.endpoint, " has been silent for ", DurationText(now_ - main_.heard_ns)));
    } else {
      Ping(&main_);
    }
  }
  Probe();
  if (!fresh_) return false;
  fresh_ = false;
  told_ = true;
  return true;
}

std::optional<Message> DealerClient::Receive() {
  Incoming incoming;
  while (main_.up && ReceiveMessage(main_.socket, false, &incoming)) {
    absl::StatusOr<Header> header = DecodeHeader(incoming.header);
    // Any message shows that the other side is alive.
    main_.heard_ns = std::max(main_.heard_ns, now_);
    failures_ = 0;
    if (!header.ok() || incoming.parts != 2 || incoming.body.size() > kMostWireBytes) continue;
    Message message{*std::move(header), std::move(incoming.body)};
    if (message.header.type == Type::kPong) {
      error_.clear();
      continue;
    }
    if (message.header.type == Type::kPing) {
      (void)SendMessage(main_.socket, nullptr, Bare(Type::kPong));
      continue;
    }
    if (message.header.type == Type::kWelcome) TakeFallbacks(message);
    return message;
  }
  if (main_.up) wakeup_.Sleep();  // everything is read
  return std::nullopt;
}

absl::Status DealerClient::Send(const Message& message) {
  if (!main_.up || !told_)
    return absl::UnavailableError(error_.empty() ? absl::StrCat("not connected to ", main_.endpoint, " yet") : error_);
  const int error = SendMessage(main_.socket, nullptr, message);
  wakeup_.WakeIfReadable(main_.socket);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(main_.endpoint, " accepts no more data: ", zmq_strerror(error)));
}

void DealerClient::TakeFallbacks(const Message& message) {
  Welcome welcome;
  if (!DecodeBody(message, &welcome).ok() || !welcome.refused().empty()) return;
  std::vector<std::string> named;
  for (const std::string& endpoint : welcome.fallback()) {
    // Skips endpoints for which this client has no keys, and local sockets of a remote server.
    const bool allowed =
        CheckSecurity(options_.security, endpoint, false).ok() && (!IsLocal(endpoint) || IsLocal(main_.endpoint));
    if (allowed && endpoint.size() < 256 && named.size() < kMostFallbacks) named.push_back(endpoint);
  }
  if (!named.empty()) fallbacks_ = std::move(named);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  auto client = std::make_unique<DealerClient>(options);
  if (const absl::Status status = client->Start(); !status.ok()) return status;
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace lockstep::wire
