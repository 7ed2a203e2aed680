// NCCL's profiler plugin interface, versions 1 to 7, as published with NCCL 2.23 to 2.32. NCCL fills these structures.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder::profiler {

// Event types, which are also the bits of the mask.
inline constexpr uint64_t kEventGroup = 1;
inline constexpr uint64_t kEventColl = 2;
inline constexpr uint64_t kEventP2p = 4;
inline constexpr uint64_t kEventProxyOp = 8;
inline constexpr uint64_t kEventProxyStep = 0x10;
inline constexpr uint64_t kEventKernelCh = 0x40;   // version 3
inline constexpr uint64_t kEventGroupApi = 0x100;  // version 5
inline constexpr uint64_t kEventCollApi = 0x200;
inline constexpr uint64_t kEventP2pApi = 0x400;
inline constexpr uint64_t kEventCeColl = 0x1000;  // version 6

// States.
inline constexpr int kStateSendGpuWait = 8;
inline constexpr int kStateSendWait = 9;
inline constexpr int kStateRecvWait = 10;
inline constexpr int kStateRecvFlushWait = 11;
inline constexpr int kStateRecvGpuWait = 12;
inline constexpr int kStateSendPeerWait = 20;
inline constexpr int kStateKernelChStop = 22;
inline constexpr int kStateGroupEndApiStart = 24;

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct CollV1 {
  const char* name;
  uint64_t comm_hash, seq;
  uint8_t func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels, warps, algorithm, protocol;
  int is_collnet, is_nvls;
};
struct CollV2 {
  const char* name;
  uint64_t comm_hash, seq;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct CollV3 {
  const char* name;
  uint64_t comm_hash, seq;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct CollV4 {
  uint64_t seq;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct P2pV1 {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct P2pV2 {
  const char* name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct P2pV4 {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct ProxyOp {
  int pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct ProxyStep {
  int step;
};
struct KernelChV3 {
  uint8_t channel;
};
struct KernelChV4 {
  uint8_t channel;
  uint64_t gpu_ns;
};
struct GroupApi {
  bool captured;
  int depth;
};
struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool captured;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool captured;
};
struct CeColl {
  uint64_t seq;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char *datatype, *sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size, batches, ce_seq;
  void* stream;
};

// The head of an event. Versions 1 to 4 have a one-byte type.
template <typename Type, typename Coll, typename P2p, typename KernelCh>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelCh kernel_ch;
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    CeColl ce_coll;
  };
};
// NCCL's own structures are shorter before version 6, and from version 5 on they have more fields at the end (a parent,
// a user's tag, the kernel's variant). Therefore only the member for the event's type is read.
using DescriptorV1 = Descriptor<uint8_t, CollV1, P2pV1, KernelChV3>;
using DescriptorV2 = Descriptor<uint8_t, CollV2, P2pV2, KernelChV3>;
using DescriptorV3 = Descriptor<uint8_t, CollV3, P2pV2, KernelChV3>;
using DescriptorV4 = Descriptor<uint8_t, CollV4, P2pV4, KernelChV4>;
using DescriptorV5 = Descriptor<uint64_t, CollV4, P2pV4, KernelChV4>;
using DescriptorV6 = DescriptorV5;
using DescriptorV7 = DescriptorV5;

static_assert(offsetof(DescriptorV1, parent) == 8 && offsetof(DescriptorV1, rank) == 16);
static_assert(offsetof(DescriptorV1, coll) == 24 && offsetof(DescriptorV6, coll) == 24);
static_assert(sizeof(CollV1) == 96 && offsetof(CollV1, send) == 32 && offsetof(CollV1, root) == 56);
static_assert(offsetof(CollV1, datatype) == 60 && offsetof(CollV1, op) == 64 && offsetof(CollV1, channels) == 80);
static_assert(offsetof(CollV2, func) == 24 && offsetof(CollV2, datatype) == 64 && offsetof(CollV2, channels) == 80);
static_assert(offsetof(CollV3, channels) == 72);
static_assert(offsetof(CollV4, func) == 8 && offsetof(CollV4, root) == 40 && offsetof(CollV4, channels) == 56);
static_assert(offsetof(P2pV1, func) == 16 && offsetof(P2pV1, datatype) == 32 && offsetof(P2pV1, peer) == 48);
static_assert(offsetof(P2pV2, peer) == 48 && offsetof(P2pV4, peer) == 32 && offsetof(P2pV4, channels) == 36);
static_assert(offsetof(ProxyOp, channel) == 4 && offsetof(ProxyOp, is_send) == 20);
static_assert(offsetof(KernelChV4, gpu_ns) == 8);
static_assert(offsetof(CollApi, stream) == 32 && offsetof(CollApi, captured) == 40);
static_assert(offsetof(P2pApi, stream) == 24 && offsetof(P2pApi, captured) == 32);
static_assert(sizeof(CeColl) == 88 && offsetof(CeColl, stream) == 80 && sizeof(DescriptorV6) == 112);

// The first word of a state's arguments. For KernelChStop in versions 4 to 7, it is the GPU time.
union StateArguments {
  uint64_t gpu_ns;
};

template <typename D>
struct TableOfV1To3 {
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start_event)(void* context, void** handle, const D* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
};
struct TableV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
              Logger log);
  int (*start_event)(void* context, void** handle, const DescriptorV4* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
};
struct TableV5 {
  const char* name;
  int (*init)(void** context, uint64_t comm_id, int* mask, const char* comm_name, int nodes, int ranks, int rank,
              Logger log);
  int (*start_event)(void* context, void** handle, const DescriptorV5* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace lockstep::recorder::profiler
