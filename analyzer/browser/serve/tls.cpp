#include "analyzer/browser/serve/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sodium.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "analyzer/browser/serve/private_file.h"
#include "analyzer/util/small_file.h"

namespace lockstep::serve {
namespace {

using http::Step;
using http::Stream;

constexpr size_t kMostPem = 1 << 20;

class Encrypted : public Stream {
 public:
  Encrypted(SSL* ssl, int fd) : ssl_(ssl), fd_(fd) {}
  ~Encrypted() override { SSL_free(ssl_); }
  Step Begin() override {
    ERR_clear_error();
    return Result(SSL_accept(ssl_));
  }
  Step Read(char* to, size_t most, size_t* moved) override {
    ERR_clear_error();
    return Result(SSL_read_ex(ssl_, to, most, moved));
  }
  Step Write(const char* from, size_t bytes, size_t* moved) override {
    ERR_clear_error();
    return Result(SSL_write_ex(ssl_, from, bytes, moved));
  }
  void End() override {
    ERR_clear_error();
    if (SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
    shutdown(fd_, SHUT_WR);
  }

 private:
  Step Result(int done) {
    if (done == 1) return Step::kDone;
    const int why = SSL_get_error(ssl_, done);
    return why == SSL_ERROR_WANT_READ ? Step::kWantRead : why == SSL_ERROR_WANT_WRITE ? Step::kWantWrite : Step::kEnded;
  }
  SSL* const ssl_;
  const int fd_;
};

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// Gives no password, so an encrypted key is an error.
int NoPassword(char*, int, int, void*) { return 0; }

Owned<BIO> Memory(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace

Tls::~Tls() { SSL_CTX_free(context_); }

absl::StatusOr<std::unique_ptr<Tls>> Tls::Load(const std::string& certificate, const std::string& key) {
  const absl::StatusOr<std::string> chain = ReadWholeFile(certificate, kMostPem);
  if (!chain.ok()) return chain.status();
  const absl::StatusOr<std::string> secret = ReadPrivateFile(key, kMostPem);
  if (!secret.ok()) return secret.status();
  // The host's openssl.cnf may name libraries to load.
  if (sodium_init() < 0 || OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) != 1)
    return absl::InternalError("cannot initialize the TLS library");
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError("cannot initialize the TLS library");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // Without this, a client that keeps updating keys could keep one call from returning.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  // Only ciphers with forward secrecy and authenticated encryption; TLS 1.3 has no others.
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");

  const Owned<BIO> from = Memory(*chain), private_from = Memory(*secret);
  const Owned<X509> own(PEM_read_bio_X509(from.get(), nullptr, NoPassword, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context.get(), own.get()) != 1)
    return absl::InvalidArgumentError(absl::StrCat(certificate, " contains no usable certificate (PEM)"));
  while (Owned<X509> next{PEM_read_bio_X509(from.get(), nullptr, NoPassword, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context.get(), next.get()) != 1)
      return absl::InvalidArgumentError(absl::StrCat(certificate, " contains a certificate that TLS cannot use"));
  }
  const Owned<EVP_PKEY> pair(PEM_read_bio_PrivateKey(private_from.get(), nullptr, NoPassword, nullptr));
  if (pair == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(key, " contains no unencrypted private key (PEM)"));
  if (SSL_CTX_use_PrivateKey(context.get(), pair.get()) != 1)
    return absl::InvalidArgumentError(absl::StrCat(key, " does not belong to the certificate ", certificate));
  ERR_clear_error();
  std::string hash(crypto_generichash_BYTES, '\0');
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(secret->data()), secret->size(), nullptr, 0);
  return std::unique_ptr<Tls>(new Tls(context.release(), std::move(hash)));
}

std::unique_ptr<Stream> Tls::Accept(int fd) const {
  SSL* const ssl = SSL_new(context_);
  if (ssl == nullptr) return nullptr;
  auto stream = std::make_unique<Encrypted>(ssl, fd);
  if (SSL_set_fd(ssl, fd) != 1) return nullptr;
  SSL_set_accept_state(ssl);
  return stream;
}

}  // namespace lockstep::serve
