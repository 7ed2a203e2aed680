// Reads communicators, streams and threads: the digest.
#include <algorithm>
#include <cstddef>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring::internal {

OpStage CleanStage(uint8_t stage) {
  return stage <= static_cast<uint8_t>(OpStage::kCaptured) ? static_cast<OpStage>(stage) : OpStage::kUnknown;
}

uint32_t CommOf(const Reading& reading, uint16_t slot, uint64_t enter_ticks) {
  if (slot >= reading.comm_created.size() || reading.comm_created[slot] == 0) return UINT32_MAX;
  return enter_ticks != 0 && enter_ticks < reading.comm_created[slot] ? UINT32_MAX : slot;
}

namespace {

CommState CleanCommState(uint32_t state) {
  return state <= static_cast<uint32_t>(CommState::kNotMember) ? static_cast<CommState>(state) : CommState::kUnknown;
}

bool ReadEntry(const Reading& reading, uint64_t index, CommEntry* entry) {
  return reading.file.Read(reading.comms.offset + index * reading.comms.stride, entry, sizeof(*entry));
}

bool SameIdentity(const CommEntry& a, const CommEntry& b) {
  return a.guard == b.guard && !IsBeingChanged(a.guard) && std::memcmp(&a, &b, offsetof(CommEntry, issued_seq)) == 0;
}

constexpr size_t kProgressBytes = offsetof(CommEntry, launched_seq) - offsetof(CommEntry, issued_seq);

// Reads the entry again until two reads agree on the identity and on complete progress. Gives up after a few tries,
// because a writer that died may have left the entry incomplete.
void Settle(Reading* reading, uint64_t index, CommEntry* entry, CommEntry* before) {
  constexpr int kTries = 8;
  bool identity = SameIdentity(*before, *entry);
  for (int i = 0; i < kTries && !identity && reading->MayReadAgain(); ++i) {
    *before = *entry;
    if (!ReadEntry(*reading, index, entry)) break;
    identity = SameIdentity(*before, *entry);
  }
  const auto whole = [&] {
    return entry->issued_seq == entry->issued_check &&
           std::memcmp(&before->issued_seq, &entry->issued_seq, kProgressBytes) == 0;
  };
  bool progress = whole();
  const uint64_t at = reading->comms.offset + index * reading->comms.stride + offsetof(CommEntry, issued_seq);
  for (int i = 0; i < kTries && !progress && reading->MayReadAgain(); ++i) {
    std::memcpy(&before->issued_seq, &entry->issued_seq, kProgressBytes);
    if (!reading->file.Read(at, &entry->issued_seq, kProgressBytes)) break;
    progress = whole();
  }
  if (!identity) {
    reading->Problem("communicator " + std::to_string(index) + " was changing while it was read, at offset " +
                     std::to_string(reading->comms.offset + index * reading->comms.stride));
  }
  if (!progress) entry->signature_hash = 0;
}

// `after` is a later copy of the same operations, which are at `offset` in the file. An operation with an unchanged
// guard was not replaced while `ops` was read. An operation whose call returned meanwhile is read again until two reads
// agree; if they never do, it is omitted.
void AddRecent(Reading* reading, uint32_t comm, const RecentOp* ops, const RecentOp* after, uint32_t size,
               uint64_t written, uint64_t offset) {
  constexpr int kTries = 8;
  const uint64_t first = written > size ? written - size : 0;
  for (uint64_t n = first; n < written; ++n) {
    if (ops[n % size].guard != n + 1 || after[n % size].guard != n + 1) continue;
    RecentOp recent = after[n % size];
    bool same = std::memcmp(&recent, &ops[n % size], sizeof(recent)) == 0;
    for (int i = 0; i < kTries && !same && reading->MayReadAgain(); ++i) {
      const RecentOp before = recent;
      if (!reading->file.Read(offset + n % size * sizeof(recent), &recent, sizeof(recent))) break;
      same = std::memcmp(&recent, &before, sizeof(recent)) == 0;
    }
    if (!same || recent.guard != n + 1) continue;
    const bool returned = recent.return_ticks != 0;
    OpSnapshot op;
    op.comm = comm;
    op.kind = static_cast<CallKind>(recent.kind);
    op.stage = returned ? CleanStage(recent.stage) : OpStage::kEntered;
    op.datatype = recent.datatype;
    op.reduction = recent.reduction;
    op.root_or_peer = recent.root_or_peer;
    op.count = recent.count;
    op.seq = recent.seq;
    op.thread = UINT32_MAX;
    if (recent.stream < reading->stream_issued.size()) {
      op.stream = recent.stream;
      if (recent.ticket_low != 0) op.ticket = Widen(recent.ticket_low, 32, reading->stream_issued[recent.stream] + 1);
    }
    op.enter_ns = reading->clock.ToNs(recent.enter_ticks);
    op.return_ns = reading->clock.ToNs(recent.return_ticks);
    op.result = returned ? recent.result : 0;
    op.caller = recent.caller_low;
    op.caller_object = recent.caller_object;
    reading->out->recent.push_back(op);
  }
}

void FillComm(const Reading& reading, const CommEntry& entry, CommSnapshot* comm) {
  const Clock& clock = reading.clock;
  comm->id = entry.id;
  comm->generation = entry.generation;
  comm->state = CleanCommState(entry.state);
  comm->origin = static_cast<CallKind>(entry.origin);
  comm->name = Text(entry.name, sizeof(entry.name));
  comm->member_rank = entry.member_rank;
  comm->size = entry.size;
  comm->parent_id = entry.parent_id;
  comm->ordinal = entry.ordinal;
  comm->color = entry.color;
  comm->key = entry.key;
  comm->excluded_total = entry.excluded_total;
  comm->excluded.assign(entry.excluded, entry.excluded + std::min<uint32_t>(entry.excluded_total, kExcludedKept));
  comm->device = entry.device;
  comm->blocking = (entry.flags & kCommBlocking) != 0;
  comm->from_profiler = (entry.flags & kCommFromProfiler) != 0;
  comm->profiled = (entry.flags & kCommProfiled) != 0;
  comm->created_ns = clock.ToNs(entry.created_ticks);
  comm->ready_ns = clock.ToNs(entry.ready_ticks);
  comm->ended_ns = clock.ToNs(entry.ended_ticks);
  comm->issued_seq = entry.issued_seq;
  comm->issued_ns = clock.ToNs(entry.issued_ticks);
  // In the copy of a live entry, launched_seq may be newer, so it is limited to issued_seq.
  comm->launched_seq = std::min(entry.launched_seq, entry.issued_seq);
  comm->signature_hash = entry.signature_hash;
  comm->peers_lost = entry.lost_peers;
  comm->async_error = entry.async_error;
  comm->async_error_ns = clock.ToNs(entry.async_error_ticks);
}

void AddPeers(Reading* reading, const std::vector<uint32_t>& place) {
  ForEachOf<PeerEntry>(*reading, reading->peers, [&](const PeerEntry& entry) {
    if ((entry.key >> 63) == 0) return;
    const uint64_t slot = entry.key >> 32 & 0x7fffffff;
    if (slot >= place.size() || place[slot] == UINT32_MAX || entry.created_ticks != reading->comm_created[slot]) return;
    PeerProgress peer;
    peer.peer = static_cast<int32_t>(static_cast<uint32_t>(entry.key));
    peer.sends = entry.sends;
    peer.recvs = entry.recvs;
    peer.signals = entry.signals;
    peer.waited = entry.waited;
    peer.last_send_ns = reading->clock.ToNs(entry.last_send_ticks);
    peer.last_recv_ns = reading->clock.ToNs(entry.last_recv_ticks);
    reading->out->comms[place[slot]].peers.push_back(peer);
  });
  for (CommSnapshot& comm : reading->out->comms) {
    std::sort(comm.peers.begin(), comm.peers.end(),
              [](const PeerProgress& a, const PeerProgress& b) { return a.peer < b.peer; });
  }
}

}  // namespace

void ReadComms(Reading* reading) {
  const uint64_t used = std::min(reading->header.comms_used, reading->comms.count);
  std::vector<CommEntry> first = ReadTable<CommEntry>(*reading, reading->comms, used);
  std::vector<CommEntry> second = ReadTable<CommEntry>(*reading, reading->comms, used);
  const size_t count = std::min(first.size(), second.size());
  if (count < used) {
    reading->Problem("communicators: " + std::to_string(used - count) + " of " + std::to_string(used) +
                     " are beyond the end of the file");
  }
  reading->comm_created.assign(count, 0);
  std::vector<uint32_t> place(count, UINT32_MAX);
  bool any_peer = false;
  for (size_t i = 0; i < count; ++i) {
    CommEntry& entry = second[i];
    Settle(reading, i, &entry, &first[i]);
    if (entry.created_ticks == 0) continue;  // claimed, but not written yet
    reading->comm_created[i] = entry.created_ticks;
    place[i] = static_cast<uint32_t>(reading->out->comms.size());
    CommSnapshot comm;
    comm.index = static_cast<uint32_t>(i);
    FillComm(*reading, entry, &comm);
    for (uint32_t c = 0; c < kCheckpoints; ++c) {
      const Checkpoint& checkpoint = entry.checkpoints[c];
      // Takes only values that two reads agree on, because sequence number and hash are two words.
      if (checkpoint.seq == 0 || checkpoint.seq != first[i].checkpoints[c].seq ||
          checkpoint.hash != first[i].checkpoints[c].hash) {
        continue;
      }
      comm.checkpoints.push_back({checkpoint.seq, checkpoint.hash});
    }
    std::sort(comm.checkpoints.begin(), comm.checkpoints.end(),
              [](const HashCheckpoint& a, const HashCheckpoint& b) { return a.seq < b.seq; });
    any_peer |= entry.p2p_issued != 0 || entry.recent_p2p != 0;
    comm.lost_records = entry.issued_seq + entry.p2p_issued;  // ReadOps subtracts the operations that it finds
    reading->out->comms.push_back(std::move(comm));
    CommEntry after = entry;
    ReadEntry(*reading, i, &after);
    const uint64_t at = reading->comms.offset + i * reading->comms.stride;
    AddRecent(reading, static_cast<uint32_t>(i), entry.collectives, after.collectives, kRecentCollectives,
              entry.recent_collectives, at + offsetof(CommEntry, collectives));
    AddRecent(reading, static_cast<uint32_t>(i), entry.p2p, after.p2p, kRecentP2p, entry.recent_p2p,
              at + offsetof(CommEntry, p2p));
  }
  if (any_peer) AddPeers(reading, place);
}

void ReadStreams(Reading* reading) {
  const uint64_t used = std::min<uint64_t>(reading->header.streams_used, reading->streams.count);
  const std::vector<MarkLine> marks = ReadTable<MarkLine>(*reading, reading->marks, used);
  // The cells are read after the markers: what the GPU has completed was issued before.
  const std::vector<StreamCell> cells = ReadTable<StreamCell>(*reading, reading->streams, used);
  reading->stream_issued.assign(cells.size(), 0);
  for (size_t i = 0; i < cells.size(); ++i) {
    const StreamCell& cell = cells[i];
    reading->stream_issued[i] = cell.issued;
    if (cell.in_use != 1) continue;
    StreamSnapshot stream;
    stream.index = static_cast<uint32_t>(i);
    stream.handle = cell.handle;
    stream.device = cell.device;
    stream.marked = cell.marked == 1;
    stream.issued = cell.issued;
    if (i < marks.size()) {
      stream.started = marks[i].started;
      stream.completed = marks[i].completed;
    }
    stream.first_error = cell.first_error;
    if (cell.given != 0) stream.given = cell.given - 1;
    stream.timed_every = cell.timed_every;
    stream.starts_marked = cell.starts_marked == 1;
    for (uint32_t d = 0; d < kDependencies; ++d) {
      const Dependency& dependency = cell.depends_on[d];
      if (dependency.stream_plus_one == 0 || dependency.stream_plus_one > cells.size()) continue;
      if (dependency.check != 0 && dependency.check != DependencyCheck(dependency.stream_plus_one, dependency.ticket))
        continue;
      uint64_t after = StreamSnapshot::kAfterUnknown;
      UnpackGiven(cell.waits_after[d], cell.issued, &after);
      stream.depends_on.push_back({dependency.stream_plus_one - 1, dependency.ticket, after});
    }
    reading->out->streams.push_back(std::move(stream));
  }
}

namespace {

// Call, communicator, sequence number and start only have a meaning together, so a cell is read until two reads
// agree. Returns false if its thread changes faster than that; then the thread is in no lasting call.
bool SettleThread(Reading* reading, uint64_t index, ThreadCell* cell) {
  constexpr int kTries = 8;
  constexpr size_t kMoving = offsetof(ThreadCell, tid);
  for (int i = 0; i < kTries && reading->MayReadAgain(); ++i) {
    const ThreadCell before = *cell;
    if (!reading->file.Read(reading->threads.offset + index * reading->threads.stride, cell, sizeof(*cell))) {
      *cell = before;
      return true;
    }
    if (std::memcmp(&before, cell, kMoving) == 0) return true;
  }
  return false;
}

}  // namespace

void ReadThreads(Reading* reading, std::vector<ThreadCell>* cells) {
  const uint64_t used = std::min<uint64_t>(reading->header.threads_used, reading->threads.count);
  *cells = ReadTable<ThreadCell>(*reading, reading->threads, used);
  for (size_t i = 0; i < cells->size(); ++i) {
    ThreadCell* cell = &(*cells)[i];
    if (cell->tid != 0 && (cell->call != 0 || cell->wait != 0) && !SettleThread(reading, i, cell)) {
      cell->call = 0;
      cell->wait = 0;
    }
  }
  if (cells->size() < used) reading->Problem("threads: the table is beyond the end of the file");
  for (size_t i = 0; i < cells->size(); ++i) {
    const ThreadCell& cell = (*cells)[i];
    if (cell.tid == 0) continue;
    const Clock& clock = reading->clock;
    ThreadSnapshot thread;
    thread.index = static_cast<uint32_t>(i);
    thread.tid = cell.tid;
    thread.name = Text(cell.name, sizeof(cell.name));
    thread.gone = cell.gone == 1;
    if (cell.call != 0 && !thread.gone) {
      thread.call = static_cast<CallKind>(cell.call);
      thread.comm = CommOf(*reading, cell.comm, 0);
      thread.seq = cell.seq;
      thread.since_ns = clock.ToNs(cell.since_ticks);
    }
    thread.group_depth = cell.group_depth;
    if (cell.group_depth != 0) thread.group_since_ns = clock.ToNs(cell.group_since_ticks);
    if (cell.wait != 0 && !thread.gone) {
      thread.wait = static_cast<CallKind>(cell.wait);
      if (cell.wait_stream < reading->stream_issued.size()) thread.wait_stream = cell.wait_stream;
      thread.wait_ticket = cell.wait_ticket;
      thread.wait_since_ns = clock.ToNs(cell.wait_since_ticks);
    }
    thread.last_call_ns = clock.ToNs(std::max(cell.last_call_ticks, cell.last_wait_ticks));
    thread.calls = cell.ops;
    reading->out->threads.push_back(std::move(thread));
  }
}

}  // namespace lockstep::ring::internal
