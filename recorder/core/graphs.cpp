#include "recorder/core/graphs.h"

#include "recorder/base/driver.h"
#include "recorder/base/signature.h"
#include "recorder/core/comms.h"
#include "recorder/core/ops.h"
#include "recorder/core/slots.h"
#include "recorder/core/streams.h"

namespace lockstep::recorder {

uint32_t g_captures;

namespace {

using ring::CallKind;
using ring::GraphCell;
using ring::GraphState;
using ring::OpStage;

enum Direction : uint8_t { kCollectives = 0, kSends = 1, kReceives = 2 };

// What one launch adds to one numbering (ring::ReplayLane).
struct Lane {
  CommLocal* comm;
  uint64_t comm_created;
  ring::PeerEntry* peer_entry;
  RolledSteps steps;  // what the collectives add to the signature hash
  int32_t peer;
  uint32_t operations;
  Direction direction;
  // The values before the current launch, to be restored if the launch fails.
  uint64_t before_issued, before_hash;
};

struct GraphLocal {
  GraphCell* cell;
  uint32_t busy;     // 1 while one thread adds an operation; another thread's operation is then only counted
  uint32_t last_op;  // index in kGraphOps of the operation added last; kNone at first
  uint32_t lanes;
  bool unnumbered;  // a launch reports no sequence numbers, because they are unknown
};

// As many graphs as the largest file's table. Pages of unused graphs are never touched.
GraphLocal g_graphs[ring::kMaxGraphs];
Lane g_lanes[ring::kMaxGraphs][ring::kMaxGraphLanes];
uint32_t g_graphs_used;
uint32_t g_next_op;

// Maps the handles of graphs and executable graphs to GraphLocal. A key whose value is 0 may be reused.
struct Handle {
  const void* key;
  uint64_t value;  // use << 32 | graph + 1
};
constexpr uint32_t kHandles = 4096, kHandleProbes = 32;
Handle g_handles[kHandles];
uint32_t g_handles_used;  // 1 once a handle was mapped: a program without relevant graphs searches nothing

// Captures in progress, by the stream that began them, because CUDA does not return the number of an invalidated
// capture.
struct OpenCapture {
  uint64_t capture;  // 0: free
  const void* stream;
};
OpenCapture g_open_captures[16];

// Returns 0 if the stream is not capturing, or if this is unknown.
uint64_t CaptureOn(const void* stream) noexcept {
  uint64_t capture = 0;
  StreamLocal asked{};
  ring::StreamCell cell{};
  cell.handle = reinterpret_cast<uintptr_t>(stream);
  asked.cell = &cell;
  return LookForCapture(asked, &capture) == Capture::kYes ? capture : 0;
}

bool HasState(const GraphCell* cell, GraphState state) noexcept {
  return Load(&cell->state) == static_cast<uint32_t>(state);
}
void SetState(GraphCell* cell, GraphState state) noexcept { StoreRelease(&cell->state, static_cast<uint32_t>(state)); }

uint32_t HandleSlot(const void* handle) noexcept {
  return static_cast<uint32_t>(Mix(reinterpret_cast<uintptr_t>(handle)) % kHandles);
}

Handle* FindHandle(const void* handle) noexcept {
  if (Load(&g_handles_used) == 0) return nullptr;
  const uint32_t first = HandleSlot(handle);
  for (uint32_t probe = 0; probe < kHandleProbes; ++probe) {
    Handle* entry = &g_handles[(first + probe) % kHandles];
    const void* key = LoadAcquire(&entry->key);
    if (key == handle && LoadAcquire(&entry->value) != 0) return entry;
    if (key == nullptr) return nullptr;
  }
  return nullptr;
}

uint32_t GraphOfHandle(const void* handle) noexcept {
  const Handle* entry = FindHandle(handle);
  if (entry == nullptr) return kNone;
  const uint64_t value = LoadAcquire(&entry->value);
  const auto graph = static_cast<uint32_t>(value) - 1;
  return graph < g.map.capacities.graphs && Load(&g.map.graphs[graph].use) == value >> 32 ? graph : kNone;
}

void DropHandle(uint32_t graph) noexcept {
  GraphCell* cell = &g.map.graphs[graph];
  const uint32_t before = Add(&cell->handles, UINT32_MAX);
  if (before != 1) return;
  Store(&cell->ended_ticks, Now());
  SetState(cell, GraphState::kEnded);
}

void MapHandle(const void* handle, uint32_t graph) noexcept {
  ForgetGraphHandle(handle);
  if (graph == kNone || handle == nullptr) return;
  GraphCell* cell = &g.map.graphs[graph];
  const uint64_t value = uint64_t{Load(&cell->use)} << 32 | (graph + 1);
  const uint32_t first = HandleSlot(handle);
  for (uint32_t probe = 0; probe < kHandleProbes; ++probe) {
    Handle* entry = &g_handles[(first + probe) % kHandles];
    const void* key = LoadAcquire(&entry->key);
    const bool free = key == nullptr || key == handle || Load(&entry->value) == 0;
    if (!free || (key != handle && !Swap<const void*>(&entry->key, key, handle))) continue;
    StoreRelease(&entry->value, value);
    Store(&g_handles_used, 1u);
    Add(&cell->handles, 1);
    if (HasState(cell, GraphState::kEnded)) SetState(cell, GraphState::kCaptured);
    return;
  }
  Add(&g.map.header->dropped_records, 1);
}

// Returns the graph that is being captured as `capture`, or kNone if nothing has been captured into it yet.
uint32_t CapturedAs(uint64_t capture) noexcept {
  const uint32_t used = Load(&g_graphs_used);
  for (uint32_t i = used; i > 0; --i) {
    const GraphCell* cell = &g.map.graphs[i - 1];
    if (LoadAcquire(&cell->state) == static_cast<uint32_t>(GraphState::kCapturing) && cell->id == capture) return i - 1;
  }
  return kNone;
}

void FreeOps(uint32_t graph) noexcept {
  for (uint32_t i = 0; i < g.map.capacities.graph_ops; ++i) {
    if (Load(&g.map.graph_ops[i].owner) == graph + 1) StoreRelease(&g.map.graph_ops[i].owner, 0u);
  }
}

// Returns an unused cell or, if there is none, the cell that ended longest ago; kNone if all are in use. Records of the
// old graph's launches then have no graph.
LOCKSTEP_COLD uint32_t NewGraph(uint64_t capture) noexcept {
  const uint32_t capacity = g.map.capacities.graphs;
  uint32_t index = Load(&g_graphs_used);
  while (index < capacity && !Swap(&g_graphs_used, index, index + 1)) index = Load(&g_graphs_used);
  if (index >= capacity) {
    index = kNone;
    for (uint32_t i = 0; i < capacity; ++i) {
      const GraphCell* cell = &g.map.graphs[i];
      if (!HasState(cell, GraphState::kEnded) && !HasState(cell, GraphState::kSpoilt)) continue;
      if (index == kNone || cell->ended_ticks < g.map.graphs[index].ended_ticks) index = i;
    }
    if (index == kNone) return kNone;
    uint32_t* state = &g.map.graphs[index].state;
    if (!Swap(state, Load(state), 0u)) return kNone;
    FreeOps(index);
  }
  GraphCell* cell = &g.map.graphs[index];
  const uint32_t use = cell->use + 1;
  Store(&cell->launches, uint64_t{0});
  for (ring::GraphLaunch& launch : cell->last) Store(&launch.number, uint64_t{0});
  cell->id = capture;
  cell->exec = 0;
  cell->ops = cell->ops_lost = cell->lanes = cell->handles = 0;
  cell->captured_ticks = cell->ended_ticks = 0;
  Store(&cell->use, use);
  g_graphs[index] = {cell, 0, kNone, 0, false};
  SetState(cell, GraphState::kCapturing);
  return index;
}

// Returns null if the table is full.
ring::GraphOp* NewOp() noexcept {
  const uint32_t capacity = g.map.capacities.graph_ops;
  const uint32_t first = Add(&g_next_op, 1);
  for (uint32_t probe = 0; probe < capacity; ++probe) {
    ring::GraphOp* op = &g.map.graph_ops[(first + probe) % capacity];
    if (Load(&op->owner) == 0 && Swap<uint32_t>(&op->owner, 0, UINT32_MAX)) return op;
  }
  return nullptr;
}

Lane* FindLane(uint32_t graph, const CommLocal* comm, Direction direction, int32_t peer) noexcept {
  GraphLocal* local = &g_graphs[graph];
  Lane* lanes = g_lanes[graph];
  const uint64_t created = comm->entry->created_ticks;
  for (uint32_t i = 0; i < local->lanes; ++i) {
    if (lanes[i].comm == comm && lanes[i].comm_created == created && lanes[i].direction == direction &&
        lanes[i].peer == peer)
      return &lanes[i];
  }
  if (local->lanes == ring::kMaxGraphLanes) return nullptr;
  Lane* lane = &lanes[local->lanes++];
  *lane = {};
  lane->steps = {1, 0};
  lane->comm = const_cast<CommLocal*>(comm);
  lane->comm_created = created;
  lane->direction = direction;
  lane->peer = peer;
  if (direction != kCollectives) lane->peer_entry = FindPeer(comm, peer);
  Store(&local->cell->lanes, local->lanes);
  return lane;
}

void AddToLane(uint32_t graph, const CapturedOp& op) noexcept {
  const bool collective = ring::IsCollective(op.kind);
  if (!collective && !ring::IsPointToPoint(op.kind)) {
    // One-sided operations get no number at launch, so they count as lost.
    Store(&g_graphs[graph].cell->ops_lost, g_graphs[graph].cell->ops_lost + 1);
    return;
  }
  Lane* lane = FindLane(graph, op.comm,
                        collective                   ? kCollectives
                        : op.kind == CallKind::kSend ? kSends
                                                     : kReceives,
                        collective ? -1 : op.root_or_peer);
  if (lane == nullptr) {
    g_graphs[graph].unnumbered = true;
    return;
  }
  ++lane->operations;
  if (collective) lane->steps.Add(SignatureOf(op.kind, op.datatype, op.reduction, op.root_or_peer, op.count));
}

void AddToGraph(uint32_t graph, const CapturedOp& op) noexcept {
  GraphLocal* local = &g_graphs[graph];
  GraphCell* cell = local->cell;
  AddToLane(graph, op);
  const uint32_t position = cell->ops;
  Store(&cell->ops, position + 1);
  const uint64_t created = op.comm->entry->created_ticks;
  if (local->last_op != kNone) {
    ring::GraphOp* last = &g.map.graph_ops[local->last_op];
    const bool alike = last->kind == static_cast<uint16_t>(op.kind) && last->comm == op.comm->index &&
                       last->stream == static_cast<uint16_t>(op.stream) && last->datatype == op.datatype &&
                       last->reduction == op.reduction && last->root_or_peer == op.root_or_peer &&
                       last->group == op.group && last->count == op.count && last->caller == op.site.offset &&
                       last->caller_object == op.site.object && last->comm_created == created;
    if (alike) {
      Store(&last->repeats, last->repeats + 1);
      return;
    }
  }
  ring::GraphOp* entry = NewOp();
  if (entry == nullptr) {
    Store(&cell->ops_lost, cell->ops_lost + 1);
    local->last_op = kNone;
    return;
  }
  entry->use = cell->use;
  entry->position = position;
  entry->repeats = 1;
  entry->kind = static_cast<uint16_t>(op.kind);
  entry->comm = static_cast<uint16_t>(op.comm->index);
  entry->stream = static_cast<uint16_t>(op.stream);
  entry->datatype = op.datatype;
  entry->reduction = op.reduction;
  entry->root_or_peer = op.root_or_peer;
  entry->group = op.group;
  entry->count = op.count;
  entry->caller = op.site.offset;
  entry->caller_object = op.site.object;
  entry->comm_created = created;
  local->last_op = static_cast<uint32_t>(entry - g.map.graph_ops);
  StoreRelease(&entry->owner, graph + 1);  // pairs with the reader, which takes entries whose owner it knows
}

// Appends everything in `from` to `to`, for a child graph or a launch under capture.
LOCKSTEP_COLD void Append(uint32_t to, uint32_t from) noexcept {
  GraphLocal* into = &g_graphs[to];
  if (to == from || !Swap<uint32_t>(&into->busy, 0, 1)) {
    into->unnumbered = true;
    return;
  }
  const GraphCell* source = g_graphs[from].cell;
  GraphCell* cell = into->cell;
  const uint32_t base = cell->ops;
  for (uint32_t i = 0; i < g_graphs[from].lanes; ++i) {
    const Lane& lane = g_lanes[from][i];
    Lane* own = FindLane(to, lane.comm, lane.direction, lane.peer);
    if (own == nullptr) {
      into->unnumbered = true;
      continue;
    }
    own->operations += lane.operations;
    own->steps.Add(lane.steps);
  }
  into->unnumbered |= g_graphs[from].unnumbered;
  uint32_t copied = 0;
  for (uint32_t i = 0; i < g.map.capacities.graph_ops; ++i) {
    const ring::GraphOp* op = &g.map.graph_ops[i];
    if (LoadAcquire(&op->owner) != from + 1) continue;
    ring::GraphOp* entry = NewOp();
    if (entry == nullptr) break;
    const ring::GraphOp copy = *op;
    *entry = copy;
    entry->owner = UINT32_MAX;
    entry->use = cell->use;
    entry->position = base + copy.position;
    copied += copy.repeats;
    StoreRelease(&entry->owner, to + 1);
  }
  Store(&cell->ops_lost, cell->ops_lost + (source->ops > copied ? source->ops - copied : 0));
  Store(&cell->ops, base + source->ops);
  into->last_op = kNone;
  StoreRelease(&into->busy, 0u);
}

void Issue(Lane* lane, uint64_t now) noexcept {
  ring::CommEntry* entry = lane->comm->entry;
  if (lane->direction != kCollectives) {
    Store(&entry->p2p_issued, entry->p2p_issued + lane->operations);
    if (lane->peer_entry == nullptr) return;
    uint64_t* issued = lane->direction == kSends ? &lane->peer_entry->sends : &lane->peer_entry->recvs;
    lane->before_issued = *issued;
    Store(issued, *issued + lane->operations);
    Store(lane->direction == kSends ? &lane->peer_entry->last_send_ticks : &lane->peer_entry->last_recv_ticks, now);
    return;
  }
  const uint64_t before = entry->issued_seq;
  const uint64_t after = before + lane->operations;
  const uint64_t hash = lane->steps.After(entry->signature_hash);
  lane->before_issued = before;
  lane->before_hash = entry->signature_hash;
  PublishIssued(entry, before, after, hash, now);
}

void TakeBackLane(Lane* lane) noexcept {
  ring::CommEntry* entry = lane->comm->entry;
  if (lane->direction != kCollectives) {
    Store(&entry->p2p_issued, entry->p2p_issued - lane->operations);
    if (lane->peer_entry != nullptr) {
      Store(lane->direction == kSends ? &lane->peer_entry->sends : &lane->peer_entry->recvs, lane->before_issued);
    }
    return;
  }
  TakeBackIssued(entry, lane->before_issued, lane->before_hash);
}

// Returns false if the communicator ended or lost its table entry after the capture. Launching is then a mistake in the
// program.
bool Lives(const Lane& lane) noexcept {
  return lane.comm->entry->created_ticks == lane.comm_created && lane.comm->entry->ended_ticks == 0;
}

}  // namespace

Capture LookForCapture(const StreamLocal& stream, uint64_t* graph) noexcept {
  if (g_driver.is_capturing == nullptr) FindDriver();
  if (g_driver.is_capturing == nullptr) return Capture::kUnknown;
  return QueryCapture(stream, graph);
}

LOCKSTEP_COLD void AddCapturedOp(uint64_t capture, const CapturedOp& op) noexcept {
  uint32_t graph = CapturedAs(capture);
  if (graph == kNone) graph = NewGraph(capture);
  if (graph == kNone) {
    Add(&g.map.header->dropped_records, 1);
    return;
  }
  GraphLocal* local = &g_graphs[graph];
  if (!Swap<uint32_t>(&local->busy, 0, 1)) {
    Add(&local->cell->ops_lost, 1);
    local->unnumbered = true;
    return;
  }
  AddToGraph(graph, op);
  StoreRelease(&local->busy, 0u);
}

void SpoilCapture(uint64_t capture) noexcept {
  const uint32_t graph = CapturedAs(capture);
  if (graph != kNone) g_graphs[graph].unnumbered = true;
}

void NoteCaptureBegun(const void* stream) noexcept {
  Add(&g_captures, 1);
  const uint64_t capture = CaptureOn(stream);
  for (OpenCapture& open : g_open_captures) {
    if (capture == 0 || !Swap<uint64_t>(&open.capture, 0, capture)) continue;
    StoreRelease(&open.stream, stream);
    break;
  }
}

uint64_t NoteCaptureEnding(const void* stream) noexcept {
  const uint64_t capture = CaptureOn(stream);
  if (capture != 0) return capture;
  for (const OpenCapture& open : g_open_captures) {
    if (LoadAcquire(&open.stream) == stream && Load(&open.capture) != 0) return Load(&open.capture);
  }
  return 0;
}

void NoteCaptureEnded(uint64_t capture, const void* graph) noexcept {
  uint32_t captures = Load(&g_captures);
  while (captures != 0 && !Swap(&g_captures, captures, captures - 1)) captures = Load(&g_captures);
  for (OpenCapture& open : g_open_captures) {
    if (capture == 0 || Load(&open.capture) != capture) continue;
    Store(&open.stream, static_cast<const void*>(nullptr));
    StoreRelease(&open.capture, uint64_t{0});
  }
  const uint32_t index = capture != 0 ? CapturedAs(capture) : kNone;
  const uint32_t before = graph != nullptr ? GraphOfHandle(graph) : kNone;
  if (index == kNone) {
    // Without recorded operations, the handle must not keep an ended graph. If that graph has not ended, an earlier
    // capture began it, and it continues.
    if (graph != nullptr && before != kNone && HasState(&g.map.graphs[before], GraphState::kEnded))
      ForgetGraphHandle(graph);
    return;
  }
  GraphCell* cell = &g.map.graphs[index];
  Store(&cell->captured_ticks, Now());
  if (graph == nullptr) {
    Store(&cell->ended_ticks, Now());
    SetState(cell, GraphState::kSpoilt);
    return;
  }
  SetState(cell, GraphState::kCaptured);
  if (before != kNone && before != index) Append(index, before);  // captured into a graph that was not empty
  MapHandle(graph, index);
}

void NoteInstantiated(const void* graph, const void* made) noexcept {
  const uint32_t index = GraphOfHandle(graph);
  if (index == kNone && FindHandle(made) == nullptr) return;
  MapHandle(made, index);
}

void NoteExecUpdated(const void* exec, const void* graph) noexcept { NoteInstantiated(graph, exec); }

void NoteChildAdded(const void* graph, const void* child) noexcept {
  const uint32_t inner = GraphOfHandle(child);
  if (inner == kNone) return;
  const uint32_t outer = GraphOfHandle(graph);
  if (outer == kNone) {
    MapHandle(graph, inner);  // so far, the graph contains no recorded operation of its own
  } else if (Load(&g.map.graphs[outer].handles) == 1) {
    Append(outer, inner);
  } else {
    g_graphs[outer].unnumbered = true;  // earlier instances of the graph have fewer operations
  }
}

uint64_t ForgetGraphHandle(const void* handle) noexcept {
  Handle* entry = FindHandle(handle);
  if (entry == nullptr) return 0;
  const uint32_t graph = GraphOfHandle(handle);
  const uint64_t value = LoadAcquire(&entry->value);
  if (value == 0 || !Swap<uint64_t>(&entry->value, value, 0)) return 0;
  if (graph != kNone) DropHandle(graph);
  return value;
}

void KeepGraphHandle(const void* handle, uint64_t forgotten) noexcept {
  const auto graph = static_cast<uint32_t>(forgotten) - 1;
  if (forgotten != 0 && graph < g.map.capacities.graphs) MapHandle(handle, graph);
}

bool BeginLaunch(const void* exec, const void* stream, LaunchInFlight* flight) noexcept {
  const uint32_t graph = GraphOfHandle(exec);
  if (graph == kNone) return false;
  ThreadState* thread = Thread();
  if (thread == nullptr || thread->inside != nullptr) return false;
  const uint64_t now = Now();
  if (now >= Load(&g.next_calibration)) {
    Calibrate(now);
    if (!Recording()) return false;
  }
  if (Load(g.stop_word) != 0) return false;
  GraphLocal* local = &g_graphs[graph];
  GraphCell* cell = local->cell;
  *flight = {};
  flight->thread = thread;
  flight->graph = graph;
  flight->epoch = g.epoch;
  flight->stream = FindStream(thread, stream, -1);
  StreamLocal* on = flight->stream != kNone ? &g_tables.streams[flight->stream] : nullptr;
  const bool marking = on != nullptr && Marking() && MayMark(*on);
  Capture capture = Capture::kNo;
  if (on != nullptr && (marking || Capturing())) capture = LookForCapture(*on, &flight->into);
  if (capture == Capture::kYes) {
    flight->captured = true;
    return true;
  }
  if (marking && capture == Capture::kNo && MarksReady(on)) flight->ticket = TakeTicket(thread, on, false);
  flight->mark = flight->ticket != 0;
  flight->number = Add(&cell->launches, 1) + 1;
  Store(&cell->exec, reinterpret_cast<uintptr_t>(exec));
  ring::GraphLaunch* last = &cell->last[(flight->number - 1) % ring::kGraphLaunches];
  Store(&last->number, uint64_t{0});
  FenceRelease();
  Store(&last->ticket, flight->ticket);
  Store(&last->ticks, now);
  Store(&last->stream, flight->stream != kNone ? flight->stream : ring::kNoIndex16);
  Store(&last->thread, thread->index);
  Store(&last->result, -1);
  StoreRelease(&last->number, flight->number);

  Lane* lanes = g_lanes[graph];
  const uint32_t count = local->unnumbered ? 0 : local->lanes;
  for (uint32_t i = 0; i < count; ++i) {
    if (Lives(lanes[i])) Issue(&lanes[i], now);
  }
  thread->member_slot = nullptr;
  if (LOCKSTEP_UNLIKELY(thread->slots == nullptr) && !thread->overflow) AssignRing(thread);
  if (thread->overflow) {
    Add(&g.map.header->dropped_records, 1);  // the shared ring has no room for records of several slots
  } else {
    for (uint32_t first = 0; first < count || first == 0; first += ring::kReplayLanes) {
      const Slot slot = TakeSlot(thread);
      if (first == 0) flight->first_slot = slot.number;
      ++flight->slots;
      auto* record = reinterpret_cast<ring::ReplaySlot*>(slot.op);
      record->type = static_cast<uint8_t>(ring::SlotType::kReplay);
      record->stage = static_cast<uint8_t>(OpStage::kEntered);
      record->first_lane = static_cast<uint8_t>(first);
      record->stream = static_cast<uint16_t>(flight->stream);
      record->graph = static_cast<uint16_t>(graph);
      record->replay = flight->number;
      record->ticket = flight->ticket;
      record->enter_ticks = now;
      record->return_ticks = 0;
      record->index_low = static_cast<uint32_t>(thread->ops);
      record->result = 0;
      record->graph_use = cell->use;
      record->thread = static_cast<uint16_t>(thread->index);
      record->lanes = static_cast<uint16_t>(count);
      uint8_t used = 0;
      for (; used < ring::kReplayLanes && first + used < count; ++used) {
        const Lane& lane = lanes[first + used];
        const bool numbered = Lives(lane) && (lane.direction == kCollectives || lane.peer_entry != nullptr);
        const uint64_t number = numbered ? lane.before_issued + 1 : 0;
        record->lane[used] = {(number & ((uint64_t{1} << 40) - 1)) | uint64_t{lane.operations} << 40,
                              static_cast<uint16_t>(lane.comm->index), lane.direction, 0, lane.peer};
      }
      record->used = used;
      PublishSlot(thread, slot);
    }
  }
  thread->ops += cell->ops;
  Store(&thread->cell->ops, thread->ops);
  flight->waiting = EnterWait(CallKind::kGraphLaunch, flight->stream, flight->ticket);
  if (flight->mark) StartMark(on, flight->ticket, now);
  return true;
}

void EndLaunch(LaunchInFlight* flight, int result) noexcept {
  if (!Recording() || flight->epoch != g.epoch) return;
  const uint32_t graph = flight->graph;
  if (flight->captured) {
    if (result != 0 || flight->into == 0) return;
    uint32_t into = CapturedAs(flight->into);
    if (into == kNone) into = NewGraph(flight->into);
    if (into != kNone) Append(into, graph);
    return;
  }
  GraphLocal* local = &g_graphs[graph];
  GraphCell* cell = local->cell;
  if (flight->mark) EndMark(&g_tables.streams[flight->stream], flight->ticket);
  const uint64_t now = Now();
  Lane* lanes = g_lanes[graph];
  const uint32_t count = local->unnumbered ? 0 : local->lanes;
  for (uint32_t i = 0; i < count; ++i) {
    if (!Lives(lanes[i])) continue;
    if (result != 0) {
      TakeBackLane(&lanes[i]);
    } else if (lanes[i].direction == kCollectives) {
      Store(&lanes[i].comm->entry->launched_seq, lanes[i].comm->entry->issued_seq);
    }
  }
  ring::GraphLaunch* last = &cell->last[(flight->number - 1) % ring::kGraphLaunches];
  if (Load(&last->number) == flight->number) Store(&last->result, result);
  if (result != 0) Swap(&cell->launches, flight->number, flight->number - 1);
  const OpStage stage = result == 0 ? OpStage::kLaunched : OpStage::kFailed;
  for (uint64_t n = flight->first_slot; n < flight->first_slot + flight->slots; ++n) {
    auto* record = reinterpret_cast<ring::ReplaySlot*>(&flight->thread->slots[n & flight->thread->mask]);
    record->stage = static_cast<uint8_t>(stage);
    record->result = result;
    StoreRelease(&record->return_ticks, now);
  }
  if (flight->waiting) LeaveWait();
  Store(&flight->thread->cell->last_call_ticks, now);
}

void ForgetGraphs() noexcept {
  g_captures = g_graphs_used = g_next_op = g_handles_used = 0;
  memset(static_cast<void*>(g_open_captures), 0, sizeof(g_open_captures));
  memset(static_cast<void*>(g_graphs), 0, sizeof(g_graphs));
  memset(static_cast<void*>(g_handles), 0, sizeof(g_handles));
}

}  // namespace lockstep::recorder
