#include "analyzer/util/small_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// Reads up to `limit` bytes. On an error returns false with errno set, and keeps what was read before.
bool ReadUpTo(int fd, size_t limit, std::string* text) {
  char buffer[65536];
  while (text->size() < limit) {
    const ssize_t got = read(fd, buffer, std::min(sizeof buffer, limit - text->size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text->append(buffer, static_cast<size_t>(got));
  }
  return true;
}

absl::Status ReadError(const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot read ", path, ": ", strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  return error == EACCES || error == EPERM ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

}  // namespace

UniqueFd OpenToRead(const std::string& path, Links links) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links == Links::kRefuse ? O_NOFOLLOW : 0);
  return UniqueFd(open(path.c_str(), flags));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t limit, Links links) {
  const UniqueFd fd = OpenToRead(path, links);
  return fd.ok() ? ReadWholeFile(fd.get(), path, limit) : ReadError(path, errno);
}

absl::StatusOr<std::string> ReadWholeFile(int fd, const std::string& path, size_t limit) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return ReadError(path, errno);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  std::string text;
  if (!ReadUpTo(fd, limit + 1, &text)) return ReadError(path, errno);
  if (text.size() > limit)
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than ", limit, " bytes, the maximum"));
  return text;
}

std::string ReadSmallFile(const std::string& path, size_t limit) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.ok() ? ReadSmallFile(fd.get(), limit) : "";
}

std::string ReadSmallFile(int fd, size_t limit) {
  std::string text;
  ReadUpTo(fd, limit, &text);
  return text;
}

std::string LinkTarget(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return {target, length > 0 ? static_cast<size_t>(length) : 0};
}

}  // namespace lockstep
