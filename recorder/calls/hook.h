// The dlsym hook: callers that open a library by hand and look its functions up are handed wrappers. LOCKSTEP_HOOK says
// how far it goes.
//
// dlsym and dlvsym are exported as tail jumps to whatever defines them next in load order (hook_entry.cpp): the next
// one sees the caller's own return address, so RTLD_NEXT and RTLD_DEFAULT mean what they mean without the hook, and
// dlerror says what it says. Only for a name that is wrapped the real one is asked first; what it does not find, no
// wrapper stands for.
#ifndef LOCKSTEP_RECORDER_CALLS_HOOK_H_
#define LOCKSTEP_RECORDER_CALLS_HOOK_H_

namespace lockstep::recorder {

// A function of CUDA's driver that is wrapped when it is looked up by name: "cu" begins every such name. The table
// stands in driver_names.cpp. Where dlsym finds `name` in a library, that address is stored to *real (once; a second
// library's function of that name is handed out as it is) and the caller is given `wrapper`. RTLD_NEXT is passed on.
// `wrapper` must work whether or not anything is recorded, from any thread, as early as a library's constructor, and
// before *real is set it cannot be called. To serve cuGetProcAddress too, wrap it and answer with
// FindHookedName(symbol, found).
struct HookedName {
  const char* name;
  void* wrapper;
  void** real;
};
extern const HookedName kDriverNames[];  // ends with a null name

// What to return for `found`, the library's function `name`: the wrapper, or `found` itself if there is none.
void* FindHookedName(const char* name, void* found) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CALLS_HOOK_H_
