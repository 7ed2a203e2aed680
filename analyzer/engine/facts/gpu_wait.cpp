#include "analyzer/engine/facts/gpu_wait.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/evidence/frames.h"

namespace lockstep {
namespace {

using ring::CallKind;

struct WaitName {
  std::string_view begin;  // begin of the name after "cuda", "cu" or "hip"
  CallKind kind;
};
// Functions that wait for the device, and functions that put work on a stream and wait if the launch queue is full.
constexpr WaitName kWaits[] = {
    {"Memcpy", CallKind::kMemcpy},
    {"StreamSynchronize", CallKind::kStreamSynchronize},
    {"EventSynchronize", CallKind::kEventSynchronize},
    {"DeviceSynchronize", CallKind::kDeviceSynchronize},
    {"CtxSynchronize", CallKind::kDeviceSynchronize},
    {"GraphLaunch", CallKind::kGraphLaunch},
    {"Launch", CallKind::kLaunch},
    {"ExtLaunch", CallKind::kLaunch},
    {"ModuleLaunch", CallKind::kLaunch},
    {"ExtModuleLaunch", CallKind::kLaunch},
    {"Memset", CallKind::kLaunch},
    {"EventRecord", CallKind::kLaunch},
    {"StreamWaitEvent", CallKind::kLaunch},
    {"StreamWaitValue", CallKind::kLaunch},
    {"StreamWriteValue", CallKind::kLaunch},
};

bool IsGpuWait(std::string_view frame) { return GpuWaitOf(ParseFrame(frame).function()) != CallKind::kNone; }

CallKind WaitOfThread(const ProcessEvidence& evidence, int32_t tid) {
  for (const ThreadStack& thread : evidence.threads()) {
    if (thread.inner_tid() != tid) continue;
    const int most = std::min(thread.frames_size(), kMostStackFrames);
    for (int i = 0; i < most; ++i) {
      if (const CallKind kind = GpuWaitOf(thread.frames(i).function()); kind != CallKind::kNone) return kind;
    }
  }
  return CallKind::kNone;
}

}  // namespace

CallKind GpuWaitOf(std::string_view function) {
  for (const std::string_view prefix : {"cuda", "cu", "hip"}) {
    if (!function.starts_with(prefix)) continue;
    const std::string_view rest = function.substr(prefix.size());
    for (const WaitName& wait : kWaits) {
      if (!rest.starts_with(wait.begin)) continue;
      const bool async = wait.kind == CallKind::kMemcpy && rest.find("Async") != std::string_view::npos;
      return async ? CallKind::kMemcpyAsync : wait.kind;
    }
  }
  return CallKind::kNone;
}

std::optional<ring::ThreadSnapshot> GpuWaitInStacks(const std::vector<ring::ThreadSnapshot>& threads,
                                                    const Process& process) {
  const ring::ThreadSnapshot* caller = nullptr;
  for (const ring::ThreadSnapshot& thread : threads) {
    if (thread.call != CallKind::kNone || thread.wait != CallKind::kNone) return std::nullopt;
    if (caller == nullptr || thread.last_call_ns > caller->last_call_ns) caller = &thread;
  }
  if (caller == nullptr) return std::nullopt;
  const bool dated = process.evidence != nullptr && process.evidence->taken_ns() > 0;
  if (dated && process.evidence->taken_ns() < caller->last_call_ns) return std::nullopt;
  const std::vector<std::string> wait = OutermostAndCallers(process.stack, IsGpuWait);
  // A loop of launches is at different places in the two samples, while a wait stays at one place.
  if (!wait.empty() && !process.stack_later.empty() && OutermostAndCallers(process.stack_later, IsGpuWait) != wait)
    return std::nullopt;
  CallKind kind = wait.empty() ? CallKind::kNone : GpuWaitOf(ParseFrame(wait[0]).function());
  if (kind == CallKind::kNone && process.evidence != nullptr) kind = WaitOfThread(*process.evidence, caller->tid);
  // A copy from memory-mapped file pages may be waiting for storage.
  if (kind == CallKind::kNone || ClassifyActivity(process).stall != Stall::kUnknown) return std::nullopt;
  ring::ThreadSnapshot waiting = *caller;
  waiting.wait = kind;
  waiting.wait_stream = UINT32_MAX;
  waiting.wait_since_ns = caller->last_call_ns;
  return waiting;
}

}  // namespace lockstep
