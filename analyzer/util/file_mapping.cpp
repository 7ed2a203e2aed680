#include "analyzer/util/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"

namespace lockstep {

// Never freed, because the handler may be reading the list. Reused after the file is closed.
struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> used{false}, failed{false};
  MappedRange* next = nullptr;
};

namespace {

std::atomic<MappedRange*> ranges{nullptr};
struct sigaction before;
uintptr_t page_bytes;

// Replaces the range from the first missing page on with zeros. Uses only async-signal-safe calls.
void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  bool replaced = false;
  for (MappedRange* range = info->si_code > 0 ? ranges.load() : nullptr; range != nullptr; range = range->next) {
    const uintptr_t end = range->end;
    if (at < range->begin || at >= end) continue;
    range->failed = true;
    const uintptr_t page = at & ~(page_bytes - 1);
    replaced = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  if (!replaced) {
    sigaction(signal, &before, nullptr);
    // A process sent the signal, perhaps this one. After a real fault, the same instruction faults again when the
    // handler returns.
    if (info->si_code <= 0) raise(signal);
  }
  errno = error;
}

MappedRange* Register(const void* data, size_t size) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (page_bytes == 0) {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &action, &before);
  }
  MappedRange* range = ranges;
  while (range != nullptr && range->used) range = range->next;
  if (range == nullptr) {
    range = new MappedRange;
    range->next = ranges;
    ranges = range;
  }
  range->used = true;
  range->failed = false;
  range->begin = reinterpret_cast<uintptr_t>(data);
  range->end = reinterpret_cast<uintptr_t>(data) + size;
  return range;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileMapping>> FileMapping::Open(UniqueFd fd, const std::string& path) {
  struct stat st = {};
  if (fstat(fd.get(), &st) != 0) return FileError("read", path, errno);
  if (!S_ISREG(st.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  if (st.st_size == 0) return absl::DataLossError(absl::StrCat(path, ": empty"));
  void* data = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return FileError("map", path, errno);
  std::unique_ptr<FileMapping> file(new FileMapping());
  file->fd_ = std::move(fd);
  file->path_ = path;
  file->data_ = static_cast<const char*>(data);
  file->size_ = static_cast<size_t>(st.st_size);
  file->changed_ = st.st_mtim;
  file->range_ = Register(data, file->size_);
  return file;
}

FileMapping::~FileMapping() {
  range_->end = 0;
  range_->used = false;
  munmap(const_cast<char*>(data_), size_);
}

bool FileMapping::Read(size_t offset, size_t bytes, char* out) const {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd_.get(), out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

absl::Status FileMapping::Unchanged() const {
  struct stat st = {};
  if (!range_->failed && fstat(fd_.get(), &st) == 0 && static_cast<size_t>(st.st_size) == size_ &&
      st.st_mtim.tv_sec == changed_.tv_sec && st.st_mtim.tv_nsec == changed_.tv_nsec)
    return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": the file changed or was truncated while it was open"));
}

}  // namespace lockstep
