#include "analyzer/util/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"

namespace lockstep {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

}  // namespace

OutputFile::OutputFile(std::string path, std::string_view tag) : path_(std::move(path)), tag_(tag) {}

OutputFile::OutputFile(int fd, std::string name) : path_(std::move(name)), fd_(fd), opened_(true), borrowed_(true) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0 && !borrowed_) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status OutputFile::Fail(int error) {
  if (fd_ >= 0 && !borrowed_) close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
  status_ = FileError("write", path_, error);
  return status_;
}

absl::Status OutputFile::Open() {
  opened_ = true;
  struct stat info;
  if (stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    const size_t slash = path_.rfind('/');
    std::string name =
        absl::StrCat(slash == std::string::npos ? "" : path_.substr(0, slash + 1), ".lockstep-", tag_, ".XXXXXX");
    fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (fd_ >= 0) temporary_ = std::move(name);
  }
  return fd_ < 0 ? Fail(errno) : absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t n = write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail(errno);
    left.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Append(std::string_view bytes) {
  if (!status_.ok()) return status_;
  if (!opened_) {
    if (absl::Status status = Open(); !status.ok()) return status;
  }
  buffer_.append(bytes);
  return buffer_.size() >= kBuffer ? Flush() : absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (absl::Status status = Append(""); !status.ok()) return status;
  if (absl::Status status = Flush(); !status.ok()) return status;
  if (!temporary_.empty()) {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd_, 0666 & ~mask) != 0 || fsync(fd_) != 0) return Fail(errno);
  }
  if (borrowed_) return absl::OkStatus();
  if (close(std::exchange(fd_, -1)) != 0) return Fail(errno);
  if (!temporary_.empty()) {
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return Fail(errno);
    temporary_.clear();
  }
  return absl::OkStatus();
}

}  // namespace lockstep
