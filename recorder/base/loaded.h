// Searches the objects that the dynamic linker has loaded: functions by name, objects by address. Replaces dlsym and
// dladdr, whose symbol versions moved in glibc 2.34. Also finds libraries opened with RTLD_LOCAL.
#ifndef LOCKSTEP_RECORDER_BASE_LOADED_H_
#define LOCKSTEP_RECORDER_BASE_LOADED_H_

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

struct LoadedObject {
  const char* name;    // the linker's string: path, "" for the program itself; lives as long as the object
  const char* soname;  // null when it has none
  uintptr_t base;
  uintptr_t text_begin, text_end;  // lowest to highest executable address
};

// The objects to search.
enum class Among {
  kAll,    // what the program itself would call; never for a name that this library exports
  kAfter,  // those after this library in load order, as RTLD_NEXT, so that a library preloaded before this one that
           // forwards to it does not get its own call back; else an earlier NCCL or CUDA runtime
};

// The first object in load order, other than the one this code is in, that defines the function `name`. Returns null
// when there is none. Takes the linker's short list lock: once per name, never on the way of every call.
void* FindFunction(const char* name, Among among, LoadedObject* owner) noexcept;

// Like FindFunction(kAfter), but if a CUDA runtime comes first, prefers the one that the object around `caller` names
// in its DT_NEEDED entries: two of different versions may share a process. *definers: how many candidates there are.
void* FindFunctionFor(const char* name, const void* caller, LoadedObject* owner, int* definers) noexcept;

// `name` as the object around `address` defines it, else null.
void* FindFunctionIn(const char* name, const void* address) noexcept;

// Calls `see` with the name of each function exported by the object around `address`, up to 127 characters. Copies the
// tables first, and stops where they point outside the mapping. Uses system calls: about a microsecond a name.
void ForEachFunctionIn(const void* address, void (*see)(const char* name, void* argument), void* argument) noexcept;

// An NCCL or RCCL library by its soname: not a framework that contains NCCL, not a hook.
bool IsNcclLibrary(const LoadedObject& object) noexcept;

// Keeps the object mapped for good, because pointers into it are stored and its plugin may be closed. True if it was
// not kept before.
bool KeepLoaded(const LoadedObject& object) noexcept;

// The function `name` of the first object after this one in load order. Uses only the linker's list, without a lock or
// a call of any other library: for the first dlsym of a process, which may come before those can be called.
void* FindNext(const char* name) noexcept;

// True if the object around `address` comes before this library in load order.
bool LiesBefore(const void* address) noexcept;

// The object around `address`; *build_hash is a hash of its build id, or of its path without one, never 0. False if no
// object holds the address (generated code).
bool FindObject(const void* address, LoadedObject* object, uint32_t* build_hash) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_LOADED_H_
