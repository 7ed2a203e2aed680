// A preloaded library that shows how a CUDA runtime finds its driver. It records which library looks up which driver
// function through dlsym or cuGetProcAddress. At exit, it writes the list to $LOOKUPS_FILE:
//   FUNCTION  dlsym|cuGetProcAddress  LIBRARY
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace {

std::mutex& Lock() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::set<std::string>& Lines() {
  static auto* lines = new std::set<std::string>;
  return *lines;
}

void Note(const char* function, const char* how, const void* caller) {
  Dl_info info{};
  const char* library = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
  const char* slash = std::strrchr(library, '/');
  const std::lock_guard lock(Lock());
  Lines().insert(std::string(function) + " " + how + " " + (slash ? slash + 1 : library));
}

void* g_proc_address;     // the driver's cuGetProcAddress
void* g_proc_address_v2;  // the function's second version

int ProcAddress(const char* symbol, void** function, int version, unsigned long long flags) {
  Note(symbol, "cuGetProcAddress", __builtin_return_address(0));
  return reinterpret_cast<int (*)(const char*, void**, int, unsigned long long)>(g_proc_address)(symbol, function,
                                                                                                 version, flags);
}

int ProcAddressV2(const char* symbol, void** function, int version, unsigned long long flags, void* status) {
  Note(symbol, "cuGetProcAddress", __builtin_return_address(0));
  const int result = reinterpret_cast<int (*)(const char*, void**, int, unsigned long long, void*)>(g_proc_address_v2)(
      symbol, function, version, flags, status);
  // The runtime gets this lookup function itself from the driver, under its plain name.
  if (result == 0 && function && *function && std::strcmp(symbol, "cuGetProcAddress") == 0) {
    g_proc_address_v2 = *function;
    *function = reinterpret_cast<void*>(&ProcAddressV2);
  }
  return result;
}

void* (*RealDlsym())(void*, const char*) {
#if defined(__aarch64__)
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.17"};
#else
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
#endif
  static void* real = nullptr;
  for (const char* version : kVersions) {
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", version);
  }
  return reinterpret_cast<void* (*)(void*, const char*)>(real);
}

__attribute__((destructor)) void Print() {
  const char* path = std::getenv("LOOKUPS_FILE");
  std::FILE* file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return;
  const std::lock_guard lock(Lock());
  for (const std::string& line : Lines()) std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

}  // namespace

// Good enough for measurements only: it passes RTLD_NEXT on, which is then relative to this library, not to the caller.
extern "C" void* dlsym(void* handle, const char* name) noexcept {
  void* found = RealDlsym()(handle, name);
  if (name[0] != 'c' || name[1] != 'u') return found;
  Note(name, "dlsym", __builtin_return_address(0));
  if (found && std::strcmp(name, "cuGetProcAddress") == 0) {
    g_proc_address = found;
    return reinterpret_cast<void*>(&ProcAddress);
  }
  if (found && std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    g_proc_address_v2 = found;
    return reinterpret_cast<void*>(&ProcAddressV2);
  }
  return found;
}
