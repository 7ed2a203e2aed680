#include "tests/corpus/capture.h"

#include <algorithm>

#include "recorder/ring/snapshot.h"

namespace lockstep::corpus {
namespace {

class Capturer {
 public:
  Capturer(const Simulator& run, const CaptureOptions& options, int32_t rank)
      : run_(run),
        job_(run.job()),
        options_(options),
        rank_(run.ranks()[static_cast<size_t>(rank)]),
        program_(*job_.programs[static_cast<size_t>(rank)]) {
    view_.rank = rank;
    view_.captured =
        options.at + (options.jitter > 0 ? static_cast<int64_t>(Mix(job_.seed + 9, static_cast<uint64_t>(rank)) %
                                                                static_cast<uint64_t>(options.jitter))
                                         : 0);
    comm_at_.fill(-1);
    stream_at_.fill(-1);
  }

  RankView Take() {
    Comms();
    Streams();
    Ring();
    Recent();
    Threads();
    Finish();
    return std::move(view_);
  }

 private:
  bool Seen(int64_t t) const { return t <= view_.captured; }

  void Comms() {
    for (uint8_t s = 0; s < kSlots; ++s) {
      const Progress& p = rank_.progress[s];
      const int32_t comm = job_.comm_of[static_cast<size_t>(view_.rank)][s];
      if (comm < 0 || p.made_by == CallKind::kNone || !Seen(p.created)) continue;
      CommView c;
      c.comm = comm;
      c.slot = static_cast<Slot>(s);
      c.member_rank = job_.member_of[static_cast<size_t>(view_.rank)][s];
      c.made_by = p.made_by;
      c.issued = p.issued;
      c.called = p.called;
      c.started = p.started;
      c.done = p.done;
      c.hash = p.hash;
      c.issued_at = p.issued_at;
      c.created = p.created;
      c.ready = Seen(p.ready) ? p.ready : 0;
      c.p2p = p.p2p;
      c.all_to_alls = p.all_to_alls;
      c.launches = p.launches;
      c.launches_started = p.launches_started;
      c.launches_done = p.launches_done;
      using ring::CommState;
      CommState state = c.ready == 0 ? CommState::kInitializing : CommState::kReady;
      if (p.finalizing && Seen(p.ended)) state = CommState::kFinalizing;
      if (p.aborted && Seen(p.ended)) state = CommState::kAborted;
      if (state != CommState::kReady && state != CommState::kInitializing) c.ended = p.ended;
      c.state = static_cast<uint32_t>(state);
      if (p.async_error != 0 && Seen(p.async_error_at)) {
        c.async_error = p.async_error;
        c.async_error_at = p.async_error_at;
      }
      for (const PeerProgress& peer : rank_.peers) {
        if (peer.slot == c.slot) c.peers.push_back(peer);
      }
      comm_at_[s] = static_cast<int32_t>(view_.comms.size());
      view_.comms.push_back(std::move(c));
    }
  }

  // Lists the used streams: those of the communicators, then the compute stream.
  void Streams() {
    bool used = false;
    for (const CommView& c : view_.comms) {
      const Progress& p = rank_.progress[c.slot];
      if (p.issued + p.p2p + p.all_to_alls == 0) continue;
      used = true;
      if (!job_.layout.shared_stream || p.p2p > 0 || rank_.streams[StreamOf(c.slot)].issued > 0)
        AddStream(StreamOf(c.slot));
    }
    if (!used) return;
    AddStream(kComputeStream);
    Graph();
  }

  void AddStream(uint8_t stream) {
    stream_at_[stream] = static_cast<int32_t>(view_.streams.size());
    StreamView s;
    s.stream = stream;
    s.issued = rank_.streams[stream].issued;
    s.started = rank_.streams[stream].started;
    s.completed = rank_.streams[stream].done;
    view_.streams.push_back(s);
  }

  void Graph() {
    if (rank_.captured == 0 || !Seen(rank_.captured_at)) return;
    StreamView& compute = view_.streams.back();
    GraphView& graph = view_.graph;
    graph.operations = rank_.captured;
    graph.captured_at = rank_.captured_at;
    graph.stream = stream_at_[kComputeStream];
    for (const Launch& launch : rank_.launches) {
      if (!Seen(launch.enter)) break;
      ++graph.launches;
      graph.last_launch = launch.enter;
      graph.started += Seen(launch.start);
      graph.completed += Seen(launch.finish);
    }
    compute.issued = graph.launches;
    compute.started = graph.started;
    compute.completed = graph.completed;
  }

  OpView Make(const Record& record, const Instr& in) {
    OpView op;
    op.instr = &in;
    op.slot = in.slot;
    op.kind = in.kind;
    op.comm = comm_at_[in.slot];
    op.root_or_peer = in.root_or_peer;
    op.count = in.count;
    op.seq = record.seq;
    op.called = record.called;
    op.replay = record.replay;
    op.place = record.place;
    op.thread = in.thread;
    op.group = record.group;
    op.enter = record.enter;
    op.ret = Seen(record.ret) ? record.ret : kNever;
    op.start = Seen(record.start) ? record.start : kNever;
    op.finish = Seen(record.finish) ? record.finish : kNever;
    if (in.act == Act::kCall) op.stream = stream_at_[record.replay != 0 ? kComputeStream : record.stream];
    if (in.act == Act::kGroupBegin) {
      op.kind = CallKind::kGroup;
      op.comm = -1;
      op.root_or_peer = -1;
    }
    if (in.act == Act::kSplit) op.root_or_peer = job_.member_of[static_cast<size_t>(view_.rank)][kWorld];
    if (in.act == Act::kSplit && op.comm >= 0)
      op.count =
          static_cast<uint64_t>(job_.comms[static_cast<size_t>(view_.comms[static_cast<size_t>(op.comm)].comm)].color);
    if (in.act == Act::kInit) op.root_or_peer = job_.member_of[static_cast<size_t>(view_.rank)][in.slot];
    if (in.act == Act::kInit && job_.CommOf(view_.rank, in.slot) != nullptr)
      op.count = job_.CommOf(view_.rank, in.slot)->members.size();
    if (in.act == Act::kFinalize) op.kind = CallKind::kCommFinalize;
    if (in.act == Act::kAbort) op.kind = CallKind::kCommAbort;
    const bool operation = in.act == Act::kCall || in.act == Act::kAllToAllV;
    if (!operation) return op;
    if (record.captured) {
      op.stage = Stage::kCaptured;
      op.graph = 1;
    } else if (op.ret == kNever) {
      op.stage = Stage::kEntered;
    } else if (record.queued) {
      op.stage = Stage::kQueued;
    } else {
      op.stage = GpuStage(op);
    }
    return op;
  }

  Stage GpuStage(const OpView& op) const {
    if (options_.marks == Marks::kOff) return Stage::kUnknown;
    if (op.finish != kNever) return Stage::kCompleted;
    if (options_.marks == Marks::kDone) return Stage::kIncomplete;
    return op.start != kNever ? Stage::kStarted : Stage::kEnqueued;
  }

  // Reads the ring from the newest record to the oldest. Subtracts what happened after the capture from the counters.
  void Ring() {
    std::array<uint32_t, kSlots> launch{}, group_launch{}, group_number{};
    for (uint8_t s = 0; s < kSlots; ++s) launch[s] = rank_.progress[s].launches;
    std::array<uint64_t, 2> index{rank_.calls[0], rank_.calls[1]};
    const uint64_t size = rank_.ring.size();
    const uint64_t oldest = rank_.records > size ? rank_.records - size + 1 : 1;
    uint32_t taken = 0;
    std::vector<OpView> newest_first;
    bool open_group = rank_.group != 0;
    for (uint64_t n = rank_.records; n >= oldest; --n) {
      const Record& record = rank_.ring[(n - 1) % size];
      const Instr& in = program_[record.instr];
      const bool operation = (in.act == Act::kCall || in.act == Act::kAllToAllV) && !record.captured;
      const bool sizes = in.act == Act::kAllToAllV;
      const size_t members = sizes ? job_.CommOf(view_.rank, in.slot)->members.size() : 0;
      index[in.thread] -= 1 + 2 * members;
      uint32_t mine = 0;
      bool fresh_launch = false;
      if (operation && !record.queued && record.replay == 0) {
        if (record.group == 0) {
          mine = launch[in.slot]--;
          fresh_launch = true;
        } else {
          if (group_number[in.slot] != record.group) {
            group_number[in.slot] = record.group;
            group_launch[in.slot] = launch[in.slot]--;
            fresh_launch = true;
          }
          mine = group_launch[in.slot];
        }
      }
      if (operation) TakeBack(record, in, fresh_launch);
      if (!Seen(record.enter)) {
        view_taken_back_[in.thread] += 1 + 2 * members;
        continue;
      }
      if (taken >= options_.depth) break;
      OpView op = Make(record, in);
      op.launch = mine;
      // The ticket of a replayed operation is the number of its launch.
      const uint32_t ticket = record.replay != 0 ? record.replay : record.ticket;
      op.ticket = options_.marks == Marks::kOff || !operation ? 0 : ticket;
      op.index = index[in.thread];
      oldest_taken_ = n;
      if (sizes && options_.expand) {
        taken += 1 + static_cast<uint32_t>((2 * members + 3) / 4);
        Expand(record, op, &newest_first);
        continue;
      }
      if (in.act == Act::kGroupBegin) {
        uint64_t count = 0;
        for (const OpView& other : newest_first) count += other.group == record.group && other.group != 0;
        op.count = count;
        if (open_group && record.group == rank_.group) op.ret = kNever;
      }
      ++taken;
      newest_first.push_back(op);
    }
    view_.ops.assign(newest_first.rbegin(), newest_first.rend());
  }

  void TakeBack(const Record& record, const Instr& in, bool fresh_launch) {
    if (comm_at_[in.slot] < 0) return;
    CommView& c = view_.comms[static_cast<size_t>(comm_at_[in.slot])];
    StreamView none;
    const int32_t stream = stream_at_[record.replay != 0 ? kComputeStream : record.stream];
    StreamView& s = stream < 0 ? none : view_.streams[static_cast<size_t>(stream)];
    const bool collective = in.act == Act::kCall && ring::IsCollective(in.kind);
    auto late = [&](int64_t t) { return t != kNever && !Seen(t); };
    if (late(record.finish)) {
      if (collective) --c.done;
      if (fresh_launch) --s.completed, --c.launches_done;
    }
    if (late(record.start)) {
      if (collective) --c.started;
      if (fresh_launch) --s.started, --c.launches_started;
    }
    if (Seen(record.enter)) {
      if (collective && c.issued_at > view_.captured) c.issued_at = record.enter;
      return;
    }
    if (fresh_launch) --s.issued, --c.launches;
    if (collective) {
      c.hash -= Signature(in, record.seq);
      --c.issued;
      c.called -= record.replay == 0;
    } else if (in.act == Act::kAllToAllV) {
      --c.all_to_alls;
    } else {
      --c.p2p;
      for (PeerProgress& peer : c.peers) {
        if (peer.peer != in.root_or_peer) continue;
        --(in.kind == CallKind::kSend ? peer.sends : peer.recvs);
        int64_t& last = in.kind == CallKind::kSend ? peer.last_send : peer.last_recv;
        last = std::min(last, view_.captured);
      }
    }
  }

  // Expands the operation to a send and a receive with every member, in one group, after the group's own record.
  void Expand(const Record& record, const OpView& base, std::vector<OpView>* newest_first) {
    const Comm& comm = *job_.CommOf(view_.rank, base.slot);
    const auto n = static_cast<int32_t>(comm.members.size());
    const int32_t me = job_.member_of[static_cast<size_t>(view_.rank)][base.slot];
    const uint64_t group = 1'000'000 + record.seq;
    OpView header = base;
    header.kind = CallKind::kGroup;
    header.comm = header.stream = -1;
    header.ticket = header.seq = 0;
    header.count = static_cast<uint64_t>(2 * n);
    header.root_or_peer = -1;
    header.group = group;
    header.stage = Stage::kUnknown;
    std::vector<OpView> ops{header};
    for (int32_t peer = 0; peer < n; ++peer) {
      for (CallKind kind : {CallKind::kSend, CallKind::kRecv}) {
        OpView op = base;
        op.kind = kind;
        op.all_to_all = true;
        op.root_or_peer = peer;
        op.group = group;
        op.index = base.index + ops.size();
        op.stream = stream_at_[record.stream];
        op.ret = base.ret == kNever ? kNever : base.enter;
        const bool send = kind == CallKind::kSend;
        op.count = SplitSize(comm.id, record.seq, send ? me : peer, send ? peer : me, base.instr->count);
        // The wrong row: the rank sends more to this peer than the peer expects.
        if (send && base.instr->root_or_peer == peer) op.count += 512 + base.instr->count / 4;
        ops.push_back(op);
      }
    }
    newest_first->insert(newest_first->end(), ops.rbegin(), ops.rend());
  }

  void Recent() {
    std::vector<OpView> recent;
    for (const CommView& c : view_.comms) {
      const Progress& p = rank_.progress[c.slot];
      uint32_t in_ring[2] = {0, 0};
      for (const OpView& op : view_.ops) {
        const bool numbered = op.stage != Stage::kCaptured && op.replay == 0;
        if (op.comm == comm_at_[c.slot] && op.instr->act == Act::kCall && numbered)
          ++in_ring[ring::IsPointToPoint(op.kind)];
      }
      // These operations come between the captured ones and those that left the simulator's slightly larger ring.
      std::vector<Record> lists[2] = {p.recent, p.recent_p2p};
      const uint64_t size = rank_.ring.size();
      const uint64_t oldest = rank_.records > size ? rank_.records - size + 1 : 1;
      for (uint64_t n = oldest; n < std::min(oldest_taken_, rank_.records + 1); ++n) {
        const Record& record = rank_.ring[(n - 1) % size];
        const Instr& in = program_[record.instr];
        if (record.captured || record.replay != 0) continue;
        if (in.act == Act::kCall && in.slot == c.slot) lists[ring::IsPointToPoint(in.kind)].push_back(record);
      }
      for (int p2p = 0; p2p < 2; ++p2p) {
        const size_t keep = p2p != 0 ? 8 : 16;
        if (in_ring[p2p] >= keep) continue;
        const size_t want = std::min(keep - in_ring[p2p], lists[p2p].size());
        for (size_t i = lists[p2p].size() - want; i < lists[p2p].size(); ++i) {
          const Record& record = lists[p2p][i];
          if (!Seen(record.enter)) continue;
          OpView op = Make(record, program_[record.instr]);
          op.recent_only = true;
          op.ticket = options_.marks == Marks::kOff ? 0 : record.ticket;
          op.group = 0;
          recent.push_back(op);
        }
      }
    }
    view_.ops.insert(view_.ops.begin(), recent.begin(), recent.end());
  }

  void Threads() {
    const uint8_t count = rank_.calls[1] > 0 ? 2 : 1;
    for (uint8_t t = 0; t < count; ++t) {
      ThreadView thread;
      thread.name = t == 0 ? "pt_main_thread" : "pt_autograd_0";
      thread.calls = rank_.calls[t] - view_taken_back_[t];
      uint64_t first = thread.calls;
      for (const OpView& op : view_.ops) {
        if (op.recent_only || op.thread != t) continue;
        first = std::min(first, op.index);
        thread.last_call = std::max(thread.last_call, op.ret == kNever ? op.enter : op.ret);
      }
      thread.overwritten = first;
      for (const Wait& wait : rank_.waits) {
        if (wait.kind == CallKind::kNone || wait.thread != t || wait.from > view_.captured) continue;
        if (wait.until > view_.captured) {
          thread.wait = wait.kind;
          thread.wait_since = wait.from;
        } else {
          thread.last_call = std::max(thread.last_call, wait.until);
        }
      }
      view_.threads.push_back(thread);
    }
    view_.status = rank_.status;
    if (rank_.status_since > view_.captured || rank_.status == HostStatus::kHorizon ||
        rank_.status == HostStatus::kInWait)
      view_.status = HostStatus::kRunning;
    if (view_.status == HostStatus::kDead || view_.status == HostStatus::kExited) view_.ended = rank_.status_since;
    for (OpView& op : view_.ops) {
      if (op.ret != kNever || (op.instr->act != Act::kInit && op.instr->act != Act::kSplit)) continue;
      view_.threads[0].call = op.kind;
      view_.threads[0].call_comm = op.comm;
      view_.threads[0].since = op.enter;
      view_.status = HostStatus::kInCall;
    }
    if (rank_.group != 0 && Seen(rank_.group_since)) {
      view_.threads[0].group_depth = rank_.group_depth;
      view_.threads[0].group_since = rank_.group_since;
    }
  }

  void Finish() {
    for (const OpView& op : view_.ops) {
      if (op.comm < 0) continue;
      CommView& c = view_.comms[static_cast<size_t>(op.comm)];
      if (op.instr->act != Act::kCall && op.instr->act != Act::kAllToAllV) continue;
      ++c.retained;
      if (op.instr->act == Act::kCall && ring::IsCollective(op.kind) && op.seq != 0 &&
          (c.oldest_retained == 0 || op.seq < c.oldest_retained))
        c.oldest_retained = op.seq;
    }
    for (CommView& c : view_.comms) {
      const auto members = job_.comms[static_cast<size_t>(c.comm)].members.size();
      c.operations = static_cast<uint64_t>(c.issued) + c.p2p + uint64_t{c.all_to_alls} * 2 * members;
      c.launched = c.issued;
      const Progress& p = rank_.progress[c.slot];
      for (int64_t seq = std::max<int64_t>(16, (c.issued - 127) / 16 * 16); seq <= c.issued; seq += 16) {
        if (seq + 128 > p.issued)
          c.checkpoints.push_back({static_cast<uint32_t>(seq), p.checkpoint[static_cast<size_t>(seq / 16 % 8)]});
      }
      if (c.all_to_alls > 0) {
        for (int32_t peer = 0; peer < static_cast<int32_t>(members); ++peer)
          c.peers.push_back({c.slot, peer, c.all_to_alls, c.all_to_alls, c.issued_at, c.issued_at});
      }
    }
    for (const OpView& op : view_.ops) {
      if (op.comm >= 0 && op.instr->act == Act::kCall && ring::IsCollective(op.kind) &&
          (op.stage == Stage::kQueued || op.stage == Stage::kEntered)) {
        CommView& c = view_.comms[static_cast<size_t>(op.comm)];
        c.launched = std::min<int64_t>(c.launched, static_cast<int64_t>(op.seq) - 1);
      }
    }
    if (view_.streams.empty()) return;
    // The last waits of the compute stream. The recorder keeps four.
    std::vector<std::pair<uint32_t, uint8_t>> joins;
    for (uint8_t s = 0; s < kSlots; ++s) {
      if (rank_.joined_at[s] > 0 && stream_at_[StreamOf(static_cast<Slot>(s))] >= 0)
        joins.push_back({rank_.joined_at[s], s});
    }
    std::sort(joins.rbegin(), joins.rend());
    if (joins.size() > 4) joins.resize(4);
    const auto compute = static_cast<uint32_t>(stream_at_[kComputeStream]);
    for (const auto& [at, s] : joins) {
      const auto index = static_cast<uint32_t>(stream_at_[StreamOf(static_cast<Slot>(s))]);
      StreamView& waits = view_.streams[compute];
      waits.depends.push_back({index, std::min(rank_.joined[s], view_.streams[index].issued),
                               std::min(rank_.joined_after[s], waits.issued)});
    }
    const uint32_t computed = view_.streams[compute].issued;
    for (StreamView& stream : view_.streams) {
      const StreamRun& run = rank_.streams[stream.stream];
      if (stream.stream != kComputeStream)
        stream.depends.push_back(
            {compute, std::min(run.waits_for, computed), std::min(run.waits_after, stream.issued)});
      if (rank_.gpu_error != 0 && Seen(rank_.gpu_dead_at) && stream.completed < stream.issued)
        stream.first_error = rank_.gpu_error;
      if (options_.marks == Marks::kOff) stream.issued = 0;
      if (options_.marks != Marks::kFull && options_.marks != Marks::kTimed) stream.started = 0;
      if (options_.marks == Marks::kOff) stream.completed = 0;
    }
  }

  const Simulator& run_;
  const Job& job_;
  const CaptureOptions& options_;
  const RankRun& rank_;
  const Program& program_;
  RankView view_;
  std::array<int32_t, kSlots> comm_at_{};
  std::array<int32_t, kStreams> stream_at_{};
  std::array<uint64_t, 2> view_taken_back_{};
  uint64_t oldest_taken_ = UINT64_MAX;
};

}  // namespace

RankView Capture(const Simulator& run, const CaptureOptions& options, int32_t rank) {
  return Capturer(run, options, rank).Take();
}

}  // namespace lockstep::corpus
