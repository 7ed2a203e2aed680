// The real functions behind the exported names. Each is looked for at its first use among the loaded objects, and
// remembered in one atomic pointer; a failure is not remembered, because NCCL may be loaded later.
#ifndef LOCKSTEP_RECORDER_REAL_H_
#define LOCKSTEP_RECORDER_REAL_H_

#include <stdint.h>

#include "recorder/sys.h"

namespace lockstep::recorder {

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclInProgress = 7;
// NCCL accepted the call: at once, or for its own thread to go on with.
inline bool Accepted(int result) noexcept {
  return result == kNcclSuccess || result == kNcclInProgress;
}

struct RealFunction {
  const char* name;
  void* address;
};

// Null when nothing loaded defines it.
void* ResolveNccl(RealFunction* function) noexcept;
inline void* RealNccl(RealFunction* function) noexcept {
  void* address = LoadAcquire(&function->address);
  if (LOCKSTEP_LIKELY(address != nullptr)) return address;
  return ResolveNccl(function);
}

// CUDA runtimes of two versions may be loaded at once: the caller's own is called then.
void* ResolveCuda(RealFunction* function, const void* caller) noexcept;
inline void* RealCuda(RealFunction* function, const void* caller) noexcept {
  void* address = LoadAcquire(&function->address);
  if (LOCKSTEP_LIKELY(address != nullptr)) return address;
  return ResolveCuda(function, caller);
}

// Questions to the real NCCL about a communicator that is ready. False when it cannot answer.
enum class AskedOfComm { kUserRank, kCount, kDevice };
bool AskComm(AskedOfComm what, const void* comm, int* value) noexcept;

// ncclGetVersion of the loaded library, 0 when there is none.
int32_t NcclVersion() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_REAL_H_
