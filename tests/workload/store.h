// A key-value store over TCP that exchanges NCCL unique IDs. It takes one request per connection; kMaxKey, kMaxValue
// and kMaxEntries limit its size. The names are PyTorch's, so that stacks of ranks waiting for the store look the same.
#pragma once

#include <map>
#include <string>
#include <thread>

namespace trainsim {

inline constexpr size_t kMaxKey = 64;
inline constexpr size_t kMaxValue = 256;
inline constexpr size_t kMaxEntries = 1 << 16;

// Serves on its own thread until destroyed.
class TCPStoreServer {
 public:
  TCPStoreServer() = default;
  ~TCPStoreServer();
  TCPStoreServer(const TCPStoreServer&) = delete;
  TCPStoreServer& operator=(const TCPStoreServer&) = delete;

  // Listens on address:port (0: any free port, see port()). Returns false and sets *error if the address is
  // unavailable.
  bool Start(const std::string& address, int port, std::string* error);
  int port() const { return port_; }

 private:
  void Serve();
  void Answer(int connection);

  int listen_fd_ = -1;
  int stop_fd_ = -1;
  int port_ = 0;
  std::map<std::string, std::string> entries_;  // used by the serving thread only
  std::thread thread_;
};

// Connects to a server. Not thread-safe. Every call fails after timeout_s seconds: it returns false and sets *error.
class TCPStore {
 public:
  TCPStore(std::string address, int port, double timeout_s)
      : address_(std::move(address)), port_(port), timeout_s_(timeout_s) {}

  // Sets a key, and retries until the server is up. Replaces an earlier value.
  bool Set(const std::string& key, const std::string& value, std::string* error);
  // Waits until the key is set.
  bool Get(const std::string& key, std::string* value, std::string* error);

 private:
  enum class Outcome { kDone, kNotYet, kUnreachable, kRefused };
  Outcome Ask(char verb, const std::string& key, const std::string& value, std::string* answer, std::string* error);
  bool Retry(char verb, const std::string& key, const std::string& value, std::string* answer, std::string* error);

  std::string address_;
  int port_;
  double timeout_s_;
};

}  // namespace trainsim
