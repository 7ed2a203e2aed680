// What hook_entry.cpp (machine code) and hook.cpp share.
#ifndef LOCKSTEP_RECORDER_CALLS_HOOK_ENTRY_H_
#define LOCKSTEP_RECORDER_CALLS_HOOK_ENTRY_H_

#define LOCKSTEP_LOCAL extern "C" __attribute__((visibility("hidden")))

namespace lockstep::recorder {

// A recorded NCCL function. `wrapper` is this library's export; of_copy[n] the same for the n-th NCCL library of the
// process: it stores n + 1 in lockstep_asked and jumps to the wrapper, whose RealNccl calls that library's function.
struct HookedNccl {
  const char* name;
  void* wrapper;
  void* of_copy[4];
};
const HookedNccl* FindHookedNccl(const char* name) noexcept;  // null: not recorded

}  // namespace lockstep::recorder

// The next dlsym and dlvsym after this library's; null until the first call.
LOCKSTEP_LOCAL void* (*lockstep_next_dlsym)(void* handle, const char* name);
LOCKSTEP_LOCAL void* (*lockstep_next_dlvsym)(void* handle, const char* name, const char* version);
// Finds and stores them.
LOCKSTEP_LOCAL void* lockstep_hook_next(int which);
// `which`: 0 dlsym, 1 dlvsym, 2 dlsym_of_libc. For names that begin like a wrapped one. Null: continue with the next;
// kAnswerNone: the caller gets null.
inline void* const kAnswerNone = reinterpret_cast<void*>(1);
LOCKSTEP_LOCAL void* lockstep_hook_answer(void* handle, const char* name, const char* version, const void* caller,
                                          int which);
// The same hook for a tool that asks for libc's dlsym; it continues with that function.
LOCKSTEP_LOCAL void lockstep_dlsym_of_libc();
LOCKSTEP_LOCAL void* (*lockstep_libc_dlsym)(void* handle, const char* name);

#endif  // LOCKSTEP_RECORDER_CALLS_HOOK_ENTRY_H_
