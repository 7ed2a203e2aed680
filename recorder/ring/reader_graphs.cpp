// CUDA graphs: their contents, and their launches as the operations that they issued.
#include <algorithm>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring::internal {
namespace {

GraphState CleanGraphState(uint32_t state) {
  return state <= static_cast<uint32_t>(GraphState::kSpoilt) ? static_cast<GraphState>(state) : GraphState::kNone;
}

// Returns the cell's last launches on which two reads agree, oldest first.
std::vector<GraphLaunch> LaunchesOf(const GraphCell& first, const GraphCell& second) {
  std::vector<GraphLaunch> launches;
  for (uint32_t i = 0; i < kGraphLaunches; ++i) {
    const GraphLaunch& launch = second.last[i];
    if (launch.number != 0 && launch.number == first.last[i].number && launch.ticket == first.last[i].ticket &&
        launch.number <= second.launches && launch.number + kGraphLaunches > second.launches) {
      launches.push_back(launch);
    }
  }
  std::sort(launches.begin(), launches.end(),
            [](const GraphLaunch& a, const GraphLaunch& b) { return a.number < b.number; });
  return launches;
}

struct LaneNumber {
  uint16_t comm;
  uint8_t direction;
  int32_t peer;
  uint64_t next;  // 0: not numbered
};

}  // namespace

void ReadGraphs(Reading* reading) {
  if (!reading->graphs.present) return;
  const std::vector<GraphCell> first = ReadTable<GraphCell>(*reading, reading->graphs, reading->graphs.count);
  const std::vector<GraphCell> cells = ReadTable<GraphCell>(*reading, reading->graphs, reading->graphs.count);
  const Clock& clock = reading->clock;
  reading->templates.resize(std::min(first.size(), cells.size()));
  std::vector<const StreamSnapshot*> streams(reading->stream_issued.size(), nullptr);
  for (const StreamSnapshot& stream : reading->out->streams) streams[stream.index] = &stream;
  bool any = false;
  for (size_t i = 0; i < reading->templates.size(); ++i) {
    const GraphCell& cell = cells[i];
    if (cell.state == 0 || cell.use != first[i].use) continue;
    any = true;
    reading->templates[i].use = cell.use;
    reading->templates[i].id = cell.id;
    GraphSnapshot graph;
    graph.index = static_cast<uint32_t>(i);
    graph.id = cell.id;
    graph.state = CleanGraphState(cell.state);
    graph.exec = cell.exec;
    graph.operations = cell.ops;
    graph.operations_lost = std::min(cell.ops_lost, cell.ops);
    graph.launches = cell.launches;
    graph.captured_ns = clock.ToNs(cell.captured_ticks);
    graph.ended_ns = clock.ToNs(cell.ended_ticks);
    for (const GraphLaunch& launch : LaunchesOf(first[i], cell)) {
      graph.last_launch_ns = clock.ToNs(launch.ticks);
      graph.stream = launch.stream < reading->stream_issued.size() ? launch.stream : UINT32_MAX;
      graph.ticket = launch.ticket;
      if (launch.ticket == 0 || launch.stream >= streams.size() || streams[launch.stream] == nullptr) continue;
      const StreamSnapshot& stream = *streams[launch.stream];
      if (stream.completed >= launch.ticket && stream.first_error == 0)
        graph.completed = std::max(graph.completed, launch.number);
    }
    reading->out->graphs.push_back(graph);
  }
  if (!any || !reading->graph_ops.present) return;
  for (const GraphOp& op : ReadTable<GraphOp>(*reading, reading->graph_ops, reading->graph_ops.count)) {
    if (op.owner == 0 || op.owner > reading->templates.size()) continue;
    GraphTemplate& graph = reading->templates[op.owner - 1];
    if (graph.use != 0 && graph.use == op.use && op.repeats != 0) graph.ops.push_back(op);
  }
  for (GraphTemplate& graph : reading->templates) {
    std::sort(graph.ops.begin(), graph.ops.end(),
              [](const GraphOp& a, const GraphOp& b) { return a.position < b.position; });
    // Nothing can be numbered after a gap.
    uint64_t next = 0;
    size_t whole = 0;
    for (; whole < graph.ops.size() && graph.ops[whole].position == next && next < kMostReplayed; ++whole)
      next += graph.ops[whole].repeats;
    graph.ops.resize(whole);
    graph.total = std::min<uint64_t>(next, kMostReplayed);
  }
}

uint64_t ReplayedOps(const Reading& reading, const OpSlot& raw) {
  ReplaySlot slot;
  std::memcpy(&slot, &raw, sizeof(slot));
  if (slot.type != static_cast<uint8_t>(SlotType::kReplay) || slot.first_lane != 0 ||
      slot.graph >= reading.templates.size())
    return 0;
  return reading.templates[slot.graph].total;
}

size_t AddReplay(Reading* reading, std::span<const OpSlot* const> slots, uint32_t thread, uint64_t thread_ops,
                 bool one_by_one) {
  ReplaySlot head;
  std::memcpy(&head, slots[0], sizeof(head));
  if (head.first_lane != 0) return 1;  // the beginning is overwritten
  std::vector<LaneNumber> lanes;
  size_t used = 0;
  for (; used < slots.size(); ++used) {
    ReplaySlot slot;
    std::memcpy(&slot, slots[used], sizeof(slot));
    if (used > 0 && (slot.first_lane != used * kReplayLanes || slot.graph != head.graph || slot.replay != head.replay))
      break;
    for (uint32_t i = 0; i < std::min<uint32_t>(slot.used, kReplayLanes); ++i) {
      const ReplayLane& lane = slot.lane[i];
      lanes.push_back({lane.comm, lane.direction, lane.peer, lane.word & ((uint64_t{1} << 40) - 1)});
    }
    if (slot.first_lane + kReplayLanes >= head.lanes) {
      ++used;
      break;
    }
  }
  if (head.graph >= reading->templates.size() || reading->templates[head.graph].use != head.graph_use) return used;
  const GraphTemplate& graph = reading->templates[head.graph];
  OpSnapshot op;
  op.stage = CleanStage(head.stage);
  op.thread = thread;
  op.stream = head.stream < reading->stream_issued.size() ? head.stream : UINT32_MAX;
  op.ticket = head.ticket;
  op.graph = graph.id;
  op.replay = head.replay;
  op.enter_ns = reading->clock.ToNs(head.enter_ticks);
  op.return_ns = reading->clock.ToNs(head.return_ticks);
  const uint64_t index = Widen(head.index_low, 32, thread_ops);
  if (!one_by_one || op.stage == OpStage::kFailed || graph.ops.empty()) {
    op.kind = CallKind::kGraphLaunch;
    op.index = index;
    op.result = head.result;
    reading->out->ops.push_back(op);
    return used;
  }
  uint32_t captured_group = 0;
  for (const GraphOp& from : graph.ops) {
    const auto kind = static_cast<CallKind>(from.kind);
    const bool collective = IsCollective(kind);
    if (!collective && !IsPointToPoint(kind)) continue;
    if (from.group != captured_group) {
      captured_group = from.group;
      if (from.group != 0) ++reading->replayed_groups;
    }
    LaneNumber* lane = nullptr;
    const uint8_t direction = collective ? 0 : kind == CallKind::kSend ? 1 : 2;
    for (LaneNumber& candidate : lanes) {
      const bool fits = candidate.comm == from.comm && candidate.direction == direction;
      if (fits && (collective || candidate.peer == from.root_or_peer)) lane = &candidate;
    }
    const bool same_comm =
        from.comm < reading->comm_created.size() && reading->comm_created[from.comm] == from.comm_created;
    for (uint32_t i = 0; i < from.repeats && from.position + i < kMostReplayed; ++i) {
      if (lane == nullptr || lane->next == 0 || !same_comm) continue;
      op.comm = from.comm;
      op.kind = kind;
      op.datatype = from.datatype;
      op.reduction = from.reduction;
      op.root_or_peer = from.root_or_peer;
      op.count = from.count;
      op.seq = lane->next++;
      op.index = index + from.position + i;
      op.place = from.position + i + 1;
      op.group = from.group == 0 ? 0 : (uint64_t{1} << 31) + reading->replayed_groups;
      op.caller = from.caller;
      op.caller_object = from.caller_object;
      reading->out->ops.push_back(op);
    }
  }
  return used;
}

}  // namespace lockstep::ring::internal
