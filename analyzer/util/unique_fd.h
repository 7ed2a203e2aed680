// Owners of file descriptors.
#pragma once

#include <utility>

namespace lockstep {

// Closes the descriptor in its destructor and preserves errno. -1 means none.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_;
};

// An event that any thread can signal and another can poll.
class EventFd {
 public:
  EventFd();
  bool ok() const { return fd_.ok(); }
  int get() const { return fd_.get(); }  // readable from Signal() until Drain()
  bool Signal() const;                   // false if the event could not be made readable
  void Drain() const;

 private:
  UniqueFd fd_;
};

// Creates a pipe with O_CLOEXEC. Returns false with errno set on failure.
bool MakePipe(UniqueFd* read_end, UniqueFd* write_end);

}  // namespace lockstep
