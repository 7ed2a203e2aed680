#include "recorder/core/comms.h"

#include "recorder/base/host_memory.h"
#include "recorder/core/gpu_events.h"
#include "recorder/core/gpu_marks.h"
#include "recorder/core/real.h"

namespace lockstep::recorder {
namespace {

using ring::CommEntry;
using ring::CommState;

// Brackets a rare change of a communicator's identity. Each change increments the guard's lower part at both ends; the
// upper four bits count the changes in progress. A reader accepts the lines if it reads the same even value, without
// writers, before and after. The guard is atomic because a watchdog thread may record an error or abort while the
// communicator's own thread makes a change. Signals are blocked, because a handler that jumps out would leave a change
// in progress forever.
class Editing {
 public:
  explicit Editing(CommEntry* entry) noexcept : entry_(entry) {
    Add(&entry_->guard, ring::kEditor + 1);
    FenceRelease();
  }
  ~Editing() { __atomic_fetch_add(&entry_->guard, 1 - ring::kEditor, __ATOMIC_RELEASE); }
  Editing(const Editing&) = delete;
  Editing& operator=(const Editing&) = delete;

 private:
  SignalsHeld held_;
  CommEntry* entry_;
};

bool IsEnded(uint32_t state) noexcept {
  switch (static_cast<CommState>(state)) {
    case CommState::kDestroyed:
    case CommState::kAborted:
    case CommState::kInitFailed:
    case CommState::kNotMember: return true;
    default: return false;
  }
}

// Returns an unused entry, otherwise the one that ended longest ago; null if all are in use.
CommLocal* Claim() noexcept {
  uint32_t index = Load(&g.comms_used);
  while (index < g.map.capacities.comms && !Swap(&g.comms_used, index, index + 1)) index = Load(&g.comms_used);
  if (index < g.map.capacities.comms) {
    Raise(&g.map.header->comms_used, uint64_t{index} + 1);
    return &g_tables.comms[index];
  }
  for (int tries = 0; tries < 4; ++tries) {
    CommEntry* oldest = nullptr;
    for (uint32_t i = 0; i < g.map.capacities.comms; ++i) {
      CommEntry* entry = &g.map.comms[i];
      if (IsEnded(Load(&entry->state)) && (oldest == nullptr || entry->ended_ticks < oldest->ended_ticks))
        oldest = entry;
    }
    if (oldest == nullptr) return nullptr;
    const uint32_t state = Load(&oldest->state);
    if (IsEnded(state) && Swap(&oldest->state, state, static_cast<uint32_t>(CommState::kUnknown))) {
      return &g_tables.comms[oldest - g.map.comms];
    }
  }
  return nullptr;
}

uint32_t g_pending;  // number of entries that wait for their handle

// The communicator's own thread and a watchdog may end the wait at the same time. Returns true for only one of them.
bool EndPending(CommLocal* comm) noexcept {
  if (__atomic_exchange_n(&comm->pending, nullptr, __ATOMIC_ACQ_REL) == nullptr) return false;
  __atomic_fetch_sub(&g_pending, 1, __ATOMIC_RELAXED);
  return true;
}

void* StoredHandle(void** place) noexcept {
  void* handle = nullptr;
  return ReadHostMemory(place, &handle, sizeof(handle)) ? handle : nullptr;
}

}  // namespace

LOCKSTEP_COLD CommLocal* NewComm(const CommPlan& plan) noexcept {
  CommLocal* comm = Claim();
  if (comm == nullptr) {
    Add(&g.map.header->dropped_records, 1);
    return nullptr;
  }
  const auto index = static_cast<uint32_t>(comm - g_tables.comms);
  CommEntry* entry = &g.map.comms[index];
  {
    Editing editing(entry);
    const uint32_t guard = entry->guard;
    memset(reinterpret_cast<char*>(entry) + sizeof(guard), 0, sizeof(*entry) - sizeof(guard));
    entry->state = static_cast<uint32_t>(CommState::kInitializing);
    entry->id = plan.id;
    entry->parent_id = plan.parent != nullptr ? plan.parent->entry->id : 0;
    entry->ordinal = plan.ordinal;
    entry->member_rank = plan.member_rank;
    entry->size = plan.size;
    entry->color = plan.color;
    entry->key = plan.key;
    entry->device = plan.device;
    entry->flags = plan.nonblocking ? 0 : ring::kCommBlocking;
    entry->origin = static_cast<uint16_t>(plan.origin);
    entry->created_ticks = Now();
    CopyText(entry->name, sizeof(entry->name), plan.name);
    entry->excluded_total = plan.excluded_total > 0 ? static_cast<uint32_t>(plan.excluded_total) : 0;
    for (uint32_t i = 0; i < ring::kExcludedKept && i < entry->excluded_total; ++i)
      entry->excluded[i] = plan.excluded[i];
  }
  StoreRelease(&g_tables.comm_handles[index], static_cast<const void*>(nullptr));
  EndPending(comm);
  *comm = CommLocal{};
  comm->entry = entry;
  comm->index = index;
  comm->library = lockstep_asked.now;
  comm->nonblocking = plan.nonblocking;
  comm->magic = plan.magic;
  comm->root_hash = plan.root_hash;
  comm->root_use = plan.root_use;
  comm->pending_parent = plan.parent != nullptr ? plan.parent->index : kNone;
  comm->group_next = kNone;
  comm->needs_rank = plan.member_rank < 0 || plan.size < 0;
  return comm;
}

uint32_t RootUses(uint64_t root_hash, int32_t rank) noexcept {
  uint32_t uses = 0;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    const CommLocal& comm = g_tables.comms[i];
    if (comm.root_hash == root_hash && comm.entry != nullptr && comm.entry->member_rank == rank &&
        comm.root_use > uses) {
      uses = comm.root_use;
    }
  }
  return uses;
}

LOCKSTEP_COLD void BindHandle(CommLocal* comm, const void* handle) noexcept {
  EndPending(comm);
  if (handle == nullptr || Load(&g_tables.comm_handles[comm->index]) == handle) return;
  const auto value = reinterpret_cast<uint64_t>(handle);
  uint32_t generation = 0;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    const CommEntry& entry = g.map.comms[i];
    if (entry.handle == value && entry.generation >= generation) generation = entry.generation + 1;
    // If NCCL returns this value again, it cannot belong to a live communicator: the recorder missed the end of the old
    // one.
    if (Load(&g_tables.comm_handles[i]) == handle) CommEnded(&g_tables.comms[i], CommState::kDestroyed);
  }
  {
    Editing editing(comm->entry);
    comm->entry->handle = value;
    comm->entry->generation = generation;
  }
  StoreRelease(&g_tables.comm_handles[comm->index], handle);
}

LOCKSTEP_COLD void CommIsReady(CommLocal* comm) noexcept {
  ErrnoKeeper keep;
  const void* handle = Load(&g_tables.comm_handles[comm->index]);
  CommEntry* entry = comm->entry;
  int32_t rank = entry->member_rank, size = entry->size, device = entry->device;
  if (handle != nullptr) {
    // Marks the thread as inside a call, so that the recorder's own queries are not recorded.
    ThreadState* thread = Thread();
    const InsideMark* outer = thread != nullptr ? thread->inside : nullptr;
    InsideMark mark;
    if (thread != nullptr) EnterCall(thread, &mark);
    int value = 0;
    if (comm->needs_rank) {
      if (AskComm(AskedOfComm::kUserRank, comm->library, handle, &value)) rank = value;
      if (AskComm(AskedOfComm::kCount, comm->library, handle, &value)) size = value;
    }
    if (device < 0 && AskComm(AskedOfComm::kDevice, comm->library, handle, &value)) device = value;
    if (thread != nullptr) thread->inside = outer;
  }
  {
    Editing editing(entry);
    entry->member_rank = rank;
    entry->size = size;
    entry->device = device;
    if (entry->state == static_cast<uint32_t>(CommState::kInitializing)) {
      entry->state = static_cast<uint32_t>(CommState::kReady);
    }
    entry->ready_ticks = Now();
  }
  comm->needs_rank = rank < 0 || size < 0;
  comm->ready = true;
  DescribeGpu(device);
  StartPolling();
}

void SetCommState(CommLocal* comm, CommState state) noexcept {
  Editing editing(comm->entry);
  Store(&comm->entry->state, static_cast<uint32_t>(state));
}

void SetCommId(CommLocal* comm, uint64_t id, uint64_t magic) noexcept {
  Editing editing(comm->entry);
  Store(&comm->entry->id, id);
  comm->magic = magic;
}

void SetCommFlags(CommLocal* comm, uint32_t flags) noexcept {
  Editing editing(comm->entry);
  comm->entry->flags |= flags;
}

void SetCommName(CommLocal* comm, const char* name) noexcept {
  Editing editing(comm->entry);
  CopyText(comm->entry->name, sizeof(comm->entry->name), name);
}

void SetCommReady(CommLocal* comm) noexcept {
  Editing editing(comm->entry);
  Store(&comm->entry->state, static_cast<uint32_t>(CommState::kReady));
  Store(&comm->entry->ready_ticks, Now());
}

LOCKSTEP_COLD void CommEnded(CommLocal* comm, CommState state) noexcept {
  DropHolds(comm);
  StoreRelease(&g_tables.comm_handles[comm->index], static_cast<const void*>(nullptr));
  EndPending(comm);
  Editing editing(comm->entry);
  Store(&comm->entry->ended_ticks, Now());
  Store(&comm->entry->state, static_cast<uint32_t>(state));
}

void NoteAsyncError(CommLocal* comm, int32_t error) noexcept {
  Editing editing(comm->entry);
  Store(&comm->entry->async_error, error);
  Store(&comm->entry->async_error_ticks, Now());
}

bool HasPending() noexcept { return Load(&g_pending) != 0; }
void ForgetPending() noexcept { g_pending = 0; }

void AwaitHandle(CommLocal* comm, void** place, uint32_t parent) noexcept {
  comm->pending = place;
  comm->pending_parent = parent;
  Add(&g_pending, 1);
}

LOCKSTEP_COLD bool BindStored(CommLocal* comm) noexcept {
  ErrnoKeeper keep;
  void** place = LoadAcquire(&comm->pending);
  void* handle = place != nullptr ? StoredHandle(place) : nullptr;
  if (handle != nullptr && EndPending(comm)) BindHandle(comm, handle);
  return Load(&g_tables.comm_handles[comm->index]) != nullptr;
}

LOCKSTEP_COLD void BindChildren(const CommLocal* parent) noexcept {
  if (Load(&g_pending) == 0) return;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    CommLocal* comm = &g_tables.comms[i];
    if (LoadAcquire(&comm->pending) == nullptr || comm->pending_parent != parent->index || comm->in_group) continue;
    if (BindStored(comm) && !comm->nonblocking) CommIsReady(comm);
  }
}

LOCKSTEP_COLD void DropChildren(const CommLocal* parent) noexcept {
  if (Load(&g_pending) == 0) return;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    CommLocal* comm = &g_tables.comms[i];
    if (LoadAcquire(&comm->pending) == nullptr || comm->pending_parent != parent->index || comm->in_group) continue;
    // The program may have reused the variable for another communicator's handle.
    void** place = LoadAcquire(&comm->pending);
    const bool taken = place != nullptr && KnownComm(StoredHandle(place)) != nullptr;
    if (taken || !BindStored(comm)) CommEnded(comm, CommState::kInitFailed);
  }
}

LOCKSTEP_COLD CommLocal* FindCommSlow(ThreadState* thread, const void* handle, bool create) noexcept {
  if (handle == nullptr) return nullptr;
  ErrnoKeeper keep;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    if (LoadAcquire(&g_tables.comm_handles[i]) != handle) continue;
    CommCache(thread, handle) = {handle, i};
    return &g_tables.comms[i];
  }
  // Finds a pending communicator whose variable contains the handle.
  for (uint32_t i = 0; i < used && Load(&g_pending) != 0; ++i) {
    CommLocal* comm = &g_tables.comms[i];
    void** place = LoadAcquire(&comm->pending);
    if (place == nullptr || StoredHandle(place) != handle) continue;
    if (EndPending(comm)) BindHandle(comm, handle);
    CommCache(thread, handle) = {handle, i};
    return comm;
  }
  // The variable in which NCCL stored the handle is gone. If only one child is outstanding, the handle must be the
  // child's.
  CommLocal* only = nullptr;
  uint32_t waiting = 0;
  for (uint32_t i = 0; i < Load(&g.comms_used); ++i) {
    // Only children: NCCL stores the handle of a pending init call at once, so the search above would have found it.
    if (LoadAcquire(&g_tables.comms[i].pending) == nullptr || g_tables.comms[i].pending_parent == kNone) continue;
    only = &g_tables.comms[i];
    ++waiting;
  }
  if (waiting == 1) {
    BindHandle(only, handle);
  } else {
    if (!create) return nullptr;
    CommPlan plan;
    only = NewComm(plan);
    if (only == nullptr) return nullptr;
    BindHandle(only, handle);
  }
  CommCache(thread, handle) = {handle, only->index};
  return only;
}

}  // namespace lockstep::recorder
