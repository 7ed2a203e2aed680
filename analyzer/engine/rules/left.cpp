// Cycles in which a few ranks continued without an operation that many ranks are in. They left the loop at its end, or
// skipped a step, and wait for the others at a later place.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

namespace {

// An operation that a few ranks never issued and many are in.
struct LeftOut {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  std::set<int32_t> lacking, issuers;
};

// Returns a rank with the same role that waits in the same operation and made the call that this rank is missing. No
// rank that waits there may miss the call. Returns -1 if there is none.
int32_t WentByThere(const Model& model, int32_t rank_index, const Op& front, const LeftOut& left) {
  const Bundle& bundle = model.bundle;
  const Rank& own = bundle.ranks[static_cast<size_t>(rank_index)];
  const Membership& at = own.memberships[front.membership];
  const std::string &klass = model.comms[at.comm].klass, &lacked = model.comms[left.comm].klass;
  int32_t witness = -1;
  for (size_t s = 0; s < model.ranks.size(); ++s) {
    const Rank& rank = bundle.ranks[s];
    if (static_cast<int32_t>(s) == rank_index || rank.damaged || rank.memberships.size() != own.memberships.size())
      continue;
    const bool there =
        std::any_of(model.ranks[s].in_flight.begin(), model.ranks[s].in_flight.end(), [&](const Unit& unit) {
          return std::any_of(unit.ops.begin(), unit.ops.end(), [&](uint32_t i) {
            const Op& op = rank.ops[i];
            if (op.kind != front.kind || op.seq != front.seq || model.comms[model.CommOf(rank, op)].klass != klass)
              return false;
            return !ring::IsPointToPoint(op.kind) || (op.root_or_peer == front.root_or_peer &&
                                                      rank.memberships[op.membership].member_rank == at.member_rank);
          });
        });
    if (!there) continue;
    for (const Membership& ms : rank.memberships) {
      if (model.comms[ms.comm].klass != lacked) continue;
      if (ms.issued < left.seq) return -1;
      if (witness < 0) witness = static_cast<int32_t>(s);
    }
  }
  return witness;
}

// Most ranks that made both calls made `front` before the call that this rank is missing. So it left nothing out: it
// has not reached that call yet.
bool ComesBefore(const Model& model, int32_t rank_index, const Op& front, const LeftOut& left) {
  const Bundle& bundle = model.bundle;
  const std::string& at = model.comms[model.CommOf(bundle.ranks[static_cast<size_t>(rank_index)], front)].klass;
  const std::string& lacked = model.comms[left.comm].klass;
  int before = 0, behind = 0;
  for (size_t s = 0; s < model.ranks.size(); ++s) {
    const Rank& rank = bundle.ranks[s];
    if (static_cast<int32_t>(s) == rank_index) continue;
    const Op *first = nullptr, *second = nullptr;
    for (const Membership& ms : rank.memberships) {
      const CommView& view = model.comms[ms.comm];
      if (ms.member_rank < 0 || (view.klass != at && view.klass != lacked)) continue;
      const Member& own = view.members[static_cast<size_t>(ms.member_rank)];
      if (view.klass == at) first = model.FindCollective(own, front.seq);
      if (view.klass == lacked) second = model.FindCollective(own, left.seq);
    }
    if (first == nullptr || second == nullptr || first->kind != front.kind) continue;
    const bool ordered = first->record_id >= 0 && second->record_id >= 0;
    if (!ordered && first->thread != second->thread) continue;
    ++((ordered ? first->record_id < second->record_id : first->index < second->index) ? before : behind);
  }
  return before > behind;
}

// Returns whether most other members have issued the collective that the rank waits in: then it is not ahead of them
// there.
bool OthersCameToo(const WaitGraph& graph, const Model& model, int32_t r) {
  for (uint32_t q = graph.FirstQueue(r); q < graph.FirstQueue(r + 1); ++q) {
    const GpuFront& front = graph.QueueOf(graph.QueueNode(q)).front;
    if (front.op == nullptr || !ring::IsCollective(front.op->kind)) continue;
    const auto& members = model.comms[front.comm].members;
    const auto came = std::count_if(members.begin(), members.end(), [&](const Member& m) {
      return m.rank_index >= 0 && m.rank_index != r && m.membership != kNoIndex && m.arrived >= front.op->seq;
    });
    if (2 * came <= static_cast<ptrdiff_t>(members.size()) - 1) return false;
  }
  return true;
}

}  // namespace

std::vector<Cause> LeftInCircle(const Facts& facts, const std::vector<uint32_t>& sink) {
  constexpr size_t kManyAgainstOne = 3;
  auto inside = [&](uint32_t v) { return std::binary_search(sink.begin(), sink.end(), v); };
  std::set<int32_t> all, odd, ahead, never;
  std::vector<LeftOut> left_out;
  for (uint32_t v : sink) {
    if (facts.graph->RankOf(v) >= 0) all.insert(facts.graph->RankOf(v));
    for (const Edge& e : facts.graph->edges[v]) {
      if (e.why == Why::kNotIssued && facts.graph->IsHost(e.to) && inside(e.to))
        never.insert(facts.graph->RankOf(e.to));
    }
    if (facts.graph->Kind(v) != WaitGraph::NodeKind::kCollective) continue;
    // A few that did not issue what many did, or a few that issued what many did not.
    std::set<int32_t> lacking, issuers;
    for (const Edge& e : facts.graph->edges[v]) {
      if (e.why == Why::kNotIssued && facts.graph->IsHost(e.to) && inside(e.to))
        lacking.insert(facts.graph->RankOf(e.to));
    }
    for (uint32_t from : facts.graph->back[v]) {
      if (!lacking.empty() && facts.graph->RankOf(from) >= 0) issuers.insert(facts.graph->RankOf(from));
    }
    if (kManyAgainstOne * lacking.size() <= issuers.size()) {
      odd.insert(lacking.begin(), lacking.end());
      if (const Edge* in = facts.FirstIn(v).edge; in != nullptr && in->op != nullptr)
        left_out.push_back({in->comm, in->op->seq, lacking, issuers});
    }
    if (kManyAgainstOne * issuers.size() <= lacking.size()) ahead.insert(issuers.begin(), issuers.end());
  }
  // A rank that issued what many did not is only ahead if others miss what many are in.
  if (odd.empty()) odd = std::move(ahead);
  // All others have issued whatever is waited for.
  if ((kManyAgainstOne + 1) * never.size() <= all.size()) odd = never;
  if (odd.empty()) return {};
  // A rank that has not reached the missing call yet is not the cause: the ranks that it waits for are.
  std::set<int32_t> instead;
  std::erase_if(odd, [&](int32_t r) {
    const auto left =
        std::find_if(left_out.begin(), left_out.end(), [&](const LeftOut& l) { return l.lacking.contains(r); });
    if (left == left_out.end()) return false;
    for (uint32_t q = facts.graph->FirstQueue(r); q < facts.graph->FirstQueue(r + 1); ++q) {
      const uint32_t node = facts.graph->QueueNode(q);
      const Op* op = facts.graph->QueueOf(node).front.op;
      if (op == nullptr || !ring::IsCollective(op->kind) || !ComesBefore(facts.model, r, *op, *left)) continue;
      for (const Edge& in : facts.graph->edges[node]) {
        if (facts.graph->Kind(in.to) != WaitGraph::NodeKind::kCollective) continue;
        for (const Edge& e : facts.graph->edges[in.to]) {
          if (e.why == Why::kNotIssued && facts.graph->IsHost(e.to) && inside(e.to))
            instead.insert(facts.graph->RankOf(e.to));
        }
      }
      return true;
    }
    return false;
  });
  if (odd.empty() && instead.size() == 1) {
    odd = std::move(instead);
    left_out.clear();
  }
  if (odd.empty()) return {};
  // Sends and receives without a matching call are a different matter, and of two ranks alone each may be wrong. The
  // exception: a rank with the same role shows what comes before that place.
  constexpr size_t kFew = 16;  // larger sets are judged as a whole, not rank by rank
  bool alone = (kManyAgainstOne + 1) * odd.size() > all.size();
  std::vector<int32_t> witnesses;
  for (int32_t r : odd) {
    for (uint32_t q = facts.graph->FirstQueue(r); q < facts.graph->FirstQueue(r + 1); ++q) {
      const GpuFront& front = facts.graph->QueueOf(facts.graph->QueueNode(q)).front;
      if (front.op == nullptr) continue;
      const auto left =
          std::find_if(left_out.begin(), left_out.end(), [&](const LeftOut& l) { return l.lacking.contains(r); });
      const int32_t witness =
          left == left_out.end() || odd.size() > kFew ? -1 : WentByThere(facts.model, r, *front.op, *left);
      if (witness >= 0) {
        witnesses.push_back(witness);
        all.insert(left->issuers.begin(), left->issuers.end());
      } else if (alone || ring::IsPointToPoint(front.op->kind)) {
        return {};
      }
    }
  }
  alone = (kManyAgainstOne + 1) * odd.size() > all.size();
  if (alone) return {};
  // Finds the operations that these ranks have not issued and others have. The first place that they left is in the
  // smallest communicator.
  const Edge* missed = nullptr;
  int32_t waiter = -1;
  std::set<int32_t> issued;  // ranks that made any of the calls that the leaving ranks did not make
  auto consider = [&](const Edge& e, uint32_t from) {
    if (e.op == nullptr || facts.graph->RankOf(from) < 0 || odd.contains(facts.graph->RankOf(from))) return;
    issued.insert(facts.graph->RankOf(from));
    if (missed == nullptr || facts.bundle.comms[e.comm].size < facts.bundle.comms[missed->comm].size)
      missed = &e, waiter = facts.graph->RankOf(from);
  };
  for (int32_t r : odd) {
    for (uint32_t w : facts.graph->back[WaitGraph::HostNode(r)]) {
      const bool collective = facts.graph->Kind(w) == WaitGraph::NodeKind::kCollective;
      for (uint32_t from : collective ? facts.graph->back[w] : std::vector<uint32_t>{w}) {
        for (const Edge& e : facts.graph->edges[from]) {
          if (e.to == (collective ? w : WaitGraph::HostNode(r))) consider(e, from);
        }
      }
    }
  }
  if (missed == nullptr) return {};
  Cause c;
  c.kind = RANK_NOT_ARRIVED;
  c.cause = "code mismatch";
  c.nodes = sink;
  c.ranks.assign(odd.begin(), odd.end());
  c.comm = missed->comm;
  c.op = missed->op;
  c.op_rank = waiter;
  c.grade = GRADE_STRONG;
  c.reason = REASON_LEFT_OUT;
  *c.detail.mutable_call() = CallOf(facts.bundle, facts.bundle.ranks[waiter], *missed->op);
  const int32_t first = c.ranks[0];
  for (uint32_t q = facts.graph->FirstQueue(first); q < facts.graph->FirstQueue(first + 1); ++q) {
    const GpuFront& front = facts.graph->QueueOf(facts.graph->QueueNode(q)).front;
    if (front.op == nullptr) continue;
    *c.detail.mutable_other() = CallOf(facts.bundle, facts.bundle.ranks[first], *front.op);
  }
  if (!c.detail.has_other()) *c.detail.mutable_other() = CallNamed("a later operation", "");
  EvidenceItem& lacks = c.Add(Evidence::LACKS_CALL, {waiter}).Naming(facts.bundle).Count(all.size() - odd.size());
  lacks.Call(BriefCall(facts.bundle, facts.bundle.ranks[waiter], *missed->op));
  for (const int32_t r : odd) lacks.detail()->add_others(facts.bundle.ranks[r].rank);
  // Ranks that wait for a rank do not show what it should have called. Only ranks that issued the call do.
  if (witnesses.empty() && issued.size() <= odd.size() &&
      std::all_of(odd.begin(), odd.end(), [&](int32_t r) { return OthersCameToo(*facts.graph, facts.model, r); })) {
    c.kind = DEADLOCK_CYCLE;
    c.ranks.insert(c.ranks.end(), issued.begin(), issued.end());
    std::sort(c.ranks.begin(), c.ranks.end());
    c.grade = GRADE_OPEN;
    c.reason = REASON_LEFT_OUT_OR_ADDED;
    for (int32_t r : issued) c.detail.add_ranks(facts.bundle.ranks[r].rank);
    *c.detail.mutable_others() = lacks.detail()->others();
  }
  if (!witnesses.empty()) {
    c.grade = GRADE_GOOD;
    c.Add(Evidence::ROLE_AT_PLACE, {witnesses[0]}).Naming(facts.bundle);
  }
  return {c};
}

}  // namespace lockstep
