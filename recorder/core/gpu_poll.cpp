// The thread that polls events.
#include <sys/resource.h>
#include <time.h>

#include "recorder/core/gpu_events.h"
#include "recorder/core/note.h"
#include "recorder/core/process.h"
#include "recorder/core/real.h"

extern "C" int __cxa_atexit(void (*)(void*), void*, void*);

namespace lockstep::recorder {
namespace {

uint32_t g_thread;   // 0 if there is none, 1: being created, 2: running, 3: cannot be created
uint32_t g_inside;   // 1 while the thread is inside the driver
uint32_t g_holders;  // number of callers that keep the thread out of the driver

constexpr long kKeenNs = 100000, kBusyNs = 1000000, kIdleNs = 5000000, kQuietNs = 20000000;
constexpr uint32_t kKeenAtMost = 500;  // maximum number of consecutive polls at short intervals
constexpr uint32_t kQuietAfter = 200;  // number of idle polls before the intervals become long
constexpr int kNice = 5;

void Sleep(long ns) noexcept {
  timespec span{0, ns};
  Sys(SYS_nanosleep, &span, static_cast<timespec*>(nullptr));
}

Look LookAtAll() noexcept {
  Look look = Look::kIdle;
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    // Both sides announce themselves first and then check the other, so at least one of them backs off.
    __atomic_store_n(&g_inside, 1u, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&g_holders, __ATOMIC_SEQ_CST) == 0) {
      const Look one = PollStream(i);
      if (one > look) look = one;
    }
    __atomic_store_n(&g_inside, 0u, __ATOMIC_SEQ_CST);
  }
  return look;
}

void* Poll(void*) {
  Sys(SYS_prctl, 15L /* PR_SET_NAME */, "lockstep-gpu");
  Sys(SYS_setpriority, static_cast<long>(PRIO_PROCESS), 0L, static_cast<long>(kNice));
  bool ready = false;
  uint32_t idle = 0, keen = 0;
  while (Load(g.word) != kOff) {
    // Set once and never reset. Calls of this thread must not invalidate another thread's capture.
    if (!ready && LoadAcquire(&g_driver_state) != 0) {
      int relaxed = kCaptureRelaxed;
      if (g_driver.capture_mode != nullptr) g_driver.capture_mode(&relaxed);
      ready = true;
    }
    const Look look = ready ? LookAtAll() : Look::kIdle;
    idle = look != Look::kIdle ? 0 : idle + (idle < kQuietAfter);
    keen = look == Look::kKeen ? keen + (keen < kKeenAtMost) : 0;
    if (look == Look::kIdle) {
      Sleep(idle < kQuietAfter ? kIdleNs : kQuietNs);
    } else {
      Sleep(look == Look::kKeen && keen < kKeenAtMost ? kKeenNs : kBusyNs);
    }
  }
  return nullptr;
}

// Runs before the driver's own exit handlers, because those were registered earlier. The polling thread must not be
// inside the driver while these handlers run. Waits for it, up to 1 s, and then polls one last time.
void AtExit(void*) {
  if (Load(g.word) != kRecording || LoadAcquire(&g_thread) != 2)
    return;  // in a forked child, the polling thread does not exist
  if (HoldPolling()) LookOnce(-1);
}

}  // namespace

LOCKSTEP_COLD void StartPolling() noexcept {
  if (g.gpu != GpuMode::kEvents || !Swap<uint32_t>(&g_thread, 0, 1)) return;
  ErrnoKeeper keep;
  StoreRelease(&g_thread, 2u);
  if (StartThread(Poll, nullptr)) {
    static bool registered;
    if (!registered) __cxa_atexit(AtExit, nullptr, nullptr);
    registered = true;
  } else {
    StoreRelease(&g_thread, 3u);
    AddNote("LOCKSTEP_GPU=events: no thread could be created; GPU progress is not recorded");
  }
}

bool HoldPolling() noexcept {
  __atomic_fetch_add(&g_holders, 1u, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 2000 && __atomic_load_n(&g_inside, __ATOMIC_SEQ_CST) != 0; ++i) Sleep(500000);
  return __atomic_load_n(&g_inside, __ATOMIC_SEQ_CST) == 0;
}

void LookOnce(int32_t device) noexcept {
  RelaxedCapture relaxed;
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    if (device < 0 || g.map.streams[i].device == device) PollStream(i);
  }
}

void ReleasePolling() noexcept { __atomic_fetch_sub(&g_holders, 1u, __ATOMIC_SEQ_CST); }

void ForgetPolling() noexcept { g_thread = g_inside = g_holders = 0; }

}  // namespace lockstep::recorder
