#include "analyzer/util/rotating_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep {

absl::Status RotatingFile::Open(const std::string& path, int64_t most_bytes, unsigned mode, Kind kind) {
  path_ = path;
  most_bytes_ = most_bytes;
  mode_ = mode;
  kind_ = kind;
  return Reopen();
}

absl::Status RotatingFile::Reopen() {
  absl::Status status = OpenAt(path_);
  // If the path is a link, its target is renamed, not the link.
  char real[PATH_MAX];
  if (status.ok()) real_path_ = realpath(path_.c_str(), real) != nullptr ? real : path_;
  return status;
}

absl::Status RotatingFile::OpenAt(const std::string& path) {
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(open(path.c_str(), flags | (kind_ == Kind::kRegular ? O_NOFOLLOW : 0), mode_));
  if (!fd.ok()) return absl::UnavailableError(absl::StrCat("cannot write the log ", path_, ": ", strerror(errno)));
  struct stat info {};
  const bool regular = fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  if (!regular && kind_ == Kind::kRegular)
    return absl::FailedPreconditionError(absl::StrCat("the log ", path_, " is not a regular file; choose another"));
  fd_ = std::move(fd);
  regular_ = regular;
  size_ = regular ? info.st_size : 0;
  return absl::OkStatus();
}

absl::Status RotatingFile::Append(std::string_view line) {
  if (!fd_.ok()) return absl::FailedPreconditionError("the log is not open");
  std::string whole(line);
  std::replace(whole.begin(), whole.end(), '\n', ' ');
  whole += '\n';
  if (regular_ && size_ > 0 && size_ + static_cast<int64_t>(whole.size()) > most_bytes_) {
    rename(real_path_.c_str(), absl::StrCat(real_path_, ".1").c_str());
    if (absl::Status status = OpenAt(real_path_); !status.ok()) return status;
  }
  const ssize_t written = write(fd_.get(), whole.data(), whole.size());
  if (written == static_cast<ssize_t>(whole.size())) {
    size_ += written;
    return absl::OkStatus();
  }
  const int error = written < 0 ? errno : ENOSPC;
  // A partial line would also corrupt the next one.
  if (written > 0 && (!regular_ || ftruncate(fd_.get(), size_) != 0)) size_ += written;
  return absl::ResourceExhaustedError(absl::StrCat("cannot write to the log ", path_, ": ", strerror(error)));
}

}  // namespace lockstep
