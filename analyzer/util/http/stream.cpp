#include "analyzer/util/http/stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace lockstep::http {
namespace {

class Plain : public Stream {
 public:
  explicit Plain(int fd) : fd_(fd) {}
  Step Begin() override { return Step::kDone; }
  Step Read(char* to, size_t most, size_t* moved) override {
    return Result(recv(fd_, to, most, 0), Step::kWantRead, moved);
  }
  Step Write(const char* from, size_t bytes, size_t* moved) override {
    return Result(send(fd_, from, bytes, MSG_NOSIGNAL), Step::kWantWrite, moved);
  }
  void End() override { shutdown(fd_, SHUT_WR); }

 private:
  static Step Result(ssize_t n, Step again, size_t* moved) {
    if (n > 0) {
      *moved = static_cast<size_t>(n);
      return Step::kDone;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? again : Step::kEnded;
  }
  const int fd_;
};

}  // namespace

std::unique_ptr<Stream> PlainStream(int fd) { return std::make_unique<Plain>(fd); }

}  // namespace lockstep::http
