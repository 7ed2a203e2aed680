// The real functions behind the exported names. Each is looked up among the loaded objects at its first use, and stored
// in one atomic pointer. A failure is not stored, because NCCL may be loaded later.
#pragma once

#include <stdint.h>

#include "recorder/base/sys.h"

namespace lockstep::recorder {

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclInProgress = 7;
// Returns whether NCCL accepted the call: it is complete, or NCCL's own thread continues it.
inline bool Accepted(int result) noexcept { return result == kNcclSuccess || result == kNcclInProgress; }

inline constexpr uint32_t kMaxNcclCopies = 4;

// For NCCL functions that dlsym returned: the library to call, counted from 1; kAskedTwin if the function was called
// by its second name, pncclX; 0 for neither. The machine code in hook_entry.cpp writes it, and RealNccl reads it.
// `now` is the value for the current call on this thread.
struct AskedLibrary {
  uint32_t asked, now;
};
extern "C" constinit thread_local AskedLibrary lockstep_asked
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

inline constexpr uint32_t kAskedTwin = kMaxNcclCopies + 1;

struct RealFunction {
  const char* name;
  void* address = nullptr;
  uintptr_t begin = 0, bytes = 0;  // code of the NCCL library around `address`
  const void* host = nullptr;      // the last caller outside NCCL
  void* in_copy[kMaxNcclCopies] = {};
  void* twin = nullptr;  // pncclX of the loaded library
  uint32_t noted = 0;    // a note already reports that the loaded NCCL does not have this function
};

// Returns null, and adds a note to the ring, if no loaded library defines the function. If a process has two NCCL
// libraries, inner calls use the functions of their own library. A caller that looked up a function in one library gets
// that library's function; all others get the first library's.
void* ResolveNccl(RealFunction* function, const void* caller) noexcept;
void* ResolveAsked(RealFunction* function, uint32_t library) noexcept;
inline void* RealNccl(RealFunction* function, const void* caller) noexcept {
  const uint32_t asked = lockstep_asked.asked;
  lockstep_asked.now = asked;
  if (LOCKSTEP_UNLIKELY(asked != 0)) {
    lockstep_asked.asked = 0;
    return ResolveAsked(function, asked);
  }
  void* address = LoadAcquire(&function->address);
  if (LOCKSTEP_LIKELY(address != nullptr) &&
      (LOCKSTEP_LIKELY(Load(&function->host) == caller) ||
       reinterpret_cast<uintptr_t>(caller) - function->begin < function->bytes)) {
    return address;
  }
  return ResolveNccl(function, caller);
}
// Begins the wrapper of an NCCL function: defines `real`, the real function.
#define LOCKSTEP_REAL_NCCL(NAME)                                                             \
  static RealFunction function = {#NAME};                                                    \
  const auto real = reinterpret_cast<decltype(&NAME)>(RealNccl(&function, LOCKSTEP_CALLER)); \
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage

// If CUDA runtimes of two versions are loaded, returns the function of the caller's own runtime.
void* ResolveCuda(RealFunction* function, const void* caller) noexcept;
inline void* RealCuda(RealFunction* function, const void* caller) noexcept {
  void* address = LoadAcquire(&function->address);
  if (LOCKSTEP_LIKELY(address != nullptr)) return address;
  return ResolveCuda(function, caller);
}

// Asks the real NCCL about a usable communicator. `library` is its creator, numbered as in AskedLibrary. Returns false
// if NCCL cannot answer.
enum class AskedOfComm { kUserRank, kCount, kDevice };
bool AskComm(AskedOfComm what, uint32_t library, const void* comm, int* value) noexcept;

// Returns a libc function whose symbol version changed, such as dlopen. Null if there is none.
void* LibcFunction(RealFunction* function) noexcept;

// Starts a thread with all signals blocked. Returns false if that is not possible.
bool StartThread(void* (*run)(void*), void* argument) noexcept;

// The first returns ncclGetVersion of the library behind the current call, or null if it has none; the second returns
// its result, or 0.
const void* NcclVersionFunction() noexcept;
int32_t NcclVersion() noexcept;

}  // namespace lockstep::recorder
