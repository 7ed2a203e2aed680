// TLS for connections to `lockstep serve`.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "analyzer/util/http/stream.h"

typedef struct ssl_ctx_st SSL_CTX;

namespace lockstep::serve {

// A server's certificate and key. Its streams use write(), so the program must ignore SIGPIPE. Thread-safe.
class Tls {
 public:
  // Reads two PEM files. The certificate file also contains the intermediate certificates. The key must be unencrypted,
  // belong to this user or root, and be unreadable for everyone else.
  static absl::StatusOr<std::unique_ptr<Tls>> Load(const std::string& certificate, const std::string& key);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  std::unique_ptr<http::Stream> Accept(int fd) const;  // null if out of memory
  // A secret derived from the key: equal keys give equal secrets.
  const std::string& secret() const { return secret_; }

 private:
  Tls(SSL_CTX* context, std::string secret) : context_(context), secret_(std::move(secret)) {}
  SSL_CTX* const context_;
  const std::string secret_;
};

}  // namespace lockstep::serve
