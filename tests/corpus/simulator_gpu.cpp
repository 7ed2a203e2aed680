#include "tests/corpus/simulator_gpu.h"

#include <algorithm>

namespace lockstep::corpus {
namespace {

uint64_t PairKey(int32_t comm, int32_t from, int32_t to) {
  return static_cast<uint64_t>(comm) << 40 | static_cast<uint64_t>(from) << 20 | static_cast<uint64_t>(to);
}

uint64_t BytesOf(const Instr& in) { return in.count * DatatypeBytes(in.datatype); }

}  // namespace

uint64_t Signature(const Instr& in, uint32_t seq) {
  const uint64_t what = static_cast<uint64_t>(in.kind) | uint64_t{in.datatype} << 16 | uint64_t{in.reduction} << 24 |
                        static_cast<uint64_t>(static_cast<uint32_t>(in.root_or_peer)) << 32;
  return Mix(Mix(what, in.count), seq);
}

int32_t Simulator::NewItem(int32_t r) {
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  if (gpu.free < 0) {
    gpu.items.emplace_back();
    return static_cast<int32_t>(gpu.items.size()) - 1;
  }
  const int32_t item = gpu.free;
  gpu.free = gpu.items[static_cast<size_t>(item)].next;
  gpu.items[static_cast<size_t>(item)] = Item();
  return item;
}

void Simulator::FreeItem(int32_t r, int32_t item) {
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  gpu.items[static_cast<size_t>(item)].next = gpu.free;
  gpu.free = item;
}

void Simulator::Append(int32_t r, uint8_t stream, int32_t item) {
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Stream& s = gpu.streams[stream];
  gpu.items[static_cast<size_t>(item)].stream = stream;
  gpu.items[static_cast<size_t>(item)].next = -1;
  if (s.tail >= 0) {
    gpu.items[static_cast<size_t>(s.tail)].next = item;
    s.tail = item;
    return;
  }
  s.head = s.tail = item;
  Advance(r, stream);
}

// As with PyTorch's NCCL streams, an operation starts after all work that the compute stream has at the call.
void Simulator::DependOnCompute(int32_t r, int32_t item) {
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Stream& compute = gpu.streams[kComputeStream];
  Item& it = gpu.items[static_cast<size_t>(item)];
  it.ready = std::max(it.ready, compute.last_done);
  if (compute.tail < 0) return;
  Item& tail = gpu.items[static_cast<size_t>(compute.tail)];
  it.waits = true;
  it.next_waiter = tail.first_waiter;
  tail.first_waiter = item;
}

void Simulator::Compute(int32_t r, int64_t ns) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Stream& compute = gpus_[static_cast<size_t>(r)].streams[kComputeStream];
  if (compute.head < 0 && ns != kNever) {
    const int64_t done = std::max(compute.last_done, rank.now) + ns;
    if (done <= rank.gpu_dead_at) {
      compute.last_done = done;
      return;
    }
  }
  const int32_t item = NewItem(r);
  Item& it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)];
  it.ready = rank.now;
  it.ns = ns;
  Append(r, kComputeStream, item);
}

// A synchronous collective on the compute stream needs no join.
void Simulator::Join(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  if (gpus_[static_cast<size_t>(r)].capturing || (job_.layout.shared_stream && !in.async)) return;
  rank.joined[in.slot] = rank.streams[StreamOf(in.slot)].issued;
  rank.joined_at[in.slot] = rank.pc + 1;
  rank.joined_after[in.slot] = rank.streams[kComputeStream].issued;
  WaitOnCompute(r, in.slot);
}

void Simulator::WaitOnCompute(int32_t r, Slot slot) {
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Stream& compute = gpu.streams[kComputeStream];
  Stream& other = gpu.streams[StreamOf(slot)];
  if (other.tail < 0 && compute.head < 0) {
    compute.last_done = std::max(compute.last_done, other.last_done);
    return;
  }
  const int32_t item = NewItem(r);
  Item& it = gpu.items[static_cast<size_t>(item)];
  it.work = Work::kJoin;
  it.ready = other.last_done;
  if (other.tail >= 0) {
    Item& tail = gpu.items[static_cast<size_t>(other.tail)];
    it.waits = true;
    it.next_waiter = tail.first_waiter;
    tail.first_waiter = item;
  }
  Append(r, kComputeStream, item);
}

uint8_t Simulator::StreamFor(int32_t r, const Instr& in) const {
  const bool alone = ranks_[static_cast<size_t>(r)].group == 0 && !ring::IsPointToPoint(in.kind) && !in.async;
  return job_.layout.shared_stream && alone && !gpus_[static_cast<size_t>(r)].capturing ? kComputeStream
                                                                                        : StreamOf(in.slot);
}

void Simulator::Enqueue(int32_t r, uint8_t stream, int32_t item) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  const Slot slot = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)].slot;
  StreamRun& run = rank.streams[stream];
  ++rank.progress[slot].launches;
  if (stream == kComputeStream) {
    // NCCL keeps one communicator's operations in order, even across streams.
    if (gpus_[static_cast<size_t>(r)].streams[StreamOf(slot)].tail >= 0) WaitOnCompute(r, slot);
  } else {
    run.waits_for = rank.streams[kComputeStream].issued;
    run.waits_after = run.issued;
    DependOnCompute(r, item);
  }
  ++run.issued;
  Append(r, stream, item);
}

void Simulator::Issue(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Progress& progress = rank.progress[in.slot];
  rank.now += Jitter(r, 5 * kMicro, 12 * kMicro);
  uint32_t seq = 0;
  const bool p2p = ring::IsPointToPoint(in.kind), sizes = in.act == Act::kAllToAllV;
  if (p2p) {
    auto it = std::find_if(rank.peers.begin(), rank.peers.end(),
                           [&](const PeerProgress& p) { return p.slot == in.slot && p.peer == in.root_or_peer; });
    if (it == rank.peers.end()) {
      rank.peers.push_back({in.slot, in.root_or_peer, 0, 0, 0, 0});
      it = rank.peers.end() - 1;
    }
    if (in.kind == CallKind::kSend) {
      seq = ++it->sends;
      it->last_send = rank.now;
    } else {
      seq = ++it->recvs;
      it->last_recv = rank.now;
    }
    ++progress.p2p;
  } else if (sizes) {
    seq = ++progress.all_to_alls;
  } else if (gpu.capturing) {
    ++progress.called;
    ++rank.captured;
  } else {
    seq = ++progress.issued;
    ++progress.called;
    progress.issued_at = rank.now;
    progress.hash += Signature(in, seq);
    if (seq % 16 == 0) progress.checkpoint[seq / 16 % 8] = progress.hash;
  }
  if (rank.group != 0 && gpu.group_record == 0) {
    // The group's own record comes first; its place in the program is the call of GroupStart.
    uint32_t begin = rank.pc;
    const Program& program = *job_.programs[static_cast<size_t>(r)];
    while (begin > 0 && program[begin].act != Act::kGroupBegin) --begin;
    AddRecord(r, begin, 0, 0);
    gpu.group_record = rank.records;
  }
  Record* record = AddRecord(r, rank.pc, seq, rank.group != 0 ? 0 : Jitter(r, 1500, 4000));
  record->called = progress.called;
  record->stream = StreamFor(r, in);
  if (gpu.capturing) {
    record->captured = true;
    return;
  }
  if (rank.group != 0) {
    record->queued = true;
    return;
  }
  const int32_t item = NewItem(r);
  Item& it = gpu.items[static_cast<size_t>(item)];
  it.work = p2p ? Work::kPointToPoint : Work::kCollective;
  it.slot = in.slot;
  it.ready = record->ret;
  it.record = rank.records;
  it.instrs[0] = rank.pc;
  it.seqs[0] = seq;
  it.ops = it.open = 1;
  if (!p2p) it.seq = sizes ? ++gpu.exchanged[in.slot] : ++gpu.launched[in.slot];
  if (in.ns > 0) {
    it.held_by = static_cast<uint8_t>(in.ns);
    gpu.held.push_back(item);
  }
  record->ticket = rank.streams[record->stream].issued + 1;
  Enqueue(r, record->stream, item);
}

// The outermost GroupEnd launches everything queued as one.
void Simulator::EndGroup(int32_t r) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  rank.now += Jitter(r, 3 * kMicro, 8 * kMicro);
  const uint32_t group = rank.group;
  rank.group = 0;
  if (gpu.group_record == 0) return;
  const Program& program = *job_.programs[static_cast<size_t>(r)];
  Record& header = rank.ring[(gpu.group_record - 1) % rank.ring.size()];
  rank.last_call[program[header.instr].thread] = rank.now;
  if (header.group == group) header.ret = rank.now;
  int32_t item = -1;
  for (uint64_t n = gpu.group_record + 1; n <= rank.records; ++n) {
    if (n + rank.ring.size() <= rank.records) continue;
    Record& record = rank.ring[(n - 1) % rank.ring.size()];
    record.queued = false;
    if (record.captured) continue;
    const Instr& in = program[record.instr];
    if (item < 0) {
      item = NewItem(r);
      Item& fresh = gpu.items[static_cast<size_t>(item)];
      fresh.work = Work::kPointToPoint;
      fresh.slot = in.slot;
      fresh.ready = rank.now;
      fresh.record = n;
    }
    Item& it = gpu.items[static_cast<size_t>(item)];
    if (it.ops == it.instrs.size()) break;
    it.seqs[it.ops] = record.seq;
    it.instrs[it.ops++] = record.instr;
    it.open = it.ops;
    record.stream = StreamOf(it.slot);
    record.ticket = rank.streams[record.stream].issued + 1;
  }
  if (item < 0) return;
  Enqueue(r, StreamOf(gpu.items[static_cast<size_t>(item)].slot), item);
}

// Advances the stream's head as far as possible.
void Simulator::Advance(int32_t r, uint8_t stream) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Stream& s = gpu.streams[stream];
  while (s.head >= 0) {
    Item& it = gpu.items[static_cast<size_t>(s.head)];
    if (it.waits) return;
    const int64_t start = std::max(s.last_done, it.ready);
    if (it.work == Work::kCompute || it.work == Work::kJoin) {
      if (it.ns == kNever || start + it.ns > rank.gpu_dead_at) return;
      Complete(r, stream, start + it.ns);
      continue;
    }
    if (stream == kComputeStream && rank.progress[it.slot].aborted) {
      Complete(r, stream, start);  // like running operations, this one gives up, and the stream continues
      continue;
    }
    if (!it.arrived && start <= rank.gpu_dead_at) {
      it.arrived = true;
      Arrive(r, it.slot, s.head, start);
    }
    return;
  }
}

// Completes the head of a stream. The caller advances the stream.
void Simulator::Complete(int32_t r, uint8_t stream, int64_t at) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Stream& s = gpu.streams[stream];
  const int32_t index = s.head;
  Item& it = gpu.items[static_cast<size_t>(index)];
  s.head = it.next;
  if (s.head < 0) s.tail = -1;
  s.last_done = at;
  stop_time_ = std::max(stop_time_, std::min(at, options_.horizon));
  if (it.mark != 0) MarkReached(r, it.mark, it.mark_end, at);
  if (it.record != 0) {
    Progress& progress = rank.progress[it.slot];
    ++progress.launches_done;
    ++rank.streams[stream].done;
    const bool sizes = (*job_.programs[static_cast<size_t>(r)])[it.instrs[0]].act == Act::kAllToAllV;
    if (it.work == Work::kCollective && !sizes) ++progress.done;
    for (uint8_t i = 0; i < it.ops; ++i) {
      if (Record* record = Find(r, it.record + i, it.slot, it.instrs[i], it.seqs[i])) record->finish = at;
    }
  }
  int32_t waiter = it.first_waiter;
  const uint8_t released_by = static_cast<uint8_t>(1 + it.slot);
  const bool releases = it.work != Work::kCompute && it.work != Work::kJoin && !gpu.held.empty();
  FreeItem(r, index);
  while (waiter >= 0) {
    Item& w = gpu.items[static_cast<size_t>(waiter)];
    const int32_t next = w.next_waiter;
    w.ready = std::max(w.ready, at);
    w.waits = false;
    const uint8_t other = w.stream;
    if (gpu.streams[other].head == waiter && other != stream) Advance(r, other);
    waiter = next;
  }
  if (!releases) return;
  for (size_t i = 0; i < gpu.held.size(); ++i) {
    Item& held = gpu.items[static_cast<size_t>(gpu.held[i])];
    if (held.held_by != released_by) continue;
    const int32_t item = gpu.held[i];
    gpu.held.erase(gpu.held.begin() + static_cast<std::ptrdiff_t>(i));
    held.held_by = 0;
    if (held.arrived) Arrive(r, held.slot, item, std::max(held.ready, at));
    break;
  }
}

void Simulator::CheckWait(int32_t r) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  if (gpu.host_waits == CallKind::kNone || rank.status != HostStatus::kInWait) return;
  int64_t done = gpu.streams[kComputeStream].last_done;
  if (gpu.streams[kComputeStream].head >= 0) return;
  if (gpu.host_waits == CallKind::kDeviceSynchronize) {
    for (const Stream& s : gpu.streams) {
      if (s.head >= 0) return;
      done = std::max(done, s.last_done);
    }
  }
  gpu.host_waits = CallKind::kNone;
  const int64_t until = std::max(rank.now, done) + Jitter(r, 4 * kMicro, 9 * kMicro);
  rank.waits[(rank.wait_count - 1) % 4].until = until;
  Resume(r, until);
}

void Simulator::Arrive(int32_t r, Slot slot, int32_t item, int64_t at) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Item& it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)];
  Progress& progress = rank.progress[slot];
  const bool again = it.latest == kNever;  // the operation was held back after its stream had reached it
  if (!again && it.record != 0) {
    ++progress.launches_started;
    ++rank.streams[it.stream].started;
    if (it.work == Work::kCollective && (*job_.programs[static_cast<size_t>(r)])[it.instrs[0]].act != Act::kAllToAllV)
      ++progress.started;
    for (uint8_t i = 0; i < it.ops; ++i) {
      if (Record* record = Find(r, it.record + i, slot, it.instrs[i], it.seqs[i])) record->start = at;
    }
  }
  if (!again && it.held_by != 0) {
    it.latest = kNever;
    return;
  }
  it.latest = 0;
  if (it.work == Work::kCollective) {
    ArriveCollective(r, slot, item, at);
  } else {
    ArriveGroup(r, slot, item, at);
  }
}

Simulator::Instance* Simulator::Open(int32_t comm, uint32_t seq, uint32_t kind) {
  for (Instance& instance : comms_[static_cast<size_t>(comm)].open) {
    if (instance.seq == seq && instance.kind == kind) return &instance;
  }
  return nullptr;
}

void Simulator::ArriveCollective(int32_t r, Slot slot, int32_t item, int64_t at) {
  const Item& it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)];
  const int32_t index = job_.comm_of[static_cast<size_t>(r)][slot];
  const Comm& comm = job_.comms[static_cast<size_t>(index)];
  const Instr& in = (*job_.programs[static_cast<size_t>(r)])[it.instrs[0]];
  const uint32_t kind = in.act == Act::kAllToAllV ? 1 : 0;
  Instance* instance = Open(index, it.seq, kind);
  if (instance == nullptr) {
    comms_[static_cast<size_t>(index)].open.push_back({});
    instance = &comms_[static_cast<size_t>(index)].open.back();
    instance->seq = it.seq;
    instance->kind = kind;
    instance->first = &in;
    instance->most_bytes = BytesOf(in);
  }
  ++instance->arrived;
  instance->last = std::max(instance->last, at);
  instance->other_kind |= instance->first->kind != in.kind;
  // In all-to-alls with sizes, root_or_peer >= 0 marks a row that does not fit the others' columns.
  instance->other_bytes |= BytesOf(*instance->first) != BytesOf(in) || (kind == 1 && in.root_or_peer >= 0);
  instance->other_root |= kind == 0 && instance->first->root_or_peer != in.root_or_peer;
  instance->most_bytes = std::max(instance->most_bytes, BytesOf(in));
  if (instance->arrived < comm.members.size()) return;
  const int64_t finish = instance->last + Duration(comm, in, instance->last);
  const bool stuck =
      instance->other_kind || instance->other_bytes || (instance->other_root && instance->most_bytes > (64u << 10));
  if (!stuck) {
    queue_.push({finish, kCollectiveEvent, static_cast<uint32_t>(index), it.seq, kind});
  } else if (!instance->other_kind && kind == 0 && Mix(job_.seed, it.seq) % 2 == 0) {
    // A rank with less data completes; the others wait for the rest.
    queue_.push({finish, kPartlyEvent, static_cast<uint32_t>(index), it.seq, kind});
  }
}

void Simulator::FinishCollective(const Event& event) {
  const auto index = static_cast<int32_t>(event.a);
  CommRun& run = comms_[event.a];
  Instance* instance = Open(index, event.b, event.c);
  if (instance == nullptr) return;
  const Comm& comm = job_.comms[event.a];
  bool partly = false;
  if (run.broken_at < event.at) {
    // If a GPU fails near the end, its peers may already have all its data.
    const int64_t length = event.at - instance->last;
    partly = instance->last < run.broken_at && event.at - run.broken_at < length / 3;
    if (!partly) return;
    for (int32_t r : comm.members) {
      const RankRun& rank = ranks_[static_cast<size_t>(r)];
      if (rank.gpu_dead_at < event.at && rank.gpu_error == 0) return;
    }
    if (std::none_of(comm.members.begin(), comm.members.end(),
                     [&](int32_t r) { return ranks_[static_cast<size_t>(r)].gpu_dead_at < event.at; }))
      return;
  }
  const Instance over = *instance;
  *instance = run.open.back();
  run.open.pop_back();
  for (int32_t r : comm.members) {
    if (partly && ranks_[static_cast<size_t>(r)].gpu_dead_at < event.at) continue;
    const uint8_t stream = StreamIn(r, comm.slot, over);
    Complete(r, stream, event.at + Jitter(r, 0, 2 * kMicro));
    Advance(r, stream);
    CheckWait(r);
  }
}

uint8_t Simulator::StreamIn(int32_t r, Slot slot, const Instance& instance) const {
  const Gpu& gpu = gpus_[static_cast<size_t>(r)];
  const int32_t head = gpu.streams[kComputeStream].head;
  if (!job_.layout.shared_stream || head < 0) return StreamOf(slot);
  const Item& it = gpu.items[static_cast<size_t>(head)];
  if (it.work != Work::kCollective || it.slot != slot || it.seq != instance.seq) return StreamOf(slot);
  const bool sizes = (*job_.programs[static_cast<size_t>(r)])[it.instrs[0]].act == Act::kAllToAllV;
  return it.arrived && sizes == (instance.kind == 1) ? kComputeStream : StreamOf(slot);
}

void Simulator::FinishPartly(const Event& event) {
  const auto index = static_cast<int32_t>(event.a);
  Instance* instance = Open(index, event.b, event.c);
  if (instance == nullptr || comms_[event.a].broken_at < event.at) return;
  const uint64_t most = instance->most_bytes;
  const Comm& comm = job_.comms[event.a];
  const Instance part = *instance;
  for (int32_t r : comm.members) {
    const uint8_t stream = StreamIn(r, comm.slot, part);
    const Gpu& gpu = gpus_[static_cast<size_t>(r)];
    const Item& it = gpu.items[static_cast<size_t>(gpu.streams[stream].head)];
    if (BytesOf((*job_.programs[static_cast<size_t>(r)])[it.instrs[0]]) == most) continue;
    Complete(r, stream, event.at);
    Advance(r, stream);
    CheckWait(r);
  }
}

void Simulator::ArriveGroup(int32_t r, Slot slot, int32_t item, int64_t at) {
  const int32_t comm = job_.comm_of[static_cast<size_t>(r)][slot];
  const int32_t me = job_.member_of[static_cast<size_t>(r)][slot];
  const Item it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)];
  for (uint8_t i = 0; i < it.ops; ++i) {
    const Instr& in = (*job_.programs[static_cast<size_t>(r)])[it.instrs[i]];
    const bool send = in.kind == CallKind::kSend;
    Pair& pair = pairs_[send ? PairKey(comm, me, in.root_or_peer) : PairKey(comm, in.root_or_peer, me)];
    std::vector<Half>& others = send ? pair.recvs : pair.sends;
    const Half mine{at, r, item, BytesOf(in), false};
    if (others.empty()) {
      (send ? pair.sends : pair.recvs).push_back(mine);
      continue;
    }
    const Half other = others.front();
    others.erase(others.begin());
    if (other.bytes != mine.bytes) continue;  // one side waits forever for data that the other does not send
    uint32_t number = 0;
    if (free_pair_events_.empty()) {
      number = static_cast<uint32_t>(pair_events_.size());
      pair_events_.push_back({});
    } else {
      number = free_pair_events_.back();
      free_pair_events_.pop_back();
    }
    pair_events_[number] = {{r, other.rank}, {item, other.item}, comm};
    const int64_t both = std::max(at, other.at);
    queue_.push({both + Duration(job_.comms[static_cast<size_t>(comm)], in, both), kPairEvent, number, 0, 0});
  }
}

void Simulator::FinishPair(const Event& event) {
  const PairEvent pair = pair_events_[event.a];
  free_pair_events_.push_back(event.a);
  if (!options_.pair_cuts.empty() && PairIsCut(pair.rank[0], pair.rank[1], event.at)) {
    cut_pairs_.push_back({pair.comm, {pair.rank[0], pair.rank[1]}, {}});
    return;
  }
  if (comms_[static_cast<size_t>(pair.comm)].broken_at < event.at) {
    // If a GPU is dead or a process is frozen, other ranks of a pipeline's communicator continue: only operations with
    // that rank are stuck. If the communicator was cut, all are stuck.
    bool touches = false, any_dead = false;
    for (int32_t r : pair.rank)
      touches |= ranks_[static_cast<size_t>(r)].gpu_dead_at < event.at ||
                 ranks_[static_cast<size_t>(r)].status == HostStatus::kFrozen;
    for (int32_t r : job_.comms[static_cast<size_t>(pair.comm)].members)
      any_dead |= ranks_[static_cast<size_t>(r)].gpu_dead_at < event.at ||
                  ranks_[static_cast<size_t>(r)].status == HostStatus::kFrozen;
    if (touches || !any_dead) return;
  }
  for (size_t side = 0; side < 2; ++side) {
    const int32_t r = pair.rank[side];
    Item& it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(pair.item[side])];
    it.latest = std::max(it.latest, event.at);
    if (--it.open > 0) continue;
    const uint8_t stream = it.stream;
    Complete(r, stream, it.latest + Jitter(r, 0, 2 * kMicro));
    Advance(r, stream);
    CheckWait(r);
  }
}

std::vector<Standing> Simulator::StandingStill() const {
  std::vector<Standing> all = cut_pairs_;
  for (size_t c = 0; c < comms_.size(); ++c) {
    const Comm& comm = job_.comms[c];
    for (const Instance& instance : comms_[c].open) {
      Standing standing;
      standing.comm = static_cast<int32_t>(c);
      for (int32_t r : comm.members) {
        const Gpu& gpu = gpus_[static_cast<size_t>(r)];
        const int32_t head = gpu.streams[StreamIn(r, comm.slot, instance)].head;
        bool in = head >= 0;
        if (in) {
          const Item& it = gpu.items[static_cast<size_t>(head)];
          const bool sizes = (*job_.programs[static_cast<size_t>(r)])[it.instrs[0]].act == Act::kAllToAllV;
          in = it.arrived && it.work == Work::kCollective && it.seq == instance.seq && sizes == (instance.kind == 1);
        }
        (in ? standing.inside : standing.absent).push_back(r);
      }
      all.push_back(std::move(standing));
    }
  }
  for (const auto& [key, pair] : pairs_) {
    const auto c = static_cast<int32_t>(key >> 40);
    const auto& members = job_.comms[static_cast<size_t>(c)].members;
    const auto from = static_cast<size_t>(key >> 20 & 0xfffff), to = static_cast<size_t>(key & 0xfffff);
    for (const Half& half : pair.sends) all.push_back({c, {half.rank}, {members[to]}});
    for (const Half& half : pair.recvs) all.push_back({c, {half.rank}, {members[from]}});
  }
  return all;
}

void Simulator::Abort(int32_t r, Slot slot) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  Record* record = AddRecord(r, rank.pc, 0, 2 * kMilli);
  Progress& progress = rank.progress[slot];
  progress.aborted = true;
  progress.ended = record->enter;
  Stream& s = gpu.streams[StreamOf(slot)];
  while (s.head >= 0) {
    Complete(r, StreamOf(slot), rank.now);  // the kernel gives up, and the stream continues
  }
  const Stream& compute = gpu.streams[kComputeStream];
  if (!job_.layout.shared_stream || compute.head < 0) return;
  const Item& it = gpu.items[static_cast<size_t>(compute.head)];
  if (it.work != Work::kCollective || it.slot != slot || !it.arrived) return;
  Complete(r, kComputeStream, rank.now);
  Advance(r, kComputeStream);
}

void Simulator::Mark(int32_t r, uint32_t number, bool end) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Stream& compute = gpus_[static_cast<size_t>(r)].streams[kComputeStream];
  if (compute.head < 0) {
    const int64_t at = std::max(compute.last_done, rank.now);
    if (at <= rank.gpu_dead_at) MarkReached(r, number, end, at);
    return;
  }
  const int32_t item = NewItem(r);
  Item& it = gpus_[static_cast<size_t>(r)].items[static_cast<size_t>(item)];
  it.ready = rank.now;
  it.mark = number;
  it.mark_end = end;
  Append(r, kComputeStream, item);
}

// Progress inside a graph is unknown, so all operations of a launch start and complete together.
void Simulator::MarkReached(int32_t r, uint32_t number, bool end, int64_t at) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Launch& launch = rank.launches[number - 1];
  (end ? launch.finish : launch.start) = at;
  for (uint64_t n = rank.records; n > 0 && n + rank.ring.size() > rank.records; --n) {
    Record& record = rank.ring[(n - 1) % rank.ring.size()];
    if (record.replay != 0 && record.replay < number) break;
    if (record.replay == number) (end ? record.finish : record.start) = at;
  }
  const Program& program = *job_.programs[static_cast<size_t>(r)];
  bool inside = false;
  for (const Instr& op : program) {
    if (op.act == Act::kGraphEnd) break;
    inside |= op.act == Act::kGraphBegin;
    if (inside && op.act == Act::kCall) ++(end ? rank.progress[op.slot].done : rank.progress[op.slot].started);
  }
}

// Issues the captured operations again. They get their communicators' next numbers, like the CPU thread's calls. Each
// leaves a record in the form that a reader derives from the launch's record.
void Simulator::LaunchGraph(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  Gpu& gpu = gpus_[static_cast<size_t>(r)];
  const int64_t entered = rank.now;
  rank.now += Jitter(r, 20 * kMicro, 40 * kMicro);
  rank.launches.push_back({entered, kNever, kNever});
  const auto number = static_cast<uint32_t>(rank.launches.size());
  uint32_t place = 0;
  Mark(r, number, false);
  const Program& program = *job_.programs[static_cast<size_t>(r)];
  for (auto i = static_cast<uint32_t>(in.count) + 1; i < program.size() && program[i].act != Act::kGraphEnd; ++i) {
    const Instr& op = program[i];
    if (op.act == Act::kCompute) {
      Compute(r, static_cast<int64_t>(static_cast<double>(op.ns) * job_.compute_factor[static_cast<size_t>(r)]));
    } else if (op.act == Act::kJoin) {
      WaitOnCompute(r, op.slot);
    } else if (op.act == Act::kCall && !ring::IsPointToPoint(op.kind)) {
      Progress& progress = rank.progress[op.slot];
      const uint32_t seq = ++progress.issued;
      progress.issued_at = entered;
      progress.hash += Signature(op, seq);
      if (seq % 16 == 0) progress.checkpoint[seq / 16 % 8] = progress.hash;
      Record* record = AddRecord(r, i, seq, 0);
      record->enter = entered;
      record->start = rank.launches.back().start;
      record->replay = number;
      record->place = ++place;
      record->called = progress.called;
      const int32_t item = NewItem(r);
      Item& it = gpu.items[static_cast<size_t>(item)];
      it.work = Work::kCollective;
      it.slot = op.slot;
      it.ready = rank.now;
      it.instrs[0] = i;
      it.ops = it.open = 1;
      it.seq = ++gpu.launched[op.slot];
      DependOnCompute(r, item);
      Append(r, StreamOf(op.slot), item);
    }
  }
  Mark(r, number, true);
}

}  // namespace lockstep::corpus
