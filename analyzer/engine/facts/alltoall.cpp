#include "analyzer/engine/facts/alltoall.h"

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep {
namespace {

using ring::CallKind;

constexpr double kHolds = 0.9;  // a rule must hold for this share of the other pairs

// One member's part in an exchange: the number of elements for each peer, or -1 without such a call.
struct Part {
  std::vector<int64_t> sent, received;
  bool complete = false;  // the member has a send and a receive with every other member

  int64_t Sent() const {
    int64_t sum = 0;
    for (int64_t n : sent) sum += std::max<int64_t>(n, 0);
    return sum;
  }
};

// Returns the member's part in the group with this call (`step` 0) or with the previous one to the same peer (-1). All
// -1 if not recorded.
Part PartOf(const Model& model, uint32_t comm, int32_t member, CallKind kind, int32_t peer, int64_t seq, int step) {
  Part part;
  const auto& members = model.comms[comm].members;
  const Member& m = members[member];
  const size_t size = members.size();
  part.sent.assign(size, -1);
  part.received.assign(size, -1);
  const Op* like = model.FindPointToPoint(m, kind, peer, seq + step);
  if (like == nullptr || like->group == 0) return part;
  const Rank& rank = model.bundle.ranks[m.rank_index];
  size_t peers = 0;
  for (const Op& op : rank.ops) {
    if (op.group != like->group || op.thread != like->thread || op.membership != m.membership ||
        !IsPointToPoint(op.kind))
      continue;
    if (op.root_or_peer < 0 || static_cast<size_t>(op.root_or_peer) >= size) continue;
    int64_t& n = (op.kind == CallKind::kSend ? part.sent : part.received)[op.root_or_peer];
    if (n < 0 && op.root_or_peer != member) ++peers;
    n = std::max<int64_t>(n, 0) + op.count;
  }
  part.complete = peers == 2 * (size - 1);
  return part;
}

// Returns the member that is in every pair with differing sizes; -1 if there is none, or fewer than two such pairs.
int32_t AtOddsWithSeveral(const std::vector<Part>& parts) {
  const auto size = static_cast<int32_t>(parts.size());
  std::vector<int32_t> differs(parts.size());  // number of other members that this member differs from
  const auto size_of = [](const std::vector<int64_t>& by_peer, int32_t peer) {
    return by_peer.empty() ? -1 : by_peer[peer];
  };
  int32_t pairs = 0;
  for (int32_t i = 0; i < size; ++i) {
    for (int32_t j = i + 1; j < size; ++j) {
      const auto fits = [&](int32_t from, int32_t to) {
        const int64_t sent = size_of(parts[from].sent, to), received = size_of(parts[to].received, from);
        return sent < 0 || received < 0 || sent == received;
      };
      if (fits(i, j) && fits(j, i)) continue;
      ++pairs, ++differs[i], ++differs[j];
    }
  }
  const auto most = std::ranges::max_element(differs);
  return pairs >= 2 && *most == pairs ? static_cast<int32_t>(most - differs.begin()) : -1;
}

}  // namespace

bool IsExchangeOfAll(const Model& model, uint32_t comm, int32_t member, const Op& op) {
  const size_t size = model.comms[comm].members.size();
  return size >= 3 && op.group != 0 && PartOf(model, comm, member, op.kind, op.root_or_peer, op.seq, 0).complete;
}

SplitVerdict JudgeSplits(const Model& model, uint32_t comm, int32_t sender, int32_t receiver, const Op& send,
                         const Op& recv) {
  const auto& members = model.comms[comm].members;
  const auto size = static_cast<int32_t>(members.size());
  SplitVerdict found;
  // Every member's part in this exchange and in the previous one. Each exchange adds one to a pair's sequence number.
  std::vector<Part> now, before;
  for (int32_t m = 0; m < size; ++m) {
    const int32_t peer = m == sender ? receiver : sender;
    const CallKind kind = m == receiver ? CallKind::kRecv : CallKind::kSend;
    const bool known = members[m].recorded();
    now.push_back(known ? PartOf(model, comm, m, kind, peer, send.seq, 0) : Part());
    before.push_back(known ? PartOf(model, comm, m, kind, peer, send.seq, -1) : Part());
  }
  // Finds a member that differs from several others, which all match each other.
  if (const int32_t odd = AtOddsWithSeveral(now); odd == sender || odd == receiver) {
    Detail* detail = found.Begin(odd == sender, Evidence::SIZES_OF_OTHERS);
    detail->set_flag(odd == sender);
    return found;
  }
  // Every rank routes the same total (tokens times experts per token), regardless of the destinations.
  std::map<int64_t, int> totals;
  int others = 0;
  for (int32_t m = 0; m < size; ++m) {
    if (m == sender || !now[m].complete) continue;
    ++others;
    ++totals[now[m].Sent()];
  }
  if (others >= 2 && totals.size() == 1) {
    const int64_t total = totals.begin()->first, own = now[sender].Sent();
    const bool sender_keeps = own == total, other_keeps = own - send.count + recv.count == total;
    if (sender_keeps != other_keeps) {
      Detail* detail = found.Begin(!sender_keeps, Evidence::SENT_IN_ALL);
      detail->set_count(total);
      detail->set_number(own);
      detail->set_flag(sender_keeps);
      return found;
    }
  }
  // In the return exchange, each rank gets back from a peer as much as it sent to that peer before.
  int64_t mirrored = 0, pairs = 0;
  for (int32_t i = 0; i < size; ++i) {
    for (int32_t j = 0; j < size; ++j) {
      if (i == j || (i == sender && j == receiver) || !now[i].complete || !before[i].complete) continue;
      ++pairs;
      mirrored += now[i].sent[j] == before[i].received[j];
    }
  }
  if (pairs >= 2 && static_cast<double>(mirrored) >= kHolds * static_cast<double>(pairs) && before[sender].complete &&
      before[receiver].complete) {
    const bool sender_keeps = send.count == before[sender].received[receiver];
    const bool receiver_keeps = recv.count == before[receiver].sent[sender];
    if (sender_keeps != receiver_keeps) {
      Detail* detail = found.Begin(!sender_keeps, Evidence::SENT_BACK);
      detail->set_count(before[sender].received[receiver]);
      detail->set_of(send.count);
      detail->set_number(before[receiver].sent[sender]);
      detail->set_other_number(recv.count);
      return found;
    }
  }
  return found;
}

}  // namespace lockstep
