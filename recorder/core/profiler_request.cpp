#include "recorder/core/profiler_request.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <strings.h>

#include "recorder/base/clock.h"
#include "recorder/base/config.h"
#include "recorder/base/loaded.h"
#include "recorder/base/sys.h"

namespace lockstep::recorder::profiler {
namespace {

constexpr char kVariable[] = "NCCL_PROFILER_PLUGIN";
constexpr char kStatic[] = "STATIC_PLUGIN";
constexpr size_t kLongestPath = 254;  // NCCL truncates longer values

bool OwnObject(LoadedObject* object) noexcept {
  uint32_t hash = 0;
  return FindObject(reinterpret_cast<const void*>(&RequestPlugin), object, &hash);
}

// Returns whether NCCL would take the value for STATIC_PLUGIN: any prefix of the word matches, in upper or lower case.
bool SaysStatic(const char* value) noexcept { return *value != 0 && strncasecmp(value, kStatic, strlen(value)) == 0; }

const char* FileOf(const char* path) noexcept {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Returns whether the file sets kVariable. NCCL reads these files later, and never overwrites a value that is set.
bool InConfiguration(const char* path) noexcept {
  static char text[65536];
  if (ReadStart(path, text, sizeof(text)) <= 0) return false;
  constexpr size_t kLength = sizeof(kVariable) - 1;
  for (const char* line = text; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, kVariable, kLength) == 0 && line[kLength] == '=') return true;
  }
  return false;
}

bool InAnyConfiguration() noexcept {
  const char* named = getenv("NCCL_CONF_FILE");
  if (named != nullptr && *named != 0) {
    if (InConfiguration(named)) return true;
  } else if (const char* home = getenv("HOME"); home != nullptr) {
    char path[400];
    snprintf(path, sizeof(path), "%.380s/.nccl.conf", home);
    if (InConfiguration(path)) return true;
  }
  return InConfiguration("/etc/nccl.conf");
}

using Open = void* (*)(const char*, int);
using Look = void* (*)(void*, const char*);
using Close = int (*)(void*);

template <typename F>
F LinkerFunction(const char* name) noexcept {
  return reinterpret_cast<F>(FindFunction(name, Among::kAll, nullptr));
}

// Returns whether NCCL would find another profiler in the library `name`, which it is about to open.
bool HasOtherPlugin(const char* name, bool close) noexcept {
  const auto open = LinkerFunction<Open>("dlopen");
  const auto look = LinkerFunction<Look>("dlsym");
  void* handle = open == nullptr ? nullptr : open(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr || look == nullptr) return false;
  bool other = false;
  LoadedObject own{};
  OwnObject(&own);
  for (char version = '1'; version <= '9' && !other; ++version) {
    char symbol[] = "ncclProfiler_v0";
    symbol[sizeof(symbol) - 2] = version;
    const void* found = look(handle, symbol);
    LoadedObject owner{};
    uint32_t hash = 0;
    other = found != nullptr && FindObject(found, &owner, &hash) && owner.base != own.base;
  }
  const auto shut = LinkerFunction<Close>("dlclose");
  if (close && shut != nullptr) shut(handle);
  return other;
}

// Returns whether NCCL would find another profiler although none is named: libnccl-profiler.so, or one that the network
// plugin contains.
bool OtherPluginIsThere() noexcept {
  if (HasOtherPlugin("libnccl-profiler.so", true)) return true;
  const char* net = getenv("NCCL_NET_PLUGIN");
  if (net == nullptr || *net == 0) net = "libnccl-net.so";
  if (strcasecmp(net, "none") == 0 || SaysStatic(net)) return false;
  char names[400];
  CopyText(names, sizeof(names), net);
  for (char* name = names; name != nullptr;) {
    char* next = strchr(name, ',');
    if (next != nullptr) *next++ = 0;
    char path[440];
    snprintf(path, sizeof(path), "libnccl-net-%s.so", name);
    // The library stays open, because some network plugins fail if they are closed and opened again.
    if (*name != 0 && (HasOtherPlugin(name, false) || (strchr(name, '/') == nullptr && HasOtherPlugin(path, false)))) {
      return true;
    }
    name = next;
  }
  return false;
}

bool ModeIsProfiler() noexcept {
  const char* mode = Setting("LOCKSTEP_GPU");
  return mode != nullptr && strcasecmp(mode, "profiler") == 0;
}

// Makes the variable name this library. Returns null if it now does, otherwise the reason why not.
const char* WhyNot() noexcept {
  LoadedObject own{};
  if (!OwnObject(&own)) return "LOCKSTEP_GPU=profiler: the recorder cannot find its own path; using done";
  // The path comes from LD_PRELOAD. A relative path may refer to a different file by now.
  const bool usable = own.name != nullptr && own.name[0] == '/' && strlen(own.name) <= kLongestPath;
  const char* value = getenv(kVariable);
  if (value != nullptr && *value != 0) {
    const bool ours = SaysStatic(value) || (own.name != nullptr && strcmp(FileOf(value), FileOf(own.name)) == 0);
    return ours ? nullptr
                : "LOCKSTEP_GPU=profiler: the user set NCCL_PROFILER_PLUGIN, which was not replaced; using done";
  }
  if (InAnyConfiguration())
    return "LOCKSTEP_GPU=profiler: nccl.conf names a plugin, which was not replaced; using done";
  if (OtherPluginIsThere()) return "LOCKSTEP_GPU=profiler: an installed profiler plugin was not replaced; using done";
  setenv(kVariable, usable ? own.name : kStatic, 1);
  return nullptr;
}

const char* g_why_not;
uint32_t g_asked;  // 0: not yet, 1: in progress, 2: done

}  // namespace

bool PluginIsAskedFor() noexcept {
  const char* value = getenv(kVariable);
  return value == nullptr || !SaysStatic(value) || ModeIsProfiler();
}

LOCKSTEP_COLD void RequestPlugin() noexcept {
  if (LoadAcquire(&g_asked) == 2 || !ModeIsProfiler()) return;
  ErrnoKeeper keep;
  if (Swap<uint32_t>(&g_asked, 0, 1)) {
    g_why_not = WhyNot();
    StoreRelease(&g_asked, 2);
    return;
  }
  // Another thread is looking for plugins. NCCL must not be called before that is finished.
  const uint64_t since = MonotonicNs();
  while (LoadAcquire(&g_asked) == 1 && MonotonicNs() - since < 5000000000) Sys(SYS_sched_yield);
}

bool PluginWillLoad(const char** note) noexcept {
  *note = g_why_not;
  return LoadAcquire(&g_asked) == 2 && g_why_not == nullptr;
}

}  // namespace lockstep::recorder::profiler
