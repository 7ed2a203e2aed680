// Looks into the objects the dynamic linker has loaded: finds functions by name and objects by address. Stands in for
// dlsym and dladdr, whose symbol versions moved in glibc 2.34, and sees libraries that were opened RTLD_LOCAL.
#ifndef LOCKSTEP_RECORDER_LOADED_H_
#define LOCKSTEP_RECORDER_LOADED_H_

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

struct LoadedObject {
  const char* name;  // the linker's string: path, "" for the program itself; lives as long as the object
  uintptr_t base;
  uintptr_t text_begin, text_end;  // lowest to highest executable address
};

// The first object in load order, other than the one this code is in, that defines the function `name`. Returns null
// when there is none. Takes the linker's short list lock: once per name, never on the way of every call.
void* FindFunction(const char* name, LoadedObject* owner) noexcept;

// As FindFunction, but prefers the definer that the object around `caller` names in its DT_NEEDED entries: two CUDA
// runtimes of different versions may share a process. *definers says how many there are.
void* FindFunctionFor(const char* name, const void* caller, LoadedObject* owner, int* definers) noexcept;

// The object around `address`; *build_hash is a hash of its build id, or of its path where it has none, never 0.
// Returns false when no object holds the address (code made at run time).
bool FindObject(const void* address, LoadedObject* object, uint32_t* build_hash) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_LOADED_H_
