// Access control of a server: answers libzmq's authentication requests (ZAP) and counts handshakes. Has its own thread,
// so a busy server delays no connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/wire/keys.h"

namespace lockstep::wire {

class Gate {
 public:
  // One per `context`. `folder` has the admitted public keys; if empty, everyone is admitted. A second after files were
  // added or removed, the keys are read again, and connections of a removed key lose their rights. An invalid file
  // leaves the keys unchanged, and is reported once.
  static absl::StatusOr<std::unique_ptr<Gate>> Start(void* context, const std::string& folder);
  // Call before the context ends.
  ~Gate();
  // Starts the thread, and counts handshakes on this socket. Call before the socket is bound.
  absl::Status Monitor(void* socket);

  // Returns a number that changes whenever the keys change.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Returns kNone for unknown keys and for collectors' keys. Thread-safe.
  Role RoleOf(const std::string& public_key) const;

  uint64_t refused_keys() const { return refused_.load(std::memory_order_relaxed); }
  uint64_t failed_handshakes() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  explicit Gate(std::string folder) : folder_(std::move(folder)) {}
  void Run();
  void Answer();
  void DrainMonitor();
  void Reload();

  const std::string folder_;
  void* zap_ = nullptr;
  void* monitor_ = nullptr;
  void* stop_ = nullptr;       // the thread's end of the pair
  void* stop_here_ = nullptr;  // the owner's end of the pair
  std::thread thread_;
  mutable std::mutex mutex_;
  std::map<std::string, Role> known_;
  int64_t folder_changed_ns_ = 0;  // modification time of the folder when it was read
  std::string said_;
  std::atomic<uint64_t> generation_{1}, refused_{0}, failed_{0}, connections_{0};
};

}  // namespace lockstep::wire
