#include "analyzer/util/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"

namespace lockstep {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr char kStandardOutput[] = "-";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status FileError(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space or write to another disk"));
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::InternalError(message);
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n =
        offset < 0 ? write(fd, bytes.data(), bytes.size()) : pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", path, errno);
    if (offset >= 0) offset += n;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

AtomicFile::AtomicFile(const std::string& path, std::string_view prefix) : AtomicFile(path, prefix, false) {}

AtomicFile::AtomicFile(const std::string& path, std::string_view prefix, bool output)
    : path_(path), output_(output), temporary_(absl::StrCat(FolderOf(path), "/", std::string(prefix), "XXXXXX")) {}

AtomicFile AtomicFile::Output(const std::string& path, std::string_view prefix) {
  return AtomicFile(path, prefix, true);
}

AtomicFile::~AtomicFile() {
  if (output_ && path_ == kStandardOutput) fd_.release();
  if (exists_) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Fail(const std::string& what, int error) {
  status_ = FileError(what, path_ == kStandardOutput ? "standard output" : path_, error);
  if (exists_) unlink(temporary_.c_str());
  exists_ = false;
  return status_;
}

absl::Status AtomicFile::Open() {
  struct stat info;
  if (output_ && path_ == kStandardOutput) {
    fd_.reset(STDOUT_FILENO);
  } else if (output_ && stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    fd_.reset(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd_.ok()) return Fail("write", errno);
  } else {
    fd_.reset(mkostemp(temporary_.data(), O_CLOEXEC));
    if (!fd_.ok()) return Fail(output_ ? "write" : "create a file next to", errno);
    exists_ = true;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::SetMode(unsigned mode) {
  return fchmod(fd_.get(), mode) == 0 ? absl::OkStatus() : FileError("set the mode of", path_, errno);
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  if (!status_.ok()) return status_;
  if (!fd_.ok()) {
    if (absl::Status status = Open(); !status.ok()) return status;
  }
  buffer_.append(bytes);
  return buffer_.size() >= kBuffer ? Flush() : absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  status_ = WriteAll(fd_.get(), buffer_, path_ == kStandardOutput ? "standard output" : path_);
  buffer_.clear();
  return status_;
}

absl::Status AtomicFile::WriteAt(uint64_t offset, const void* data, size_t bytes) {
  if (status_.ok())
    status_ = WriteAll(fd_.get(), {static_cast<const char*>(data), bytes}, path_, static_cast<int64_t>(offset));
  return status_;
}

absl::Status AtomicFile::SetSize(uint64_t bytes) {
  if (status_.ok() && ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) status_ = FileError("size", path_, errno);
  return status_;
}

absl::Status AtomicFile::Commit() {
  if (absl::Status status = Append(""); !status.ok()) return status;
  if (absl::Status status = Flush(); !status.ok()) return status;
  if (output_ && exists_) {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd_.get(), 0666 & ~mask) != 0) return Fail("write", errno);
  }
  if (exists_ && fsync(fd_.get()) != 0) return Fail("write", errno);
  if (output_ && path_ == kStandardOutput) return absl::OkStatus();
  if (close(fd_.release()) != 0) return Fail("write", errno);
  if (!exists_) return absl::OkStatus();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Fail("rename a finished file to", errno);
  exists_ = false;
  return output_ ? absl::OkStatus() : SyncFolder(FolderOf(path_));
}

absl::Status WriteFileSafely(const std::string& path, std::string_view content, unsigned mode) {
  AtomicFile file(path);
  absl::Status status = file.Append(content);
  if (status.ok() && mode != 0600) status = file.SetMode(mode);
  return status.ok() ? file.Commit() : status;
}

}  // namespace lockstep
