// CUDA graphs: the operations captured into a graph, and each launch, which issues them again without an NCCL call. The
// only CUDA query is whether a stream is capturing, which is allowed during capture. The recorder adds nothing to a
// graph.
#pragma once

#include "recorder/core/gpu_marks.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {

// Number of captures that have begun and not ended, if CUDA calls are recorded.
extern uint32_t g_captures;
inline bool Capturing() noexcept { return LOCKSTEP_UNLIKELY(Load(&g_captures) != 0); }

// Returns whether the stream is capturing, and into which graph. Checked before markers are written, and while a
// capture is active.
Capture LookForCapture(const StreamLocal& stream, uint64_t* graph) noexcept;

// An operation that NCCL accepted on a capturing stream.
struct CapturedOp {
  ring::CallKind kind;
  uint8_t datatype, reduction;
  int32_t root_or_peer;
  uint64_t count;
  const CommLocal* comm;
  uint32_t stream;
  uint32_t group;
  CallSite site;
};
void AddCapturedOp(uint64_t capture, const CapturedOp& op) noexcept;
// Called if a group with captured operations failed or was simulated, because the graph's contents are then unknown.
void SpoilCapture(uint64_t capture) noexcept;

// These are called after the CUDA call succeeded. The exception is NoteCaptureEnding, which is called before it and
// returns the argument of NoteCaptureEnded.
void NoteCaptureBegun(const void* stream) noexcept;
uint64_t NoteCaptureEnding(const void* stream) noexcept;
void NoteCaptureEnded(uint64_t capture, const void* graph) noexcept;  // graph null if the capture failed
void NoteInstantiated(const void* graph, const void* made) noexcept;  // also for clones
void NoteExecUpdated(const void* exec, const void* graph) noexcept;
void NoteChildAdded(const void* graph, const void* child) noexcept;
// Called before a handle is destroyed. Returns the argument of KeepGraphHandle, for a call that fails.
uint64_t ForgetGraphHandle(const void* handle) noexcept;
void KeepGraphHandle(const void* handle, uint64_t forgotten) noexcept;

struct LaunchInFlight {
  ThreadState* thread;
  uint32_t graph, stream;
  uint64_t number, ticket, into;  // into: the capture that contains the launch
  uint64_t first_slot, slots;
  uint32_t epoch;
  bool captured, mark, waiting;
};
// Returns false if the graph is unknown; EndLaunch must then not be called.
bool BeginLaunch(const void* exec, const void* stream, LaunchInFlight* flight) noexcept;
void EndLaunch(LaunchInFlight* flight, int result) noexcept;

void ForgetGraphs() noexcept;  // in a forked child

}  // namespace lockstep::recorder
