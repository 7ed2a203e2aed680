#include "recorder/core/profiler_events.h"

#include "recorder/abi/profiler.h"
#include "recorder/base/identity.h"
#include "recorder/core/comms.h"
#include "recorder/core/ops.h"
#include "recorder/core/profiler_handles.h"
#include "recorder/core/profiler_match.h"
#include "recorder/core/streams.h"
#include "recorder/ring/profiler.h"

namespace lockstep::recorder::profiler {
namespace {

using ring::CallKind;
using ring::KernelEntry;
using ring::ProxyEntry;
using ring::ProxyState;

constexpr uint32_t kEventsAlways = kEventColl | kEventP2p | kEventProxyOp | kEventProxyStep;

// The mask of the whole process, which NCCL reads at every operation.
int* g_mask;
int32_t g_pid;

// NCCL keeps up to 8 steps of a network operation in progress. Only the thread that executes the operation uses them.
constexpr uint32_t kSteps = 8;
struct Step {
  uint32_t number_plus_one;  // 0: free
  uint8_t state;
};
Step g_steps[ring::kMaxProxies][kSteps];

ring::ProfilerState* State() noexcept { return g.map.profiler; }

// Returns false if the recorder was stopped, or if this is a forked child. NCCL then need not report any more.
bool Wanted() noexcept {
  if (LOCKSTEP_LIKELY(Recording() && Load(g.stop_word) == 0)) return true;
  if (Recording() && g_mask != nullptr) Store(g_mask, 0);
  return false;
}

int EventsFor(int version) noexcept {
  uint64_t events = kEventsAlways;
  if (version >= 3) events |= kEventKernelCh;
  if (version >= 5) events |= kEventGroupApi | kEventCollApi | kEventP2pApi;
  if (version >= 6) events |= kEventCeColl;
  return static_cast<int>(events);
}

// Returns true for an entry that is free or expects no further events: its kernel has ended, or all its started
// channels have completed and a later operation of its communicator has completed a channel.
bool Reusable(const KernelEntry& entry) noexcept {
  if (Load(&entry.guard) == 0 || (Load(&entry.flags) & ring::kKernelEnded) != 0) return true;
  return Load(&entry.started_channels) == Load(&entry.completed_channels) &&
         Load(&entry.order) < CompletedOrder(entry.comm);
}

// Tries only a few entries, so that the time is bounded. Never takes entries of stuck operations.
template <typename Entry, typename Free>
Entry* Claim(Entry* entries, uint32_t first, uint32_t count, uint64_t* begun, uint64_t* dropped, Free free) noexcept {
  constexpr int kLooks = 16;
  for (int look = 0; look < kLooks; ++look) {
    Entry* entry = &entries[first + Add(begun, 1) % (count - first)];
    const uint32_t guard = LoadAcquire(&entry->guard);
    if ((guard & 1) == 0 && free(*entry) && Swap(&entry->guard, guard, guard + 1)) return entry;
  }
  Add(dropped, 1);
  return nullptr;
}

KernelEntry* ClaimKernel() noexcept {
  return Claim(g.map.kernels, 1, g.map.capacities.kernels, &State()->kernels_begun, &State()->kernels_dropped,
               Reusable);
}
ProxyEntry* ClaimProxy() noexcept {
  return Claim(
      g.map.proxies, 0, g.map.capacities.proxies, &State()->proxies_begun, &State()->proxies_dropped,
      [](const ProxyEntry& entry) { return Load(&entry.guard) == 0 || (Load(&entry.flags) & ring::kProxyEnded) != 0; });
}

template <typename Entry>
Handle Publish(Type type, Entry* entries, Entry* entry) noexcept {
  const uint32_t guard = entry->guard + 1;
  if (guard == 0) return 0;
  // Pairs with the reader, which takes an entry if its guard is even and equal in two reads.
  StoreRelease(&entry->guard, guard);
  return MakeEntry(type, static_cast<uint32_t>(entry - entries), guard);
}

// Returns the entry that a handle refers to, if the entry is still in the same use.
template <typename Entry>
Entry* EntryOf(Handle handle, Entry* entries, uint32_t count) noexcept {
  const uint32_t index = EntryIndex(handle);
  if (index >= count) return nullptr;
  Entry* entry = &entries[index];
  return StampOf(LoadAcquire(&entry->guard)) == EntryStamp(handle) ? entry : nullptr;
}

Handle Stale() noexcept {
  Add(&State()->stale, 1);
  return 0;
}

KernelEntry* TaskOf(Handle handle) noexcept { return EntryOf(handle, g.map.kernels, g.map.capacities.kernels); }

ProxyState ProxyStateOf(int state) noexcept {
  switch (state) {
    case kStateSendGpuWait: return ProxyState::kSendGpuWait;
    case kStateSendPeerWait: return ProxyState::kSendPeerWait;
    case kStateSendWait: return ProxyState::kSendWait;
    case kStateRecvWait: return ProxyState::kRecvWait;
    case kStateRecvFlushWait: return ProxyState::kRecvFlushWait;
    case kStateRecvGpuWait: return ProxyState::kRecvGpuWait;
    default: return ProxyState::kNone;
  }
}

// Shows the state of the oldest step in progress, because the operation waits for that step.
void ShowOldest(ProxyEntry* entry, const Step* steps) noexcept {
  uint32_t oldest = 0;
  uint8_t state = 0;
  for (uint32_t i = 0; i < kSteps; ++i) {
    const uint32_t number = Load(&steps[i].number_plus_one);
    if (number == 0 || (oldest != 0 && number >= oldest)) continue;
    oldest = number;
    state = Load(&steps[i].state);
  }
  Store(&entry->step, oldest != 0 ? oldest - 1 : Load(&entry->done));
  Store(&entry->state, state);
  Store(&entry->changed_ticks, Now());
}

Step* StepOf(Handle handle, ProxyEntry** entry) noexcept {
  *entry = EntryOf(handle, g.map.proxies, g.map.capacities.proxies);
  if (*entry == nullptr) return nullptr;
  Step* step = &g_steps[*entry - g.map.proxies][StepNumber(handle) % kSteps];
  return Load(&step->number_plus_one) == StepNumber(handle) + 1 ? step : nullptr;
}

void EndKernelChannel(Handle handle) noexcept {
  KernelEntry* entry = EntryOf(handle, g.map.kernels, g.map.capacities.kernels);
  if (entry == nullptr) {
    Stale();
    return;
  }
  Store(&entry->last_completed_ticks, Now());
  const uint64_t bit = uint64_t{1} << EntryChannel(handle);
  const uint64_t completed = __atomic_or_fetch(&entry->completed_channels, bit, __ATOMIC_RELAXED);
  NoteCompleted(entry->comm, entry->order);
  const auto channels = static_cast<uint32_t>(__builtin_popcountll(completed));
  if (completed == Load(&entry->started_channels) && channels >= entry->channels) {
    __atomic_or_fetch(&entry->flags, ring::kKernelEnded, __ATOMIC_RELEASE);
  }
}

void EndProxyStep(Handle handle) noexcept {
  ProxyEntry* entry = nullptr;
  Step* step = StepOf(handle, &entry);
  if (step == nullptr) {
    Stale();
    return;
  }
  Store(&step->number_plus_one, 0u);
  Store(&entry->done, Load(&entry->done) + 1);
  ShowOldest(entry, g_steps[entry - g.map.proxies]);
}

void EndProxyOp(Handle handle) noexcept {
  ProxyEntry* entry = EntryOf(handle, g.map.proxies, g.map.capacities.proxies);
  if (entry == nullptr) {
    Stale();
    return;
  }
  Store(&entry->state, static_cast<uint8_t>(ProxyState::kNone));
  Store(&entry->changed_ticks, Now());
  __atomic_or_fetch(&entry->flags, ring::kProxyEnded, __ATOMIC_RELEASE);
}

// Called when NCCL has enqueued the operation, which is not complete yet. Without kernel events, no report follows.
void EndTask(Handle handle) noexcept {
  KernelEntry* entry = TaskOf(handle);
  if (entry == nullptr) {
    Stale();
    return;
  }
  uint8_t flags = ring::kKernelLaunched;
  if ((State()->events & kEventKernelCh) == 0 || (entry->flags & ring::kKernelCopyEngine) != 0) {
    flags |= ring::kKernelEnded;
  }
  __atomic_or_fetch(&entry->flags, flags, __ATOMIC_RELEASE);
}

}  // namespace

bool BeginComm(int version, const CommFacts& facts, int* mask, Handle* context) noexcept {
  ErrnoKeeper keep;
  *context = 0;
  if (!StartForProfiler()) return false;
  ring::ProfilerState* state = State();
  if (Load(&state->interface_version) == 0) Store(&state->init_ticks, Now());
  Store(&state->interface_version, static_cast<uint32_t>(version));
  Store(&state->events, static_cast<uint32_t>(EventsFor(version)));
  g_pid = ProcessId();
  g_mask = mask;
  Store(mask, EventsFor(version));
  // CPU calls identify their operation. Without them, the operation is found by its contents.
  if (version < 5) g.profiler_finds = true;
  *context = NewContext(facts);
  return true;
}

void EndComm(Handle context) noexcept {
  if (!Recording()) return;
  ErrnoKeeper keep;
  const uint32_t comm = ForgetContext(context);
  if (comm == kNone) return;
  for (uint32_t i = 1; i < g.map.capacities.kernels; ++i) {
    KernelEntry* entry = &g.map.kernels[i];
    if (Load(&entry->guard) != 0 && entry->comm == comm)
      __atomic_or_fetch(&entry->flags, ring::kKernelEnded, __ATOMIC_RELAXED);
  }
  for (uint32_t i = 0; i < g.map.capacities.proxies; ++i) {
    ProxyEntry* entry = &g.map.proxies[i];
    if (Load(&entry->guard) != 0 && entry->comm == comm && (entry->flags & ring::kProxyRemote) == 0) {
      __atomic_or_fetch(&entry->flags, ring::kProxyEnded, __ATOMIC_RELAXED);
    }
  }
}

Handle BeginTask(Handle context, Handle parent, const Task& task) noexcept {
  if (!Wanted()) return 0;
  ErrnoKeeper keep;
  const Identity identity = Identify(context, parent, task);
  if (identity.comm == kNone) return 0;
  // A captured operation has no number, because each launch of its graph gets its own.
  if (identity.seq == 0 && !identity.captured) Add(&State()->unmatched, 1);
  KernelEntry* entry = ClaimKernel();
  if (entry == nullptr) return 0;
  entry->comm = static_cast<uint16_t>(identity.comm);
  entry->kind = static_cast<uint16_t>(identity.kind);
  entry->peer = ring::IsPointToPoint(task.kind) ? task.root_or_peer : -1;
  entry->flags = static_cast<uint8_t>((identity.captured ? ring::kKernelCaptured : 0) |
                                      (task.copy_engine ? ring::kKernelCopyEngine : 0));
  entry->channels = static_cast<uint8_t>(task.channels > 0 && task.channels <= 64 ? task.channels : 0);
  Store(&entry->seq, identity.seq);
  Store(&entry->enqueued_ticks, Now());
  Store(&entry->started_channels, 0u);
  Store(&entry->completed_channels, 0u);
  Store(&entry->first_started_gpu_ns, 0u);
  Store(&entry->last_completed_gpu_ns, 0u);
  Store(&entry->first_started_ticks, 0u);
  Store(&entry->last_completed_ticks, 0u);
  Store(&entry->count, task.count);
  Store(&entry->order, NextOrder(identity.comm));
  return Publish(Type::kTask, g.map.kernels, entry);
}

Handle BeginProxyOp(Handle context, Handle parent, int rank, int pid, int channel, int peer, int steps,
                    bool send) noexcept {
  if (!Wanted()) return 0;
  // With PXN, the operation, its context and its parent belong to another process, regardless of their values.
  const bool remote = pid != g_pid;
  const KernelEntry* task = remote || TypeOf(parent) != Type::kTask ? nullptr : TaskOf(parent);
  const uint32_t comm = remote ? kNone : task != nullptr ? task->comm : CommOfContext(context);
  if (!remote && comm == kNone) return 0;
  ProxyEntry* entry = ClaimProxy();
  if (entry == nullptr) return 0;
  if (remote) Add(&State()->remote, 1);
  entry->comm = remote ? ring::kNoIndex16 : static_cast<uint16_t>(comm);
  entry->kind = task != nullptr ? task->kind : static_cast<uint16_t>(CallKind::kNone);
  Store(&entry->seq, task != nullptr ? Load(&task->seq) : 0);
  entry->peer = peer;
  entry->rank = rank;
  entry->channel = static_cast<uint8_t>(channel);
  entry->state = 0;
  entry->steps = steps > 0 ? static_cast<uint32_t>(steps) : 0;
  entry->begun = entry->done = entry->step = 0;
  Store(&entry->started_ticks, Now());
  Store(&entry->changed_ticks, entry->started_ticks);
  for (Step& step : g_steps[entry - g.map.proxies]) Store(&step.number_plus_one, 0u);
  Store(&entry->flags, static_cast<uint8_t>((send ? ring::kProxySend : 0) | (remote ? ring::kProxyRemote : 0)));
  return Publish(Type::kProxyOp, g.map.proxies, entry);
}

Handle BeginProxyStep(Handle parent, int number) noexcept {
  if (!Wanted() || number < 0) return 0;
  ProxyEntry* entry =
      TypeOf(parent) == Type::kProxyOp ? EntryOf(parent, g.map.proxies, g.map.capacities.proxies) : nullptr;
  if (entry == nullptr) return parent == 0 ? 0 : Stale();
  const auto wanted = static_cast<uint32_t>(number) & kStepMask;
  Step* steps = g_steps[entry - g.map.proxies];
  Store(&steps[wanted % kSteps].state, static_cast<uint8_t>(ProxyState::kPosted));
  Store(&steps[wanted % kSteps].number_plus_one, wanted + 1);
  Store(&entry->begun, Load(&entry->begun) + 1);
  ShowOldest(entry, steps);
  return MakeStep(parent, wanted);
}

Handle BeginKernel(Handle parent, int channel, uint64_t gpu_ns) noexcept {
  if (!Wanted() || channel < 0 || channel >= 64) return 0;
  KernelEntry* entry = TypeOf(parent) == Type::kTask ? TaskOf(parent) : nullptr;
  if (entry == nullptr) return parent == 0 ? 0 : Stale();
  uint64_t first = Load(&entry->first_started_gpu_ns);
  if (gpu_ns != 0 && (first == 0 || gpu_ns < first)) Store(&entry->first_started_gpu_ns, gpu_ns);
  if (Load(&entry->first_started_ticks) == 0) Store(&entry->first_started_ticks, Now());
  __atomic_and_fetch(&entry->flags, static_cast<uint8_t>(~ring::kKernelEnded), __ATOMIC_RELAXED);
  __atomic_or_fetch(&entry->started_channels, uint64_t{1} << channel, __ATOMIC_RELEASE);
  return MakeKernel(parent, static_cast<uint32_t>(channel));
}

void NoteState(Handle handle, int state, uint64_t gpu_ns) noexcept {
  if (handle == 0 || !Wanted()) return;
  switch (TypeOf(handle)) {
    case Type::kKernelCh: {
      KernelEntry* entry = EntryOf(handle, g.map.kernels, g.map.capacities.kernels);
      if (entry == nullptr) {
        Stale();
      } else if (state == kStateKernelChStop && gpu_ns > Load(&entry->last_completed_gpu_ns)) {
        Store(&entry->last_completed_gpu_ns, gpu_ns);
      }
      return;
    }
    case Type::kProxyStep: {
      ProxyEntry* entry = nullptr;
      Step* step = StepOf(handle, &entry);
      const ProxyState now = ProxyStateOf(state);
      if (step == nullptr) {
        Stale();
      } else if (now != ProxyState::kNone) {
        Store(&step->state, static_cast<uint8_t>(now));
        ShowOldest(entry, g_steps[entry - g.map.proxies]);
      }
      return;
    }
    case Type::kGroupApi:
      if (state == kStateGroupEndApiStart) BeginGroupEndOf(handle);
      return;
    case Type::kTask:
    case Type::kProxyOp:
    case Type::kApi:
    case Type::kContext: return;
    case Type::kNone: break;
  }
  Stale();
}

void EndEvent(Handle handle) noexcept {
  if (handle == 0 || !Wanted()) return;
  switch (TypeOf(handle)) {
    case Type::kKernelCh: EndKernelChannel(handle); return;
    case Type::kProxyStep: EndProxyStep(handle); return;
    case Type::kProxyOp: EndProxyOp(handle); return;
    case Type::kTask: EndTask(handle); return;
    case Type::kGroupApi: EndGroupOf(handle); return;
    case Type::kApi: EndApi(handle); return;
    case Type::kContext:
    case Type::kNone: break;
  }
  Stale();
}

void ForgetEvents() noexcept {
  g_mask = nullptr;
  ForgetContexts();
}

}  // namespace lockstep::recorder::profiler
