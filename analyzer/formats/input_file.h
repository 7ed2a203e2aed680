#ifndef LOCKSTEP_ANALYZER_FORMATS_INPUT_FILE_H_
#define LOCKSTEP_ANALYZER_FORMATS_INPUT_FILE_H_

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace lockstep {

// A file opened for reading, without waiting where it is a pipe or a terminal.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }  // -1: errno says why, right after the constructor

 private:
  const int fd_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_INPUT_FILE_H_
