#include "recorder/base/host_memory.h"

#include <sys/uio.h>

#include "recorder/base/sys.h"

namespace lockstep::recorder {
namespace {

// Returns whether the eight bytes at `word` are mapped, in containers that refuse process_vm_readv. rt_sigprocmask with
// an unknown first argument reads them before it fails, so its error shows this.
bool IsMapped(uintptr_t word) noexcept {
  return Sys(SYS_rt_sigprocmask, 4711L, word, nullptr, sizeof(uint64_t)) == -EINVAL;
}

}  // namespace

bool ReadHostMemory(const void* from, void* to, size_t bytes) noexcept {
  iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  const long got = Sys(SYS_process_vm_readv, ProcessId(), &local, 1L, &remote, 1L, 0L);
  if (got >= 0) return static_cast<size_t>(got) == bytes;
  if (got != -EPERM && got != -ENOSYS) return false;
  const auto begin = reinterpret_cast<uintptr_t>(from), end = begin + bytes;
  if (end < begin) return false;
  // A word never crosses a page boundary, so one check per page is enough after the first page.
  for (uintptr_t at = begin & ~uintptr_t{7}; at < end; at = (at | 4095) + 1) {
    if (!IsMapped(at)) return false;
  }
  if (bytes == sizeof(uint64_t) && begin % sizeof(uint64_t) == 0) {
    // another thread may be storing this word now
    const uint64_t word = LoadAcquire(static_cast<const uint64_t*>(from));
    memcpy(to, &word, sizeof(word));
  } else {
    memcpy(to, from, bytes);
  }
  return true;
}

void ReadHostText(const char* from, char* to, size_t size) noexcept {
  size_t got = 0;
  while (from != nullptr && got + 1 < size) {
    // Copies page by page, because the page after the text may not be mapped.
    size_t part = 4096 - (reinterpret_cast<uintptr_t>(from + got) & 4095);
    if (part > size - 1 - got) part = size - 1 - got;
    if (!ReadHostMemory(from + got, to + got, part)) break;
    const size_t length = strnlen(to + got, part);
    got += length;
    if (length < part) break;
  }
  to[got] = 0;
}

}  // namespace lockstep::recorder
