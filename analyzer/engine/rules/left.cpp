// Finds cycles in which a few ranks continued without an operation that many ranks are in. They left the loop at its
// end, or skipped a step, and wait for the others at a later place.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

namespace {

// Returns whether most other members have issued the collective that the rank waits in. If so, the rank is not ahead of
// them.
bool OthersCameToo(const WaitGraph& graph, const Model& model, int32_t r) {
  for (const Queue& queue : graph.QueuesOf(r)) {
    const GpuFront& front = queue.front;
    if (!front.InCollective()) continue;
    const auto& members = model.comms[front.comm].members;
    const auto came = std::ranges::count_if(
        members, [&](const Member& m) { return m.recorded() && m.rank_index != r && m.arrived >= front.op->seq; });
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
      : facts_(facts), graph_(*facts.graph), sink_(sink), all_(graph_.RanksOf(sink)) {}

  std::vector<Cause> Find() {
    TakeTheFew();
    DropHeldByOthers();
    if (odd_.empty() || !AreFew() || AnotherIsAlone()) return {};
    const Missed missed = FirstMissed();
    if (missed.edge == nullptr) return {};
    return {Describe(missed)};
  }

 private:
  // The call that the leaving ranks did not make.
  struct Missed {
    const Edge* edge = nullptr;
    int32_t waiter = -1;
    RankSet waiting;  // ranks that wait in it
    RankSet issued;   // ranks that wait in any call that one of odd_ did not issue
    RankSet lacking;  // ranks that did not issue it
  };

  bool Inside(uint32_t v) const { return std::ranges::binary_search(sink_, v); }
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
    return std::ranges::any_of(queues, [&](const Queue& queue) {
      return queue.front.op != nullptr && look(graph_.NodeOf(queue), *queue.front.op);
    });
  }

  // Sets odd_ to a few ranks that did not issue what many did, or that issued what many did not.
  void TakeTheFew() {
    RankSet ahead, never;
    for (uint32_t v : sink_) {
      const RankSet lacking = Lacking(v);
      never.insert(lacking.begin(), lacking.end());
      if (graph_.Kind(v) != WaitGraph::NodeKind::kCollective) continue;
      const RankSet issuers = lacking.empty() ? RankSet() : graph_.RanksOf(graph_.back[v]);
      if (IsMany(issuers.size(), lacking.size())) odd_.insert(lacking.begin(), lacking.end());
      if (IsMany(lacking.size(), issuers.size())) ahead.insert(issuers.begin(), issuers.end());
    }
    // Ranks that are ahead count only if no minority missed a call that many issued.
    if (odd_.empty()) odd_ = std::move(ahead);
    // If the ranks that lack any of these calls are a minority, they are the few. All other ranks have issued every
    // call that some rank waits for.
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

  // Returns whether only one rank of the cycle waits in a collective in which no other rank waits, and that rank is not
  // in odd_. It is then more likely that this rank left the others.
  bool AnotherIsAlone() const {
    std::map<std::pair<uint32_t, int64_t>, RankSet> in;  // by communicator and number
    for (const int32_t r : all_) {
      for (const Queue& queue : graph_.QueuesOf(r)) {
        if (!Inside(graph_.NodeOf(queue)) || queue.front.op == nullptr) continue;
        if (!queue.front.InCollective()) return false;
        in[{queue.front.comm, queue.front.op->seq}].insert(r);
      }
    }
    RankSet alone;
    for (const auto& [key, ranks] : in) {
      if (ranks.size() == 1) alone.insert(*ranks.begin());
    }
    return alone.size() == 1 && !odd_.contains(*alone.begin());
  }

  // Returns whether odd_ is a small minority, and none of its ranks is in a send or receive. Unmatched sends and
  // receives are a different fault, and of only two ranks, either may be wrong.
  bool AreFew() const {
    return IsMinority(odd_) && std::ranges::none_of(odd_, [&](int32_t r) {
             return AnyFront(r, [](uint32_t, const Op& op) { return IsPointToPoint(op.kind); });
           });
  }

  // Returns the operation that none of odd_ has issued and others wait in. If there are several, returns
  // the one on the smallest communicator, which is the first place that they left.
  Missed FirstMissed() const {
    RankSet issued;
    std::map<std::tuple<uint32_t, ring::CallKind, int64_t>, Missed> missed;  // by communicator, direction and number
    const auto consider = [&](const Edge& e, uint32_t from, int32_t lacking) {
      const int32_t waiter = graph_.RankOf(from);
      if (e.op == nullptr || waiter < 0 || odd_.contains(waiter)) return;
      const bool exchange = IsPointToPoint(e.op->kind);  // each pair has its own numbers
      Missed& at = missed[{e.comm, exchange ? e.op->kind : ring::CallKind::kNone, exchange ? 0 : e.op->seq}];
      issued.insert(waiter);
      at.waiting.insert(waiter);
      at.lacking.insert(lacking);
      if (at.edge == nullptr) at.edge = &e, at.waiter = waiter;
    };
    for (int32_t r : odd_) {
      for (uint32_t w : graph_.back[WaitGraph::HostNode(r)]) {
        const bool collective = graph_.Kind(w) == WaitGraph::NodeKind::kCollective;
        const uint32_t to = collective ? w : WaitGraph::HostNode(r);
        for (uint32_t from : collective ? graph_.back[w] : std::vector<uint32_t>{w}) {
          for (const Edge& e : graph_.edges[from]) {
            if (e.to == to) consider(e, from, r);
          }
        }
      }
    }
    const auto size = [&](const Missed& at) { return facts_.bundle.comms[at.edge->comm].size; };
    Missed first;
    for (const auto& [key, at] : missed) {
      if (at.lacking == odd_ && (first.edge == nullptr || size(at) < size(first))) first = at;
    }
    if (first.waiting.size() < odd_.size()) return {};  // more likely, those that wait there left the others
    first.issued = std::move(issued);
    return first;
  }

  Cause Describe(const Missed& missed) const {
    const Bundle& bundle = facts_.bundle;
    const Op& op = *missed.edge->op;
    Cause c = CauseOf(RANK_NOT_ARRIVED, REASON_LEFT_OUT, GRADE_GOOD, {odd_.begin(), odd_.end()});
    c.cause = "code mismatch";
    c.nodes = sink_;
    const bool other_side = IsPointToPoint(op.kind);  // the missing call is the counterpart of the waiting rank's
    c.At(bundle, missed.edge->comm, op, missed.waiter).Flag(other_side);
    AnyFront(c.ranks[0], [&](uint32_t, const Op& front) {
      c.Other(CallOf(bundle, c.ranks[0], front));
      return false;
    });
    if (!c.detail.has_other()) c.Other(CallNamed("a later operation", ""));
    EvidenceItem& lacks = c.Add(Evidence::LACKS_CALL, {missed.waiter}).Naming(bundle).Count(all_.size() - odd_.size());
    lacks.Call(BriefCall(bundle, missed.waiter, op)).Flag(other_side);
    lacks.NamingOthers(bundle, odd_);
    const bool others_came =
        std::ranges::all_of(odd_, [&](int32_t r) { return OthersCameToo(graph_, facts_.model, r); });
    c.Count(others_came);
    if (missed.issued.size() <= odd_.size() && others_came) NameBothSides(missed.issued, &c);
    return c;
  }

  // Names both sides. Only the ranks that issued the call show that the others should have issued it, so either side
  // may be wrong.
  void NameBothSides(const RankSet& issued, Cause* c) const {
    *c->detail.mutable_others() = c->evidence.back().mutable_detail()->others();
    Append(issued, &c->ranks);
    c->Is(DEADLOCK_CYCLE, REASON_LEFT_OUT_OR_ADDED, GRADE_OPEN).Of(c->ranks).Naming(facts_.bundle, issued);
  }

  const Facts& facts_;
  const WaitGraph& graph_;
  const std::vector<uint32_t>& sink_;
  const RankSet all_;  // ranks of the cycle
  RankSet odd_;        // the minority that left it
};

}  // namespace

std::vector<Cause> LeftInCircle(const Facts& facts, const std::vector<uint32_t>& sink) {
  return CircleLeavers(facts, sink).Find();
}

}  // namespace lockstep
