// Stream capture and graphs of the CPU stand-in: streams that record instead of running, the graphs that come of it,
// and their launches. The rules are CUDA's (capture modes, joined streams, implicit dependencies); what is forbidden
// during a capture returns CUDA's error and spoils the capture, as the driver does.
#ifndef LOCKSTEP_TESTS_STANDIN_CUDA_CAPTURE_H_
#define LOCKSTEP_TESTS_STANDIN_CUDA_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/standin/cuda/engine.h"

namespace standin {

// CUDA's numbers, the same in the runtime and the driver.
inline constexpr int kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureMerge = 902, kCaptureUnmatched = 903,
                     kCaptureUnjoined = 904, kCaptureIsolation = 905, kCaptureImplicit = 906, kCapturedEvent = 907,
                     kCaptureWrongThread = 908;
inline constexpr int kModeGlobal = 0, kModeThreadLocal = 1, kModeRelaxed = 2;

struct GraphNode {
  Make make;
  std::vector<size_t> after;
  const void* lane = nullptr;  // the stream it was captured on: nodes of one run one after another
};

struct Graph {
  std::vector<GraphNode> nodes;
};

struct GraphExec {
  std::vector<GraphNode> nodes;
  std::vector<std::pair<const void*, void*>> lanes;  // captured stream, and its replacement
  int device = 0;
  ~GraphExec();
};

// Handles. Null where there is no such thing.
STANDIN_EXPORT void* KeepGraph(std::shared_ptr<Graph> graph);
STANDIN_EXPORT std::shared_ptr<Graph> FindGraph(void* handle);
STANDIN_EXPORT bool ForgetGraph(void* handle);
STANDIN_EXPORT void* Instantiate(const Graph& graph);
STANDIN_EXPORT bool UpdateExec(void* handle, const Graph& graph);  // false: another shape
STANDIN_EXPORT bool KnownExec(void* handle);
STANDIN_EXPORT bool ForgetExec(void* handle);
// 0, or an error. On a stream that captures the nodes become part of that capture.
STANDIN_EXPORT int LaunchExec(void* handle, const std::shared_ptr<Stream>& stream);

// 0, or an error. `into`: a graph to add to, or null.
STANDIN_EXPORT int BeginCapture(const std::shared_ptr<Stream>& stream, int mode, std::shared_ptr<Graph> into);
STANDIN_EXPORT int EndCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph);
// 0 none, 1 active, 2 invalidated; *id as CUDA numbers captures. An error for the legacy stream while a blocking one
// captures.
STANDIN_EXPORT int CaptureStatus(const std::shared_ptr<Stream>& stream, int* status, uint64_t* id);
STANDIN_EXPORT int ExchangeMode(int mode);

// Before anything is put on the stream: 0, or why it cannot be, in which case captures may have been spoilt.
STANDIN_EXPORT int CheckUse(const std::shared_ptr<Stream>& stream);
// Before a stream is synchronised or queried.
STANDIN_EXPORT int CheckWait(const std::shared_ptr<Stream>& stream);
// Before a call that CUDA calls unsafe (allocation, registration, synchronisation of a device, a blocking copy, a query
// of an event).
STANDIN_EXPORT int CheckUnsafe();
// Before an event that was recorded at `point` is queried or synchronised.
STANDIN_EXPORT int CheckEvent(const StreamPoint& point);
// Before a stream is made to wait for `point`; takes the stream into the capture that the point belongs to.
STANDIN_EXPORT int CheckStreamWait(const std::shared_ptr<Stream>& stream, const StreamPoint& point);
// The capture that the stream is part of, else null.
STANDIN_EXPORT std::shared_ptr<Capture> CaptureOf(const std::shared_ptr<Stream>& stream);

// Used by Enqueue: false where the stream does not capture.
bool AppendToCapture(const std::shared_ptr<Stream>& stream, Make make, const std::vector<StreamPoint>& after,
                     StreamPoint* point);
// Whether anything in this process captures: one load.
bool AnyCapture();

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_CUDA_CAPTURE_H_
