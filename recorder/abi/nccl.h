// The parts of NCCL's public types that the wrappers need, so that the build does not need NCCL.
// The layouts are those of NCCL 2.4 to 2.32 (64-bit).
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "recorder/abi/nccl_names.h"

#include "recorder/base/host_memory.h"

namespace lockstep::recorder {

using NcclComm = void*;
using CudaStream = void*;

struct NcclUniqueId {
  char internal[128];
};
static_assert(sizeof(NcclUniqueId) == 128 && alignof(NcclUniqueId) == 1);

// The head of ncclConfig_t. Callers built with an old nccl.h pass fewer bytes; `size` is their number.
struct NcclConfig {
  size_t size;
  uint32_t magic;
  uint32_t version;
  int blocking;
  int cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share, traffic_class;
  const char* comm_name;
};
static_assert(offsetof(NcclConfig, blocking) == 16 && offsetof(NcclConfig, comm_name) == 48);
static_assert(sizeof(NcclConfig) == 56);

struct ConfigFacts {
  bool given = false;  // the configuration is readable and a valid NCCL structure
  bool says_blocking = false;
  bool blocking = true;
  char name[64] = "";
};

// Reads `size` first, then at most that many bytes, as NCCL does. Never touches unmapped memory behind the caller's
// pointer.
inline ConfigFacts ReadConfig(const NcclConfig* config) noexcept {
  ConfigFacts facts;
  size_t size = 0;
  if (config == nullptr || !ReadHostMemory(config, &size, sizeof(size))) return facts;
  if (size < offsetof(NcclConfig, blocking) + sizeof(int) || size > 65536) return facts;
  NcclConfig local{};
  const bool has_name = size >= sizeof(local);
  // A wrong size may extend beyond mapped memory. Then only the oldest layout is read.
  if (!ReadHostMemory(config, &local, has_name ? sizeof(local) : size) &&
      !ReadHostMemory(config, &local, offsetof(NcclConfig, blocking) + sizeof(int))) {
    return facts;
  }
  if (local.magic != 0xcafebeef) return facts;
  facts.given = true;
  facts.says_blocking = local.blocking != INT_MIN;
  facts.blocking = local.blocking != 0;
  if (has_name && local.version >= 22700) ReadHostText(local.comm_name, facts.name, sizeof(facts.name));
  return facts;
}

}  // namespace lockstep::recorder

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))
#define LOCKSTEP_CALLER __builtin_return_address(0)
