// The entry points of the profiler plugin: one table for each interface version, which NCCL looks up with dlsym.
#include <stdlib.h>

#include "recorder/abi/nccl.h"
#include "recorder/abi/profiler.h"
#include "recorder/core/profiler_events.h"
#include "recorder/core/profiler_request.h"
#include "recorder/core/real.h"

namespace lockstep::recorder::profiler {
namespace {

using ring::CallKind;

Handle HandleOf(const void* pointer) noexcept { return reinterpret_cast<uintptr_t>(pointer); }

int Init(int version, void** context, int* mask, const CommFacts& facts) noexcept {
  Handle made = 0;
  if (context == nullptr || mask == nullptr) return kNcclSuccess;
  BeginComm(version, facts, mask, &made);
  *context = reinterpret_cast<void*>(made);
  return kNcclSuccess;
}

bool HasRoot(CallKind kind) noexcept {
  return kind == CallKind::kBroadcast || kind == CallKind::kReduce || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}

template <typename Coll>
uint64_t HashOf(const Coll& coll) noexcept {
  if constexpr (requires { coll.comm_hash; }) return coll.comm_hash;
  return 0;
}
template <typename P2p>
int ChannelsOf(const P2p& p2p) noexcept {
  if constexpr (requires { p2p.channels; }) return p2p.channels;
  return 0;
}

template <typename D>
Handle BeginColl(Handle context, const D& d) noexcept {
  Task task{};
  task.kind = KindOf(d.coll.func);
  task.datatype = DatatypeOf(d.coll.datatype);
  task.root_or_peer = HasRoot(task.kind) ? d.coll.root : -1;
  task.rank = d.rank;
  task.count = d.coll.count;
  task.send = d.coll.send;
  task.recv = d.coll.recv;
  task.comm_hash = HashOf(d.coll);
  task.channels = d.coll.channels;
  return BeginTask(context, HandleOf(d.parent), task);
}

template <typename D>
Handle BeginP2p(Handle context, const D& d) noexcept {
  Task task{};
  task.kind = KindOf(d.p2p.func);
  task.datatype = DatatypeOf(d.p2p.datatype);
  task.root_or_peer = d.p2p.peer;
  task.rank = d.rank;
  task.count = d.p2p.count;
  (task.kind == CallKind::kRecv ? task.recv : task.send) = d.p2p.buffer;
  task.comm_hash = HashOf(d.p2p);
  task.channels = ChannelsOf(d.p2p);
  return BeginTask(context, HandleOf(d.parent), task);
}

Handle BeginCopyEngine(Handle context, const DescriptorV6& d) noexcept {
  Task task{};
  task.kind = KindOf(d.ce_coll.func);
  task.datatype = DatatypeOf(d.ce_coll.datatype);
  task.root_or_peer = HasRoot(task.kind) ? d.ce_coll.root : -1;
  task.rank = d.rank;
  task.count = d.ce_coll.count;
  task.send = d.ce_coll.send;
  task.recv = d.ce_coll.recv;
  task.copy_engine = true;
  return BeginTask(context, HandleOf(d.parent), task);
}

template <int kVersion, typename D>
int Start(void* context_pointer, void** handle, const D* descriptor) noexcept {
  if (handle == nullptr) return kNcclSuccess;
  *handle = nullptr;
  if (descriptor == nullptr) return kNcclSuccess;
  const D& d = *descriptor;
  const Handle context = HandleOf(context_pointer), parent = HandleOf(d.parent);
  Handle made = 0;
  switch (static_cast<uint64_t>(d.type)) {
    case kEventColl: made = BeginColl(context, d); break;
    case kEventP2p: made = BeginP2p(context, d); break;
    case kEventProxyOp:
      made = BeginProxyOp(context, parent, d.rank, d.proxy_op.pid, d.proxy_op.channel, d.proxy_op.peer,
                          d.proxy_op.steps, d.proxy_op.is_send != 0);
      break;
    case kEventProxyStep: made = BeginProxyStep(parent, d.proxy_step.step); break;
    case kEventKernelCh:
      if constexpr (kVersion >= 4) {
        made = BeginKernel(parent, d.kernel_ch.channel, d.kernel_ch.gpu_ns);
      } else if constexpr (kVersion == 3) {
        made = BeginKernel(parent, d.kernel_ch.channel, 0);
      }
      break;
    default:
      if constexpr (kVersion >= 5) {
        if (d.type == kEventGroupApi) {
          made = BeginGroupApi(context, d.group_api.depth);
        } else if (d.type == kEventCollApi) {
          const CallKind kind = KindOf(d.coll_api.func);
          made = BeginApi(context, {kind, DatatypeOf(d.coll_api.datatype), HasRoot(kind) ? d.coll_api.root : -1, d.rank,
                                    d.coll_api.count, d.coll_api.stream, d.coll_api.captured, false});
        } else if (d.type == kEventP2pApi) {
          made = BeginApi(context, {KindOf(d.p2p_api.func), DatatypeOf(d.p2p_api.datatype), -1, d.rank, d.p2p_api.count,
                                    d.p2p_api.stream, d.p2p_api.captured, true});
        } else if (kVersion >= 6 && d.type == kEventCeColl) {
          made = BeginCopyEngine(context, d);
        }
      }
      break;
  }
  *handle = reinterpret_cast<void*>(made);
  return kNcclSuccess;
}

int Stop(void* handle) noexcept {
  EndEvent(HandleOf(handle));
  return kNcclSuccess;
}

template <int kVersion>
int Record(void* handle, int state, const StateArguments* arguments) noexcept {
  const bool timed = kVersion >= 4 && state == kStateKernelChStop && arguments != nullptr;
  NoteState(HandleOf(handle), state, timed ? arguments->gpu_ns : 0);
  return kNcclSuccess;
}

int Finalize(void* context) noexcept {
  EndComm(HandleOf(context));
  return kNcclSuccess;
}

template <int kVersion>
int InitV1To3(void** context, int* mask) noexcept {
  return Init(kVersion, context, mask, {false, 0, nullptr, -1, -1});
}
int InitV4(void** context, int* mask, const char* name, uint64_t hash, int, int ranks, int rank, Logger) noexcept {
  return Init(4, context, mask, {true, hash, name, ranks, rank});
}
template <int kVersion>
int InitV5To7(void** context, uint64_t id, int* mask, const char* name, int, int ranks, int rank, Logger) noexcept {
  return Init(kVersion, context, mask, {true, id, name, ranks, rank});
}

const char kName[] = "Lockstep";
TableOfV1To3<DescriptorV1> g_v1 = {kName, InitV1To3<1>, Start<1, DescriptorV1>, Stop, Record<1>, Finalize};
TableOfV1To3<DescriptorV2> g_v2 = {kName, InitV1To3<2>, Start<2, DescriptorV2>, Stop, Record<2>, Finalize};
TableOfV1To3<DescriptorV3> g_v3 = {kName, InitV1To3<3>, Start<3, DescriptorV3>, Stop, Record<3>, Finalize};
TableV4 g_v4 = {kName, InitV4, Start<4, DescriptorV4>, Stop, Record<4>, Finalize};
TableV5 g_v5 = {kName, InitV5To7<5>, Start<5, DescriptorV5>, Stop, Record<5>, Finalize};
TableV5 g_v6 = {kName, InitV5To7<6>, Start<6, DescriptorV6>, Stop, Record<6>, Finalize};
TableV5 g_v7 = {kName, InitV5To7<7>, Start<7, DescriptorV7>, Stop, Record<7>, Finalize};

}  // namespace
}  // namespace lockstep::recorder::profiler

// NCCL looks these names up with dlsym in an object that it opened or, with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN, in
// the whole program. There, an unrequested Lockstep in LD_PRELOAD would hide a user's plugin. The symbols are
// therefore indirect: dlsym runs the function below, which returns the table, or null as if there were none.
#define LOCKSTEP_PROFILER_TABLE(version)                                                          \
  extern "C" __attribute__((visibility("hidden"), used)) void (*LockstepProfilerV##version())() { \
    using namespace lockstep::recorder::profiler;                                                 \
    return PluginIsAskedFor() ? reinterpret_cast<void (*)()>(&g_v##version) : nullptr;            \
  }                                                                                               \
  LOCKSTEP_EXPORT void ncclProfiler_v##version() __attribute__((ifunc("LockstepProfilerV" #version)))

LOCKSTEP_PROFILER_TABLE(1);
LOCKSTEP_PROFILER_TABLE(2);
LOCKSTEP_PROFILER_TABLE(3);
LOCKSTEP_PROFILER_TABLE(4);
LOCKSTEP_PROFILER_TABLE(5);
LOCKSTEP_PROFILER_TABLE(6);
LOCKSTEP_PROFILER_TABLE(7);
