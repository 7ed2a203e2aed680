// Stream capture and graphs of the CPU stand-in: capturing streams record operations instead of running them, and
// launches run the resulting graphs. The rules for modes, joined streams and implicit dependencies are CUDA's. A call
// that CUDA forbids during a capture returns CUDA's error and invalidates the capture, as in the driver.
#pragma once

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
  const void* lane = nullptr;  // the captured stream; nodes of one lane run one after another
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

// Handles of graphs. For an unknown handle, FindGraph returns null and the functions that return bool return false.
STANDIN_EXPORT void* KeepGraph(std::shared_ptr<Graph> graph);
STANDIN_EXPORT std::shared_ptr<Graph> FindGraph(void* handle);
STANDIN_EXPORT bool ForgetGraph(void* handle);
// Adds a copy of the child's nodes, which run after all nodes that the graph has already.
STANDIN_EXPORT void AddChild(const Graph& child, Graph* graph);
STANDIN_EXPORT void* Instantiate(const Graph& graph);
STANDIN_EXPORT bool UpdateExec(void* handle, const Graph& graph);  // false: the graph has another shape
STANDIN_EXPORT bool KnownExec(void* handle);
STANDIN_EXPORT bool ForgetExec(void* handle);
// Launches the graph and returns 0 or an error. On a capturing stream, the nodes become part of that capture.
STANDIN_EXPORT int LaunchExec(void* handle, const std::shared_ptr<Stream>& stream);

// Begins a capture and returns 0 or an error. `into` is a graph to add to, or null.
STANDIN_EXPORT int BeginCapture(const std::shared_ptr<Stream>& stream, int mode, std::shared_ptr<Graph> into);
STANDIN_EXPORT int EndCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph);
// Sets `*status` to 0 (no capture), 1 (active) or 2 (invalidated), and `*id` to CUDA's number of the capture. Returns
// an error for the legacy stream while a blocking stream captures.
STANDIN_EXPORT int CaptureStatus(const std::shared_ptr<Stream>& stream, int* status, uint64_t* id);
STANDIN_EXPORT int ExchangeMode(int mode);

// Call before putting work on a stream. Returns 0, or an error; an error may have invalidated captures.
STANDIN_EXPORT int CheckUse(const std::shared_ptr<Stream>& stream);
// Call before synchronizing or querying a stream.
STANDIN_EXPORT int CheckWait(const std::shared_ptr<Stream>& stream);
// Call before anything that CUDA calls unsafe: an allocation, a registration, a device synchronization, a blocking
// copy, or an event query.
STANDIN_EXPORT int CheckUnsafe();
// Call before querying or synchronizing an event that was recorded at `point`.
STANDIN_EXPORT int CheckEvent(const StreamPoint& point);
// Call before making a stream wait for `point`. The stream joins the capture that `point` belongs to.
STANDIN_EXPORT int CheckStreamWait(const std::shared_ptr<Stream>& stream, const StreamPoint& point);
// Returns the capture that the stream is part of, or null.
STANDIN_EXPORT std::shared_ptr<Capture> CaptureOf(const std::shared_ptr<Stream>& stream);

// For Enqueue. Returns false if the stream is not capturing.
bool AppendToCapture(const std::shared_ptr<Stream>& stream, Make make, const std::vector<StreamPoint>& after,
                     StreamPoint* point);
// Returns whether any stream of this process captures. Costs one load.
bool AnyCapture();

}  // namespace standin
