#include "recorder/core/unwrapped.h"

#include <string.h>

#include "recorder/abi/nccl_names.h"
#include "recorder/base/loaded.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {
namespace {

#define LOCKSTEP_NAME(NAME, ...) #NAME,
constexpr const char* kWrapped[] = {LOCKSTEP_NCCL_NAMES(LOCKSTEP_NAME)
                                    // NCCL exports this function, but no header declares it.
                                    "ncclResetDebugInitInternal"};

bool IsPublic(const char* name) noexcept {
  const char* rest = strncmp(name, "nccl", 4) == 0 || strncmp(name, "rccl", 4) == 0 ? name + 4
                     : strncmp(name, "mscclpp", 7) == 0                             ? ""
                     : strncmp(name, "msccl", 5) == 0                               ? name + 5
                                                                                    : "";
  if (*rest < 'A' || *rest > 'Z') return false;
  for (const char* c = rest; *c != 0; ++c) {
    if ((*c < 'A' || *c > 'Z') && (*c < 'a' || *c > 'z') && (*c < '0' || *c > '9') && *c != '_') return false;
  }
  return true;
}

void See(const char* name, void* argument) noexcept {
  if (!IsPublic(name)) return;
  for (const char* wrapped : kWrapped) {
    if (strcmp(wrapped, name) == 0) return;
  }
  ring::Header* header = static_cast<ring::Header*>(argument);
  const uint32_t before = header->unwrapped;
  // Stores as many names as fit, but counts all.
  char* names = header->unwrapped_names;
  const size_t used = strnlen(names, sizeof(header->unwrapped_names) - 1), length = strlen(name);
  if (used + length + 2 < sizeof(header->unwrapped_names)) {
    if (used != 0) names[used] = ' ';
    memcpy(names + used + (used != 0), name, length + 1);
  }
  Store(&header->unwrapped, before + 1);
}

}  // namespace

void NoteUnwrapped(const void* in_nccl) noexcept {
  ring::Header* header = g.map.header;
  if (!Swap<int32_t>(&header->newest_nccl, 0, LOCKSTEP_NEWEST_NCCL)) return;
  LoadedObject library{};
  uint32_t hash = 0;
  // Not for a framework that contains NCCL: it exports a hundred thousand other names.
  if (FindObject(in_nccl, &library, &hash) && IsNcclLibrary(library)) ForEachFunctionIn(in_nccl, See, header);
}

}  // namespace lockstep::recorder
