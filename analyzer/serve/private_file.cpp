#include "analyzer/serve/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/small_file.h"

namespace lockstep::serve {

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t limit) {
  const UniqueFd fd = OpenToRead(path);
  if (!fd.ok()) return FileError("read", path, errno);
  return ReadPrivateFile(fd.get(), path, limit);
}

absl::StatusOr<std::string> ReadPrivateFile(int fd, const std::string& path, size_t limit) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user (", info.st_uid, ")"));
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat("other users may read or write %s (mode %04o); chmod 600 %s",
                                                       path, static_cast<unsigned>(info.st_mode) & 07777u, path));
  }
  return ReadWholeFile(fd, path, limit);
}

}  // namespace lockstep::serve
