// The dlsym hook: returns wrappers to callers that open a library with dlopen and look up its functions.
// LOCKSTEP_HOOK limits it.
//
// dlsym and dlvsym are exported as tail jumps to their next definition in load order (hook_entry.cpp). That
// definition sees the caller's own return address, so RTLD_NEXT, RTLD_DEFAULT and dlerror work as without the hook.
// For the name of a wrapped function, the hook first calls the real function; it returns a wrapper only if that
// succeeds.
#pragma once

#include "recorder/base/sys.h"

namespace lockstep::recorder {

// A CUDA driver function that is wrapped when it is looked up by name. Every such name begins with "cu". The table is
// in driver_names.cpp. If dlsym finds `name` in a library, the hook stores that address in *real and returns
// `wrapper`. It stores only the first address; a function with that name in a second library is returned unwrapped.
// RTLD_NEXT is passed on. `wrapper` must work whether or not anything is recorded, in any thread, and as early as in a
// library's constructor. It cannot be called before *real is set.
struct HookedName {
  const char* name;
  void* wrapper;
  void** real;
};
extern const HookedName kDriverNames[];  // ends with a null name

// Returns the wrapper for `found`, which a library has under this name, or `found` itself if the wrapper belongs to
// another library.
inline void* WrapperFor(const HookedName& hooked, void* found) noexcept {
  Swap<void*>(hooked.real, nullptr, found);
  return LoadAcquire(hooked.real) == found ? hooked.wrapper : found;
}

}  // namespace lockstep::recorder
