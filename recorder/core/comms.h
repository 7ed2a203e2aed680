// The communicator table: entries, handles, and handles that a split or shrink delivers later.
#pragma once

#include "recorder/core/process.h"

namespace lockstep::recorder {

// What is known about a communicator before NCCL creates it.
struct CommPlan {
  ring::CallKind origin = ring::CallKind::kNone;
  uint64_t id = 0;
  uint64_t magic = 0;
  uint64_t root_hash = 0;
  uint32_t root_use = 0;
  const CommLocal* parent = nullptr;
  uint32_t ordinal = 0;
  int32_t member_rank = -1, size = -1;
  int32_t color = 0, key = 0;
  const int32_t* excluded = nullptr;
  int32_t excluded_total = 0;
  int32_t device = -1;
  const char* name = nullptr;
  bool nonblocking = false;
};

// Publishes that the collectives up to `seq` are issued. A reader that finds issued_seq and issued_check equal in two
// reads has the matching hash.
inline void PublishIssued(ring::CommEntry* entry, uint64_t before, uint64_t seq, uint64_t hash, uint64_t now) noexcept {
  StoreRelease(&entry->issued_seq, seq);
  FenceRelease();
  Store(&entry->signature_hash, hash);
  Store(&entry->issued_ticks, now);
  StoreRelease(&entry->issued_check, seq);
  if (LOCKSTEP_LIKELY(seq / ring::kCheckpointEvery == before / ring::kCheckpointEvery)) return;
  ring::Checkpoint* checkpoint = &entry->checkpoints[seq / ring::kCheckpointEvery % ring::kCheckpoints];
  StoreRelease(&checkpoint->seq, uint64_t{0});
  FenceRelease();
  Store(&checkpoint->hash, hash);
  StoreRelease(&checkpoint->seq, seq);
}
// Restores an earlier sequence number and its hash. May be called twice.
inline void TakeBackIssued(ring::CommEntry* entry, uint64_t seq, uint64_t hash) noexcept {
  for (ring::Checkpoint& checkpoint : entry->checkpoints) {
    if (checkpoint.seq > seq) Store(&checkpoint.seq, uint64_t{0});
  }
  StoreRelease(&entry->issued_seq, seq);
  FenceRelease();
  Store(&entry->signature_hash, hash);
  StoreRelease(&entry->issued_check, seq);
}

// Writes an entry in the state "initializing". Returns null, and counts this, if the table is full of communicators in
// use.
CommLocal* NewComm(const CommPlan& plan) noexcept;

// Returns how many members with `rank` this process has created from a unique ID with this hash.
uint32_t RootUses(uint64_t root_hash, int32_t rank) noexcept;

// Called when NCCL has returned the handle. A reused handle value gets the next generation.
void BindHandle(CommLocal* comm, const void* handle) noexcept;

// Called when the communicator is usable. Calls NCCL for rank, size and device if they are unknown. Only for a handle
// that the program used or that NCCL has just stored, because an old variable may contain anything.
void CommIsReady(CommLocal* comm) noexcept;
void CommEnded(CommLocal* comm, ring::CommState state) noexcept;
void SetCommState(CommLocal* comm, ring::CommState state) noexcept;
void SetCommId(CommLocal* comm, uint64_t id, uint64_t magic) noexcept;
// The next three are called for communicators that NCCL's profiler interface reports.
void SetCommFlags(CommLocal* comm, uint32_t flags) noexcept;
void SetCommName(CommLocal* comm, const char* name) noexcept;
void SetCommReady(CommLocal* comm) noexcept;  // without calling NCCL
void NoteAsyncError(CommLocal* comm, int32_t error) noexcept;

// Called if NCCL will store the handle of `comm` at `place`. NCCL does so during the call, at the group's end, or when
// `parent` is ready (kNone if there is none). The variable is read through the kernel, because it may be unmapped.
void AwaitHandle(CommLocal* comm, void** place, uint32_t parent) noexcept;
// Binds the handle if NCCL has stored it; returns false if not.
bool BindStored(CommLocal* comm) noexcept;
// Called when `parent` is ready again after background work, because its children's handles are stored then.
void BindChildren(const CommLocal* parent) noexcept;
// Called when the background work failed or the parent ended, because a child without a stored handle will not get one.
void DropChildren(const CommLocal* parent) noexcept;

bool HasPending() noexcept;
void ForgetPending() noexcept;  // in a forked child

// Returns the communicator of a handle; null if unknown. Unlike FindComm, creates no entry and uses no cache.
inline CommLocal* KnownComm(const void* handle) noexcept {
  const uint32_t used = Load(&g.comms_used);
  for (uint32_t i = 0; i < used && i < ring::kMaxComms; ++i) {
    if (LoadAcquire(&g_tables.comm_handles[i]) == handle) return handle != nullptr ? &g_tables.comms[i] : nullptr;
  }
  return nullptr;
}

CommLocal* FindCommSlow(ThreadState* thread, const void* handle, bool create) noexcept;

inline ThreadState::Cached& CommCache(ThreadState* thread, const void* handle) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  return thread->comms[(value >> 4 ^ value >> 12) & 7];
}

// Returns the communicator of a handle in use. If its creation was not recorded, creates an entry without identity.
inline CommLocal* FindComm(ThreadState* thread, const void* handle) noexcept {
  const ThreadState::Cached& cached = CommCache(thread, handle);
  if (LOCKSTEP_LIKELY(cached.key == handle && Load(&g_tables.comm_handles[cached.index]) == handle &&
                      handle != nullptr)) {
    return &g_tables.comms[cached.index];
  }
  return FindCommSlow(thread, handle, true);
}

}  // namespace lockstep::recorder
