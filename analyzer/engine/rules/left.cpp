// Finds cycles in which a few ranks continued without an operation that many ranks are in. They left the loop at its
// end, or skipped a step, and wait for the others at a later place.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

namespace {

// An operation that many ranks are in and a few never issued.
struct LeftOut {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  std::set<int32_t> lacking;
};

// Returns whether most ranks that made both calls made `front` before the call that this rank is missing. If so, the
// rank skipped nothing: it has not reached that call yet.
bool ComesBefore(const Model& model, int32_t rank_index, const Op& front, const LeftOut& left) {
  const Bundle& bundle = model.bundle;
  const uint32_t at = model.comms[model.CommOf(bundle.ranks[rank_index], front)].kind;
  int before = 0, behind = 0;
  for (size_t s = 0; s < model.ranks.size(); ++s) {
    if (static_cast<int32_t>(s) == rank_index) continue;
    const Member *x = model.MemberOfKind(static_cast<int32_t>(s), at),
                 *y = model.MemberOfKind(static_cast<int32_t>(s), model.comms[left.comm].kind);
    if (x == nullptr || y == nullptr) continue;
    const Op *first = model.FindCollective(*x, front.seq), *second = model.FindCollective(*y, left.seq);
    if (first == nullptr || second == nullptr || first->kind != front.kind) continue;
    const bool ordered = first->record_id >= 0 && second->record_id >= 0;
    if (!ordered && first->thread != second->thread) continue;
    ++((ordered ? first->record_id < second->record_id : first->index < second->index) ? before : behind);
  }
  return before > behind;
}

// Returns whether most other members have issued the collective that the rank waits in. If so, the rank is not ahead of
// them.
bool OthersCameToo(const WaitGraph& graph, const Model& model, int32_t r) {
  for (const Queue& queue : graph.QueuesOf(r)) {
    const GpuFront& front = queue.front;
    if (front.op == nullptr || !ring::IsCollective(front.op->kind)) continue;
    const auto& members = model.comms[front.comm].members;
    const auto came = std::count_if(members.begin(), members.end(), [&](const Member& m) {
      return m.recorded() && m.rank_index != r && m.arrived >= front.op->seq;
    });
    if (2 * came <= static_cast<ptrdiff_t>(members.size()) - 1) return false;
  }
  return true;
}

using RankSet = std::set<int32_t>;

constexpr size_t kFewLeavers = 16;  // larger sets are judged as a whole, not rank by rank

// Finds the few ranks of a cycle that continued without an operation that many ranks are in, and that operation.
class CircleLeavers {
 public:
  CircleLeavers(const Facts& facts, const std::vector<uint32_t>& sink)
      : facts_(facts), graph_(*facts.graph), sink_(sink) {}

  std::vector<Cause> Find() {
    TakeTheFew();
    DropHeldByOthers();
    DropNotThereYet();
    if (odd_.empty() || !AreFew()) return {};
    const Missed missed = FirstMissed();
    if (missed.edge == nullptr) return {};
    return {Describe(missed)};
  }

 private:
  // The call that the leaving ranks did not make.
  struct Missed {
    const Edge* edge = nullptr;
    int32_t waiter = -1;
    RankSet issued;  // ranks that issued at least one of these calls
  };

  bool Inside(uint32_t v) const { return std::binary_search(sink_.begin(), sink_.end(), v); }
  bool IsMany(size_t many, size_t few) const { return kManyAgainstOne * few <= many; }
  // Returns whether the ranks are a small minority of the cycle.
  bool IsMinority(const RankSet& ranks) const { return (kManyAgainstOne + 1) * ranks.size() <= all_.size(); }

  // Returns the ranks of the cycle that did not issue what others wait for at this node.
  RankSet Lacking(uint32_t node) const {
    RankSet lacking;
    for (const Edge& e : graph_.edges[node]) {
      if (e.why == Why::kNotIssued && graph_.IsHost(e.to) && Inside(e.to)) lacking.insert(graph_.RankOf(e.to));
    }
    return lacking;
  }

  // Calls `look` with the node and the front operation of each of the rank's queues that has one, until `look` returns
  // true. Returns whether it did.
  template <typename Look>
  bool AnyFront(int32_t rank, Look look) const {
    const auto queues = graph_.QueuesOf(rank);
    return std::any_of(queues.begin(), queues.end(), [&](const Queue& queue) {
      return queue.front.op != nullptr && look(graph_.NodeOf(queue), *queue.front.op);
    });
  }

  // Returns the ranks that did not issue what the rank waits for in this queue.
  RankSet WaitsFor(uint32_t queue) const {
    RankSet lacking;
    for (const Edge& in : graph_.edges[queue]) {
      if (graph_.Kind(in.to) == WaitGraph::NodeKind::kCollective) lacking.merge(Lacking(in.to));
    }
    return lacking;
  }

  const LeftOut* LeftOutBy(int32_t rank) const {
    const auto left =
        std::find_if(left_out_.begin(), left_out_.end(), [&](const LeftOut& l) { return l.lacking.contains(rank); });
    return left == left_out_.end() ? nullptr : &*left;
  }

  // Sets odd_ to a few ranks that did not issue what many did, or that issued what many did not.
  void TakeTheFew() {
    RankSet ahead, never;
    for (uint32_t v : sink_) {
      if (graph_.RankOf(v) >= 0) all_.insert(graph_.RankOf(v));
      const RankSet lacking = Lacking(v);
      never.insert(lacking.begin(), lacking.end());
      if (graph_.Kind(v) != WaitGraph::NodeKind::kCollective) continue;
      RankSet issuers;
      for (uint32_t from : graph_.back[v]) {
        if (!lacking.empty() && graph_.RankOf(from) >= 0) issuers.insert(graph_.RankOf(from));
      }
      if (IsMany(issuers.size(), lacking.size())) {
        odd_.insert(lacking.begin(), lacking.end());
        if (const Edge* in = facts_.FirstIn(v).edge; in != nullptr && in->op != nullptr)
          left_out_.push_back({in->comm, in->op->seq, lacking});
      }
      if (IsMany(lacking.size(), issuers.size())) ahead.insert(issuers.begin(), issuers.end());
    }
    // Ranks that issued a call that many did not are ahead only if no few ranks lack a call that many issued.
    if (odd_.empty()) odd_ = std::move(ahead);
    // All other ranks have issued the calls that some ranks wait for.
    if (IsMinority(never)) odd_ = std::move(never);
  }

  // Returns whether the rank's queue waits, directly or through other queues, only for other ranks in odd_ (the
  // minority).
  bool WaitsForOthersOnly(int32_t rank, uint32_t queue) const {
    std::vector<uint32_t> next = {queue};
    std::set<uint32_t> seen = {queue};
    bool any = false;
    while (!next.empty()) {
      const uint32_t at = next.back();
      next.pop_back();
      for (const Edge& e : graph_.edges[at]) {
        if (graph_.Kind(e.to) == WaitGraph::NodeKind::kMissing) return false;
        if (!graph_.IsHost(e.to)) {
          if (seen.insert(e.to).second) next.push_back(e.to);
          continue;
        }
        if (graph_.RankOf(e.to) == rank || !odd_.contains(graph_.RankOf(e.to))) return false;
        any = true;
      }
    }
    return any;
  }

  // A rank that waits only for other ranks in odd_ is late because of them, so they are one fault.
  void DropHeldByOthers() {
    if (odd_.size() > kFewLeavers) return;
    RankSet by_itself;
    for (const int32_t r : odd_) {
      if (!AnyFront(r, [&](uint32_t queue, const Op&) { return WaitsForOthersOnly(r, queue); })) by_itself.insert(r);
    }
    if (!by_itself.empty()) odd_ = std::move(by_itself);
  }

  // A rank that has not yet reached the missing call is not a cause: the ranks that it waits for are.
  void DropNotThereYet() {
    RankSet instead;
    std::erase_if(odd_, [&](int32_t r) {
      const LeftOut* left = LeftOutBy(r);
      return left != nullptr && AnyFront(r, [&](uint32_t node, const Op& op) {
               if (!ring::IsCollective(op.kind) || !ComesBefore(facts_.model, r, op, *left)) return false;
               instead.merge(WaitsFor(node));
               return true;
             });
    });
    if (!odd_.empty() || instead.size() != 1) return;
    odd_ = std::move(instead);
    left_out_.clear();
  }

  // Unmatched sends and receives are a different fault, and of only two ranks, either may be wrong.
  bool AreFew() const {
    return IsMinority(odd_) && std::none_of(odd_.begin(), odd_.end(), [&](int32_t r) {
             return AnyFront(r, [](uint32_t, const Op& op) { return ring::IsPointToPoint(op.kind); });
           });
  }

  // Finds the operations that these ranks have not issued and others have. The one on the smallest communicator is the
  // first place that they left.
  Missed FirstMissed() const {
    Missed missed;
    const auto consider = [&](const Edge& e, uint32_t from) {
      const int32_t waiter = graph_.RankOf(from);
      if (e.op == nullptr || waiter < 0 || odd_.contains(waiter)) return;
      missed.issued.insert(waiter);
      if (missed.edge == nullptr || facts_.bundle.comms[e.comm].size < facts_.bundle.comms[missed.edge->comm].size)
        missed.edge = &e, missed.waiter = waiter;
    };
    for (int32_t r : odd_) {
      for (uint32_t w : graph_.back[WaitGraph::HostNode(r)]) {
        const bool collective = graph_.Kind(w) == WaitGraph::NodeKind::kCollective;
        const uint32_t to = collective ? w : WaitGraph::HostNode(r);
        for (uint32_t from : collective ? graph_.back[w] : std::vector<uint32_t>{w}) {
          for (const Edge& e : graph_.edges[from]) {
            if (e.to == to) consider(e, from);
          }
        }
      }
    }
    return missed;
  }

  Cause Describe(const Missed& missed) const {
    const Bundle& bundle = facts_.bundle;
    const Op& op = *missed.edge->op;
    Cause c = CauseOf(RANK_NOT_ARRIVED, REASON_LEFT_OUT, GRADE_GOOD, {odd_.begin(), odd_.end()});
    c.cause = "code mismatch";
    c.nodes = sink_;
    const bool other_side = ring::IsPointToPoint(op.kind);  // missing: the counterpart of the waiting rank's call
    c.At(bundle, missed.edge->comm, op, missed.waiter).Flag(other_side);
    AnyFront(c.ranks[0], [&](uint32_t, const Op& front) {
      c.Other(CallOf(bundle, c.ranks[0], front));
      return false;
    });
    if (!c.detail.has_other()) c.Other(CallNamed("a later operation", ""));
    EvidenceItem& lacks = c.Add(Evidence::LACKS_CALL, {missed.waiter}).Naming(bundle).Count(all_.size() - odd_.size());
    lacks.Call(BriefCall(bundle, missed.waiter, op)).Flag(other_side);
    for (const int32_t r : odd_) lacks.mutable_detail()->add_others(bundle.ranks[r].rank);
    const bool others_came =
        std::all_of(odd_.begin(), odd_.end(), [&](int32_t r) { return OthersCameToo(graph_, facts_.model, r); });
    c.Count(others_came);
    if (missed.issued.size() <= odd_.size() && others_came) NameBothSides(missed.issued, &c);
    return c;
  }

  // The waits for a rank do not show what it should have called. Only ranks that issued the call do.
  void NameBothSides(const RankSet& issued, Cause* c) const {
    *c->detail.mutable_others() = c->evidence.back().mutable_detail()->others();
    c->kind = DEADLOCK_CYCLE;
    c->ranks.insert(c->ranks.end(), issued.begin(), issued.end());
    std::sort(c->ranks.begin(), c->ranks.end());
    c->grade = GRADE_OPEN;
    c->reason = REASON_LEFT_OUT_OR_ADDED;
    for (int32_t r : issued) c->detail.add_ranks(facts_.bundle.ranks[r].rank);
  }

  const Facts& facts_;
  const WaitGraph& graph_;
  const std::vector<uint32_t>& sink_;
  RankSet all_, odd_;  // ranks of the cycle; the minority that left it
  std::vector<LeftOut> left_out_;
};

}  // namespace

std::vector<Cause> LeftInCircle(const Facts& facts, const std::vector<uint32_t>& sink) {
  return CircleLeavers(facts, sink).Find();
}

}  // namespace lockstep
