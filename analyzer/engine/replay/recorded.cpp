#include "analyzer/engine/replay/recorded.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep::replay {
namespace {

using ring::IsCollective;
using ring::IsPointToPoint;

constexpr int64_t kMostNumbers = 4096;  // collectives of one communicator; later ones are not replayed

// The range of a communicator's collectives that are replayed.
struct Range {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void Hold(int64_t seq) {
    if (seq < 0 || seq > INT64_MAX / 2) return;  // a number that no job reaches
    low = std::min(low, seq);
    high = std::max(high, seq);
  }
  bool Has(int64_t seq) const { return seq >= low && seq <= high; }
};

class Reader {
 public:
  Reader(const Model& model, const WaitGraph* graph, Order order) : model_(model), graph_(graph), order_(order) {
    for (const Rank& rank : model.bundle.ranks) out_.ranks.push_back(rank.rank);
    out_.seen = out_.ranks.size();
    out_.job.programs.resize(out_.seen);
    out_.blind.resize(out_.seen);
    out_.job_comms.assign(model.bundle.comms.size(), kNoIndex);
  }

  Recorded Read(const std::vector<Place>& from) {
    ranges_.resize(model_.bundle.comms.size());
    for (size_t r = 0; r < out_.seen && graph_ != nullptr; ++r) FindRanges(r);
    for (const Place& place : from) {
      if (place.comm < ranges_.size() && place.seq >= 0 && !place.exchange) Widen(place);
    }
    for (Range& range : ranges_) {
      if (range.low <= range.high && range.high - range.low >= kMostNumbers) range.high = range.low + kMostNumbers - 1;
    }
    AddComms();
    for (size_t r = 0; r < out_.seen && !out_.too_large; ++r) AddCompleted(r);
    if (graph_ != nullptr) AddUnfinished();
    for (const Program& program : out_.job.programs) out_.calls += program.calls.size();
    return std::move(out_);
  }

 private:
  void AddUnfinished() {
    for (size_t r = 0; r < out_.seen && !out_.too_large; ++r) AddOtherSides(r);
    for (size_t r = 0; r < out_.seen && !out_.too_large; ++r) AddInFlight(r);
    AddCreations();
    for (size_t r = 0; r < out_.seen; ++r) {
      // The process waits in no recorded call, so something else halts it.
      if (!graph_->edges[WaitGraph::HostNode(r)].empty()) continue;
      out_.blind[r] = Blind(r);
      out_.job.programs[r].host = out_.blind[r] ? Host::kFree : Host::kHalted;
    }
  }

  // Returns whether the rank waits for its GPU, and no record shows in which operation.
  bool Blind(size_t r) const {
    const Rank& rank = model_.bundle.ranks[r];
    return model_.ranks[r].host == HostState::kInWait && (rank.gpu_marks == ring::GpuMarks::kOff || rank.damaged);
  }

  void FindRanges(size_t r) {
    const Rank& rank = model_.bundle.ranks[r];
    for (const Unit& unit : model_.ranks[r].in_flight) {
      for (const uint32_t i : unit.ops) {
        const Op& op = rank.ops[i];
        if (IsCollective(op.kind) && op.seq >= 0) ranges_[model_.CommOf(rank, op)].Hold(op.seq);
      }
    }
    for (const Queue& queue : graph_->QueuesOf(r)) {
      for (const auto& [comm, seq] : queue.lost) {
        if (seq >= 0) ranges_[comm].Hold(seq);
      }
    }
  }

  void Widen(const Place& from) {
    Range& range = ranges_[from.comm];
    for (const Member& m : model_.comms[from.comm].members) {
      if (m.rank_index >= 0 && m.arrived >= from.seq) range.Hold(m.arrived);
    }
    range.Hold(from.seq);
  }

  void AddComms() {
    size_t parts = 0;
    for (uint32_t c = 0; c < ranges_.size(); ++c) {
      if (ranges_[c].low <= ranges_[c].high) CommOf(c);
      if (out_.job_comms[c] != kNoIndex)
        parts += model_.comms[c].members.size() * (ranges_[c].high - ranges_[c].low + 1);
      out_.too_large |= parts > kMostParts;
    }
  }

  // Returns the communicator in the job, added when first needed.
  uint32_t CommOf(uint32_t comm) {
    if (out_.job_comms[comm] != kNoIndex) return out_.job_comms[comm];
    Job::Comm made;
    made.bundle_comm = comm;
    made.first = ranges_[comm].low;
    made.members.reserve(model_.comms[comm].members.size());
    for (const Member& m : model_.comms[comm].members)
      made.members.push_back(m.rank_index >= 0 ? m.rank_index : Unseen(m.global_rank));
    out_.job.comms.push_back(std::move(made));
    return out_.job_comms[comm] = static_cast<uint32_t>(out_.job.comms.size() - 1);
  }

  // Returns the program of a rank without data, which makes every call that its peers need; -1 if the rank is unknown.
  int32_t Unseen(int32_t global_rank) {
    if (global_rank < 0) return -1;
    const auto [it, fresh] = unseen_.try_emplace(global_rank, static_cast<int32_t>(out_.ranks.size()));
    if (fresh) {
      out_.ranks.push_back(global_rank);
      out_.job.programs.push_back({.calls = {}, .host = Host::kFree});
    }
    return it->second;
  }

  // Adds collectives that this rank has completed and others have not, and those that it issued and that are no longer
  // recorded.
  void AddCompleted(size_t r) {
    const Rank& rank = model_.bundle.ranks[r];
    for (const Membership& ms : rank.memberships) {
      const Range& range = ranges_[ms.comm];
      const Member* member = model_.MemberAt(ms.comm, ms.member_rank);
      if (range.low > range.high || member == nullptr) continue;
      for (int64_t seq = range.low; seq <= std::min(range.high, member->arrived); ++seq) {
        const Op* op = model_.FindCollective(*member, seq);
        if (graph_ != nullptr && model_.UnitOf(static_cast<int32_t>(r), op) != kNoIndex)
          break;  // this operation and those after it are in flight
        if (op != nullptr && op->state == OpState::kQueued) break;
        if (++parts_ > kMostParts) out_.too_large = true;
        if (out_.too_large) return;
        out_.job.programs[r].calls.push_back({.comm = CommOf(ms.comm), .op = op});
        next_[{r, ms.comm}] = seq + 1;
      }
    }
  }

  // For each send or receive that this rank has in flight, adds the matching call to the peer's program, if the peer
  // issued that call and does not have it in flight.
  void AddOtherSides(size_t r) {
    const Rank& rank = model_.bundle.ranks[r];
    for (const Unit& unit : model_.ranks[r].in_flight) {
      for (const uint32_t i : unit.ops) {
        const Op& op = rank.ops[i];
        if (!IsPointToPoint(op.kind)) continue;
        const Membership& ms = rank.memberships[op.membership];
        if (model_.PeerOf(rank, op) == nullptr) continue;
        const Member& peer = *model_.PeerOf(rank, op);
        if (!peer.recorded()) continue;
        bool counted = false;
        const Op* theirs = model_.OtherSide(static_cast<int32_t>(r), op, peer, &counted);
        const int64_t issued = model_.PeerIssued(peer, OtherSideOf(op.kind), ms.member_rank);
        if (issued >= 0 ? issued < op.seq : theirs == nullptr) continue;
        if (theirs != nullptr && theirs->state == OpState::kQueued) continue;
        if (model_.UnitOf(peer.rank_index, theirs) != kNoIndex) continue;
        out_.job.programs[peer.rank_index].calls.push_back(
            {.comm = CommOf(ms.comm), .peer = ms.member_rank, .send = op.kind == ring::CallKind::kRecv, .op = theirs});
      }
    }
  }

  void AddInFlight(size_t r) {
    const Rank& rank = model_.bundle.ranks[r];
    Program& program = out_.job.programs[r];
    // The overwritten calls precede the oldest recorded call.
    for (const Queue& queue : graph_->QueuesOf(r)) {
      const auto q = static_cast<uint32_t>(&queue - graph_->queues.data());
      for (const auto& [comm, seq] : queue.lost) {
        if (!ranges_[comm].Has(seq) || !Next(r, comm, seq)) continue;
        program.calls.push_back({.comm = CommOf(comm), .queue = QueueOf(q, comm), .unfinished = true});
      }
    }
    const auto first = static_cast<std::ptrdiff_t>(program.calls.size());
    uint32_t number = 0;
    for (uint32_t u = 0; u < model_.ranks[r].in_flight.size(); ++u) {
      ++number;
      const uint32_t q = graph_->PlaceOf(r, u).first;
      const Front front = graph_->queues[q].front.front;
      // Operations that a dead or stopped process left on its GPU do not complete.
      const HostState host = model_.ranks[r].host;
      const bool by_host = host == HostState::kDead || host == HostState::kStopped;
      const bool blocked =
          by_host || ((front == Front::kNotReached || front == Front::kPeersFinished || front == Front::kFailed) &&
                      graph_->edges[graph_->QueueNode(q)].empty());
      for (const uint32_t i : model_.ranks[r].in_flight[u].ops) {
        const Op& op = rank.ops[i];
        const uint32_t comm = model_.CommOf(rank, op);
        Call call = {.queue = QueueOf(q, comm),
                     .unit = number,
                     .blocked = blocked,
                     .by_host = by_host,
                     .unfinished = op.state == OpState::kStarted || op.state == OpState::kIncomplete,
                     .op = &op};
        if (IsPointToPoint(op.kind)) {
          call.peer = op.root_or_peer;
          // The call's group is no longer recorded, so the order of the calls in it is unknown.
          if (op.recent_only) call.queue = kOwnQueue;
          call.send = op.kind == ring::CallKind::kSend;
          if (call.peer < 0) continue;
        } else if (!ranges_[comm].Has(op.seq) || !Next(r, comm, op.seq)) {
          continue;
        }
        call.comm = CommOf(comm);
        program.calls.push_back(call);
      }
    }
    if (order_ == Order::kByGpu)
      std::stable_partition(program.calls.begin() + first, program.calls.end(),
                            [](const Call& call) { return call.unfinished; });
    for (const Membership& ms : rank.memberships) {
      const Range& range = ranges_[ms.comm];
      const Member* member = model_.MemberAt(ms.comm, ms.member_rank);
      if (range.low > range.high || member == nullptr) continue;
      const int64_t last = std::min(range.high, member->arrived);
      if (last >= range.low) Next(r, ms.comm, last);
    }
  }

  // Returns whether the rank's next collective on the communicator may be `seq`; each number is used once.
  bool Next(size_t r, uint32_t comm, int64_t seq) {
    int64_t& next = next_.try_emplace({r, comm}, ranges_[comm].low).first->second;
    if (seq < next) return false;
    Program& program = out_.job.programs[r];
    // Adds calls before `seq` that were issued and are no longer recorded.
    for (; next < seq && !out_.too_large; ++next) {
      program.calls.push_back({.comm = CommOf(comm)});
      out_.too_large |= ++parts_ > kMostParts;
    }
    next = seq + 1;
    return true;
  }

  uint32_t QueueOf(uint32_t graph_queue, uint32_t comm) const {
    return order_ == Order::kByStream ? graph_queue : order_ == Order::kByCommunicator ? comm : 0;
  }

  // The creation of a communicator counts as a collective of its members.
  void AddCreations() {
    for (const PendingCreation& p : graph_->creations) {
      Job::Comm comm;
      comm.bundle_comm = p.comm;
      const auto number = static_cast<uint32_t>(out_.job.comms.size());
      for (const auto* list : {&p.waiting, &p.returned}) {
        for (const int32_t r : *list) {
          comm.members.push_back(r);
          out_.job.programs[r].calls.push_back({.comm = number, .unfinished = list == &p.waiting});
        }
      }
      for (const auto* list : {&p.absent, &p.astray, &p.failed})
        comm.members.insert(comm.members.end(), list->begin(), list->end());
      for (const int32_t rank : p.unseen) comm.members.push_back(Unseen(rank));
      SortUnique(&comm.members);
      out_.job.comms.push_back(std::move(comm));
    }
  }

  const Model& model_;
  const WaitGraph* graph_;
  const Order order_;
  Recorded out_;
  std::vector<Range> ranges_;  // indexed by Bundle::comms
  absl::flat_hash_map<int32_t, int32_t> unseen_;
  absl::flat_hash_map<std::pair<size_t, uint32_t>, int64_t> next_;  // rank, communicator
  size_t parts_ = 0;
};

}  // namespace

Recorded ReadRecorded(const Model& model, const WaitGraph* graph, Order order, const std::vector<Place>& from) {
  return Reader(model, graph, order).Read(from);
}

}  // namespace lockstep::replay
