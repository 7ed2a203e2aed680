#include "recorder/base/clock.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "recorder/base/sys.h"

namespace lockstep::recorder {

bool g_use_counter = false;

namespace {

// Returns false if the kernel uses a slow clock source, because it found the counter unstable (the sockets' counters
// drift apart).
bool KernelTrustsCounter() noexcept {
  char text[32];
  if (ReadStart("/sys/devices/system/clocksource/clocksource0/current_clocksource", text, sizeof(text)) <= 0)
    return true;  // the file is hidden: trust the CPU
  static const char* const kSlow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
  for (const char* slow : kSlow) {
    if (strncmp(text, slow, strlen(slow)) == 0) return false;
  }
  return true;
}

}  // namespace

ring::TickKind ChooseClock(bool force_monotonic) noexcept {
  g_use_counter = false;
  if (force_monotonic || !KernelTrustsCounter()) return ring::TickKind::kMonotonicNs;
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0 || (edx & (1u << 8)) == 0) {
    return ring::TickKind::kMonotonicNs;
  }
  g_use_counter = true;
  return ring::TickKind::kTsc;
#elif defined(__aarch64__)
  g_use_counter = true;
  return ring::TickKind::kCntvct;
#else
  return ring::TickKind::kMonotonicNs;
#endif
}

ring::ClockTriple ReadTriple() noexcept {
  ring::ClockTriple best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = Now();
    const uint64_t mono = MonotonicNs();
    timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    const uint64_t after = Now();
    if (after - before >= best_width) continue;
    best_width = after - before;
    best.ticks = before + best_width / 2;
    best.mono_ns = static_cast<int64_t>(mono);
    best.real_ns = static_cast<int64_t>(Nanoseconds(real));
    best.check = ring::ClockCheck(best);
  }
  return best;
}

}  // namespace lockstep::recorder
