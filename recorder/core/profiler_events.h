// Records NCCL's profiler events for every interface version: communicators, operations, kernels, network steps. Runs
// on the program's threads, NCCL's own threads and the driver's callback thread. Never blocks, never allocates, and
// never dereferences a pointer that NCCL passes back. Handles are numbers with an index and a stamp, so that stale,
// foreign and invalid ones are rejected.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/calls.h"

namespace lockstep::recorder {

struct CommLocal;
struct Op;

namespace profiler {

using Handle = uint64_t;  // 0 for none

// A communicator as init reports it. Versions 1 to 3 report only that it exists.
struct CommFacts {
  bool known;
  uint64_t id;
  const char* name;
  int size, rank;
};
// Returns false if the events are not wanted; NCCL must then not be asked for them. *context may be 0 in both cases.
bool BeginComm(int version, const CommFacts& facts, int* mask, Handle* context) noexcept;
void EndComm(Handle context) noexcept;

// An operation as NCCL launches it.
struct Task {
  ring::CallKind kind;
  int datatype;      // ncclDataType_t; -1 if unknown
  int root_or_peer;  // -1 if there is none
  int rank;          // member rank that it belongs to
  uint64_t count;    // in NCCL's own datatype, which is bytes for some operations
  const void* send;
  const void* recv;
  uint64_t comm_hash;  // only in versions 1 to 3, otherwise 0
  int channels;
  bool copy_engine;
};
Handle BeginTask(Handle context, Handle parent, const Task& task) noexcept;

// The CPU call (version 5 and newer); only it has `stream` and `captured`.
struct Api {
  ring::CallKind kind;
  int datatype;
  int root;  // -1 if there is none
  int rank;
  uint64_t count;
  const void* stream;
  bool captured;
  bool point_to_point;  // the peer is not reported
};
Handle BeginApi(Handle context, const Api& api) noexcept;
Handle BeginGroupApi(Handle context, int depth) noexcept;

Handle BeginProxyOp(Handle context, Handle parent, int rank, int pid, int channel, int peer, int steps,
                    bool send) noexcept;
Handle BeginProxyStep(Handle parent, int step) noexcept;
Handle BeginKernel(Handle parent, int channel, uint64_t gpu_ns) noexcept;

void NoteState(Handle handle, int state, uint64_t gpu_ns) noexcept;
void EndEvent(Handle handle) noexcept;

// Returns the kind for a name that NCCL uses; kOtherCollective for unknown ones.
ring::CallKind KindOf(const char* func) noexcept;
int DatatypeOf(const char* name) noexcept;
ring::CallKind KindOf(uint8_t func) noexcept;  // version 1
int DatatypeOf(uint8_t datatype) noexcept;
unsigned BytesOf(int datatype) noexcept;  // 0 if unknown

// Called by the core for a CPU call if the interface version requires matching events by their contents.
void NotePending(const CommLocal* comm, const Op& op, uint64_t seq) noexcept;

// In a forked child.
void ForgetEvents() noexcept;

}  // namespace profiler
}  // namespace lockstep::recorder
