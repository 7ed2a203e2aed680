#include "tests/workload/store.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace trainsim {
namespace {

// Request: verb ('S' or 'G'), key length, value length (2 bytes, little endian), key, value.
// Answer: status ('+' done, '?' not yet, '!' refused), value length (2 bytes), value.
constexpr size_t kRequestHead = 4;
constexpr size_t kAnswerHead = 3;
constexpr int kConnectionTimeoutMs = 5000;
constexpr auto kRetryPause = std::chrono::milliseconds(20);

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

Addresses Resolve(const std::string& address, int port, int flags, std::string* error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) {
    *error = "MASTER_ADDR " + address + ": " + gai_strerror(code);
    return nullptr;
  }
  return Addresses(list);
}

void SetTimeouts(int fd) {
  timeval limit{};
  limit.tv_sec = kConnectionTimeoutMs / 1000;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool ReadAll(int fd, void* data, size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    ssize_t got = recv(fd, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const std::string& data) {
  size_t sent = 0;
  while (sent < data.size()) {
    ssize_t put = send(fd, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    sent += static_cast<size_t>(put);
  }
  return true;
}

std::string PackLength(size_t size) { return {static_cast<char>(size & 0xff), static_cast<char>(size >> 8)}; }

size_t UnpackLength(const unsigned char* bytes) {
  return static_cast<size_t>(bytes[0]) | static_cast<size_t>(bytes[1]) << 8;
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  char service[NI_MAXSERV] = "0";
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, service, sizeof service, NI_NUMERICSERV);
  return std::atoi(service);
}

}  // namespace

TCPStoreServer::~TCPStoreServer() {
  if (thread_.joinable()) {
    uint64_t one = 1;
    while (write(stop_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (listen_fd_ >= 0) close(listen_fd_);
  if (stop_fd_ >= 0) close(stop_fd_);
}

bool TCPStoreServer::Start(const std::string& address, int port, std::string* error) {
  Addresses addresses = Resolve(address, port, AI_PASSIVE, error);
  if (!addresses) return false;
  for (addrinfo* each = addresses.get(); each != nullptr && listen_fd_ < 0; each = each->ai_next) {
    Descriptor fd(socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    int one = 1;
    if (fd.get() >= 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd.get() >= 0 && bind(fd.get(), each->ai_addr, each->ai_addrlen) == 0 && listen(fd.get(), 1024) == 0) {
      listen_fd_ = fd.release();
    } else {
      *error = "cannot listen on " + address + ":" + std::to_string(port) + ": " + std::strerror(errno) +
               "; set another MASTER_PORT";
    }
  }
  if (listen_fd_ < 0) return false;
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) {
    *error = std::string("eventfd: ") + std::strerror(errno);
    return false;
  }
  port_ = PortOf(listen_fd_);
  thread_ = std::thread([this] { Serve(); });
  return true;
}

void TCPStoreServer::Serve() {
  pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    Descriptor connection(accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) continue;
    SetTimeouts(connection.get());
    Answer(connection.get());
  }
}

void TCPStoreServer::Answer(int connection) {
  unsigned char head[kRequestHead];
  if (!ReadAll(connection, head, sizeof head)) return;
  const size_t key_size = head[1];
  const size_t value_size = UnpackLength(head + 2);
  if ((head[0] != 'S' && head[0] != 'G') || key_size > kMaxKey || value_size > kMaxValue) {
    WriteAll(connection, "!" + PackLength(0));
    return;
  }
  std::string key(key_size, '\0');
  std::string value(value_size, '\0');
  if (!ReadAll(connection, key.data(), key_size) || !ReadAll(connection, value.data(), value_size)) return;
  if (head[0] == 'S') {
    const bool room = entries_.size() < kMaxEntries || entries_.contains(key);
    if (room) entries_[key] = value;
    WriteAll(connection, (room ? "+" : "!") + PackLength(0));
    return;
  }
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    WriteAll(connection, "?" + PackLength(0));
  } else {
    WriteAll(connection, "+" + PackLength(found->second.size()) + found->second);
  }
}

TCPStore::Outcome TCPStore::Ask(char verb, const std::string& key, const std::string& value, std::string* answer,
                                std::string* error) {
  Addresses addresses = Resolve(address_, port_, 0, error);
  if (!addresses) return Outcome::kUnreachable;
  for (addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Descriptor fd(socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (fd.get() >= 0) SetTimeouts(fd.get());
    if (fd.get() < 0 || connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0) {
      *error =
          "cannot reach the store of rank 0 at " + address_ + ":" + std::to_string(port_) + ": " + std::strerror(errno);
      continue;
    }
    std::string request = std::string(1, verb) + static_cast<char>(key.size()) + PackLength(value.size()) + key + value;
    unsigned char head[kAnswerHead];
    if (!WriteAll(fd.get(), request) || !ReadAll(fd.get(), head, sizeof head)) {
      *error = "the store of rank 0 at " + address_ + ":" + std::to_string(port_) + " closed the connection";
      return Outcome::kUnreachable;
    }
    const size_t size = UnpackLength(head + 1);
    answer->resize(size);
    if (size > kMaxValue || (size > 0 && !ReadAll(fd.get(), answer->data(), size))) {
      *error = "the store of rank 0 sent a malformed answer; does another program use MASTER_PORT?";
      return Outcome::kRefused;
    }
    if (head[0] == '+') return Outcome::kDone;
    if (head[0] == '?') return Outcome::kNotYet;
    *error = "the store of rank 0 refused '" + key + "'";
    return Outcome::kRefused;
  }
  return Outcome::kUnreachable;
}

bool TCPStore::Retry(char verb, const std::string& key, const std::string& value, std::string* answer,
                     std::string* error) {
  if (key.size() > kMaxKey || value.size() > kMaxValue) {
    *error = "the key or value is too long for the store: '" + key + "'";
    return false;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s_);
  while (true) {
    Outcome outcome = Ask(verb, key, value, answer, error);
    if (outcome == Outcome::kDone) return true;
    if (outcome == Outcome::kRefused) return false;
    if (outcome == Outcome::kNotYet) *error = "nobody has set '" + key + "'; is its rank running?";
    if (std::chrono::steady_clock::now() >= deadline) {
      *error += " (gave up after " + std::to_string(static_cast<int>(timeout_s_)) + " s)";
      return false;
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

bool TCPStore::Set(const std::string& key, const std::string& value, std::string* error) {
  std::string answer;
  return Retry('S', key, value, &answer, error);
}

bool TCPStore::Get(const std::string& key, std::string* value, std::string* error) {
  return Retry('G', key, "", value, error);
}

}  // namespace trainsim
