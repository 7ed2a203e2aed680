// Describes ranks that wait for each other: what each rank is in, in which order, from which place in the code.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

namespace {

constexpr size_t kMaxOrders = 8;
using OpKey = std::pair<uint32_t, int64_t>;  // communicator, number

// " (train.py:88)"; empty: not recorded.
std::string SiteText(const Bundle& bundle, const Rank& rank, const Op& op) {
  const CallRef call = CallOf(bundle, rank, op);
  return call.site().empty() ? "" : absl::StrCat(" (", call.site(), ")");
}

std::string RankList(const Bundle& bundle, const std::vector<int32_t>& ranks) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kShown, ranks.size()); ++i)
    names.push_back(absl::StrCat(bundle.ranks[ranks[i]].rank));
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(names, ", "),
                      ranks.size() > kShown ? absl::StrCat(" and ", ranks.size() - kShown, " more") : "");
}

// Ranks that are in the operations of a circle in the same order. Sibling communicators count as one unless a rank is
// in two of them.
struct Order {
  std::vector<OpKey> keys;     // number of the kind of communicator, number of the operation
  std::vector<const Op*> ops;  // of ranks[0]
  std::vector<int32_t> ranks;
};

std::vector<Order> OrdersOf(const Model& model, const std::set<int32_t>& ranks, const std::set<OpKey>& circle,
                            bool by_kind) {
  std::map<std::vector<OpKey>, Order> by_order;
  std::map<std::string, uint32_t> kinds;
  for (int32_t r : ranks) {
    const Rank& rank = model.bundle.ranks[r];
    Order order;
    for (const Unit& unit : model.ranks[r].in_flight) {
      for (uint32_t i : unit.ops) {
        const OpKey key = {rank.memberships[rank.ops[i].membership].comm, rank.ops[i].seq};
        if (!IsCollective(rank.ops[i].kind) || !circle.contains(key)) continue;
        const std::string& klass = model.comms[key.first].klass;
        order.keys.push_back(
            {by_kind ? kinds.try_emplace(klass, static_cast<uint32_t>(kinds.size())).first->second : key.first,
             key.second});
        order.ops.push_back(&rank.ops[i]);
      }
    }
    if (by_kind) {
      std::set<OpKey> distinct(order.keys.begin(), order.keys.end());
      if (distinct.size() < order.keys.size()) return OrdersOf(model, ranks, circle, false);
    }
    auto [it, fresh] = by_order.try_emplace(order.keys, order);
    it->second.ranks.push_back(r);
  }
  std::vector<Order> orders;
  orders.reserve(by_order.size());
  for (auto& [key, order] : by_order) orders.push_back(std::move(order));
  std::stable_sort(orders.begin(), orders.end(),
                   [](const Order& a, const Order& b) { return a.ranks.size() > b.ranks.size(); });
  return orders;
}

// Two ranks that exchanged nothing before, while the others in the circle have done so this many times.
constexpr int64_t kUsedToEachOther = 8;

bool Before(const Order& order, OpKey a, OpKey b) {
  auto x = std::find(order.keys.begin(), order.keys.end(), a), y = std::find(order.keys.begin(), order.keys.end(), b);
  return x < y && y != order.keys.end();
}

// In communicators of the same kinds and, where these carry sends and receives, at the same place.
bool OneRole(const Model& model, int32_t a, int32_t b) {
  std::multiset<std::pair<std::string, int32_t>> roles[2];
  for (int side = 0; side < 2; ++side) {
    for (const Membership& ms : model.bundle.ranks[static_cast<size_t>(side == 0 ? a : b)].memberships) {
      const CommView& view = model.comms[ms.comm];
      roles[side].insert({view.klass, view.used_for_p2p ? ms.member_rank : 0});
    }
  }
  return roles[0] == roles[1];
}

// A circle of two states: nearly all ranks are in one, and ranks with the same role are in the other. The few left the
// program.
bool FewLeft(const Model& model, const std::vector<Order>& orders) {
  constexpr size_t kMany = 3;
  if (orders.size() != 2 || orders[0].keys.empty() || orders[1].keys.empty()) return false;
  if (orders[0].ranks.size() < kMany || 3 * orders[1].ranks.size() > orders[0].ranks.size()) return false;
  return std::all_of(orders[1].ranks.begin(), orders[1].ranks.end(),
                     [&](int32_t r) { return OneRole(model, r, orders[0].ranks[0]); });
}

bool Opposite(const Order& a, const Order& b) {
  for (size_t i = 0; i < a.keys.size(); ++i) {
    for (size_t j = i + 1; j < a.keys.size(); ++j) {
      if (Before(b, a.keys[j], a.keys[i])) return true;
    }
  }
  return false;
}

}  // namespace

// The ranks of a pipeline always exchange with the same peers. Suppose a rank in a circle is in its first send to (or
// receive from) a peer that never had anything for it, while the others count many. Then it took the wrong peer, and
// the rest wait for what it should have done instead.
bool Causes::NarrowToStranger(const std::vector<uint32_t>& sink, Cause* c) const {
  int32_t stranger = -1;
  const Edge* first = nullptr;
  int64_t most = 0;
  for (uint32_t v : sink) {
    const int32_t r = graph_->RankOf(v);
    if (graph_->Kind(v) != WaitGraph::NodeKind::kQueue || r < 0) continue;
    for (const Edge& e : graph_->edges[v]) {
      if (e.op == nullptr || !IsPointToPoint(e.op->kind) || !std::binary_search(sink.begin(), sink.end(), e.to))
        continue;
      most = std::max(most, e.op->seq);
      const auto& members = model_.comms[e.comm].members;
      if (e.op->root_or_peer < 0 || static_cast<size_t>(e.op->root_or_peer) >= members.size()) continue;
      const int32_t me = bundle_.ranks[r].memberships[e.op->membership].member_rank;
      const Member& peer = members[static_cast<size_t>(e.op->root_or_peer)];
      if (bundle_.ranks[r].source == Source::kFlightRecorder) {
        if (!TookTheWrongPeer(model_, r, *e.op)) continue;
        if (stranger >= 0 && stranger != r) return false;
        stranger = r;
        first = &e;
        continue;
      }
      if (e.op->seq != 1 || model_.PeerIssued(peer, OtherSideOf(e.op->kind), me) != 0) continue;
      if (stranger >= 0 && stranger != r) return false;
      stranger = r;
      first = &e;
    }
  }
  if (stranger < 0 || most < kUsedToEachOther) return false;
  const Rank& rank = bundle_.ranks[stranger];
  c->kind = P2P_UNMATCHED;
  c->ranks = {stranger};
  c->comm = first->comm;
  c->op = first->op;
  c->op_rank = stranger;
  c->grade = GRADE_GOOD;
  c->reason = REASON_NEW_PEER;
  *c->detail.mutable_call() = CallOf(bundle_, rank, *first->op);
  return true;
}

std::vector<Cause> Causes::CycleCauses(const std::vector<uint32_t>& sink) const {
  Cause c;
  c.nodes = sink;
  c.kind = DEADLOCK_CYCLE;
  c.grade = GRADE_GOOD;
  std::set<int32_t> ranks;
  std::set<OpKey> circle;
  bool p2p = true, sends = true;
  std::vector<uint32_t> launch_order;
  for (uint32_t v : sink) {
    const int32_t r = graph_->RankOf(v);
    if (r >= 0) ranks.insert(r);
    if (graph_->Kind(v) != WaitGraph::NodeKind::kQueue) continue;
    for (const Edge& e : graph_->edges[v]) {
      if (e.op == nullptr || !std::binary_search(sink.begin(), sink.end(), e.to)) continue;
      if (e.why == Why::kLaunchOrder) launch_order.push_back(v);
      c.doubtful |= e.presumed;
      if (e.why == Why::kStreamOrder) continue;
      if (c.op == nullptr) c.op = e.op, c.op_rank = r, c.comm = e.comm;
      if (IsCollective(e.op->kind)) {
        p2p = false;
        circle.insert({e.comm, e.op->seq});
      } else if (c.evidence.size() < 2 * kMaxOrders) {
        c.evidence.push_back(
            {absl::StrCat(Who(r), " waits in ", OpText(bundle_, bundle_.ranks[r], *e.op),
                          SiteText(bundle_, bundle_.ranks[r], *e.op), " on ", CommText(bundle_.comms[e.comm])),
             {r}});
      }
      sends &= e.op->kind == CallKind::kSend;
    }
  }
  c.ranks.assign(ranks.begin(), ranks.end());
  if (!launch_order.empty()) {
    // Only one GPU runs operations in an order other than issued, and the others have not issued what it runs. Then
    // non-NCCL work may just as well keep its stream from the operation.
    bool issued_elsewhere = false;
    for (const OpKey& key : circle) {
      for (int32_t r : ranks) {
        if (graph_->RankOf(launch_order[0]) == r) continue;
        for (uint32_t q = graph_->FirstQueue(r); q < graph_->FirstQueue(r + 1); ++q) {
          const Queue& queue = graph_->QueueOf(graph_->QueueNode(q));
          if (queue.units.empty()) continue;
          const Op& op = bundle_.ranks[r].ops[model_.ranks[r].in_flight[queue.units[0]].ops[0]];
          issued_elsewhere |=
              op.state == OpState::kEnqueued && OpKey(model_.CommOf(bundle_.ranks[r], op), op.seq) == key;
        }
      }
    }
    std::sort(launch_order.begin(), launch_order.end());
    const bool one = graph_->RankOf(launch_order.front()) == graph_->RankOf(launch_order.back());
    if (!one || issued_elsewhere) return {LaunchOrderCause(sink)};
    Cause stall;
    const int32_t r = graph_->RankOf(launch_order[0]);
    const GpuFront& front = graph_->QueueOf(launch_order[0]).front;
    stall.kind = GPU_STALL;
    stall.ranks = {r};
    stall.nodes = {launch_order[0]};
    stall.comm = front.comm;
    stall.op = front.op;
    stall.op_rank = r;
    stall.grade = GRADE_FAIR;
    stall.reason = REASON_STREAM_BLOCKED_BESIDE;
    *stall.detail.mutable_call() = CallOf(bundle_, bundle_.ranks[r], *front.op);
    return {stall};
  }

  if (p2p && NarrowToStranger(sink, &c)) return {c};

  // Which ranks are in these operations, and in which order.
  const std::vector<Order> orders = OrdersOf(model_, ranks, circle, true);
  bool inverted = false;
  for (size_t i = 0; i < std::min(kMaxOrders, orders.size()); ++i) {
    for (size_t k = i + 1; k < std::min(kMaxOrders, orders.size()); ++k) inverted |= Opposite(orders[i], orders[k]);
    std::vector<std::string> steps;
    for (const Op* op : orders[i].ops) {
      const Rank& rank = bundle_.ranks[orders[i].ranks[0]];
      steps.push_back(absl::StrCat(OpText(bundle_, rank, *op), " on ",
                                   CommText(bundle_.comms[model_.CommOf(rank, *op)]), SiteText(bundle_, rank, *op)));
    }
    if (steps.empty()) continue;
    const char* alone = steps.size() == 1 ? " wait in " : " issued ";
    c.evidence.push_back({absl::StrCat(RankList(bundle_, orders[i].ranks),
                                       orders[i].ranks.size() == 1 && steps.size() == 1 ? " waits in " : alone,
                                       absl::StrJoin(steps, ", then "),
                                       steps.size() == 1 ? " and have not issued what the others wait in" : ""),
                          orders[i].ranks});
  }
  std::set<uint32_t> comms;
  for (const OpKey& key : circle) comms.insert(key.first);
  if (inverted) {
    c.kind = ORDER_INVERSION;
    c.reason = REASON_ORDERS_DIFFER;
    // Many against few: the few are out of order.
    const size_t few = ranks.size() - orders[0].ranks.size();
    if (orders[0].ranks.size() >= 3 && few * 3 <= orders[0].ranks.size()) {
      c.ranks.clear();
      for (size_t i = 1; i < orders.size(); ++i) {
        if (Opposite(orders[0], orders[i]))
          c.ranks.insert(c.ranks.end(), orders[i].ranks.begin(), orders[i].ranks.end());
      }
      std::sort(c.ranks.begin(), c.ranks.end());
      c.reason = REASON_OUT_OF_ORDER;
      c.detail.set_count(static_cast<int64_t>(orders[0].ranks.size()));
      c.detail.set_of(static_cast<int64_t>(ranks.size()));
    }
  } else if (!p2p && FewLeft(model_, orders)) {
    c.ranks = orders[1].ranks;
    c.grade = GRADE_GOOD;
    const Rank& usual = bundle_.ranks[static_cast<size_t>(orders[0].ranks[0])];
    const Op& theirs = *orders[0].ops[0];
    const Rank& odd = bundle_.ranks[static_cast<size_t>(orders[1].ranks[0])];
    const Op& own = *orders[1].ops[0];
    c.op = &own, c.op_rank = orders[1].ranks[0], c.comm = model_.CommOf(odd, own);
    c.reason = REASON_ELSEWHERE_IN_CIRCLE;
    *c.detail.mutable_call() = CallOf(bundle_, odd, own);
    *c.detail.mutable_other() = CallOf(bundle_, usual, theirs);
    c.detail.set_count(static_cast<int64_t>(orders[0].ranks.size()));
  } else if (p2p && sends) {
    c.reason = REASON_SENDS_FACE_EACH_OTHER;
  } else {
    c.reason = REASON_CIRCLE;
    std::vector<std::string> names;
    names.reserve(comms.size());
    for (uint32_t comm : comms) names.push_back(CommText(bundle_.comms[comm]));
    if (names.size() > kMaxOrders) names.resize(kMaxOrders);
    c.detail.set_count(static_cast<int64_t>(comms.size()));
    c.detail.set_name(absl::StrJoin(names, ", "));
  }
  return {c};
}

// All processes issued the calls in the same order; the GPUs run them in different orders. Nothing records why a GPU
// chose its order.
Cause Causes::LaunchOrderCause(const std::vector<uint32_t>& sink) const {
  Cause c;
  c.kind = DEADLOCK_CYCLE;
  c.hypothesis = true;
  c.grade = GRADE_WEAK;
  c.nodes = sink;
  std::set<int32_t> ranks;
  for (uint32_t v : sink) {
    if (graph_->Kind(v) != WaitGraph::NodeKind::kQueue) continue;
    const Queue& queue = graph_->QueueOf(v);
    ranks.insert(queue.rank);
    if (queue.units.empty() || c.evidence.size() >= 2 * kMaxOrders) continue;
    const Rank& rank = bundle_.ranks[queue.rank];
    const Op& op = rank.ops[model_.ranks[queue.rank].in_flight[queue.units[0]].ops[0]];
    if (c.op == nullptr) c.op = &op, c.op_rank = queue.rank, c.comm = model_.CommOf(rank, op);
    c.evidence.push_back({absl::StrCat(Who(queue.rank), op.state == OpState::kStarted ? " runs " : " has not started ",
                                       OpText(bundle_, rank, op), " on ",
                                       CommText(bundle_.comms[model_.CommOf(rank, op)]), SiteText(bundle_, rank, op),
                                       queue.stream == kNoIndex ? "" : absl::StrCat(", stream ", queue.stream)),
                          {queue.rank}});
  }
  c.ranks.assign(ranks.begin(), ranks.end());
  c.reason = REASON_GPU_ORDERS_DIFFER;
  return c;
}

void Causes::JoinStuck(std::vector<Cause>* causes) const {
  constexpr size_t kMost = 64;  // more at once have a cause bigger than the order of two operations
  std::vector<size_t> stuck;
  for (size_t i = 0; i < causes->size(); ++i) {
    const Cause& c = (*causes)[i];
    if (c.kind == COLLECTIVE_STUCK && c.op != nullptr && IsCollective(c.op->kind)) stuck.push_back(i);
  }
  if (stuck.size() < 2 || stuck.size() > kMost) return;
  std::set<size_t> gone;
  for (size_t i = 0; i < stuck.size(); ++i) {
    for (size_t k = i + 1; k < stuck.size(); ++k) {
      Cause &a = (*causes)[stuck[i]], &b = (*causes)[stuck[k]];
      if (gone.contains(stuck[i]) || gone.contains(stuck[k]) || a.comm == b.comm) continue;
      std::vector<int32_t> shared;
      std::set_intersection(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end(), std::back_inserter(shared));
      if (shared.size() < 2) continue;
      const Rank &x = bundle_.ranks[a.op_rank], &y = bundle_.ranks[b.op_rank];
      Cause c;
      c.kind = DEADLOCK_CYCLE;
      c.hypothesis = true;
      c.grade = GRADE_OPEN;
      c.ranks = shared;
      c.comm = a.comm;
      c.op = a.op;
      c.op_rank = a.op_rank;
      c.nodes = a.nodes;
      c.nodes.insert(c.nodes.end(), b.nodes.begin(), b.nodes.end());
      c.reason = REASON_TWO_STREAMS_STUCK;
      *c.detail.mutable_call() = CallOf(bundle_, x, *a.op);
      *c.detail.mutable_other() = CallOf(bundle_, y, *b.op);
      for (const Cause* from : {&a, &b})
        c.evidence.insert(c.evidence.end(), from->evidence.begin(), from->evidence.end());
      c.evidence.push_back({absl::StrCat(RankList(bundle_, shared), " are members of both; all processes issued both",
                                         SiteText(bundle_, x, *a.op), SiteText(bundle_, y, *b.op)),
                            shared});
      a = std::move(c);
      gone.insert(stuck[k]);
    }
  }
  for (auto it = gone.rbegin(); it != gone.rend(); ++it) causes->erase(causes->begin() + static_cast<ptrdiff_t>(*it));
}

}  // namespace lockstep
