// Reads the event rings.
#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring::internal {
namespace {

// Maximum number of tickets issued between the read of the streams and the read of the rings.
constexpr uint64_t kIssuedSince = 4096;
// Limits for a digest: records of a thread, and individual operations of graph launches.
constexpr uint64_t kNewestRecords = 512, kNewestReplayed = 512;

// Full values from the thread's cell; records keep only their lower halves.
struct Context {
  uint32_t thread;
  uint64_t ops, groups, created_ticks;
};

uint32_t StreamOf(const Reading& reading, uint16_t stream) {
  return stream < reading.stream_issued.size() ? stream : UINT32_MAX;
}

void AddOp(const Reading& reading, const OpSlot& slot, const Context& context, std::vector<OpSnapshot>* ops) {
  OpSnapshot op;
  const bool returned =
      slot.return_ticks != 0;  // stored last: until then, the stage, the result and a group's count are not complete
  op.comm = CommOf(reading, slot.comm, slot.enter_ticks);
  op.kind = static_cast<CallKind>(slot.kind);
  op.stage = returned ? CleanStage(slot.stage) : OpStage::kEntered;
  op.datatype = slot.datatype;
  op.reduction = slot.reduction;
  op.root_or_peer = slot.root_or_peer;
  op.count = !returned && op.kind == CallKind::kGroup ? 0 : slot.count;
  op.seq = slot.seq;
  op.thread = context.thread;
  op.index = Widen(slot.index_low, 32, context.ops);
  op.group = slot.group_low == 0 ? 0 : Widen(slot.group_low, 32, context.groups);
  op.stream = StreamOf(reading, slot.stream);
  op.ticket = slot.ticket;
  op.graph = slot.graph;
  op.enter_ns = reading.clock.ToNs(slot.enter_ticks);
  op.return_ns = reading.clock.ToNs(slot.return_ticks);
  op.result = returned ? slot.result : 0;
  op.caller = slot.caller;
  op.caller_object = slot.caller_object;
  op.send_address = slot.send_address;
  op.recv_address = slot.recv_address;
  ops->push_back(op);
}

void AddMembers(const Reading& reading, const MemberSlot& slot, const Context& context, std::vector<OpSnapshot>* ops) {
  const uint32_t used = std::min<uint32_t>(slot.used, kMembersPerSlot);
  for (uint32_t i = 0; i < used; ++i) {
    const Member& member = slot.members[i];
    OpSnapshot op;
    op.comm = CommOf(reading, slot.comm, slot.enter_ticks);
    const bool receive = (member.word >> 47 & 1) != 0;
    op.kind = receive ? CallKind::kRecv : CallKind::kSend;
    op.stage = (slot.flags >> i & 1) != 0 ? OpStage::kFailed : CleanStage(slot.stage);
    op.datatype = static_cast<uint8_t>(member.word >> 43 & 15);
    op.root_or_peer = member.peer;
    op.count = member.word & kMemberMaxCount;
    op.seq = member.seq_low;
    op.thread = context.thread;
    op.index = Widen(slot.index_low, 32, context.ops) + i;
    op.group = Widen(slot.group_low, 32, context.groups);
    op.stream = StreamOf(reading, slot.stream);
    if (op.stream != UINT32_MAX && (slot.flags & kMembersNoTicket) == 0) {
      op.ticket = Widen(member.word >> 48, 16, reading.stream_issued[op.stream] + kIssuedSince);
    }
    op.enter_ns = op.return_ns = reading.clock.ToNs(slot.enter_ticks);
    (receive ? op.recv_address : op.send_address) = member.address;
    ops->push_back(op);
  }
}

void AddSlot(const Reading& reading, const OpSlot& slot, const Context& context, std::vector<OpSnapshot>* ops) {
  if (slot.type == static_cast<uint8_t>(SlotType::kOp)) {
    if (slot.enter_ticks >= context.created_ticks) AddOp(reading, slot, context, ops);
  } else if (slot.type == static_cast<uint8_t>(SlotType::kMembers)) {
    MemberSlot members;
    std::memcpy(&members, &slot, sizeof(members));
    if (members.enter_ticks >= context.created_ticks) AddMembers(reading, members, context, ops);
  }
}

// Copies the call site in the group's record to the group's members, whose records have no room for it.
void SpreadCallers(std::vector<OpSnapshot>* ops, size_t from) {
  const OpSnapshot* header = nullptr;
  for (size_t i = from; i < ops->size(); ++i) {
    OpSnapshot& op = (*ops)[i];
    if (op.kind == CallKind::kGroup) {
      header = &op;
    } else if (header != nullptr && op.group != 0 && op.group == header->group && op.caller_object == 0) {
      op.caller = header->caller;
      op.caller_object = header->caller_object;
    }
  }
}

// Reads the slot at `at` again, at most kTries times, until two reads are equal.
void SettleSlot(const Reading& reading, uint64_t at, OpSlot* slot) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    OpSlot again;
    if (!reading.file.Read(at, &again, sizeof(again))) return;
    const bool same = std::memcmp(&again, slot, sizeof(again)) == 0;
    *slot = again;
    if (same) return;
  }
}

constexpr uint64_t kAbsurd = uint64_t{1} << 62;

// Fills `records` with the last records before number `begun`, oldest first. Returns false if the file is too short.
bool ReadSlots(const Reading& reading, uint64_t at, uint64_t slots, uint64_t begun, std::vector<OpSlot>* records) {
  const uint64_t count = records->size();
  if (count == 0) return true;
  const uint64_t from = (begun - count) % slots, first = std::min(count, slots - from);
  return reading.file.Read(at + from * sizeof(OpSlot), records->data(), first * sizeof(OpSlot)) &&
         reading.file.Read(at, records->data() + first, (count - first) * sizeof(OpSlot));
}

void ReadThreadRing(Reading* reading, const Context& context, const ThreadCell& cell, bool whole) {
  const uint64_t slots = reading->rings.stride / sizeof(OpSlot);
  const uint64_t at = reading->rings.offset + cell.ring * reading->rings.stride;
  if (cell.begun > kAbsurd) {
    reading->Problem("thread " + std::to_string(cell.tid) + ": its record counter is damaged");
    return;
  }
  const uint64_t begun = cell.begun, kept = std::min({begun, slots, whole ? slots : kNewestRecords});
  const uint64_t oldest = begun - kept;
  const uint64_t most_replayed = std::min(reading->replays, whole ? kMostReplayed : kNewestReplayed);
  std::vector<OpSlot> records(kept);
  if (!ReadSlots(*reading, at, slots, begun, &records)) {
    reading->Problem("the ring of thread " + std::to_string(cell.tid) + " at offset " + std::to_string(at) +
                     " could not be read completely");
    return;
  }
  // Only two records change in place: the newest one and the newest group's.
  const auto settle = [&](uint64_t n) { SettleSlot(*reading, at + n % slots * sizeof(OpSlot), &records[n - oldest]); };
  if (kept > 0) settle(begun - 1);
  for (uint64_t n = begun; n > oldest && cell.groups != 0; --n) {
    const OpSlot& slot = records[n - 1 - oldest];
    if (slot.type != static_cast<uint8_t>(SlotType::kOp) || slot.kind != static_cast<uint16_t>(CallKind::kGroup))
      continue;
    settle(n - 1);
    break;
  }
  // Read after the slots, because a write that has begun by now may have overwritten what was read.
  ThreadCell after = cell;
  reading->file.Read(reading->threads.offset + context.thread * reading->threads.stride, &after, sizeof(after));
  if (after.begun > kAbsurd || after.begun < begun) {
    reading->Problem("thread " + std::to_string(cell.tid) + ": its record counter is damaged");
    return;
  }
  const size_t from = reading->out->ops.size();
  // The newest launches of graphs are listed operation by operation, older ones as one call each.
  uint64_t replayed = 0, launches = 0, one_by_one = begun;
  for (; one_by_one > oldest && replayed <= most_replayed && most_replayed > 0; --one_by_one) {
    const uint64_t ops = ReplayedOps(*reading, records[one_by_one - 1 - oldest]);
    replayed += ops;
    launches += ops != 0 ? 1 : 0;
  }
  if (replayed > most_replayed && launches > 1) ++one_by_one;
  reading->replays -= std::min(reading->replays, replayed);
  std::vector<const OpSlot*> launch;
  uint64_t launch_begin = 0;
  auto end_launch = [&] {
    for (size_t at = 0; at < launch.size();) {
      at += AddReplay(reading, std::span(launch).subspan(at), context.thread, context.ops, launch_begin >= one_by_one);
    }
    launch.clear();
  };
  uint64_t damaged = 0;
  for (uint64_t n = oldest; n < begun; ++n) {
    const OpSlot& slot = records[n - oldest];
    if (n + slots < after.begun) continue;  // overwritten while this thread read it
    if (slot.guard != n + 1) {
      damaged += n + 1 < begun ? 1 : 0;  // the newest record may not be complete
      continue;
    }
    if (slot.type == static_cast<uint8_t>(SlotType::kReplay)) {
      ReplaySlot replay;
      std::memcpy(&replay, &slot, sizeof(replay));
      if (replay.enter_ticks < context.created_ticks) continue;
      if (replay.first_lane == 0) end_launch();
      if (launch.empty()) launch_begin = n;
      launch.push_back(&slot);
      continue;
    }
    end_launch();
    AddSlot(*reading, slot, context, &reading->out->ops);
  }
  end_launch();
  if (damaged != 0) {
    reading->Problem("thread " + std::to_string(cell.tid) + ": " + std::to_string(damaged) +
                     " damaged records in the ring at offset " + std::to_string(at));
  }
  SpreadCallers(&reading->out->ops, from);
}

void ReadOverflow(Reading* reading, const std::vector<ThreadCell>& cells) {
  const uint64_t slots = reading->overflow.count;
  if (!reading->overflow.present || slots == 0 || reading->header.overflow_begun == 0) return;
  const std::vector<OpSlot> first = ReadTable<OpSlot>(*reading, reading->overflow, slots);
  const std::vector<OpSlot> second = ReadTable<OpSlot>(*reading, reading->overflow, slots);
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    const uint64_t guard = second[i].guard;
    if (guard == 0 || (guard & 1) != 0 || first[i].guard != guard) continue;
    if (std::memcmp(&first[i], &second[i], sizeof(OpSlot)) != 0) continue;
    order.emplace_back(guard, i);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [guard, i] : order) {
    const OpSlot& slot = second[i];
    if (slot.type != static_cast<uint8_t>(SlotType::kOp) || slot.thread >= cells.size()) continue;
    const ThreadCell& cell = cells[slot.thread];
    if (cell.tid == 0) continue;  // its thread took the cell after the table was read
    AddSlot(*reading, slot, {slot.thread, cell.ops, cell.groups, cell.created_ticks}, &reading->out->ops);
  }
}

}  // namespace

void ReadOps(Reading* reading, const std::vector<ThreadCell>& cells, bool whole) {
  Snapshot* out = reading->out;
  std::vector<bool> taken(reading->rings.count, false);
  for (size_t i = 0; i < cells.size(); ++i) {
    const ThreadCell& cell = cells[i];
    if (cell.tid == 0 || cell.ring == kNoIndex16 || !reading->rings.present) continue;
    if (cell.ring >= reading->rings.count || taken[cell.ring]) {
      reading->Problem("thread " + std::to_string(cell.tid) + ": its ring " + std::to_string(cell.ring) +
                       " does not exist");
      continue;
    }
    taken[cell.ring] = true;
    ReadThreadRing(reading, {static_cast<uint32_t>(i), cell.ops, cell.groups, cell.created_ticks}, cell, whole);
  }
  if (whole) ReadOverflow(reading, cells);

  std::unordered_map<uint32_t, uint64_t> by_thread, by_comm;
  for (const OpSnapshot& op : out->ops) {
    ++by_thread[op.thread];
    const bool counted = op.stage != OpStage::kFailed && op.stage != OpStage::kSimulated &&
                         (op.stage != OpStage::kCaptured || op.seq != 0) &&
                         (IsCollective(op.kind) || IsPointToPoint(op.kind) || IsOneSided(op.kind));
    if (counted && op.comm != UINT32_MAX) ++by_comm[op.comm];
  }
  for (ThreadSnapshot& thread : out->threads) {
    const uint64_t found = by_thread[thread.index];
    thread.overwritten = thread.calls > found ? thread.calls - found : 0;
  }
  for (CommSnapshot& comm : out->comms) {
    const uint64_t found = by_comm[comm.index];
    comm.lost_records = comm.lost_records > found ? comm.lost_records - found : 0;
  }
}

}  // namespace lockstep::ring::internal
