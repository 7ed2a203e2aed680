#include "recorder/calls/hook.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/base/environment.h"
#include "recorder/base/loaded.h"
#include "recorder/calls/hook_entry.h"
#include "recorder/core/process.h"
#include "recorder/core/real.h"

namespace lockstep::recorder {
namespace {

struct Request {
  void* handle;
  const char* name;
  const char* version;  // only for dlvsym
  const void* caller;
  int which;
};

// Calls the next dlsym from this library. RTLD_NEXT then means "after this library", and RTLD_DEFAULT the global scope
// alone.
void* Ask(const Request& request, void* handle) noexcept {
  if (request.which == 1) return lockstep_next_dlvsym(handle, request.name, request.version);
  return (request.which == 2 ? lockstep_libc_dlsym : lockstep_next_dlsym)(handle, request.name);
}

bool HookIsOn() noexcept {
  constexpr int kUnread = 0, kOn = 1, kPassive = 2;
  static int state = kUnread;
  int now = Load(&state);
  if (LOCKSTEP_UNLIKELY(now == kUnread)) {
    if (environ == nullptr) return false;  // libc itself is not initialized yet
    now = ReadHookMode() == HookMode::kDlsym && !SwitchedOff() ? kOn : kPassive;
    Store(&state, now);
  }
  return now == kOn;
}

// Returns whether a library is NCCL by its soname, or defines ncclGetVersion and ncclCommInitRank: it then contains or
// replaces NCCL.
bool IsNccl(const LoadedObject& object) noexcept {
  if (IsNcclLibrary(object)) return true;
  const auto* inside = reinterpret_cast<const void*>(object.text_begin);
  return FindFunctionIn("ncclGetVersion", inside) != nullptr && FindFunctionIn("ncclCommInitRank", inside) != nullptr;
}

// Returns the wrapper for a caller that would otherwise get `found`, or null to continue with the next dlsym.
void* Wrapped(const Request& request, void* found, const HookedNccl& nccl) noexcept {
  LoadedObject owner{};
  uint32_t hash = 0;
  if (!FindObject(found, &owner, &hash)) return nullptr;
  if (IsNccl(owner)) {
    const uint32_t copy = AddNccl(owner, IsNcclLibrary(owner));
    if (copy == kNone) return nullptr;
    if (KeepLoaded(owner)) Ask(request, request.handle);  // Ask again, because dlerror must describe this call.
    return nccl.of_copy[copy];
  }
  // If another tool comes after this library, the caller gets this library's export, which forwards to that tool.
  if (request.name[0] != 'p' && Ask(request, RTLD_NEXT) == found) return nccl.wrapper;
  return nullptr;
}

// Returns what the caller's object would find among its own dependencies if it was opened with RTLD_LOCAL. Another
// tool's dlsym may hide the caller from the real dlsym, and then the lookup fails.
void* AskInScopeOf(const Request& request) noexcept {
  LoadedObject object{};
  uint32_t hash = 0;
  if (!FindObject(reinterpret_cast<const void*>(lockstep_next_dlsym), &object, &hash) || object.soname == nullptr ||
      (strncmp(object.soname, "libc.so", 7) != 0 && strncmp(object.soname, "libdl.so", 8) != 0)) {
    return nullptr;
  }
  if (!FindObject(request.caller, &object, &hash) || object.name[0] == 0) return nullptr;
  static RealFunction open_function = {"dlopen"}, close_function = {"dlclose"};
  const auto open = reinterpret_cast<void* (*)(const char*, int)>(LibcFunction(&open_function));
  const auto close = reinterpret_cast<int (*)(void*)>(LibcFunction(&close_function));
  if (open == nullptr || close == nullptr) return nullptr;
  void* handle = open(object.name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = Ask(request, handle);
  close(handle);
  return found;
}

void* AnswerNccl(const Request& request) noexcept {
  const HookedNccl* nccl = FindHookedNccl(request.name[0] == 'p' ? request.name + 1 : request.name);
  if (nccl == nullptr) return nullptr;
  if (request.handle == RTLD_NEXT) {
    // A tool that was preloaded before this library gets this library's export, but only if a later library defines the
    // function.
    if (!LiesBefore(request.caller)) return nullptr;
    void* found = Ask(request, RTLD_NEXT);
    return found != nullptr ? Wrapped(request, found, *nccl) : nullptr;
  }
  void* found = Ask(request, request.handle);
  if (found == nullptr && request.handle == RTLD_DEFAULT) found = AskInScopeOf(request);
  return found != nullptr ? Wrapped(request, found, *nccl) : nullptr;
}

// The bounds of this library, set by the linker.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];

bool IsOurs(const void* address) noexcept { return address >= __ehdr_start && address < _end; }

// This library's exports with names of the CUDA and HIP runtimes have no version, so dlsym finds them. Returns
// kAnswerNone if a caller would get such an export although no runtime defines the function.
void* AnswerRuntime(const Request& request) noexcept {
  if (!IsOurs(Ask(request, request.handle)) && (request.handle != RTLD_NEXT || !LiesBefore(request.caller)))
    return nullptr;
  if (Ask(request, RTLD_NEXT) != nullptr) return nullptr;
  if (request.handle == RTLD_DEFAULT && AskInScopeOf(request) != nullptr) return nullptr;
  Ask(request, RTLD_NEXT);  // sets dlerror
  return kAnswerNone;
}

void* AnswerDriver(const Request& request) noexcept {
  if (strncmp(request.name, "cuda", 4) == 0) return AnswerRuntime(request);
  if (request.handle == RTLD_NEXT) return nullptr;
  for (const HookedName* hooked = kDriverNames; hooked->name != nullptr; ++hooked) {
    if (strcmp(hooked->name, request.name) != 0) continue;
    void* found = (ReadCudaLayers() & kCudaDriver) == 0 ? nullptr : Ask(request, request.handle);
    return found != nullptr ? WrapperFor(*hooked, found) : nullptr;
  }
  return nullptr;
}

// A tool that precedes this library may look up libc's dlsym with dlvsym, which skips this library's unversioned dlsym.
// The tool gets lockstep_dlsym_of_libc, which hooks the lookup and continues with libc's function.
void* AnswerDlsym(const Request& request) noexcept {
  if (request.handle != RTLD_NEXT || strcmp(request.name, "dlsym") != 0 || !LiesBefore(request.caller)) return nullptr;
  void* found = Ask(request, RTLD_NEXT);
  if (found == nullptr) return nullptr;  // there is no such version
  auto* const libc = reinterpret_cast<decltype(lockstep_libc_dlsym)>(found);
  Swap(&lockstep_libc_dlsym, {}, libc);
  return LoadAcquire(&lockstep_libc_dlsym) == libc ? reinterpret_cast<void*>(&lockstep_dlsym_of_libc) : nullptr;
}

void* NoLookup(void*, const char*, const char*) noexcept { return nullptr; }

}  // namespace
}  // namespace lockstep::recorder

using namespace lockstep::recorder;

void* lockstep_hook_answer(void* handle, const char* name, const char* version, const void* caller, int which) {
  if ((which != 1 && name[0] == 'd') || !HookIsOn()) return nullptr;
  ErrnoKeeper keep;
  const Request request = {handle, name, version, caller, which};
  switch (name[0]) {
    case 'c': return AnswerDriver(request);
    case 'h': return strncmp(name, "hip", 3) == 0 ? AnswerRuntime(request) : nullptr;
    case 'd': return AnswerDlsym(request);
    default: return AnswerNccl(request);
  }
}

void* lockstep_hook_next(int which) {
  void* found = FindNext(which == 1 ? "dlvsym" : "dlsym");
  if (found == nullptr) found = reinterpret_cast<void*>(&NoLookup);  // glibc before 2.34, without libdl
  if (which == 1) {
    StoreRelease(&lockstep_next_dlvsym, reinterpret_cast<decltype(lockstep_next_dlvsym)>(found));
  } else {
    StoreRelease(which == 2 ? &lockstep_libc_dlsym : &lockstep_next_dlsym,
                 reinterpret_cast<decltype(lockstep_next_dlsym)>(found));
  }
  return found;
}
