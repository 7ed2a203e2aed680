// Shared by hook_entry.cpp (machine code) and hook.cpp.
#pragma once

#define LOCKSTEP_LOCAL extern "C" __attribute__((visibility("hidden")))

namespace lockstep::recorder {

// A recorded NCCL function. `wrapper` is this library's export. of_copy[n] is the same for the process's n-th NCCL
// library: it stores n + 1 in lockstep_asked and jumps to the wrapper, whose RealNccl calls that library's function.
struct HookedNccl {
  const char* name;
  void* wrapper;
  void* of_copy[4];
};
const HookedNccl* FindHookedNccl(const char* name) noexcept;  // null if not recorded

}  // namespace lockstep::recorder

// The definitions of dlsym and dlvsym that follow this library's; null until the first call.
LOCKSTEP_LOCAL void* (*lockstep_next_dlsym)(void* handle, const char* name);
LOCKSTEP_LOCAL void* (*lockstep_next_dlvsym)(void* handle, const char* name, const char* version);
// `which` is 0 for dlsym, 1 for dlvsym, 2 for lockstep_dlsym_of_libc. Finds, stores and returns the next definition.
LOCKSTEP_LOCAL void* lockstep_hook_next(int which);
// Called for names that begin like a wrapped name. If it returns null, the lookup continues with the next definition;
// for kAnswerNone, the caller gets null.
inline void* const kAnswerNone = reinterpret_cast<void*>(1);
LOCKSTEP_LOCAL void* lockstep_hook_answer(void* handle, const char* name, const char* version, const void* caller,
                                          int which);
// The hooked form of libc's own dlsym, for a tool that looks up that function.
LOCKSTEP_LOCAL void lockstep_dlsym_of_libc();
LOCKSTEP_LOCAL void* (*lockstep_libc_dlsym)(void* handle, const char* name);
