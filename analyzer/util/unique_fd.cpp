#include "analyzer/util/unique_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace lockstep {

void UniqueFd::reset(int fd) {
  const int old = std::exchange(fd_, fd), error = errno;
  if (old >= 0) close(old);
  errno = error;
}

EventFd::EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool EventFd::Signal() const {
  const uint64_t one = 1;
  // If the counter is full, the descriptor is already readable.
  return write(get(), &one, sizeof one) == sizeof one || errno == EAGAIN;
}

void EventFd::Drain() const {
  uint64_t count = 0;
  (void)!read(get(), &count, sizeof count);
}

bool MakePipe(UniqueFd* read_end, UniqueFd* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end->reset(ends[0]);
  write_end->reset(ends[1]);
  return true;
}

}  // namespace lockstep
