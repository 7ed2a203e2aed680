#include "recorder/real.h"

#include "recorder/loaded.h"
#include "recorder/process.h"

namespace lockstep::recorder {
namespace {

// A library that holds nothing but NCCL: whatever it calls is its own business. An NCCL inside a framework's own object
// is not told from the framework by address; there only nested calls are.
bool IsNcclLibrary(const char* path) noexcept {
  const char* name = strrchr(path, '/');
  name = name == nullptr ? path : name + 1;
  return strstr(name, "nccl") != nullptr || strstr(name, "rccl") != nullptr;
}

}  // namespace

LOCKSTEP_COLD void* ResolveNccl(RealFunction* function) noexcept {
  ErrnoKeeper keep;
  LoadedObject owner{};
  void* address = FindFunction(function->name, &owner);
  if (address == nullptr) return nullptr;
  if (IsNcclLibrary(owner.name)) AddNcclRange(owner.text_begin, owner.text_end);
  StoreRelease(&function->address, address);
  return address;
}

LOCKSTEP_COLD void* ResolveCuda(RealFunction* function, const void* caller) noexcept {
  ErrnoKeeper keep;
  int definers = 0;
  void* address = FindFunctionFor(function->name, caller, nullptr, &definers);
  if (address != nullptr && definers == 1) StoreRelease(&function->address, address);
  return address;
}

bool AskComm(AskedOfComm what, const void* comm, int* value) noexcept {
  static RealFunction functions[] = {
      {"ncclCommUserRank", nullptr}, {"ncclCommCount", nullptr}, {"ncclCommCuDevice", nullptr}};
  using Ask = int (*)(const void*, int*);
  const auto ask = reinterpret_cast<Ask>(RealNccl(&functions[static_cast<int>(what)]));
  return ask != nullptr && ask(comm, value) == kNcclSuccess;
}

int32_t NcclVersion() noexcept {
  static RealFunction function = {"ncclGetVersion", nullptr};
  const auto get = reinterpret_cast<int (*)(int*)>(RealNccl(&function));
  int version = 0;
  return get != nullptr && get(&version) == kNcclSuccess ? version : 0;
}

}  // namespace lockstep::recorder
