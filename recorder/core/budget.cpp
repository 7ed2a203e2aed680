#include "recorder/core/budget.h"

#include "recorder/core/note.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {
namespace {

constexpr Budget kDefaultBudget = {50, 5000};
// The most expensive quarter of the samples is omitted, because an interrupt or preemption during a sample is not a
// cost of the recorder.
constexpr uint32_t kLeftOut = 4;
constexpr uint32_t kFewest = 4;

Budget g_budget = kDefaultBudget;
uint32_t g_stepping;  // 1 while a thread takes a step; no other thread may then take one

// Returns the mean ticks of one piece of work, or 0 if unknown.
uint64_t Mean(const OwnTime& own) noexcept {
  uint32_t n = own.samples < kOwnSamples ? own.samples : kOwnSamples;
  if (n < kFewest) return 0;
  uint64_t sorted[kOwnSamples];
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t at = i;
    for (; at > 0 && sorted[at - 1] > own.ticks[i]; --at) sorted[at] = sorted[at - 1];
    sorted[at] = own.ticks[i];
  }
  n -= n / kLeftOut;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += sorted[i];
  return sum / n;
}

uint64_t Ns(uint64_t ticks) noexcept {
  const uint64_t hz = g.map.header->tick_hz;
  return hz == 0 ? ticks : static_cast<uint64_t>(static_cast<double>(ticks) * 1e9 / static_cast<double>(hz));
}

bool OverBudget(uint64_t call_ns, uint64_t permille) noexcept {
  const Budget budget = g_budget;
  if (budget.permille == 0 && budget.call_ns == 0) return false;
  return call_ns > budget.call_ns && (budget.permille == 0 || permille > budget.permille);
}

const char* Name(GpuMode mode) noexcept {
  switch (mode) {
    case GpuMode::kOff: return "off";
    case GpuMode::kDone: return "done";
    case GpuMode::kFull: return "full";
    case GpuMode::kEvents: return "events";
    case GpuMode::kProfiler: return "profiler";
  }
  return "on";
}

LOCKSTEP_COLD void StepDown(uint64_t call_ns, uint64_t permille) noexcept {
  ErrnoKeeper keep;
  ring::Header* header = g.map.header;
  char cost[96], line[160];
  snprintf(cost, sizeof(cost), "recording took %llu ns per call, %llu.%llu %% of a thread",
           static_cast<unsigned long long>(call_ns), static_cast<unsigned long long>(permille / 10),
           static_cast<unsigned long long>(permille % 10));
  const uint64_t after_ms = Ns(Now() - header->created_ticks) / 1000000;
  if (g.gpu != GpuMode::kOff && g.gpu != GpuMode::kProfiler) {  // NCCL's plugin interface cannot be abandoned
    const GpuMode from = g.gpu;
    g.gpu = from == GpuMode::kFull ? GpuMode::kDone : GpuMode::kOff;
    // Operations that already have tickets still get their markers from the calls and groups in progress.
    Store(&header->gpu_marks, static_cast<uint32_t>(g.gpu));
    Store(&header->stepped_down, header->stepped_down | ring::kSteppedMarks);
    snprintf(line, sizeof(line), "GPU mode reduced from %s to %s after %llu.%llu s: %s", Name(from), Name(g.gpu),
             static_cast<unsigned long long>(after_ms / 1000), static_cast<unsigned long long>(after_ms % 1000 / 100),
             cost);
    AddNote(line);
  } else if (g.cuda) {
    g.cuda = false;
    Store(&header->host_waits, 0u);
    Store(&header->stepped_down, header->stepped_down | ring::kSteppedTables);
    AddNote("CUDA calls are no longer recorded");
  } else {
    snprintf(line, sizeof(line), "over its budget: %s", cost);
    StopAndSay(line);
  }
}

}  // namespace

Budget ReadBudget(const char* text) noexcept {
  if (text == nullptr || *text == 0) return kDefaultBudget;
  if (strcmp(text, "off") == 0 || strcmp(text, "none") == 0) return {0, 0};
  uint64_t value = 0;
  const char* c = text;
  int digits = 0;
  for (; *c >= '0' && *c <= '9' && digits < 9; ++c, ++digits) value = value * 10 + static_cast<uint64_t>(*c - '0');
  if (digits == 0) return kDefaultBudget;
  if (strcmp(c, "ns") == 0 && value > 0) return {0, static_cast<uint32_t>(value)};
  uint64_t tenth = 0;
  if (c[0] == '.' && c[1] >= '0' && c[1] <= '9') {
    tenth = static_cast<uint64_t>(c[1] - '0');
    c += 2;
  }
  if ((strcmp(c, "%") != 0 && *c != 0) || value > 100 || value * 10 + tenth == 0) return kDefaultBudget;
  return {static_cast<uint32_t>(value * 10 + tenth), kDefaultBudget.call_ns};
}

void SetBudget(Budget budget) noexcept { g_budget = budget; }

void AddOwnTime(OwnTime* own, uint64_t ticks) noexcept {
  own->ticks[own->samples % kOwnSamples] = ticks;
  ++own->samples;
}

LOCKSTEP_COLD void JudgeOwnTime(ThreadState* thread) noexcept {
  OwnTimes* own = &thread->own;
  const uint64_t now = Now();
  if (own->since == 0 || own->ops.samples < kOwnSamples) {
    if (own->since == 0) {
      *own = OwnTimes{};
      own->since = now;
      own->ops.done = 1;  // calls in the round that begins now, including the current one
    }
    return;
  }
  const uint64_t call = Mean(own->ops);
  const uint64_t total =
      call * own->ops.done + Mean(own->groups) * own->groups.done + Mean(own->tables) * own->tables.done;
  const uint64_t wall = now > own->since ? now - own->since : 1;
  const uint64_t permille = total / (wall / 1000 + 1);
  const uint64_t call_ns = Ns(total / own->ops.done);
  ring::Header* header = g.map.header;
  Store(&header->own_call_ns, static_cast<uint32_t>(call_ns < UINT32_MAX ? call_ns : UINT32_MAX));
  Store(&header->own_permille, static_cast<uint32_t>(permille < 1000 ? permille : 1000));
  *own = OwnTimes{};
  if (!OverBudget(call_ns, permille) || !Swap<uint32_t>(&g_stepping, 0, 1)) return;
  if (Recording()) StepDown(call_ns, permille < 1000 ? permille : 1000);
  StoreRelease(&g_stepping, 0u);
}

}  // namespace lockstep::recorder
