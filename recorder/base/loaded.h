// Searches the objects that the dynamic linker has loaded: functions by name, objects by address. Replaces dlsym and
// dladdr, whose symbol versions changed in glibc 2.34. Also finds libraries opened with RTLD_LOCAL.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

struct LoadedObject {
  // The linker's string: the path, or "" for the program itself; valid as long as the object is loaded.
  const char* name;
  const char* soname;  // null if the object has none
  uintptr_t base;
  uintptr_t text_begin, text_end;  // lowest and highest executable address
};

// The objects to search.
enum class Among {
  kAll,  // all objects except this library
  // Objects after this library in load order, as for RTLD_NEXT: a library that was preloaded earlier and forwards to
  // this library must not get its own call back. If none of these objects has the function, searches an earlier NCCL or
  // CUDA runtime.
  kAfter,
};

// The function `name` in the first object in load order that defines it, except the object that contains this code.
// Null if there is none. Takes the linker's list lock for a short time, so it is called once for each name, not in
// every call.
void* FindFunction(const char* name, Among among, LoadedObject* owner) noexcept;

// Like FindFunction(kAfter), for a CUDA runtime. Prefers the runtime that the object around `caller` names in its
// DT_NEEDED entries, because a process may contain two versions. *definers is the number of candidates.
void* FindFunctionFor(const char* name, const void* caller, LoadedObject* owner, int* definers) noexcept;

// `name` as defined by the object around `address`, or null.
void* FindFunctionIn(const char* name, const void* address) noexcept;

// Calls `see` with the name of each function exported by the object around `address`, cut to 127 characters. Reads the
// tables through system calls, about a microsecond for each name, and stops where they are not mapped.
void ForEachFunctionIn(const void* address, void (*see)(const char* name, void* argument), void* argument) noexcept;

// True for an NCCL or RCCL library, by its soname. False for a framework that contains NCCL, and for a hook.
bool IsNcclLibrary(const LoadedObject& object) noexcept;

// Keeps the object mapped until the process ends, because the recorder stores pointers into it and the program may
// close it. Handles at most 8 objects. Returns true if this call kept the object, false if it already was or cannot be.
bool KeepLoaded(const LoadedObject& object) noexcept;

// Returns the function `name` from the first object after this one in load order that defines it. If there is none,
// from the first other object that does; null if none does. Uses only the linker's list and takes no lock, because a
// process's first dlsym may run before other libraries can be called.
void* FindNext(const char* name) noexcept;

// Returns true if the object around `address` precedes this library in load order.
bool LiesBefore(const void* address) noexcept;

// Finds the object around `address`. *build_hash is a hash of its build id, or of its path if it has none, and never 0.
// Returns false if no object contains the address (generated code).
bool FindObject(const void* address, LoadedObject* object, uint32_t* build_hash) noexcept;

}  // namespace lockstep::recorder
