// A key-value store over TCP, just big enough to hand NCCL unique ids around: one request per connection, keys of at
// most kMaxKey bytes, values of at most kMaxValue bytes, at most kMaxEntries of them. Named as PyTorch names what does
// this there, so that stacks of ranks that wait in it read alike.
#ifndef LOCKSTEP_TESTS_WORKLOAD_STORE_H_
#define LOCKSTEP_TESTS_WORKLOAD_STORE_H_

#include <map>
#include <string>
#include <thread>

namespace trainsim {

inline constexpr size_t kMaxKey = 64;
inline constexpr size_t kMaxValue = 256;
inline constexpr size_t kMaxEntries = 1 << 16;

// Serves from its own thread until destroyed.
class TCPStoreServer {
 public:
  TCPStoreServer() = default;
  ~TCPStoreServer();
  TCPStoreServer(const TCPStoreServer&) = delete;
  TCPStoreServer& operator=(const TCPStoreServer&) = delete;

  // Listens on address:port (0: any free one, see port()). False with *error set when the address cannot be had.
  bool Start(const std::string& address, int port, std::string* error);
  int port() const { return port_; }

 private:
  void Serve();
  void Answer(int connection);

  int listen_fd_ = -1;
  int stop_fd_ = -1;
  int port_ = 0;
  std::map<std::string, std::string> entries_;  // the serving thread's
  std::thread thread_;
};

// Talks to a server. Not thread-safe. Every call gives up timeout_s seconds after it began, with *error set.
class TCPStore {
 public:
  TCPStore(std::string address, int port, double timeout_s)
      : address_(std::move(address)), port_(port), timeout_s_(timeout_s) {}

  // Retries until the server is up. A key is set once; setting it again replaces the value.
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

#endif  // LOCKSTEP_TESTS_WORKLOAD_STORE_H_
