// Contexts: the communicators that NCCL's profiler interface reports.
#include "recorder/base/identity.h"
#include "recorder/core/comms.h"
#include "recorder/core/gpu_marks.h"
#include "recorder/core/profiler_handles.h"
#include "recorder/core/profiler_match.h"

namespace lockstep::recorder::profiler {
namespace {

using ring::CallKind;
using ring::CommState;

struct Context {
  uint32_t guard;  // odd while in use; part of the handle
  uint32_t comm;   // kNone: not known yet
  uint64_t id;     // 0 with interface versions 1 to 3
  int32_t size, rank;
  int32_t device;  // the device that was current while NCCL initialized
};
constexpr uint32_t kContexts = 512;
Context g_contexts[kContexts];

Context* ContextOf(Handle handle) noexcept {
  if (TypeOf(handle) != Type::kContext || EntryIndex(handle) >= kContexts) return nullptr;
  Context* context = &g_contexts[EntryIndex(handle)];
  const uint32_t guard = LoadAcquire(&context->guard);
  return (guard & 1) != 0 && StampOf(guard) == EntryStamp(handle) ? context : nullptr;
}

bool Bound(uint32_t comm) noexcept { return (Load(&g_tables.comms[comm].entry->flags) & ring::kCommProfiled) != 0; }

bool Living(uint32_t state) noexcept {
  return state == static_cast<uint32_t>(CommState::kInitializing) || state == static_cast<uint32_t>(CommState::kReady);
}

bool Fits(const ring::CommEntry& entry, const CommFacts& facts) noexcept {
  return (entry.member_rank < 0 || entry.member_rank == facts.rank) && (entry.size < 0 || entry.size == facts.size);
}

// Finds the entry that a call of the program wrote for this communicator. The identities may differ (a shrunk
// communicator, or NCCL before 2.26), or a rank may not be known yet (several children of one split in a process).
// Then takes the only entry that fits. Returns kNone if none fits, or if several do; then also sets *maybe.
uint32_t FindMade(const CommFacts& facts, bool* maybe) noexcept {
  uint32_t same = kNone, any = kNone, sames = 0, anys = 0;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used && i < ring::kMaxComms; ++i) {
    if (g_tables.comms[i].entry == nullptr || Bound(i)) continue;
    const ring::CommEntry& entry = *g_tables.comms[i].entry;
    if (!Living(Load(&entry.state)) || !Fits(entry, facts)) continue;
    if (entry.id == facts.id && facts.id != 0) {
      if (entry.member_rank >= 0) return i;
      same = i;
      ++sames;
    }
    if (Load(&entry.state) != static_cast<uint32_t>(CommState::kInitializing)) continue;
    any = i;
    ++anys;
  }
  *maybe = sames > 1 || (sames == 0 && anys > 1);
  if (*maybe) return kNone;
  return sames == 1 ? same : any;
}

LOCKSTEP_COLD CommLocal* MakeOwn(Handle handle, Context* context, uint64_t id) noexcept {
  CommPlan plan;
  plan.origin = CallKind::kProfilerComm;
  plan.id = plan.magic = id;
  plan.ordinal = Add(&g.root_comms, 1) + 1;
  plan.member_rank = context->rank;
  plan.size = context->size;
  plan.device = context->device;
  CommLocal* comm = NewComm(plan);
  if (comm == nullptr) return nullptr;
  // NCCL cannot be queried, because this handle is the recorder's own.
  comm->ready = true;
  comm->needs_rank = false;
  BindHandle(comm, reinterpret_cast<const void*>(handle));
  SetCommFlags(comm, ring::kCommFromProfiler | ring::kCommProfiled);
  SetCommReady(comm);
  DescribeGpu(plan.device);
  Store(&context->comm, comm->index);
  return comm;
}

}  // namespace

bool StartForProfiler() noexcept {
  const bool first = !Recording();
  if (!Start() || Load(g.stop_word) != 0 || g.map.profiler == nullptr) return false;
  if (first) {
    g.gpu = GpuMode::kProfiler;
    Store(&g.map.header->gpu_marks, static_cast<uint32_t>(GpuMode::kProfiler));
  }
  return true;
}

Handle NewContext(const CommFacts& facts) noexcept {
  for (uint32_t i = 0; i < kContexts; ++i) {
    Context* context = &g_contexts[i];
    const uint32_t guard = LoadAcquire(&context->guard);
    if ((guard & 1) != 0 || !Swap(&context->guard, guard, guard + 1)) continue;
    context->id = facts.id;
    context->size = facts.size;
    context->rank = facts.rank;
    context->device = CurrentDevice();
    Store(&context->comm, kNone);
    const Handle handle = MakeEntry(Type::kContext, i, guard + 1);
    if (!facts.known) return handle;
    bool maybe = false;
    const uint32_t made = FindMade(facts, &maybe);
    if (made != kNone) {
      Bind(handle, made);
    } else if (!maybe) {
      CommLocal* comm = MakeOwn(handle, context, facts.id);
      if (comm != nullptr && facts.name != nullptr) SetCommName(comm, facts.name);
    }
    return handle;
  }
  Add(&g.map.header->dropped_records, 1);
  return 0;
}

uint32_t ForgetContext(Handle handle) noexcept {
  Context* context = ContextOf(handle);
  if (context == nullptr) return kNone;
  const uint32_t comm = Load(&context->comm);
  if (comm != kNone && IsOwn(comm)) CommEnded(&g_tables.comms[comm], CommState::kDestroyed);
  StoreRelease(&context->guard, context->guard + 1);
  return comm;
}

void ForgetContexts() noexcept {
  for (Context& context : g_contexts) {
    if ((context.guard & 1) != 0) ++context.guard;
  }
}

uint32_t CommOfContext(Handle handle) noexcept {
  const Context* context = ContextOf(handle);
  return context == nullptr ? kNone : Load(&context->comm);
}

void Bind(Handle handle, uint32_t comm) noexcept {
  Context* context = ContextOf(handle);
  if (context == nullptr || !Swap(&context->comm, kNone, comm)) return;
  SetCommFlags(&g_tables.comms[comm], ring::kCommProfiled);
}

CommLocal* OwnComm(Handle handle, int rank, uint64_t hash) noexcept {
  Context* context = ContextOf(handle);
  if (context == nullptr) return nullptr;
  const uint32_t known = Load(&context->comm);
  if (known != kNone) return &g_tables.comms[known];
  if (context->rank < 0) context->rank = rank;
  return MakeOwn(handle, context, context->id != 0 ? context->id : hash);
}

bool IsOwn(uint32_t comm) noexcept {
  return comm < ring::kMaxComms && g_tables.comms[comm].entry != nullptr &&
         (Load(&g_tables.comms[comm].entry->flags) & ring::kCommFromProfiler) != 0;
}

}  // namespace lockstep::recorder::profiler
