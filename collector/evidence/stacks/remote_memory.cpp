#include "collector/evidence/stacks/remote_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include "collector/evidence/stacks/process_helper.h"

namespace lockstep {

ssize_t ProcessMemory::ReadSome(uint64_t address, void* out, size_t size) const {
  if (address == 0 || address + size < address) {
    errno = EFAULT;
    return -1;
  }
  if (refused_) return helper_->Memory(address, out, size);
  // At an unreadable page, process_vm_readv returns only whole entries of the list, so the entries are small.
  constexpr size_t kPage = 4096;
  constexpr int kMostParts = 256;
  size_t done = 0;
  while (done < size) {
    iovec parts[kMostParts];
    int count = 0;
    size_t wanted = 0;
    while (count < kMostParts && done + wanted < size) {
      const uint64_t at = address + done + wanted;
      size_t length = count == 0 ? kPage - at % kPage : 16 * kPage;
      if (length > size - done - wanted) length = size - done - wanted;
      parts[count++] = {reinterpret_cast<void*>(at), length};
      wanted += length;
    }
    const iovec local{static_cast<char*>(out) + done, wanted};
    const ssize_t got = process_vm_readv(pid_, &local, 1, parts, static_cast<unsigned long>(count), 0);
    if (got < 0 && done == 0 && (errno == EPERM || errno == ENOSYS) && helper_ != nullptr) {
      refused_ = true;
      return helper_->Memory(address, out, size);
    }
    if (got <= 0) return done > 0 ? static_cast<ssize_t>(done) : -1;
    done += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < wanted) break;
  }
  return static_cast<ssize_t>(done);
}

bool ProcessMemory::Read(uint64_t address, void* out, size_t size) const {
  return ReadSome(address, out, size) == static_cast<ssize_t>(size);
}

}  // namespace lockstep
