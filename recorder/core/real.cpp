#include "recorder/core/real.h"

#include <pthread.h>

#include "recorder/base/loaded.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {

namespace {

// Adds the name to "missing in the loaded NCCL: ncclCommGrow, ncclCommRevoke", once per function, and if there is room.
void NoteMissing(RealFunction* function) noexcept {
  if (!Recording() || Load(&function->noted) != 0) return;
  static uint32_t writing;
  if (!Swap<uint32_t>(&writing, 0, 1)) return;
  StoreRelease(&function->noted, 1u);
  char* note = g.map.header->note;
  constexpr size_t kRoom = sizeof(g.map.header->note);
  constexpr char kLacks[] = "missing in the loaded NCCL: ";
  const size_t used = strnlen(note, kRoom - 1);
  const bool first = strstr(note, kLacks) == nullptr;
  const char* between = !first ? ", " : used != 0 ? "; " : "";
  if (used + strlen(between) + (first ? sizeof(kLacks) : 0) + strlen(function->name) < kRoom)
    snprintf(note + used, kRoom - used, "%s%s%s", between, first ? kLacks : "", function->name);
  StoreRelease(&writing, 0u);
}

}  // namespace

constinit thread_local AskedLibrary lockstep_asked{};

namespace {

// Returns `function` as defined by NCCL library number `copy`, from 0; null if it does not define it.
void* OfCopy(RealFunction* function, uint32_t copy) noexcept {
  void* own = LoadAcquire(&function->in_copy[copy]);
  if (LOCKSTEP_LIKELY(own != nullptr)) return own;
  ErrnoKeeper keep;
  own = FindFunctionIn(function->name, reinterpret_cast<const void*>(LoadAcquire(&g.nccl_texts[copy])));
  StoreRelease(&function->in_copy[copy], own);
  return own;
}

// Tools define ncclX and call pncclX, so a call of pncclX must not reach ncclX.
LOCKSTEP_COLD void* FindTwin(RealFunction* function) noexcept {
  ErrnoKeeper keep;
  char name[64] = "p";
  CopyText(name + 1, sizeof(name) - 1, function->name);
  LoadedObject owner{};
  void* twin = FindFunction(name, Among::kAfter, &owner);
  if (twin == nullptr) return nullptr;
  KeepLoaded(owner);
  if (IsNcclLibrary(owner)) AddNccl(owner, true);
  StoreRelease(&function->twin, twin);
  return twin;
}

}  // namespace

void* ResolveAsked(RealFunction* function, uint32_t library) noexcept {
  if (LOCKSTEP_LIKELY(library != kAskedTwin)) return OfCopy(function, library - 1);
  void* twin = LoadAcquire(&function->twin);
  return LOCKSTEP_LIKELY(twin != nullptr) ? twin : FindTwin(function);
}

void* LibcFunction(RealFunction* function) noexcept {
  void* address = LoadAcquire(&function->address);
  if (address == nullptr) {
    address = FindFunction(function->name, Among::kAll, nullptr);
    StoreRelease(&function->address, address);
  }
  return address;
}

LOCKSTEP_COLD bool StartThread(void* (*run)(void*), void* argument) noexcept {
  static RealFunction function = {"pthread_create"};
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const auto create = reinterpret_cast<Create>(LibcFunction(&function));
  const SignalsHeld held;
  pthread_t thread;
  return create != nullptr && create(&thread, nullptr, run, argument) == 0;
}

LOCKSTEP_COLD void* ResolveNccl(RealFunction* function, const void* caller) noexcept {
  ErrnoKeeper keep;
  FindCallSite(caller);  // a new call site inside an NCCL library registers that library
  void* address = LoadAcquire(&function->address);
  if (address == nullptr) {
    LoadedObject owner{};
    address = FindFunction(function->name, Among::kAfter, &owner);
    if (address == nullptr) {
      NoteMissing(function);
      return nullptr;
    }
    KeepLoaded(owner);
    if (IsNcclLibrary(owner)) {
      AddNccl(owner, true);
      function->begin = owner.text_begin;
      function->bytes = owner.text_end - owner.text_begin;
    }
    StoreRelease(&function->address, address);
  }
  const uint32_t copy = NcclCopyOf(caller);
  if (copy != kNone && reinterpret_cast<uintptr_t>(caller) - function->begin >= function->bytes) {
    void* own = OfCopy(function, copy);
    if (own != nullptr) return own;
  }
  if (copy == kNone) Store(&function->host, caller);
  return address;
}

namespace {

// If there are several CUDA runtimes, the caller determines which one is used. As for NCCL calls, the choice is stored
// per call site.
struct CudaSite {
  const void* caller;  // null: free
  const RealFunction* function;
  void* address;  // stored last
};
constexpr uint32_t kCudaSites = 1024, kCudaProbes = 8;
CudaSite g_cuda_sites[kCudaSites];

}  // namespace

LOCKSTEP_COLD void* ResolveCuda(RealFunction* function, const void* caller) noexcept {
  const uint64_t hash = Mix(reinterpret_cast<uintptr_t>(caller) ^ reinterpret_cast<uintptr_t>(function));
  CudaSite* place = nullptr;
  for (uint32_t probe = 0; probe < kCudaProbes; ++probe) {
    CudaSite* site = &g_cuda_sites[(hash + probe) % kCudaSites];
    void* address = LoadAcquire(&site->address);
    if (address != nullptr && site->caller == caller && site->function == function) return address;
    if (place == nullptr && Load(&site->caller) == nullptr) place = site;
  }
  ErrnoKeeper keep;
  int definers = 0;
  LoadedObject owner{};
  void* address = FindFunctionFor(function->name, caller, &owner, &definers);
  if (address == nullptr) return nullptr;
  KeepLoaded(owner);
  if (definers == 1) {
    StoreRelease(&function->address, address);
  } else if (place != nullptr && Swap<const void*>(&place->caller, nullptr, caller)) {
    place->function = function;
    StoreRelease(&place->address, address);
  }
  return address;
}

namespace {

// Like RealNccl, for a call that the recorder itself makes inside a call of the program.
void* OfLibrary(RealFunction* function, uint32_t library) noexcept {
  if (library != 0 && library != kAskedTwin) return OfCopy(function, library - 1);
  const uint32_t now = lockstep_asked.now;
  void* real = RealNccl(function, nullptr);
  lockstep_asked.now = now;
  return real;
}

}  // namespace

bool AskComm(AskedOfComm what, uint32_t library, const void* comm, int* value) noexcept {
  static RealFunction functions[] = {{"ncclCommUserRank"}, {"ncclCommCount"}, {"ncclCommCuDevice"}};
  using Ask = int (*)(const void*, int*);
  const auto ask = reinterpret_cast<Ask>(OfLibrary(&functions[static_cast<int>(what)], library));
  return ask != nullptr && ask(comm, value) == kNcclSuccess;
}

const void* NcclVersionFunction() noexcept {
  static RealFunction function = {"ncclGetVersion"};
  return OfLibrary(&function, lockstep_asked.now);
}

int32_t NcclVersion() noexcept {
  const auto get = reinterpret_cast<int (*)(int*)>(const_cast<void*>(NcclVersionFunction()));
  int version = 0;
  return get != nullptr && get(&version) == kNcclSuccess ? version : 0;
}

}  // namespace lockstep::recorder
