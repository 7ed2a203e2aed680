#include "analyzer/util/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status FileError(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space or write elsewhere"));
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::InternalError(message);
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(absl::StrCat(FolderOf(path), "/.lockstep.XXXXXX")) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (exists_) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Open() {
  fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) return FileError("create a file beside", path_, errno);
  exists_ = true;
  return absl::OkStatus();
}

absl::Status AtomicFile::SetMode(unsigned mode) {
  return fchmod(fd_, mode) == 0 ? absl::OkStatus() : FileError("set the mode of", path_, errno);
}

absl::Status AtomicFile::WriteAt(uint64_t offset, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = pwrite(fd_, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", path_, errno);
    from += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::SetSize(uint64_t bytes) {
  return ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? absl::OkStatus() : FileError("size", path_, errno);
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return FileError("write", path_, errno);
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) return FileError("write", path_, errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return FileError("rename a finished file to", path_, errno);
  exists_ = false;
  const std::string folder = FolderOf(path_);
  const int dir = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return FileError("open folder", folder, errno);
  // Some network file systems cannot sync a folder; the file itself is safe there.
  const int rc = fsync(dir) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  close(dir);
  return rc == 0 ? absl::OkStatus() : FileError("sync folder", folder, rc);
}

absl::Status WriteFileSafely(const std::string& path, std::string_view content, unsigned mode) {
  AtomicFile file(path);
  absl::Status status = file.Open();
  if (status.ok()) status = file.WriteAt(0, content.data(), content.size());
  if (status.ok() && mode != 0600) status = file.SetMode(mode);
  return status.ok() ? file.Commit() : status;
}

}  // namespace lockstep
