#include "tests/standin/cuda/capture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

namespace standin {

// A sequence of captured work, over all streams that joined the capture.
struct Capture {
  uint64_t id = 0;
  int mode = kModeGlobal;
  const void* thread = nullptr;  // the thread that began the capture
  const Stream* origin = nullptr;
  std::shared_ptr<Graph> graph;
  bool invalidated = false;
  std::map<const Stream*, std::vector<size_t>> frontier;  // indexed by stream: its newest nodes in the capture
};

namespace {

struct State {
  std::mutex mutex;
  uint64_t captures_begun = 0;
  std::map<const Stream*, std::shared_ptr<Capture>> of_stream;
  std::vector<std::shared_ptr<Capture>> active;
  std::unordered_map<void*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<void*, std::shared_ptr<GraphExec>> execs;
  std::mutex launches;  // held during a launch, so that launches run in the order of their numbers
};

State& TheState() {
  static auto* state = new State;
  return *state;
}

std::atomic<int> active_captures{0};
thread_local char this_thread;
thread_local int this_mode = kModeGlobal;

// Returns the stream's capture. The caller holds the mutex.
std::shared_ptr<Capture> Of(State& state, const Stream* stream) {
  const auto at = state.of_stream.find(stream);
  return at == state.of_stream.end() ? nullptr : at->second;
}

// Returns a capture of a blocking stream on the legacy stream's device; null if there is none. The caller holds the
// mutex.
std::shared_ptr<Capture> Implied(State& state, const Stream& legacy) {
  for (const auto& [stream, capture] : state.of_stream) {
    if (!StreamNonBlocking(*stream) && StreamDevice(*stream) == StreamDevice(legacy)) {
      return capture;
    }
  }
  return nullptr;
}

std::vector<size_t> Leaves(const std::vector<GraphNode>& nodes, size_t from) {
  std::vector<bool> followed(nodes.size(), false);
  for (size_t i = from; i < nodes.size(); ++i) {
    for (const size_t before : nodes[i].after) {
      followed[before] = true;
    }
  }
  std::vector<size_t> leaves;
  for (size_t i = from; i < nodes.size(); ++i) {
    if (!followed[i]) {
      leaves.push_back(i);
    }
  }
  return leaves;
}

// Appends a copy of `more`, whose first nodes follow the nodes `after`.
void AppendNodes(const std::vector<GraphNode>& more, const std::vector<size_t>& after, std::vector<GraphNode>* nodes) {
  const size_t first = nodes->size();
  for (GraphNode copy : more) {
    for (size_t& before : copy.after) {
      before += first;
    }
    if (copy.after.empty()) {
      copy.after = after;
    }
    nodes->push_back(std::move(copy));
  }
}

void MakeLanes(GraphExec* exec) {
  for (const GraphNode& node : exec->nodes) {
    const auto known =
        std::find_if(exec->lanes.begin(), exec->lanes.end(), [&](const auto& lane) { return lane.first == node.lane; });
    if (known == exec->lanes.end()) {
      exec->lanes.push_back({node.lane, CreateStream(exec->device, true, false)});
    }
  }
}

}  // namespace

GraphExec::~GraphExec() {
  for (const auto& [captured, own] : lanes) {
    DestroyStream(own);  // the stream's launched work still runs
  }
}

void AddChild(const Graph& child, Graph* graph) {
  const std::vector<GraphNode> nodes = child.nodes;  // a copy, because the child may be the graph itself
  AppendNodes(nodes, Leaves(graph->nodes, 0), &graph->nodes);
}

bool AnyCapture() { return active_captures.load(std::memory_order_acquire) != 0; }

void* KeepGraph(std::shared_ptr<Graph> graph) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  void* handle = graph.get();
  state.graphs[handle] = std::move(graph);
  return handle;
}

std::shared_ptr<Graph> FindGraph(void* handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto at = state.graphs.find(handle);
  return at == state.graphs.end() ? nullptr : at->second;
}

bool ForgetGraph(void* handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.graphs.erase(handle) != 0;
}

void* Instantiate(const Graph& graph) {
  auto exec = std::make_shared<GraphExec>();
  exec->nodes = graph.nodes;
  exec->device = CurrentDevice();
  MakeLanes(exec.get());
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  void* handle = exec.get();
  state.execs[handle] = std::move(exec);
  return handle;
}

bool UpdateExec(void* handle, const Graph& graph) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto at = state.execs.find(handle);
  if (at == state.execs.end() || at->second->nodes.size() != graph.nodes.size()) {
    return false;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (at->second->nodes[i].after != graph.nodes[i].after) {
      return false;
    }
  }
  at->second->nodes = graph.nodes;
  MakeLanes(at->second.get());
  return true;
}

bool KnownExec(void* handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.execs.count(handle) != 0;
}

bool ForgetExec(void* handle) {
  State& state = TheState();
  std::shared_ptr<GraphExec> exec;  // destroyed, with its streams, after the lock is released
  const std::lock_guard lock(state.mutex);
  const auto at = state.execs.find(handle);
  if (at == state.execs.end()) {
    return false;
  }
  exec = std::move(at->second);
  state.execs.erase(at);
  return true;
}

int LaunchExec(void* handle, const std::shared_ptr<Stream>& stream) {
  State& state = TheState();
  std::shared_ptr<GraphExec> exec;
  {
    const std::lock_guard lock(state.mutex);
    const auto at = state.execs.find(handle);
    if (at == state.execs.end()) {
      return 400;
    }
    exec = at->second;
    if (const auto capture = Of(state, stream.get())) {
      std::vector<GraphNode>& nodes = capture->graph->nodes;
      const size_t first = nodes.size();
      AppendNodes(exec->nodes, capture->frontier[stream.get()], &nodes);
      if (nodes.size() > first) {
        capture->frontier[stream.get()] = Leaves(nodes, first);
      }
      return 0;
    }
  }
  const std::lock_guard lock(state.launches);
  const StreamPoint begin = Enqueue(stream, {});
  std::vector<StreamPoint> points;
  for (const GraphNode& node : exec->nodes) {
    std::vector<StreamPoint> after;
    for (const size_t before : node.after) {
      after.push_back(points[before]);
    }
    if (after.empty()) {
      after.push_back(begin);
    }
    void* own = nullptr;
    for (const auto& [captured, lane] : exec->lanes) {
      if (captured == node.lane) {
        own = lane;
      }
    }
    points.push_back(Enqueue(FindStream(own), node.make ? node.make() : std::function<void()>(), std::move(after)));
  }
  std::vector<StreamPoint> ends;
  for (const size_t leaf : Leaves(exec->nodes, 0)) {
    ends.push_back(points[leaf]);
  }
  Enqueue(stream, {}, std::move(ends));
  return 0;
}

int BeginCapture(const std::shared_ptr<Stream>& stream, int mode, std::shared_ptr<Graph> into) {
  if (mode < kModeGlobal || mode > kModeRelaxed) {
    return 1;
  }
  if (StreamIsLegacy(*stream)) {
    return kCaptureUnsupported;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Of(state, stream.get())) {
    return 1;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = ++state.captures_begun;
  capture->mode = mode;
  capture->thread = &this_thread;
  capture->origin = stream.get();
  capture->graph = into ? std::move(into) : std::make_shared<Graph>();
  capture->frontier[stream.get()] = {};
  state.of_stream[stream.get()] = capture;
  state.active.push_back(capture);
  active_captures.fetch_add(1, std::memory_order_release);
  return 0;
}

int EndCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto capture = Of(state, stream.get());
  if (!capture) {
    return 1;
  }
  if (capture->origin != stream.get()) {
    return kCaptureUnmatched;
  }
  if (capture->mode != kModeRelaxed && capture->thread != &this_thread) {
    return kCaptureWrongThread;
  }
  // Every stream that joined must have been joined back: some work of the origin must follow the stream's last work.
  bool joined = true;
  std::vector<bool> reached(capture->graph->nodes.size(), false);
  std::vector<size_t> open = capture->frontier[stream.get()];
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (reached[node]) {
      continue;
    }
    reached[node] = true;
    open.insert(open.end(), capture->graph->nodes[node].after.begin(), capture->graph->nodes[node].after.end());
  }
  for (const auto& [other, nodes] : capture->frontier) {
    for (const size_t node : nodes) {
      joined = joined && reached[node];
    }
  }
  for (auto at = state.of_stream.begin(); at != state.of_stream.end();) {
    at = at->second == capture ? state.of_stream.erase(at) : std::next(at);
  }
  state.active.erase(std::find(state.active.begin(), state.active.end(), capture));
  active_captures.fetch_sub(1, std::memory_order_release);
  if (capture->invalidated) {
    return kCaptureInvalidated;
  }
  if (!joined) {
    return kCaptureUnjoined;
  }
  *graph = capture->graph;
  return 0;
}

int CaptureStatus(const std::shared_ptr<Stream>& stream, int* status, uint64_t* id) {
  *status = 0;
  if (!AnyCapture()) {
    return 0;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (StreamIsLegacy(*stream)) {
    return Implied(state, *stream) ? kCaptureImplicit : 0;
  }
  if (const auto capture = Of(state, stream.get())) {
    *status = capture->invalidated ? 2 : 1;
    *id = capture->id;
  }
  return 0;
}

int ExchangeMode(int mode) {
  const int before = this_mode;
  this_mode = mode;
  return before;
}

int CheckUse(const std::shared_ptr<Stream>& stream) {
  if (!AnyCapture()) {
    return 0;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (StreamIsLegacy(*stream)) {
    if (const auto capture = Implied(state, *stream)) {
      capture->invalidated = true;
      return kCaptureImplicit;
    }
    return 0;
  }
  const auto capture = Of(state, stream.get());
  return capture && capture->invalidated ? kCaptureInvalidated : 0;
}

int CheckWait(const std::shared_ptr<Stream>& stream) {
  if (!AnyCapture()) {
    return 0;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (const auto capture = StreamIsLegacy(*stream) ? Implied(state, *stream) : Of(state, stream.get())) {
    capture->invalidated = true;
    return StreamIsLegacy(*stream) ? kCaptureImplicit : kCaptureUnsupported;
  }
  return 0;
}

int CheckUnsafe() {
  if (!AnyCapture() || this_mode == kModeRelaxed) {
    return 0;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  int result = 0;
  for (const auto& capture : state.active) {
    const bool own = capture->thread == &this_thread && capture->mode != kModeRelaxed;
    const bool others = this_mode == kModeGlobal && capture->mode == kModeGlobal;
    if (own || others) {
      capture->invalidated = true;
      result = kCaptureUnsupported;
    }
  }
  return result;
}

int CheckEvent(const StreamPoint& point) {
  if (!point.capture) {
    return CheckUnsafe();
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  point.capture->invalidated = true;
  return kCapturedEvent;
}

int CheckStreamWait(const std::shared_ptr<Stream>& stream, const StreamPoint& point) {
  if (const int used = CheckUse(stream)) {
    return used;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto own = Of(state, stream.get());
  if (!point.capture) {
    if (own && point.stream && !Reached(point)) {
      own->invalidated = true;
      return kCaptureIsolation;
    }
    return 0;
  }
  if (StreamIsLegacy(*stream)) {
    point.capture->invalidated = true;
    return kCaptureImplicit;
  }
  if (own && own != point.capture) {
    own->invalidated = point.capture->invalidated = true;
    return kCaptureMerge;
  }
  const bool over = std::find(state.active.begin(), state.active.end(), point.capture) == state.active.end();
  if (over) {
    return kCaptureIsolation;
  }
  if (!own) {
    state.of_stream[stream.get()] = point.capture;
    point.capture->frontier[stream.get()] = {};
  }
  return 0;
}

std::shared_ptr<Capture> CaptureOf(const std::shared_ptr<Stream>& stream) {
  if (!AnyCapture()) {
    return nullptr;
  }
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return Of(state, stream.get());
}

bool AppendToCapture(const std::shared_ptr<Stream>& stream, Make make, const std::vector<StreamPoint>& after,
                     StreamPoint* point) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto capture = Of(state, stream.get());
  if (!capture) {
    return false;
  }
  GraphNode node;
  node.make = std::move(make);
  node.after = capture->frontier[stream.get()];
  node.lane = stream.get();
  for (const StreamPoint& before : after) {
    if (before.capture == capture) {
      node.after.push_back(before.node);
    }
  }
  std::sort(node.after.begin(), node.after.end());
  node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
  const size_t number = capture->graph->nodes.size();
  capture->graph->nodes.push_back(std::move(node));
  capture->frontier[stream.get()] = {number};
  *point = {};
  point->stream = stream;
  point->capture = capture;
  point->node = number;
  return true;
}

}  // namespace standin
