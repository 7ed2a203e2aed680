// The bytes of one connection, with or without TLS.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

typedef struct ssl_ctx_st SSL_CTX;

namespace lockstep::serve {

// The result of a call: done, or what the socket must be ready for before the call is repeated.
enum class Step { kDone, kWantRead, kWantWrite, kEnded };

// Never blocks. Only one thread may use it at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Step Begin() = 0;
  // kDone: at least one byte was transferred; `moved` is the number.
  virtual Step Read(char* to, size_t most, size_t* moved) = 0;
  virtual Step Write(const char* from, size_t bytes, size_t* moved) = 0;
  // Signals the client that no more data follows.
  virtual void End() = 0;
};

// The caller owns the socket, which must be non-blocking.
std::unique_ptr<Stream> PlainStream(int fd);

// A server's certificate and key. Its streams use write(), so the program must ignore SIGPIPE. Thread-safe.
class Tls {
 public:
  // Both are PEM. The certificate file also contains the intermediate certificates. The key must be unencrypted,
  // belong to this user or root, and be unreadable for everyone else.
  static absl::StatusOr<std::unique_ptr<Tls>> Load(const std::string& certificate, const std::string& key);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  std::unique_ptr<Stream> Accept(int fd) const;  // null if out of memory
  // A secret derived from the key, so that it is the same for the same key.
  const std::string& secret() const { return secret_; }

 private:
  Tls(SSL_CTX* context, std::string secret) : context_(context), secret_(std::move(secret)) {}
  SSL_CTX* const context_;
  const std::string secret_;
};

}  // namespace lockstep::serve
