// NCCL's public types as far as a forwarder needs them, written down here so that building needs no NCCL. Layouts hold
// for 2.4 to 2.30 (64-bit).
#ifndef LOCKSTEP_RECORDER_NCCL_ABI_H_
#define LOCKSTEP_RECORDER_NCCL_ABI_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace lockstep::recorder {

using NcclComm = void*;
using CudaStream = void*;

struct NcclUniqueId {
  char internal[128];
};
static_assert(sizeof(NcclUniqueId) == 128 && alignof(NcclUniqueId) == 1);

// The head of ncclConfig_t. Callers built against an old nccl.h pass fewer bytes: `size` says how many there are.
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
  bool says_blocking = false;
  bool blocking = true;
  const char* name = nullptr;
};

inline ConfigFacts ReadConfig(const NcclConfig* config) noexcept {
  ConfigFacts facts;
  if (config == nullptr) return facts;
  size_t size = 0;
  memcpy(&size, config, sizeof(size));
  if (size < 20 || size > 65536) return facts;
  NcclConfig local{};
  memcpy(&local, config, size < sizeof(local) ? size : sizeof(local));
  if (local.magic != 0xcafebeef) return facts;
  facts.says_blocking = local.blocking != INT_MIN;
  facts.blocking = local.blocking != 0;
  if (size >= 56 && local.version >= 22700) facts.name = local.comm_name;
  return facts;
}

}  // namespace lockstep::recorder

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))
#define LOCKSTEP_CALLER __builtin_return_address(0)

#endif  // LOCKSTEP_RECORDER_NCCL_ABI_H_
