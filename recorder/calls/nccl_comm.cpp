// Wrappers of the NCCL functions that create and destroy communicators.
#include <stdlib.h>

#include "recorder/abi/nccl.h"
#include "recorder/base/identity.h"
#include "recorder/core/gpu_marks.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"
#include "recorder/core/unwrapped.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;
using ring::CommState;

// Returns whether NCCL makes the communicator non-blocking: by the environment variable, then by the configuration,
// whose default is blocking. Without a configuration, a child behaves like its parent.
bool IsNonblocking(const ConfigFacts& facts, const CommLocal* parent) noexcept {
  const char* forced = getenv("NCCL_COMM_BLOCKING");
  if (forced != nullptr && (forced[0] == '0' || forced[0] == '1') && forced[1] == 0) return forced[0] == '0';
  if (facts.given) return facts.says_blocking && !facts.blocking;
  return parent != nullptr && parent->nonblocking;
}

// Starts recording if possible. Returns whether the init call comes from the program and is to be recorded.
bool StartFor(const void* caller) noexcept {
  if (FromNccl(caller) || !Start() || !ShouldRecord(caller)) return false;
  if (Load(&g.map.header->nccl_version) == 0) {
    ErrnoKeeper keep;
    const int32_t version = NcclVersion();
    Store(&g.map.header->nccl_version, version);
    if (version != 0) NoteUnwrapped(NcclVersionFunction());
  }
  return true;
}

uint64_t FirstWord(const void* bytes) noexcept {
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return word;
}

bool Grouped() noexcept { return t_local.group_depth > 0; }

// Called after an init call that returns its handle at once has returned `result`. `out` is the caller's variable.
void InitReturned(ThreadState* thread, CommLocal* comm, void** out, int result) noexcept {
  if (comm == nullptr || comm->entry->ended_ticks != 0) return;  // a watchdog aborted the communicator meanwhile
  if (!Accepted(result)) {
    CommEnded(comm, CommState::kInitFailed);
    return;
  }
  BindHandle(comm, out != nullptr ? *out : nullptr);
  if (Grouped()) {
    JoinGroup(thread, comm);
    comm->group_init = true;
  } else if (result == kNcclSuccess && !comm->nonblocking) {
    CommIsReady(comm);
  }
}

// Wraps an init call that returns its handle at once. A watchdog may use the handle in `out` while the call still
// waits for other ranks.
template <typename Forward>
int MakeNow(CallKind kind, const CommPlan& plan, void** out, const void* caller, Forward forward) noexcept {
  CommLocal* comm = NewComm(plan);
  if (comm != nullptr && out != nullptr) AwaitHandle(comm, out, kNone);
  CallInFlight flight;
  const CallArguments arguments = {static_cast<uint64_t>(plan.size > 0 ? plan.size : 0), plan.member_rank};
  const bool begun = BeginCall(kind, comm, arguments, caller, &flight);
  const int result = forward();
  if (!begun || !Recording() || flight.epoch != g.epoch) return result;
  ErrnoKeeper keep;
  InitReturned(flight.thread, comm, out, result);
  EndCall(&flight, result, comm);
  return result;
}

// Surrounds split and shrink. NCCL stores their handle when the child is ready.
template <typename Forward>
int MakeLate(CallKind kind, const CommPlan& plan, CommLocal* parent, void** out, bool member, const void* caller,
             Forward forward) noexcept {
  CommLocal* comm = NewComm(plan);
  CallInFlight flight;
  const CallArguments arguments = {static_cast<uint64_t>(plan.excluded_total), plan.color};
  const bool begun = BeginCall(kind, comm, arguments, caller, &flight);
  const int result = forward();
  if (!begun || !Recording() || flight.epoch != g.epoch) return result;
  ErrnoKeeper keep;
  if (comm != nullptr) {
    if (!Accepted(result)) {
      CommEnded(comm, CommState::kInitFailed);
    } else if (!member) {
      CommEnded(comm, CommState::kNotMember);
    } else if (!Grouped() && result == kNcclSuccess && out != nullptr && *out != nullptr) {
      BindHandle(comm, *out);
      if (!comm->nonblocking) CommIsReady(comm);
    } else if (out != nullptr) {
      AwaitHandle(comm, out, parent != nullptr ? parent->index : kNone);
      if (Grouped()) {
        JoinGroup(flight.thread, comm);
        comm->group_init = true;
      }
    }
  }
  EndCall(&flight, result, comm);
  return result;
}

// With NCCL_COMM_ID, all unique IDs are equal. The n-th communicator that a rank creates from the same bytes then
// counts as a different one.
CommPlan RootPlan(CallKind kind, const void* unique_id, int size, int rank, const ConfigFacts& facts) noexcept {
  CommPlan plan;
  plan.origin = kind;
  plan.root_hash = RootId(unique_id);
  plan.root_use = RootUses(plan.root_hash, rank) + 1;
  plan.id = plan.root_use == 1 ? plan.root_hash : Combine(plan.root_hash, static_cast<int32_t>(plan.root_use));
  plan.magic = FirstWord(unique_id);
  plan.ordinal = Add(&g.root_comms, 1) + 1;
  plan.member_rank = rank;
  plan.size = size;
  plan.name = facts.name;
  plan.nonblocking = IsNonblocking(facts, nullptr);
  plan.device = CurrentDevice();
  return plan;
}

// Wraps an init call with a unique ID. If another thread is still creating the ring, this thread may stop waiting
// for it. Then the communicator's identity is recorded when the call returns, because nothing reports it later.
template <typename Forward>
int MakeRoot(CallKind kind, const void* unique_id, int size, int rank, const NcclConfig* config, void** out,
             const void* caller, Forward forward) noexcept {
  if (StartFor(caller))
    return MakeNow(kind, RootPlan(kind, unique_id, size, rank, ReadConfig(config)), out, caller, forward);
  const int result = forward();
  if (!Accepted(result) || out == nullptr || Load(g.word) == kOff || !StartFor(caller)) return result;
  ErrnoKeeper keep;
  if (KnownComm(*out) != nullptr) return result;
  InitReturned(Thread(), NewComm(RootPlan(kind, unique_id, size, rank, ReadConfig(config))), out, result);
  return result;
}

void NameRoot(CommLocal* comm, const void* unique_id) noexcept {
  if (comm == nullptr) return;
  ErrnoKeeper keep;
  comm->root_hash = 0;
  const uint64_t root_hash = RootId(unique_id);
  comm->root_use = RootUses(root_hash, comm->entry->member_rank) + 1;
  comm->root_hash = root_hash;
  SetCommId(comm, comm->root_use == 1 ? root_hash : Combine(root_hash, static_cast<int32_t>(comm->root_use)),
            FirstWord(unique_id));
}

// Returns how many times `parent`, this process's member, was already shrunk by this set of ranks.
int32_t ShrinksBefore(const CommLocal* parent, uint64_t set) noexcept {
  int32_t before = 0;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    const CommLocal& comm = g_tables.comms[i];
    before += comm.root_hash == set && comm.entry != nullptr && comm.pending_parent == parent->index &&
              comm.entry->parent_id == parent->entry->id &&
              comm.entry->origin == static_cast<uint16_t>(CallKind::kCommShrink);
  }
  return before;
}

// Gives the communicators of this thread's ncclCommInitAll their identities.
LOCKSTEP_COLD void NameInitAll(const void* unique_id) noexcept {
  if (t_local.epoch != g.epoch || t_local.state == nullptr) return;
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used; ++i) {
    CommLocal* comm = &g_tables.comms[i];
    if (comm->awaits_id != t_local.state->index + 1) continue;
    comm->awaits_id = 0;
    NameRoot(comm, unique_id);
  }
}

// Finds the parent of a split, shrink or grow. The program may use a handle that the recorder has never seen.
CommLocal* Parent(NcclComm handle) noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr || handle == nullptr) return nullptr;
  CommLocal* parent = FindComm(thread, handle);
  if (parent != nullptr && !parent->ready && !parent->nonblocking) CommIsReady(parent);
  return parent;
}

}  // namespace
}  // namespace lockstep::recorder

using namespace lockstep::recorder;
using lockstep::ring::CallKind;
using lockstep::ring::CommState;

LOCKSTEP_EXPORT int ncclCommInitRank(NcclComm* comm, int size, NcclUniqueId id, int rank) {
  LOCKSTEP_REAL_NCCL(ncclCommInitRank);
  return MakeRoot(CallKind::kCommInitRank, &id, size, rank, nullptr, comm, LOCKSTEP_CALLER,
                  [&] { return real(comm, size, id, rank); });
}

LOCKSTEP_EXPORT int ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id, int rank, NcclConfig* config) {
  LOCKSTEP_REAL_NCCL(ncclCommInitRankConfig);
  return MakeRoot(CallKind::kCommInitRankConfig, &id, size, rank, config, comm, LOCKSTEP_CALLER,
                  [&] { return real(comm, size, id, rank, config); });
}

LOCKSTEP_EXPORT int ncclCommInitRankScalable(NcclComm* comm, int size, int rank, int ids_count, NcclUniqueId* ids,
                                             NcclConfig* config) {
  LOCKSTEP_REAL_NCCL(ncclCommInitRankScalable);
  if (ids == nullptr || ids_count < 1) return real(comm, size, rank, ids_count, ids, config);
  return MakeRoot(CallKind::kCommInitRankScalable, ids, size, rank, config, comm, LOCKSTEP_CALLER,
                  [&] { return real(comm, size, rank, ids_count, ids, config); });
}

// ncclCommInitAll calls this function to create its own ID.
LOCKSTEP_EXPORT int ncclGetUniqueId(NcclUniqueId* id) {
  LOCKSTEP_REAL_NCCL(ncclGetUniqueId);
  const int result = real(id);
  if (result == kNcclSuccess && id != nullptr && Recording() && FromNccl(LOCKSTEP_CALLER)) NameInitAll(id);
  return result;
}

LOCKSTEP_EXPORT int ncclCommInitAll(NcclComm* comms, int devices, const int* list) {
  LOCKSTEP_REAL_NCCL(ncclCommInitAll);
  if (comms == nullptr || devices < 1 || !StartFor(LOCKSTEP_CALLER)) return real(comms, devices, list);
  constexpr int kMost = 64;
  CommLocal* made[kMost] = {};
  const int count = devices < kMost ? devices : kMost;
  CommPlan plan;
  plan.origin = CallKind::kCommInitAll;
  plan.ordinal = Add(&g.root_comms, 1) + 1;
  plan.size = devices;
  for (int i = 0; i < count; ++i) {
    plan.member_rank = i;
    plan.device = list != nullptr ? list[i] : i;
    made[i] = NewComm(plan);
  }
  CallInFlight flight;
  CallArguments arguments;
  arguments.count = static_cast<uint64_t>(devices);
  const bool begun = BeginCall(CallKind::kCommInitAll, made[0], arguments, LOCKSTEP_CALLER, &flight);
  if (begun) {
    for (int i = 0; i < count; ++i) {
      if (made[i] == nullptr) continue;
      AwaitHandle(made[i], &comms[i], kNone);
      made[i]->awaits_id = flight.thread->index + 1;
    }
  }
  const int result = real(comms, devices, list);
  if (!begun || !Recording() || flight.epoch != g.epoch) return result;
  ErrnoKeeper keep;
  // If there was no inner call (NCCL linked with -Bsymbolic), the process and the ordinal replace the ID. This is
  // sufficient because all members are in this process.
  uint8_t id[128] = {};
  const uint64_t substitute[3] = {static_cast<uint64_t>(g.map.header->pid), g.map.header->start_ticks, plan.ordinal};
  memcpy(id, substitute, sizeof(substitute));
  for (int i = 0; i < count; ++i) {
    if (made[i] == nullptr || made[i]->entry->ended_ticks != 0) continue;
    if (made[i]->awaits_id != 0) NameRoot(made[i], id);
    made[i]->awaits_id = 0;
    if (Accepted(result)) {
      BindHandle(made[i], comms[i]);
      CommIsReady(made[i]);
    } else {
      CommEnded(made[i], CommState::kInitFailed);
    }
  }
  EndCall(&flight, result, made[0]);
  return result;
}

LOCKSTEP_EXPORT int ncclCommSplit(NcclComm comm, int color, int key, NcclComm* child, NcclConfig* config) {
  LOCKSTEP_REAL_NCCL(ncclCommSplit);
  if (!StartFor(LOCKSTEP_CALLER)) return real(comm, color, key, child, config);
  CommLocal* parent = Parent(comm);
  if (parent == nullptr) return real(comm, color, key, child, config);
  const ConfigFacts facts = ReadConfig(config);
  CommPlan plan;
  plan.origin = CallKind::kCommSplit;
  plan.parent = parent;
  plan.ordinal = ++parent->children;
  plan.id = SplitId(parent->entry->id, static_cast<int32_t>(++parent->nccl_children), color);
  plan.magic = plan.id;
  plan.color = color;
  plan.key = key;
  plan.name = facts.name;
  plan.nonblocking = IsNonblocking(facts, parent);
  plan.device = parent->entry->device;
  const int result = MakeLate(CallKind::kCommSplit, plan, parent, child, color != -1, LOCKSTEP_CALLER,
                              [&] { return real(comm, color, key, child, config); });
  if (result == 4 || result == kNcclInvalidUsage) {  // the call was refused before NCCL counted it
    --parent->children;
    --parent->nccl_children;
  }
  return result;
}

LOCKSTEP_EXPORT int ncclCommShrink(NcclComm comm, int* excluded, int count, NcclComm* child, NcclConfig* config,
                                   int flags) {
  LOCKSTEP_REAL_NCCL(ncclCommShrink);
  if (!StartFor(LOCKSTEP_CALLER)) return real(comm, excluded, count, child, config, flags);
  CommLocal* parent = Parent(comm);
  const int32_t size = parent != nullptr ? parent->entry->size : 0;
  // NCCL reads the entries of the list before it checks their number. With an impossible number, the call fails in
  // any case.
  if (parent == nullptr || excluded == nullptr || count < 1 || (size > 0 && count >= size)) {
    return real(comm, excluded, count, child, config, flags);
  }
  const ConfigFacts facts = ReadConfig(config);
  CommPlan plan;
  plan.origin = CallKind::kCommShrink;
  plan.parent = parent;
  plan.ordinal = ++parent->children;
  // Only surviving ranks make this call. All of them know how many times they were shrunk by this set, but not how
  // many times in total.
  const uint64_t set = SetHash(excluded, count);
  plan.id = ShrinkId(parent->entry->id, ShrinksBefore(parent, set) + 1, set);
  plan.magic = plan.id;
  plan.root_hash = set;
  plan.excluded = excluded;
  plan.excluded_total = count;
  const int32_t rank = parent->entry->member_rank;
  if (size > 0 && rank >= 0) {
    plan.size = size - count;
    plan.member_rank = rank;
    for (int i = 0; i < count; ++i) plan.member_rank -= excluded[i] < rank ? 1 : 0;
  }
  plan.name = facts.name;
  plan.nonblocking = IsNonblocking(facts, parent);
  plan.device = parent->entry->device;
  const int result = MakeLate(CallKind::kCommShrink, plan, parent, child, true, LOCKSTEP_CALLER,
                              [&] { return real(comm, excluded, count, child, config, flags); });
  if (result == 4 || result == kNcclInvalidUsage) --parent->children;
  return result;
}

LOCKSTEP_EXPORT int ncclCommGrow(NcclComm comm, int size, const NcclUniqueId* id, int rank, NcclComm* child,
                                 NcclConfig* config) {
  LOCKSTEP_REAL_NCCL(ncclCommGrow);
  if (!StartFor(LOCKSTEP_CALLER)) return real(comm, size, id, rank, child, config);
  CommLocal* parent = Parent(comm);
  const ConfigFacts facts = ReadConfig(config);
  CommPlan plan;
  plan.origin = CallKind::kCommGrow;
  plan.parent = parent;
  plan.size = size;
  plan.member_rank = parent != nullptr ? parent->entry->member_rank : rank;
  // Old members do not see an ID. They get the same number from the parent, as NCCL does for the first word of the
  // ID.
  uint64_t magic = 0;
  if (parent != nullptr) {
    plan.ordinal = ++parent->children;
    magic = Combine(parent->magic, static_cast<int32_t>(++parent->nccl_children));
    plan.device = parent->entry->device;
  }
  if (id != nullptr) magic = FirstWord(id);
  plan.magic = magic;
  plan.id = Combine(magic, size);
  plan.name = facts.name;
  plan.nonblocking = IsNonblocking(facts, parent);
  return MakeNow(CallKind::kCommGrow, plan, child, LOCKSTEP_CALLER,
                 [&] { return real(comm, size, id, rank, child, config); });
}

namespace {

// Surrounds a call on one communicator. `before` and `after` change its state.
template <typename Before, typename After, typename Forward>
int OnComm(CallKind kind, NcclComm handle, const void* caller, Before before, After after, Forward forward) noexcept {
  if (handle == nullptr || !ShouldRecord(caller)) return forward();
  CommLocal* comm = KnownComm(handle);
  if (comm == nullptr && HasPending()) {
    ErrnoKeeper keep;
    comm = FindCommSlow(Thread(), handle, false);
  }
  CallInFlight flight;
  if (!BeginCall(kind, comm, CallArguments(), caller, &flight)) return forward();
  if (comm != nullptr) before(comm);
  const int result = forward();
  if (!Recording() || flight.epoch != g.epoch) return result;
  if (comm != nullptr) after(comm, result);
  EndCall(&flight, result, comm);
  return result;
}

void Nothing(CommLocal*) noexcept {}

// The handle leaves the table before NCCL frees it, because another thread may get the same value at once.
template <typename Forward>
int EndComm(CallKind kind, CommState state, NcclComm handle, const void* caller, Forward forward) noexcept {
  uint32_t was = 0;
  return OnComm(
      kind, handle, caller,
      [&](CommLocal* comm) {
        was = comm->entry->state;
        if (kind == CallKind::kCommDestroy) SetCommState(comm, CommState::kFinalizing);
        StoreRelease(&g_tables.comm_handles[comm->index], static_cast<const void*>(nullptr));
      },
      [&](CommLocal* comm, int result) {
        if (Accepted(result)) {
          DropChildren(comm);
          CommEnded(comm, state);
        } else {
          SetCommState(comm, static_cast<CommState>(was));
          StoreRelease(&g_tables.comm_handles[comm->index], static_cast<const void*>(handle));
        }
      },
      forward);
}

}  // namespace

LOCKSTEP_EXPORT int ncclCommDestroy(NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclCommDestroy);
  return EndComm(CallKind::kCommDestroy, CommState::kDestroyed, comm, LOCKSTEP_CALLER, [&] { return real(comm); });
}

LOCKSTEP_EXPORT int ncclCommAbort(NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclCommAbort);
  return EndComm(CallKind::kCommAbort, CommState::kAborted, comm, LOCKSTEP_CALLER, [&] { return real(comm); });
}

LOCKSTEP_EXPORT int ncclCommFinalize(NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclCommFinalize);
  return OnComm(
      CallKind::kCommFinalize, comm, LOCKSTEP_CALLER,
      [](CommLocal* local) { SetCommState(local, CommState::kFinalizing); }, [](CommLocal*, int) {},
      [&] { return real(comm); });
}

LOCKSTEP_EXPORT int ncclCommRevoke(NcclComm comm, int flags) {
  LOCKSTEP_REAL_NCCL(ncclCommRevoke);
  return OnComm(
      CallKind::kCommRevoke, comm, LOCKSTEP_CALLER, Nothing,
      [](CommLocal* local, int result) {
        if (Accepted(result)) SetCommState(local, CommState::kRevoked);
      },
      [&] { return real(comm, flags); });
}

LOCKSTEP_EXPORT int ncclCommSuspend(NcclComm comm, int flags) {
  LOCKSTEP_REAL_NCCL(ncclCommSuspend);
  return OnComm(
      CallKind::kCommSuspend, comm, LOCKSTEP_CALLER, Nothing, [](CommLocal*, int) {},
      [&] { return real(comm, flags); });
}

LOCKSTEP_EXPORT int ncclCommResume(NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclCommResume);
  return OnComm(
      CallKind::kCommResume, comm, LOCKSTEP_CALLER, Nothing, [](CommLocal*, int) {}, [&] { return real(comm); });
}

namespace {

LOCKSTEP_COLD void AsyncChanged(CommLocal* comm, int error, const void* caller) noexcept {
  ErrnoKeeper keep;
  Store(&comm->last_async, error);
  if (error == kNcclSuccess) {
    BindChildren(comm);
    // A blocking communicator reports success even while its own init call still waits.
    if (!comm->ready && (comm->nonblocking || (comm->needs_rank && !comm->group_init))) CommIsReady(comm);
    return;
  }
  if (error == kNcclInProgress) return;
  DropChildren(comm);
  if (!comm->ready && comm->nonblocking) SetCommState(comm, CommState::kInitFailed);
  NoteAsyncError(comm, error);
  CallInFlight flight;
  if (!ShouldRecord(caller) || !BeginCall(CallKind::kCommAsyncError, comm, CallArguments(), caller, &flight)) return;
  EndCall(&flight, error, comm);
}

uint64_t IssuedOutsideGroups(const CommLocal* comm) noexcept {
  return Load(&comm->in_group) ? Load(&comm->group_issued) : Load(&comm->entry->issued_seq);
}

RealFunction g_async_error = {"ncclCommGetAsyncError"};

// Watchdogs poll this function, so only a changed value is recorded.
__attribute__((noinline)) int AsyncErrorForHost(NcclComm handle, int* error, const void* caller) noexcept {
  const auto real = reinterpret_cast<int (*)(NcclComm, int*)>(RealNccl(&g_async_error, caller));
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  if (!Recording() || FromNccl(caller)) return real(handle, error);
  CommLocal* comm = KnownComm(handle);
  // If the answer is "success", everything that was issued before the query is queued.
  const uint64_t issued = comm != nullptr ? IssuedOutsideGroups(comm) : 0;
  const uint64_t begun = comm != nullptr ? MarksBegun(*comm) : 0;
  const int result = real(handle, error);
  if (result != kNcclSuccess || error == nullptr || !Recording()) return result;
  if (comm != nullptr && Load(&g_tables.comm_handles[comm->index]) != handle) comm = nullptr;
  if (comm == nullptr && HasPending() && Thread() != nullptr) {
    ErrnoKeeper keep;
    comm = FindCommSlow(Thread(), handle, false);
  }
  if (comm == nullptr) return result;
  if (*error == kNcclSuccess && comm->nonblocking && Load(&comm->entry->launched_seq) < issued) {
    Store(&comm->entry->launched_seq, issued);
  }
  if (LOCKSTEP_UNLIKELY(begun != 0) && *error == kNcclSuccess) SettleMarks(comm, begun);
  if (LOCKSTEP_LIKELY(Load(&comm->last_async) == *error && comm->ready && !HasPending())) return result;
  if (*error != Load(&comm->last_async) || *error == kNcclSuccess) AsyncChanged(comm, *error, caller);
  return result;
}

}  // namespace

// NCCL itself calls this function for every operation. Such a call is forwarded on the shortest path.
LOCKSTEP_EXPORT int ncclCommGetAsyncError(NcclComm handle, int* error) {
  const void* caller = LOCKSTEP_CALLER;
  void* address = LoadAcquire(&g_async_error.address);
  if (LOCKSTEP_LIKELY(address != nullptr &&
                      reinterpret_cast<uintptr_t>(caller) - g_async_error.begin < g_async_error.bytes)) {
    return reinterpret_cast<int (*)(NcclComm, int*)>(address)(handle, error);
  }
  return AsyncErrorForHost(handle, error, caller);
}
