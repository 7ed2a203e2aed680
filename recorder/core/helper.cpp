#include "recorder/core/helper.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

#include "recorder/core/note.h"
#include "recorder/core/process.h"
#include "recorder/core/real.h"

namespace lockstep::recorder {
namespace {

using ring::HelperArea;
using ring::HelperQuestion;

uint32_t g_started;  // 0: no, 1: being created or running

constexpr int kNice = 5;

long Memory(uint64_t address, void* to, uint64_t length) noexcept {
  // Uses one list entry per page, because the kernel copies whole entries and stops at the first unmapped one.
  constexpr uint64_t kParts = ring::kHelperData / ring::kPage + 1;
  iovec there[kParts];
  uint64_t parts = 0, done = 0;
  while (done < length && parts < kParts) {
    uint64_t part = ring::kPage - (address + done) % ring::kPage;
    if (part > length - done) part = length - done;
    there[parts++] = {reinterpret_cast<void*>(address + done), part};
    done += part;
  }
  const iovec here{to, done};
  return Sys(SYS_process_vm_readv, static_cast<long>(ProcessId()), &here, 1L, there, static_cast<long>(parts), 0L);
}

long File(const char* path, uint64_t from, char* to, uint64_t length) noexcept {
  const long fd = Sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  long done = 0, got = 0;
  while (static_cast<uint64_t>(done) < length) {
    got = Sys(SYS_pread64, fd, to + done, length - static_cast<uint64_t>(done), static_cast<long>(from) + done);
    if (got <= 0) break;
    done += got;
  }
  Sys(SYS_close, fd);
  return done > 0 ? done : got;
}

// Answers one question, and returns its result. Anyone who may write to the file can ask, so the size is bounded, and
// the only effect is reading.
long Answer(HelperArea* area) noexcept {
  const uint64_t asked = Load(&area->length), address = Load(&area->address);
  const uint64_t length = asked < ring::kHelperData ? asked : uint64_t{ring::kHelperData};
  auto* data = reinterpret_cast<char*>(area->data);
  char path[64];
  switch (static_cast<HelperQuestion>(Load(&area->question))) {
    case HelperQuestion::kMemory:
      if (address + length < address) return -EFAULT;
      return Memory(address, data, length);
    case HelperQuestion::kMaps:
      if (address > uint64_t{1} << 40) return -EINVAL;
      return File("/proc/self/maps", address, data, length);
    case HelperQuestion::kWchan:
      snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", Load(&area->thread));
      return File(path, 0, data, length);
    case HelperQuestion::kSyscall:
      snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", Load(&area->thread));
      return File(path, 0, data, length);
  }
  return -EINVAL;
}

void* Help(void* argument) {
  auto* area = static_cast<HelperArea*>(argument);
  Sys(SYS_prctl, 15L /* PR_SET_NAME */, "lockstep-help");
  Sys(SYS_setpriority, static_cast<long>(PRIO_PROCESS), 0L, static_cast<long>(kNice));
  uint32_t answered = Load(&area->answered);
  Store(&area->state, 1u);
  while (Load(g.word) != kOff) {
    const uint32_t asked = LoadAcquire(&area->asked);
    if (asked == answered) {
      const timespec second{1, 0};
      Sys(SYS_futex, &area->asked, FUTEX_WAIT, asked, &second, nullptr, 0);
      continue;
    }
    Store(&area->result, static_cast<int64_t>(Answer(area)));
    answered = asked;
    StoreRelease(&area->answered, answered);
    Sys(SYS_futex, &area->answered, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  Store(&area->state, 0u);
  return nullptr;
}

}  // namespace

LOCKSTEP_COLD void StartHelper() noexcept {
  if (g.map.helper == nullptr || !Swap<uint32_t>(&g_started, 0, 1)) return;
  ErrnoKeeper keep;
  if (!StartThread(Help, g.map.helper)) AddNote("LOCKSTEP_HELPER: no thread could be created");
}

void ForgetHelper() noexcept { g_started = 0; }

}  // namespace lockstep::recorder
