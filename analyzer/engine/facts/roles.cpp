#include "analyzer/engine/facts/roles.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/engine/facts/model.h"

namespace lockstep {
namespace {

using ring::IsPointToPoint;

// A group of sends and receives with at least this many peers on one communicator is an exchange among its members. A
// rank of a pipeline has two peers, no matter how many calls a group contains (for example, one that it never ended).
constexpr size_t kPeersOfExchange = 3;

// Finds communicators whose members all exchange with each other in groups, judged by the newest groups of each rank.
std::vector<bool> FindExchanges(const Model& model) {
  std::vector<bool> found(model.comms.size());
  for (const Rank& rank : model.bundle.ranks) {
    std::map<std::pair<uint32_t, uint64_t>, std::set<int32_t>> peers;  // by membership and group
    size_t looked = 0;
    for (size_t i = rank.ops.size(); i-- > 0 && looked < 256;) {
      const Op& op = rank.ops[i];
      if (op.membership == kNoIndex || !IsPointToPoint(op.kind) || op.group == 0) continue;
      ++looked;
      std::set<int32_t>& of_group = peers[{op.membership, op.group}];
      of_group.insert(op.root_or_peer);
      if (of_group.size() >= kPeersOfExchange) found[rank.memberships[op.membership].comm] = true;
    }
  }
  return found;
}

}  // namespace

Roles FindRoles(const Model& model) {
  Roles roles{{}, FindExchanges(model)};
  // Kind of communicator; kind of call, or -1; member rank, or distance of the peer.
  using Role = std::set<std::tuple<uint32_t, int, int32_t>>;
  std::map<Role, uint32_t> known;
  for (size_t r = 0; r < model.bundle.ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    Role role;
    bool by_neighbors = false;
    for (const Membership& ms : rank.memberships) {
      const CommView& view = model.comms[ms.comm];
      const bool pipeline = view.used_for_p2p && !roles.exchanges[ms.comm];
      // If several communicators of one kind carry sends and receives, a rank's role includes its place in its own.
      const bool place = pipeline && model.kinds[view.kind].size() > 1;
      role.insert({view.kind, -1, place ? ms.member_rank : -1});
      by_neighbors |= pipeline && !place;
    }
    // Otherwise the rank's role is defined by its neighbors: the ranks that it exchanges with more than once.
    if (by_neighbors) {
      for (const auto& [key, lane] : model.ExchangesOf(static_cast<int32_t>(r)).lanes) {
        const auto& [membership, kind, peer] = key;
        const Membership& ms = rank.memberships[membership];
        const uint32_t of = model.comms[ms.comm].kind;
        if (lane.size() < 2 || model.kinds[of].size() > 1 || roles.exchanges[ms.comm]) continue;
        role.insert({of, static_cast<int>(kind), peer - ms.member_rank});
      }
    }
    roles.of_rank.push_back(known.try_emplace(std::move(role), static_cast<uint32_t>(known.size())).first->second);
  }
  return roles;
}

}  // namespace lockstep
