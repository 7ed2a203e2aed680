// Matches events to operations. A recorded CPU call keeps its single record. An event creates a record only if the call
// was not recorded (statically linked NCCL).
#pragma once

#include "recorder/core/process.h"
#include "recorder/core/profiler_events.h"

namespace lockstep::recorder::profiler {

// Starts recording unless something prevents it. Returns whether the process records. A process that only the profiler
// reports gets no GPU progress markers.
bool StartForProfiler() noexcept;

// Contexts. A communicator whose creation was recorded is found by its identity, and others at their first operation.
Handle NewContext(const CommFacts& facts) noexcept;
uint32_t ForgetContext(Handle context) noexcept;  // returns the index of the context's communicator, or kNone
void ForgetContexts() noexcept;
uint32_t CommOfContext(Handle context) noexcept;  // kNone while unknown
// Connects the context to the communicator of a CPU call.
void Bind(Handle context, uint32_t comm) noexcept;
// Like CommOfContext, but creates a communicator if none is known.
CommLocal* OwnComm(Handle context, int rank, uint64_t hash) noexcept;
bool IsOwn(uint32_t comm) noexcept;  // whether OwnComm or NewContext created the communicator

struct Identity {
  uint32_t comm = kNone;
  ring::CallKind kind = ring::CallKind::kNone;
  uint64_t seq = 0;  // 0 if no record was found
  bool captured = false;
};
Identity Identify(Handle context, Handle parent, const Task& task) noexcept;

// Returns the operation of the CPU call that the calling thread is in; comm is kNone if there is none.
Identity CurrentCall() noexcept;

// Returns the number of the operation that NCCL launches now on the communicator, from 1.
uint64_t NextOrder(uint32_t comm) noexcept;
void NoteCompleted(uint32_t comm, uint64_t order) noexcept;
uint64_t CompletedOrder(uint32_t comm) noexcept;

// Records an operation without a CPU call and returns the record's number, or 0 if there was no room.
uint64_t RecordOwn(CommLocal* comm, const Task& task, const void* stream) noexcept;

void BeginGroupEndOf(Handle group) noexcept;
void EndGroupOf(Handle group) noexcept;
void EndApi(Handle api) noexcept;

}  // namespace lockstep::recorder::profiler
