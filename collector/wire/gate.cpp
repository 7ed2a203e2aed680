#include "collector/wire/gate.h"

#include <signal.h>
#include <sys/stat.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collector/common/say.h"
#include "collector/wire/parts.h"

namespace lockstep::wire {
namespace {

constexpr char kZap[] = "inproc://zeromq.zap.01";
constexpr char kMonitor[] = "inproc://lockstep.gate.monitor";
constexpr char kStop[] = "inproc://lockstep.gate.stop";
constexpr long kReloadEveryMs = 1000;
constexpr int kHandshakes =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

// Returns a value that changes if a file is added or removed; -1 if the folder cannot be read.
int64_t ChangedNs(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return -1;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::vector<std::string> ReceiveParts(void* socket) {
  std::vector<std::string> parts;
  ForEachPart(socket, [&](zmq_msg_t* part) {
    parts.emplace_back(static_cast<const char*>(zmq_msg_data(part)), zmq_msg_size(part));
  });
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Start(void* context, const std::string& folder) {
  std::unique_ptr<Gate> gate(new Gate(folder));
  if (!folder.empty()) {
    gate->folder_changed_ns_ = ChangedNs(folder);
    absl::StatusOr<std::map<std::string, Role>> known = ReadKnownKeys(folder);
    if (!known.ok()) return known.status();
    gate->known_ = *std::move(known);
    gate->zap_ = zmq_socket(context, ZMQ_REP);
  }
  gate->monitor_ = zmq_socket(context, ZMQ_PAIR);
  gate->stop_ = zmq_socket(context, ZMQ_PAIR);
  gate->stop_here_ = zmq_socket(context, ZMQ_PAIR);
  const bool ready = gate->monitor_ != nullptr && gate->stop_ != nullptr && gate->stop_here_ != nullptr &&
                     zmq_bind(gate->stop_, kStop) == 0 && zmq_connect(gate->stop_here_, kStop) == 0 &&
                     (folder.empty() || (gate->zap_ != nullptr && zmq_bind(gate->zap_, kZap) == 0));
  if (!ready) return absl::InternalError(absl::StrCat("cannot start authentication: ", zmq_strerror(zmq_errno())));
  return gate;
}

absl::Status Gate::Monitor(void* socket) {
  if (zmq_socket_monitor(socket, kMonitor, kHandshakes) != 0 || zmq_connect(monitor_, kMonitor) != 0) {
    return absl::InternalError(absl::StrCat("cannot watch handshakes: ", zmq_strerror(zmq_errno())));
  }
  // The process's other threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return absl::OkStatus();
}

Gate::~Gate() {
  if (thread_.joinable()) {
    zmq_send(stop_here_, "", 0, 0);
    thread_.join();
  }
  for (void* socket : {zap_, monitor_, stop_, stop_here_}) {
    if (socket == nullptr) continue;
    constexpr int kNoLinger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &kNoLinger, sizeof kNoLinger);
    zmq_close(socket);
  }
}

Role Gate::RoleOf(const std::string& public_key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto key = known_.find(public_key);
  return key == known_.end() || key->second == Role::kCollector ? Role::kNone : key->second;
}

void Gate::Run() {
  zmq_pollitem_t items[] = {{stop_, 0, ZMQ_POLLIN, 0}, {monitor_, 0, ZMQ_POLLIN, 0}, {zap_, 0, ZMQ_POLLIN, 0}};
  for (;;) {
    const int ready = zmq_poll(items, zap_ == nullptr ? 2 : 3, kReloadEveryMs);
    if (ready < 0 && zmq_errno() != EINTR) return;
    if (ready > 0 && (items[0].revents & ZMQ_POLLIN) != 0) return;
    if (zap_ != nullptr) Reload();
    if (ready > 0 && (items[1].revents & ZMQ_POLLIN) != 0) DrainMonitor();
    if (ready > 0 && zap_ != nullptr && (items[2].revents & ZMQ_POLLIN) != 0) Answer();
  }
}

// Parts of a request (ZeroMQ RFC 27): version, request ID, domain, address, identity, mechanism, credentials.
void Gate::Answer() {
  const std::vector<std::string> request = ReceiveParts(zap_);
  if (request.size() < 2) return;
  std::string user;
  bool in = false;
  if (request.size() == 7 && request[0] == "1.0" && request[5] == "CURVE" && request[6].size() == 32) {
    char key[41] = {};
    if (zmq_z85_encode(key, reinterpret_cast<const uint8_t*>(request[6].data()), 32) != nullptr) {
      user = key;
      in = RoleOf(user) != Role::kNone;
    }
  }
  if (!in) refused_.fetch_add(1, std::memory_order_relaxed);
  const std::string parts[] = {
      "1.0", request[1], in ? "200" : "400", in ? "OK" : "the server does not know this key", in ? user : "", ""};
  for (size_t i = 0; i < std::size(parts); i++) {
    zmq_send(zap_, parts[i].data(), parts[i].size(), i + 1 < std::size(parts) ? ZMQ_SNDMORE : 0);
  }
}

void Gate::DrainMonitor() {
  for (;;) {
    const std::vector<std::string> parts = ReceiveParts(monitor_);
    if (parts.empty()) return;
    uint16_t event = 0;
    if (parts[0].size() >= sizeof event) memcpy(&event, parts[0].data(), sizeof event);
    (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? connections_ : failed_).fetch_add(1, std::memory_order_relaxed);
  }
}

void Gate::Reload() {
  const int64_t changed = ChangedNs(folder_);
  if (changed == folder_changed_ns_) return;
  folder_changed_ns_ = changed;
  absl::StatusOr<std::map<std::string, Role>> known = ReadKnownKeys(folder_);
  if (!known.ok()) {
    const std::string text = absl::StrCat(known.status().message(), "; the keys read earlier stay valid");
    if (text != said_) Say(text);
    said_ = text;
    folder_changed_ns_ = 0;  // the folder may be incomplete, so read it again
    return;
  }
  said_.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  known_ = *std::move(known);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace lockstep::wire
