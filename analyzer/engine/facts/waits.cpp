#include "analyzer/engine/facts/waits.h"

#include <algorithm>

#include "analyzer/engine/facts/activity.h"

namespace lockstep {

namespace {

// At most this many of the last completions may be missing from a dump, because the framework's watchdog has not
// noticed them yet.
constexpr int32_t kBetweenLooks = 2;
// After this time, the watchdog has noticed a completion.
constexpr int64_t kNoticed = 2'000'000'000;

// Returns whether the rank is creating a communicator without blocking its CPU thread.
bool MakesWithoutBlocking(const Rank& rank) {
  return std::ranges::any_of(rank.memberships, [](const Membership& ms) {
    return ms.state == ring::CommState::kInitializing && !ms.recorded->blocking;
  });
}

// Finds the oldest unfinished operation of a stream if Lockstep's own record lost it. The operation is known only from
// the stream's tickets, which count the work put on the stream, from 1.
void FindLostOnStreams(const Model& model, Queue* queue) {
  const Rank& rank = model.bundle.ranks[queue->rank];
  for (uint32_t s = 0; s < rank.streams.size(); ++s) {
    const ring::StreamSnapshot& stream = rank.streams[s];
    if ((queue->stream != kNoIndex && queue->stream != s) || !stream.marked || stream.completed >= stream.issued)
      continue;
    const Op* oldest = nullptr;
    bool recorded = false, one_lane = true;
    model.EachInFlight(queue->rank, [&](const Op& op) {
      if (op.stream != s) return;
      recorded |= static_cast<uint64_t>(op.ticket) == stream.completed + 1 || (op.recent_only && op.ticket <= 0);
      if (op.ticket <= 0) return;
      one_lane &= IsCollective(op.kind) && (oldest == nullptr || (oldest->membership == op.membership &&
                                                                  op.ticket - op.seq == oldest->ticket - oldest->seq));
      if (oldest == nullptr || op.ticket < oldest->ticket) oldest = &op;
    });
    if (recorded || oldest == nullptr) continue;
    queue->overwritten = true;
    queue->lost_started |= stream.started > stream.completed;
    const uint32_t comm = rank.memberships[oldest->membership].comm;
    if (IsPointToPoint(oldest->kind)) queue->lost_exchange = comm;
    // If the stream also carries other work, tickets do not identify the operation.
    const int64_t seq = oldest->seq - (oldest->ticket - static_cast<int64_t>(stream.completed + 1));
    if (one_lane && seq >= 1) queue->lost.push_back({comm, seq});
  }
}

}  // namespace

WaitGraph::WaitGraph(const Model& model, const std::vector<Mismatch>& mismatches)
    : model_(model), mismatches_(mismatches) {
  for (size_t i = 0; i < mismatches.size(); ++i) {
    mismatch_at_[{mismatches[i].comm, mismatches[i].seq}].push_back(static_cast<int32_t>(i));
  }
  MakeQueues();
  creations = FindPendingCreations(model, 0);
  // A rank that only failed to notice its last completions is not a cause, unless there is no other cause.
  if (!Build(true)) return;
  if (!sinks.empty()) return;
  Build(false);
}

// Streams are separate queues if it is recorded which of their operations started. Otherwise, a rank's operations are
// assumed to run in the order of issue, because a framework's streams wait for each other through unrecorded streams.
void WaitGraph::MakeQueues() {
  hosts_ = static_cast<uint32_t>(model_.ranks.size());
  // If one dump of a job contains completed operations, all do, because they are written in the same way. So a dump
  // without completed operations comes from a ring that was full of unfinished ones.
  full_rings_ = std::ranges::any_of(model_.bundle.ranks, [](const Rank& rank) {
    return IsFramework(rank) && !rank.damaged && !rank.only_active && rank.records_lost > 0;
  });
  queues.reserve(hosts_);
  for (size_t r = 0; r < hosts_; ++r) {
    const Rank& rank = model_.bundle.ranks[r];
    const auto& units = model_.ranks[r].in_flight;
    first_queue_.push_back(static_cast<uint32_t>(queues.size()));
    first_unit_.push_back(static_cast<uint32_t>(place_of_unit_.size()));
    const bool starts =
        rank.gpu_marks == ring::GpuMarks::kFull || (rank.gpu_marks == ring::GpuMarks::kEvents && rank.start_recorded);
    const bool by_stream = starts && !IsFramework(rank);
    const auto add_queue = [&](uint32_t stream) {
      queues.push_back(Queue{.rank = static_cast<int32_t>(r), .stream = stream, .units = {}, .front = {}, .lost = {}});
    };
    if (!by_stream) add_queue(kNoIndex);
    for (uint32_t u = 0; u < units.size(); ++u) {
      const Op& op = rank.ops[units[u].ops[0]];
      uint32_t q = first_queue_[r];
      while (by_stream && q < queues.size() && queues[q].stream != op.stream) ++q;
      if (q == queues.size()) add_queue(op.stream);
      place_of_unit_.push_back({q, static_cast<uint32_t>(queues[q].units.size())});
      queues[q].units.push_back(u);
    }
    if (queues.size() == first_queue_[r]) add_queue(kNoIndex);
    FindLost(r);
  }
  first_queue_.push_back(static_cast<uint32_t>(queues.size()));
  fixed_ = hosts_ + static_cast<uint32_t>(queues.size());
}

// Rings are short and waits are long, so a queue's current operation may be overwritten although later ones are
// recorded. The tickets of a stream and the counters of a communicator still show its number.
void WaitGraph::FindLost(size_t rank_index) {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const auto& units = model_.ranks[rank_index].in_flight;
  for (uint32_t q = first_queue_[rank_index]; q < queues.size(); ++q) {
    Queue& queue = queues[q];
    if (IsFramework(rank) || rank.damaged) {
      if (rank.records_lost == 0 && !rank.damaged && !full_rings_) continue;
      bool begun = false;  // if starts are recorded: the GPU is executing what it started, and the rest is behind it
      for (const Membership& ms : rank.memberships) {
        if (ms.member_rank < 0 || q != first_queue_[rank_index]) continue;
        const Member& member = model_.comms[ms.comm].members[ms.member_rank];
        const bool mixed = ms.p2p_issued > 0 && ms.issued > 0;
        const bool gone = !rank.only_active || rank.damaged || full_rings_;
        // In a communicator that was used and has completed nothing yet, the first operation is in flight.
        const bool first = ms.completed == kNone && ms.issued >= 1;
        const int64_t next = NextOf(ms);
        // Operations missing from a truncated file were issued after all that it contains. If the file contains an
        // unfinished operation, the GPU is executing that one, and the lost operations are queued behind it.
        const auto& recorded = model_.ranks[rank_index].collectives[&ms - rank.memberships.data()];
        const int64_t newest = recorded.empty() ? kNone : rank.ops[recorded.back()].seq;
        const bool behind = rank.damaged && !units.empty() && next > newest;
        if (gone && !mixed && !behind && (ms.completed >= 0 || first) && ms.issued > ms.completed &&
            model_.FindCollective(member, next) == nullptr) {
          queue.lost.push_back({ms.comm, next});
          begun |= ms.started > ms.completed;
        }
        // If collectives and sends or receives share a group, a number up to `issued` may be a collective's.
        const bool told = !mixed || ms.p2p_completed > ms.issued;
        if (gone && told && ms.p2p_completed >= 0 && ms.p2p_issued > ms.p2p_completed) {
          int64_t oldest = INT64_MAX, newest = -1;
          for (const Op& op : rank.ops) {
            if (op.membership != &ms - rank.memberships.data() || !IsPointToPoint(op.kind)) continue;
            oldest = std::min(oldest, op.seq);
            newest = std::max(newest, op.seq);
          }
          // Sends and receives complete out of order, so only operations older than all recorded ones are certainly
          // lost. The newest operations are missing from a truncated file, and any of them may be in flight.
          if (oldest > ms.p2p_completed + 1 || (rank.damaged && newest < ms.p2p_issued)) queue.lost_exchange = ms.comm;
        }
      }
      if (begun) {
        std::erase_if(queue.lost, [&](const auto& lost) {
          const Membership* ms = MembershipIn(rank, lost.first);
          return ms->started <= ms->completed;
        });
      }
      queue.overwritten = !queue.lost.empty() || queue.lost_exchange != kNoIndex;
      continue;
    }
    if (queue.units.empty()) continue;
    FindLostOnStreams(model_, &queue);
  }
}

bool WaitGraph::Build(bool forgive) {
  const auto n = static_cast<uint32_t>(queues.size());
  forgiven_.clear();
  for (Queue& queue : queues) queue.late_to_notice = false, queue.noticed_late = 0;
  BuildQueues();
  std::vector<std::pair<uint32_t, GpuFront>> forgiven;
  for (uint32_t q = 0; q < n; ++q) {
    const bool too_soon = TooSoonToNotice(q);
    if (!too_soon && (!forgive || !OnlySlowToNotice(q))) continue;
    if (!too_soon) forgiven.push_back({q, queues[q].front});
    forgiven_.insert(queues[q].rank);
    queues[q].late_to_notice = true;
  }
  if (!forgiven_.empty()) {
    for (uint32_t q = 0; q < n; ++q) {
      if (queues[q].late_to_notice) BuildQueue(q);
    }
    BuildQueues();
  }
  HoldByFaultyGpus();
  for (const auto& [q, before] : forgiven) {
    // If nothing blocks later operations, the operation that peers completed is the cause after all.
    if (queues[q].front.front == Front::kAllArrived) queues[q].front = before;
  }
  HoldByFaultyGpus();
  std::vector<bool> distrusted(hosts_);
  for (const Queue& queue : queues) {
    if (IsFaulty(queue.front.front) || queue.front.front == Front::kMismatched) distrusted[queue.rank] = true;
  }
  for (const int32_t rank : forgiven_) distrusted[rank] = true;
  stopped = FindStoppedHosts(model_, distrusted);
  for (size_t r = 0; r < hosts_; ++r) BuildHost(r);
  AddCreations();
  Reverse();
  FindSinks();
  if (HoldFromOutside()) {
    Reverse();
    sinks.clear();
    FindSinks();
  }
  return !forgiven_.empty();
}

void WaitGraph::BuildQueues() {
  extra_.clear();
  missing_nodes_.clear();
  collectives_.clear();
  edges.assign(fixed_, {});
  back.clear();
  sinks.clear();
  for (uint32_t q = 0; q < queues.size(); ++q) BuildQueue(q);
}

void WaitGraph::Reverse() {
  back.assign(edges.size(), {});
  for (uint32_t from = 0; from < edges.size(); ++from) {
    for (const Edge& e : edges[from]) back[e.to].push_back(from);
  }
}

std::vector<uint32_t> WaitGraph::NodesOf(size_t rank_index) const {
  std::vector<uint32_t> nodes = {HostNode(rank_index)};
  for (const Queue& queue : QueuesOf(rank_index)) nodes.push_back(NodeOf(queue));
  return nodes;
}

std::set<int32_t> WaitGraph::RanksOf(const std::vector<uint32_t>& nodes) const {
  std::set<int32_t> ranks;
  for (const uint32_t node : nodes) {
    if (RankOf(node) >= 0) ranks.insert(RankOf(node));
  }
  return ranks;
}

std::vector<bool> WaitGraph::WaitingFor(const std::vector<int32_t>& rank_indexes) const {
  std::vector<bool> waits(back.size());
  std::vector<uint32_t> next;
  for (int32_t r : rank_indexes) {
    for (const uint32_t node : NodesOf(r)) next.push_back(node);
  }
  while (!next.empty()) {
    const uint32_t at = next.back();
    next.pop_back();
    for (uint32_t from : back[at]) {
      if (!waits[from]) next.push_back(from);
      waits[from] = true;
    }
  }
  return waits;
}

// The record does not show which process the rank waits for. If some stuck ranks do not wait outside NCCL, one of these
// must set the store's key or enter the barrier. Otherwise all stuck ranks are named.
bool WaitGraph::HoldFromOutside() {
  constexpr size_t kEnough = 64;  // maximum number of candidates; each waiting rank has an edge to each
  std::vector<uint32_t> waiting, others;
  for (const auto& sink : sinks) {
    const uint32_t v = sink[0];
    const bool one = sink.size() == 1;
    const HostState host = IsHost(v) ? model_.ranks[v].host : HostState::kDead;
    if (one && (host == HostState::kElsewhere || host == HostState::kUnknown) &&
        ClassifyActivity(model_.bundle.ranks[v].process).stall == Stall::kRendezvous) {
      waiting.push_back(v);
    } else if (others.size() < kEnough && (!one || IsHost(v) || Kind(v) == NodeKind::kMissing ||
                                           (Kind(v) == NodeKind::kQueue && IsFaulty(QueueOf(v).front.front)))) {
      others.push_back(v);
    }
  }
  if (waiting.empty() || others.empty()) return false;
  for (const uint32_t v : waiting) {
    for (const uint32_t other : others) edges[v].push_back({other, Why::kOutside, nullptr, kNoIndex});
  }
  return true;
}

uint32_t WaitGraph::AddNode(NodeKind kind, int32_t missing) {
  extra_.push_back({kind, missing});
  edges.emplace_back();
  return static_cast<uint32_t>(edges.size() - 1);
}

uint32_t WaitGraph::MissingNode(int32_t global_rank) {
  auto [it, fresh] = missing_nodes_.try_emplace(global_rank, 0);
  if (fresh) it->second = AddNode(NodeKind::kMissing, global_rank);
  return it->second;
}

bool WaitGraph::Failed(const Queue& queue) const {
  const auto& streams = model_.bundle.ranks[queue.rank].streams;
  if (queue.stream < streams.size()) return streams[queue.stream].first_error != 0;
  return std::ranges::any_of(
      streams, [](const ring::StreamSnapshot& s) { return s.first_error != 0 && s.completed < s.issued; });
}

bool WaitGraph::NotStarted(size_t rank_index, uint32_t unit) const {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const auto& ops = model_.ranks[rank_index].in_flight[unit].ops;
  return std::ranges::all_of(ops, [&](uint32_t i) { return rank.ops[i].state == OpState::kEnqueued; });
}

bool WaitGraph::OnlyUnknown(uint32_t node) const {
  if (Kind(node) != NodeKind::kCollective) return Kind(node) == NodeKind::kMissing;
  return std::ranges::all_of(edges[node], [&](const Edge& e) { return Kind(e.to) == NodeKind::kMissing; });
}

bool WaitGraph::Started(size_t rank_index, uint32_t unit) const {
  const Rank& rank = model_.bundle.ranks[rank_index];
  const auto& ops = model_.ranks[rank_index].in_flight[unit].ops;
  return std::ranges::any_of(ops, [&](uint32_t i) { return rank.ops[i].state == OpState::kStarted; });
}

void WaitGraph::BuildQueue(uint32_t index) {
  Queue& queue = queues[index];
  queue.front = GpuFront();
  edges[QueueNode(index)] = WaitsOf(index);
  AddLaunchOrder(index);
}

// The queue is executing the oldest operation in flight that waits for another rank; later ones prove nothing.
std::vector<Edge> WaitGraph::WaitsOf(uint32_t index) {
  Queue& queue = queues[index];
  const auto rank_index = static_cast<size_t>(queue.rank);
  const Rank& rank = model_.bundle.ranks[rank_index];
  GpuFront& front = queue.front;
  if (queue.units.empty() && !queue.overwritten) return {};
  const Op* oldest = OldestIn(queue);
  const GpuFront waits = {Front::kWaits, oldest, oldest == nullptr ? kNoIndex : model_.CommOf(rank, *oldest), -1};
  std::vector<Edge> out;
  // Work that a dead or stopped process left on its GPU is stuck for that reason.
  if (model_.ranks[rank_index].Gone()) {
    front = waits;
    return {{HostNode(rank_index), Why::kOwnGpu, front.op, front.comm}};
  }
  // An error of the CUDA runtime is permanent: no later work of that context runs, so no other explanation is needed.
  if (Failed(queue)) {
    front = waits;
    front.front = Front::kFailed;
    return {};
  }
  if (queue.overwritten) {
    front = waits;
    for (const auto& [comm, seq] : queue.lost) {
      const Collective& collective = CollectiveOf(comm, seq, queue.lost.size() > 1);
      const Op* known = nullptr;  // from another member's record
      for (const Member& m : model_.comms[comm].members) {
        known = known == nullptr ? model_.FindCollective(m, seq) : known;
      }
      const int64_t lost = known == nullptr ? seq : kNone;
      if (collective.node != kNoIndex) out.push_back({collective.node, Why::kIn, known, comm, lost});
      if (collective.started_node == kNoIndex) continue;
      if (LostStarted(queue, comm, seq)) {
        out.push_back({collective.started_node, Why::kIn, known, comm, lost});
      } else if (NothingRuns(rank_index)) {
        front = {Front::kNotReached, nullptr, comm, -1, seq};
        return {};
      }
    }
    if (out.empty()) front.front = Front::kOverwritten;
    return out;
  }
  if (AheadOnOtherStreams(index, &out)) {
    front = waits;
    return out;
  }
  GpuFront unnoticed;  // the first skipped front
  size_t passed = 0;   // number of skipped units
  for (size_t k = 0; k < queue.units.size(); ++k) {
    out.clear();
    GpuFront here;
    // In later operations of the queue, every rank is behind. For these, only a missing rank is evidence.
    AddUnit(rank_index, queue.units[k], k > 0, &out, &here);
    if (queue.late_to_notice && here.front == Front::kPeersFinished) {
      if (unnoticed.front == Front::kIdle) unnoticed = here;
      if (k == passed) queue.noticed_late = passed + 1;
      ++passed;
      continue;
    }
    if (here.front == Front::kMismatched || here.front == Front::kPeersFinished) {
      front = here;
      return {};
    }
    if (!out.empty()) {
      front = here;
      // A GPU that reaches an operation starts it even if ranks are missing there. If the GPU did not start the
      // operation, its own earlier work blocks it. No rank without data is needed as an explanation.
      const bool not_reached = k == passed && NotStarted(rank_index, queue.units[k]) && !RunsUnrecorded(rank_index) &&
                               std::ranges::all_of(out, [&](const Edge& e) { return OnlyUnknown(e.to); });
      front.front = not_reached ? Front::kNotReached : Front::kWaits;
      if (not_reached) out.clear();
      break;
    }
    if (front.front == Front::kIdle) front = here;
    if (here.front == Front::kNotReached) break;
    // All members are in this collective, and its completion would have been noticed by now, so the GPU is stuck in it.
    // A member missing from a later operation does not explain that.
    const bool in_order = queue.stream != kNoIndex || IsFramework(rank);
    if (in_order && k == passed && HeldByAll(rank_index, here)) break;
  }
  // If the GPU did not reach the next operation, the previous one is not merely an unnoticed completion.
  if (front.front == Front::kNotReached && unnoticed.front != Front::kIdle) front = unnoticed;
  return out;
}

bool WaitGraph::HeldByAll(size_t rank_index, const GpuFront& front) {
  if (front.front != Front::kAllArrived || !front.InCollective()) return false;
  const Rank& rank = model_.bundle.ranks[rank_index];
  int32_t unfinished = 0;
  for (const Unit& unit : model_.ranks[rank_index].in_flight) {
    unfinished += rank.ops[unit.ops[0]].membership == front.op->membership;
  }
  return (Model::Age(rank, *front.op) >= kNoticed || unfinished > kBetweenLooks) &&
         CollectiveOf(front.comm, front.op->seq, false).all_inside;
}

// Returns whether the dump was taken before a framework's watchdog would have noticed that the operation, or any later
// one, is complete.
bool WaitGraph::TooSoonToNotice(uint32_t queue) const {
  const GpuFront& front = queues[queue].front;
  const Rank& rank = model_.bundle.ranks[queues[queue].rank];
  if (front.front != Front::kPeersFinished || front.op == nullptr || !IsFramework(rank)) return false;
  const int64_t age = Model::Age(rank, *front.op);
  return age >= 0 && age < kNoticed;
}

// Returns whether the only completions that the queue lacks are the last one or two, which a framework's watchdog may
// not have noticed yet, because it checks at intervals. More are missing only if the GPU or the watchdog hangs.
bool WaitGraph::OnlySlowToNotice(uint32_t queue) {
  return queues[queue].front.front == Front::kPeersFinished && IsFramework(model_.bundle.ranks[queues[queue].rank]) &&
         AloneDone(queues[queue].front) < 0 && CountUnnoticed(queue) <= kBetweenLooks;
}

int32_t WaitGraph::CountUnnoticed(uint32_t queue) {
  int32_t count = 0;
  std::vector<Edge> out;
  for (uint32_t unit : queues[queue].units) {
    GpuFront here;
    out.clear();
    AddUnit(static_cast<size_t>(queues[queue].rank), unit, true, &out, &here);
    count += here.front == Front::kPeersFinished;
  }
  return count;
}

uint32_t WaitGraph::FaultyQueueOf(int32_t rank_index) const {
  for (const Queue& queue : QueuesOf(rank_index)) {
    if (IsFaulty(queue.front.front)) return NodeOf(queue);
  }
  return kNoIndex;
}

void WaitGraph::HoldByFaultyGpus() {
  not_held_.clear();
  for (uint32_t q = 0; q < queues.size(); ++q) HoldByFaultyGpus(q);
}

// A framework's records may not show which of the peer's calls matches `op`, so OtherSide only guesses. If the queue of
// the guessed call waits for a third rank, the match comes later: with both ranks in the matching call, their transfer
// would be done. In that case, `op` waits for that queue. Returns its node, otherwise kNoIndex.
uint32_t WaitGraph::WaitsInOlder(int32_t rank_index, const Op& op, const Member& peer) const {
  bool counted = false;
  const Op* theirs = model_.OtherSide(rank_index, op, peer, &counted);
  const uint32_t unit = counted ? kNoIndex : model_.UnitOf(peer.rank_index, theirs);
  if (unit == kNoIndex || !IsFramework(model_.bundle.ranks[peer.rank_index])) return kNoIndex;
  const uint32_t queue = PlaceOf(peer.rank_index, unit).first;
  const auto& out = edges[QueueNode(queue)];
  const bool elsewhere = std::ranges::any_of(
      out, [&](const Edge& e) { return RankOf(e.to) != rank_index && e.op != nullptr && IsPointToPoint(e.op->kind); });
  return queues[queue].front.front == Front::kWaits && elsewhere ? QueueNode(queue) : kNoIndex;
}

// An operation that all members entered does not finish if one of their GPUs is known to hang.
void WaitGraph::HoldByFaultyGpus(uint32_t index) {
  Queue& queue = queues[index];
  if (queue.front.front != Front::kAllArrived || queue.front.op == nullptr) return;
  const Rank& rank = model_.bundle.ranks[queue.rank];
  const uint32_t unit = model_.UnitOf(queue.rank, queue.front.op);
  if (unit == kNoIndex) return;
  for (uint32_t i : model_.ranks[queue.rank].in_flight[unit].ops) {
    const Op& op = rank.ops[i];
    const uint32_t comm = rank.memberships[op.membership].comm;
    if (IsPointToPoint(op.kind)) {
      const Member* peer = model_.PeerOf(rank, op);
      if (peer == nullptr || peer->rank_index < 0 || peer->rank_index == queue.rank) continue;
      uint32_t faulty = FaultyQueueOf(peer->rank_index);
      if (faulty == kNoIndex) faulty = WaitsInOlder(queue.rank, op, *peer);
      if (faulty != kNoIndex) edges[QueueNode(index)].push_back({faulty, Why::kBehind, &op, comm});
      continue;
    }
    Collective& collective = collectives_[{2 * uint64_t{comm}, op.seq}];
    if (collective.node == kNoIndex) {
      // Visits the members only once per operation, not once per waiting member.
      if (not_held_.contains({comm, op.seq})) continue;
      std::vector<Edge> out;
      for (const Member& m : model_.comms[comm].members) {
        const uint32_t faulty = m.rank_index < 0 ? kNoIndex : FaultyQueueOf(m.rank_index);
        if (faulty != kNoIndex) out.push_back({faulty, Why::kBehind, nullptr, comm});
      }
      if (out.empty()) {
        not_held_.insert({comm, op.seq});
        continue;
      }
      collective.node = AddNode(NodeKind::kCollective, -1);
      edges[collective.node] = std::move(out);
    }
    edges[QueueNode(index)].push_back({collective.node, Why::kIn, &op, comm});
  }
  if (!edges[QueueNode(index)].empty()) queue.front.front = Front::kWaits;
}

void WaitGraph::BuildHost(size_t rank_index) {
  const RankView& view = model_.ranks[rank_index];
  const Rank& rank = model_.bundle.ranks[rank_index];
  if (view.Gone()) return;
  std::vector<Edge> out;

  // A process that waits, or whose state is unknown, is blocked by its own GPU if that GPU is blocked. A process that
  // is known to be elsewhere is not blocked by its GPU, unless the process uses CPU in unknown code. In that case, the
  // process may be polling the GPU.
  const bool polling = view.host == HostState::kElsewhere && rank.process.state == "R" &&
                       rank.process.cpu_ns_between_samples > rank.process.sample_gap_ns / 2 &&
                       ClassifyActivity(rank.process).stall == Stall::kUnknown;
  const bool held = (view.host != HostState::kElsewhere || polling) && stopped[rank_index].witness < 0;
  for (const Queue& queue : QueuesOf(rank_index)) {
    if (!held || queue.front.front == Front::kIdle) continue;
    out.push_back({NodeOf(queue), Why::kOwnGpu, queue.front.op, queue.front.comm});
  }
  edges[HostNode(rank_index)] = std::move(out);
}

// Creating a communicator needs the process of every member. Members without data are not blamed while others are known
// not to have arrived.
void WaitGraph::AddCreations() {
  for (const PendingCreation& creation : creations) {
    const uint32_t node = AddNode(NodeKind::kCollective, -1);
    for (const auto* list : {&creation.absent, &creation.astray}) {
      for (int32_t r : *list) edges[node].push_back({HostNode(r), Why::kInit, nullptr, creation.comm});
    }
    if (edges[node].empty()) {
      for (int32_t rank : creation.unseen) {
        const uint32_t missing = MissingNode(rank);
        edges[node].push_back({missing, Why::kNoData, nullptr, creation.comm});
      }
    }
    for (int32_t r : creation.waiting) {
      const RankView& view = model_.ranks[r];
      // A rank that waits for its GPU is not in a creation, even if a damaged record says so.
      if (view.host == HostState::kInWait) continue;
      // A process outside NCCL waits only for a non-blocking creation, which it polls.
      if (view.host == HostState::kElsewhere && !MakesWithoutBlocking(model_.bundle.ranks[r])) continue;
      if (!view.Gone()) edges[HostNode(r)] = {{node, Why::kIn, nullptr, creation.comm}};
    }
  }
}

}  // namespace lockstep
