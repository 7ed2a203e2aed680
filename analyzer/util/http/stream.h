// The bytes of one connection, with or without TLS.
#pragma once

#include <cstddef>
#include <memory>

namespace lockstep::http {

// The result of a call: done, what the socket must be ready for before the call is repeated, or the end of the
// connection.
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

}  // namespace lockstep::http
