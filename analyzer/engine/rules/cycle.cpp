// Describes ranks that wait for each other: each rank's operations, their order, and their places in the code.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

using ring::CallKind;

namespace {

constexpr size_t kMaxOrders = 8;             // maximum number of orders that are compared
using OpKey = std::pair<uint32_t, int64_t>;  // communicator, number

// Ranks that issued a cycle's operations in the same order. Communicators of one class count as one unless a rank is in
// two of them.
struct Order {
  std::vector<OpKey> keys;     // class or index of the communicator, number of the operation
  std::vector<const Op*> ops;  // operations of ranks[0]
  std::vector<int32_t> ranks;
};

std::vector<Order> OrdersOf(const Model& model, const std::set<int32_t>& ranks, const std::set<OpKey>& circle,
                            bool by_kind) {
  std::map<std::vector<OpKey>, Order> by_order;
  for (int32_t r : ranks) {
    const Rank& rank = model.bundle.ranks[r];
    Order order;
    model.EachInFlight(r, [&](const Op& op) {
      const OpKey key = {model.CommOf(rank, op), op.seq};
      if (!IsCollective(op.kind) || !circle.contains(key)) return;
      order.keys.push_back({by_kind ? model.comms[key.first].kind : key.first, key.second});
      order.ops.push_back(&op);
    });
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
  std::ranges::stable_sort(orders, [](const Order& a, const Order& b) { return a.ranks.size() > b.ranks.size(); });
  return orders;
}

bool Before(const Order& order, OpKey a, OpKey b) {
  auto x = std::ranges::find(order.keys, a), y = std::ranges::find(order.keys, b);
  return x < y && y != order.keys.end();
}

// The few ranks that left their program and so caused the cycle: all ranks whose first operation of the cycle is on one
// class of communicators.
struct Left {
  std::vector<int32_t> ranks;  // ascending; empty if no class has fewer of them than `others`
  size_t others = 0;           // ranks of the cycle that are other members of these communicators
};

Left FewestThatLeft(const Model& model, const std::set<int32_t>& ranks, const std::set<OpKey>& circle) {
  constexpr size_t kMostKinds = 16;
  const std::vector<Order> orders = OrdersOf(model, ranks, circle, false);
  std::map<uint32_t, std::set<int32_t>> in;  // by class of communicator: ranks whose first operation is on it
  for (const Order& order : orders) {
    if (!order.keys.empty()) in[model.comms[order.keys[0].first].kind].insert(order.ranks.begin(), order.ranks.end());
  }
  Left fewest;
  if (in.size() > kMostKinds) return {};
  for (const auto& of_kind : in) {
    const std::set<int32_t>& few = of_kind.second;
    if (!fewest.ranks.empty() && few.size() >= fewest.ranks.size()) continue;
    std::set<int32_t> others;  // other members of these ranks' communicators
    for (const Order& order : orders) {
      if (order.keys.empty() || !few.contains(order.ranks[0])) continue;
      for (const Member& m : model.comms[order.keys[0].first].members) {
        if (!few.contains(m.rank_index) && ranks.contains(m.rank_index)) others.insert(m.rank_index);
      }
    }
    if (few.size() >= others.size()) continue;
    std::set<uint32_t> roles;
    for (const int32_t r : others) roles.insert(model.roles().of_rank[r]);
    const bool one_role = std::ranges::all_of(few, [&](int32_t r) { return roles.contains(model.roles().of_rank[r]); });
    if (!one_role) continue;
    fewest.ranks.assign(few.begin(), few.end());
    fewest.others = others.size();
  }
  return fewest;
}

// Returns the places in `a` of two operations that `b` has in the opposite order.
std::optional<std::pair<size_t, size_t>> Swapped(const Order& a, const Order& b) {
  for (size_t i = 0; i < a.keys.size(); ++i) {
    for (size_t j = i + 1; j < a.keys.size(); ++j) {
      if (Before(b, a.keys[j], a.keys[i])) return std::pair(i, j);
    }
  }
  return std::nullopt;
}

// Returns the rank's operation with this number in its communicator of this kind, or null.
const Op* OfKind(const Model& model, int32_t rank_index, uint32_t kind, int64_t seq) {
  const Member* member = model.MemberOfKind(rank_index, kind);
  return member == nullptr ? nullptr : model.FindCollective(*member, seq);
}

template <typename Holds>
bool AnyTwo(const std::vector<Order>& orders, Holds holds) {
  const size_t end = std::min(kMaxOrders, orders.size());
  for (size_t i = 0; i < end; ++i) {
    for (size_t k = i + 1; k < end; ++k) {
      if (holds(orders[i], orders[k])) return true;
    }
  }
  return false;
}

struct OutOfOrder {
  std::vector<int32_t> ranks;  // ascending; empty if the usual order is unknown
  int64_t usual = 0;           // number of ranks that follow the other order
};

// Finds ranks whose order is shared by few others. Ranks that are past these operations count as well, because the
// cycle itself may contain only one rank of each order.
OutOfOrder FindOutOfOrder(const Model& model, const std::vector<Order>& orders) {
  constexpr int64_t kMany = 3;     // minimum size of the majority, and its minimum ratio to the minority
  constexpr int64_t kEnough = 64;  // examining more would not change the decision
  OutOfOrder odd;
  std::set<int32_t> ranks;
  AnyTwo(orders, [&](const Order& a, const Order& b) {
    const auto swapped = Swapped(a, b);
    if (!swapped) return false;
    const Rank& shown = model.bundle.ranks[a.ranks[0]];
    const Op &x = *a.ops[swapped->first], &y = *a.ops[swapped->second];
    const uint32_t x_kind = model.comms[model.CommOf(shown, x)].kind, y_kind = model.comms[model.CommOf(shown, y)].kind;
    int64_t as_a = 0, as_b = 0;
    for (size_t r = 0; r < model.ranks.size(); ++r) {
      const Op *first = OfKind(model, static_cast<int32_t>(r), x_kind, x.seq),
               *second = OfKind(model, static_cast<int32_t>(r), y_kind, y.seq);
      if (first == nullptr || second == nullptr || first->thread != second->thread) continue;
      if (++(first < second ? as_a : as_b) == kEnough) break;
    }
    const Order& few = as_a < as_b ? a : b;
    const int64_t many = std::max(as_a, as_b);
    if (many < kMany || kMany * std::min(as_a, as_b) > many) return false;
    ranks.insert(few.ranks.begin(), few.ranks.end());
    odd.usual = std::max(odd.usual, many);
    return false;
  });
  odd.ranks.assign(ranks.begin(), ranks.end());
  return odd;
}

// Returns whether the two operations that these orders swap must run in the order in which they were issued. They must
// if they are on one stream, or if a rank of each order completed earlier calls on both communicators.
bool OrderMatters(const Model& model, const Order& a, const Order& b) {
  const auto swapped = Swapped(a, b);
  if (!swapped) return false;
  const OpKey x = a.keys[swapped->first], y = a.keys[swapped->second];
  const auto op_of = [](const Order& order, const OpKey& key) {
    return order.ops[std::ranges::find(order.keys, key) - order.keys.begin()];
  };
  const auto called_before = [&](const Order& order, const Op& op) {
    const Membership& ms = model.bundle.ranks[order.ranks[0]].memberships[op.membership];
    const Member* member = model.MemberAt(ms.comm, ms.member_rank);
    const Op* before = member == nullptr ? nullptr : model.FindCollective(*member, op.seq - 1);
    return before != nullptr && before->state == OpState::kCompleted;
  };
  return std::ranges::all_of(std::array{&a, &b}, [&](const Order* order) {
    const Op &first = *op_of(*order, x), &second = *op_of(*order, y);
    const bool one_stream = first.stream != kNoIndex && first.stream == second.stream;
    return one_stream || (called_before(*order, first) && called_before(*order, second));
  });
}

// All processes issued the calls in the same order, but the GPUs run them in different orders. The reason for a GPU's
// order is not recorded.
Cause LaunchOrderCause(const Facts& facts, const std::vector<uint32_t>& sink) {
  Cause c = CauseOf(DEADLOCK_CYCLE, REASON_GPU_ORDERS_DIFFER, GRADE_WEAK);
  c.hypothesis = true;
  c.nodes = sink;
  std::set<int32_t> ranks;
  for (uint32_t v : sink) {
    if (facts.graph->Kind(v) != WaitGraph::NodeKind::kQueue) continue;
    const Queue& queue = facts.graph->QueueOf(v);
    ranks.insert(queue.rank);
    if (queue.units.empty() || c.evidence.size() >= 2 * kMaxOrders) continue;
    const Op& op = *facts.graph->OldestIn(queue);
    if (c.op == nullptr) c.In(facts.model.CommOf(facts.bundle.ranks[queue.rank], op), &op, queue.rank);
    EvidenceItem& at = c.Add(Evidence::GPU_AT, {queue.rank}).Naming(facts.bundle).Flag(op.state == OpState::kStarted);
    at.Call(CallOf(facts.bundle, queue.rank, op));
    if (queue.stream != kNoIndex) at.mutable_detail()->set_number(queue.stream);
  }
  c.ranks.assign(ranks.begin(), ranks.end());
  return c;
}

// What the edges inside a cycle show.
struct Circle {
  std::set<int32_t> ranks;
  std::set<OpKey> collectives;         // collectives in which ranks of the cycle wait
  std::vector<uint32_t> launch_order;  // queues that wait for another stream of the same GPU; ascending
  bool sends = false, receives = false;
  bool silent = false;  // a log may omit a call that another rank waits for
};

// Also sets the ranks and the operation of `c`, and adds the sends and receives that ranks wait in.
Circle ReadCircle(const Facts& facts, const std::vector<uint32_t>& sink, Cause* c) {
  Circle circle;
  circle.ranks = facts.graph->RanksOf(sink);
  for (uint32_t v : sink) {
    const int32_t r = facts.graph->RankOf(v);
    for (const Edge& e : facts.graph->edges[v]) circle.silent |= e.why == Why::kNoData;
    if (facts.graph->Kind(v) != WaitGraph::NodeKind::kQueue) continue;
    for (const Edge& e : facts.graph->edges[v]) {
      if (e.op == nullptr || !std::ranges::binary_search(sink, e.to)) continue;
      if (e.why == Why::kLaunchOrder) circle.launch_order.push_back(v);
      if (e.why == Why::kStreamOrder) continue;
      if (c->op == nullptr) c->In(e.comm, e.op, r);
      if (IsCollective(e.op->kind)) {
        circle.collectives.insert({e.comm, e.op->seq});
      } else if (c->evidence.size() < 2 * kMaxOrders) {
        *c->Add(Evidence::WAITS_IN, {r}).Naming(facts.bundle).mutable_detail()->add_calls() =
            CallOf(facts.bundle, r, *e.op);
      }
      circle.sends |= e.op->kind == CallKind::kSend;
      circle.receives |= !IsCollective(e.op->kind) && e.op->kind != CallKind::kSend;
    }
  }
  std::ranges::sort(circle.launch_order);
  c->ranks.assign(circle.ranks.begin(), circle.ranks.end());
  return circle;
}

// Returns whether, on another rank of the cycle, the oldest operation of a queue is a collective of the cycle that its
// GPU has not started.
bool IssuedElsewhere(const Facts& facts, const Circle& circle, int32_t than) {
  return std::ranges::any_of(circle.ranks, [&](int32_t r) {
    const auto queues = facts.graph->QueuesOf(r);
    return r != than && std::ranges::any_of(queues, [&](const Queue& queue) {
             const Op* op = facts.graph->OldestIn(queue);
             return op != nullptr && op->state == OpState::kEnqueued &&
                    circle.collectives.contains({facts.model.CommOf(facts.bundle.ranks[r], *op), op->seq});
           });
  });
}

// Handles GPUs that run operations out of issue order. If only one GPU does so, and no collective of the cycle is next
// on another GPU, work outside NCCL blocks that GPU's stream.
Cause StreamCause(const Facts& facts, const std::vector<uint32_t>& sink, const Circle& circle) {
  const uint32_t node = circle.launch_order.front();
  const int32_t r = facts.graph->RankOf(node);
  if (r != facts.graph->RankOf(circle.launch_order.back()) || IssuedElsewhere(facts, circle, r))
    return LaunchOrderCause(facts, sink);
  const GpuFront& front = facts.graph->QueueOf(node).front;
  Cause stall = CauseOf(GPU_STALL, REASON_STREAM_BLOCKED_BESIDE, GRADE_FAIR, {r});
  stall.nodes = {node};
  return stall.At(facts.bundle, front.comm, *front.op, r);
}

// Adds the calls in which the ranks wait, in order.
void AddOrders(const Facts& facts, const std::vector<Order>& orders, bool silent, Cause* c) {
  for (size_t i = 0; i < std::min(kMaxOrders, orders.size()); ++i) {
    if (orders[i].ops.empty()) continue;
    EvidenceItem& waits =
        c->Add(Evidence::WAITS_IN, orders[i].ranks).Naming(facts.bundle).Flag(orders[i].ops.size() == 1 && !silent);
    for (const Op* op : orders[i].ops)
      *waits.mutable_detail()->add_calls() = CallOf(facts.bundle, orders[i].ranks[0], *op);
  }
}

// Ranks issued the same calls in different orders.
Cause InvertedCause(const Facts& facts, const Circle& circle, const std::vector<Order>& orders, Cause c) {
  c.kind = ORDER_INVERSION;
  c.reason = REASON_ORDERS_DIFFER;
  if (const OutOfOrder odd = FindOutOfOrder(facts.model, orders); !odd.ranks.empty()) {
    c.ranks = odd.ranks;
    c.reason = REASON_OUT_OF_ORDER;
    return c.CountOf(odd.usual, odd.usual + static_cast<int64_t>(odd.ranks.size()));
  }
  if (AnyTwo(orders, [&](const Order& a, const Order& b) { return OrderMatters(facts.model, a, b); })) return c;
  // The order may not matter (with two threads, for example). In that case, a member without data may delay all the
  // others.
  std::set<uint32_t> comms;
  for (const OpKey& key : circle.collectives) comms.insert(key.first);
  HoldByUnseen(facts, comms, kWaitedForWithoutData, &c);
  if (c.kind == RANK_NO_DATA) return c;
  c.Doubt(GRADE_OPEN);
  return c;
}

// A few ranks left their program and are in calls that the others never made.
Cause LeftCause(const Facts& facts, const std::vector<Order>& orders, const Left& left, Cause c) {
  const auto order_of = [&](bool odd) {
    return std::ranges::find_if(orders, [&](const Order& order) {
      return !order.ops.empty() && odd == std::ranges::binary_search(left.ranks, order.ranks[0]);
    });
  };
  const auto odd = order_of(true), others = order_of(false);
  c.ranks = left.ranks;
  c.grade = 3 * left.ranks.size() <= left.others ? GRADE_GOOD : GRADE_WEAK;
  const int32_t r = odd->ranks[0];
  c.At(facts.bundle, facts.model.CommOf(facts.bundle.ranks[r], *odd->ops[0]), *odd->ops[0], r);
  c.reason = REASON_ELSEWHERE_IN_CIRCLE;
  // The records of the others may be overwritten.
  c.Other(others == orders.end() ? CallNamed("earlier operations", "")
                                 : CallOf(facts.bundle, others->ranks[0], *others->ops[0]));
  return c;
}

// The records do not show which rank left the program.
Cause PlainCause(const Facts& facts, const Circle& circle, Cause c) {
  if (circle.collectives.empty() && !circle.receives) {
    c.reason = REASON_SENDS_FACE_EACH_OTHER;
    return c;
  }
  std::set<uint32_t> comms;
  for (const OpKey& key : circle.collectives) comms.insert(key.first);
  std::vector<std::string> names;
  names.reserve(comms.size());
  for (uint32_t comm : comms) names.push_back(CommText(facts.bundle, comm));
  if (names.size() > kMaxOrders) names.resize(kMaxOrders);
  return c.Count(comms.size()).Name(absl::StrJoin(names, ", "));
}

// Returns whether the rank's oldest batch is unfinished and smaller than its next one. A framework overwrites its
// entries one by one, so the missing ones may be what others seem to wait for.
bool OldestBatchIsCut(const Rank& rank) {
  if (rank.ops.empty() || !rank.ops[0].in_batch || !IsUnfinished(rank.ops[0].state)) return false;
  const Op& first = rank.ops[0];
  int missing = 0;
  uint64_t next = 0;
  for (const Op& op : rank.ops) {
    if (!op.in_batch || op.membership != first.membership) continue;
    if (op.group != first.group && next == 0) next = op.group;
    if (op.group == first.group) --missing;
    if (op.group == next) ++missing;
  }
  return missing > 0;
}

}  // namespace

bool FromWrongPeer(const Facts& facts, const std::vector<uint32_t>& sink, Cause* c) {
  int32_t stranger = -1;
  const Edge* call = nullptr;
  for (uint32_t node : sink) {
    for (uint32_t waiter : facts.graph->back[node]) {
      const int32_t r = facts.graph->RankOf(waiter);
      if (r < 0 || facts.graph->IsHost(waiter)) continue;
      for (const Edge& e : facts.graph->edges[waiter]) {
        if (e.to != node || e.why != Why::kNotIssued || e.op == nullptr ||
            !TookTheWrongPeer(facts.model, r, *e.op, sink.size() > 1))
          continue;
        if (stranger >= 0 && stranger != r) return false;
        stranger = r;
        call = &e;
      }
    }
  }
  if (stranger < 0) return false;
  *c = CauseOf(P2P_UNMATCHED, REASON_NEW_PEER, GRADE_GOOD, {stranger});
  c->nodes = sink;
  c->At(facts.bundle, call->comm, *call->op, stranger);
  return true;
}

std::vector<Cause> CycleCauses(const Facts& facts, const std::vector<uint32_t>& sink) {
  Cause c = CauseOf(DEADLOCK_CYCLE, REASON_CIRCLE, GRADE_GOOD);
  c.nodes = sink;
  const Circle circle = ReadCircle(facts, sink, &c);
  if (!circle.launch_order.empty()) return {StreamCause(facts, sink, circle)};
  if (Cause wrong; FromWrongPeer(facts, sink, &wrong)) return {wrong};
  const std::vector<Order> orders = OrdersOf(facts.model, circle.ranks, circle.collectives, true);
  AddOrders(facts, orders, circle.silent, &c);
  if (AnyTwo(orders, [](const Order& a, const Order& b) { return Swapped(a, b).has_value(); })) {
    c = InvertedCause(facts, circle, orders, std::move(c));
    if (c.kind == RANK_NO_DATA) return {c};
  } else {
    const bool exchanges = circle.sends || circle.receives;
    const Left left = exchanges ? Left() : FewestThatLeft(facts.model, circle.ranks, circle.collectives);
    c = left.ranks.empty() ? PlainCause(facts, circle, std::move(c)) : LeftCause(facts, orders, left, std::move(c));
  }
  // Calls that a log does not mention, or whose entry was overwritten, may still have been issued.
  const auto cut = [&](int32_t r) { return OldestBatchIsCut(facts.bundle.ranks[r]); };
  if (circle.silent || std::ranges::any_of(circle.ranks, cut)) c.Doubt(GRADE_OPEN);
  return {c};
}

void JoinStuck(const Facts& facts, std::vector<Cause>* causes) {
  constexpr size_t kMost = 64;  // if more operations are stuck at once, the cause is not the order of two of them
  std::vector<Cause*> stuck;
  for (Cause& c : *causes) {
    if (c.kind == COLLECTIVE_STUCK && c.op != nullptr && IsCollective(c.op->kind)) stuck.push_back(&c);
  }
  if (stuck.size() < 2 || stuck.size() > kMost) return;
  for (size_t i = 0; i < stuck.size(); ++i) {
    for (size_t k = i + 1; k < stuck.size(); ++k) {
      Cause &a = *stuck[i], &b = *stuck[k];
      if (a.kind == FINDING_UNSPECIFIED || b.kind == FINDING_UNSPECIFIED || a.comm == b.comm) continue;
      std::vector<int32_t> shared;
      std::set_intersection(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end(), std::back_inserter(shared));
      if (shared.size() < 2) continue;
      Cause c = CauseOf(DEADLOCK_CYCLE, REASON_TWO_STREAMS_STUCK, GRADE_OPEN, shared);
      c.hypothesis = true;
      c.At(facts.bundle, a.comm, *a.op, a.op_rank).Other(CallOf(facts.bundle, b.op_rank, *b.op));
      c.nodes = a.nodes;
      Append(b.nodes, &c.nodes);
      for (const Cause* from : {&a, &b}) Append(from->evidence, &c.evidence);
      Detail* both = c.Add(Evidence::IN_BOTH, shared).Naming(facts.bundle).mutable_detail();
      *both->add_calls() = c.detail.call();
      *both->add_calls() = c.detail.other();
      a = std::move(c);
      b.kind = FINDING_UNSPECIFIED;
    }
  }
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

}  // namespace lockstep
