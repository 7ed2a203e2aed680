#include "analyzer/engine/facts/roles.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/engine/facts/model.h"

namespace lockstep {
namespace {

// A group of sends and receives with at least this many peers on one communicator is an exchange among its members. A
// rank of a pipeline has two peers, no matter how many calls a group contains (for example, a group left open).
constexpr size_t kPeersOfExchange = 3;

// Finds communicators with groups of at least kPeersOfExchange peers. Looks only at the newest groups of each rank.
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

using Neighbors = std::set<std::pair<int, int32_t>>;

// Returns direction and distance of each peer with which the rank has at least `least` operations.
Neighbors NeighborsOf(const Model& model, const Roles& roles, int32_t rank_index, uint32_t membership, size_t least) {
  Neighbors neighbors;
  const Membership& ms = model.bundle.ranks[rank_index].memberships[membership];
  for (const auto& [key, lane] : model.ExchangesOf(rank_index).lanes) {
    const auto& [of, kind, peer] = key;
    if (of != membership || lane.size() < least) continue;
    neighbors.insert(
        {static_cast<int>(kind), roles.Distance(ms.comm, ms.member_rank, peer, model.comms[ms.comm].members.size())});
  }
  return neighbors;
}

// Returns how many members have the most common set of neighbors.
size_t MostAlike(const Model& model, const Roles& roles, const std::vector<Member>& members) {
  std::map<Neighbors, size_t> alike;
  size_t most = 0;
  for (const Member& m : members) {
    if (m.recorded()) most = std::max(most, ++alike[NeighborsOf(model, roles, m.rank_index, m.membership, 1)]);
  }
  return most;
}

}  // namespace

Roles FindRoles(const Model& model) {
  Roles roles{{}, FindExchanges(model), std::vector<bool>(model.comms.size())};
  constexpr size_t kRepeated = 2;  // a single call may be the fault
  constexpr size_t kRing = 3;      // of two members, each is next to the other in both directions
  for (size_t c = 0; c < model.comms.size(); ++c) {
    const CommView& view = model.comms[c];
    if (!view.used_for_p2p || roles.exchanges[c] || model.kinds[view.kind].size() > 1 || view.members.size() < kRing)
      continue;
    const size_t in_line = MostAlike(model, roles, view.members);
    roles.rings[c] = true;
    const size_t around = MostAlike(model, roles, view.members);
    roles.rings[c] = around > in_line && 2 * around > view.members.size();
  }
  // Kind of communicator; kind of call, or -1; member rank, or distance of the peer.
  using Role = std::set<std::tuple<uint32_t, int, int32_t>>;
  std::map<Role, uint32_t> known;
  for (size_t r = 0; r < model.bundle.ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    Role role;
    for (uint32_t m = 0; m < rank.memberships.size(); ++m) {
      const Membership& ms = rank.memberships[m];
      const CommView& view = model.comms[ms.comm];
      const bool pipeline = view.used_for_p2p && !roles.exchanges[ms.comm];
      // If several communicators of one kind carry sends and receives, a rank's role includes its member rank.
      const bool place = pipeline && model.kinds[view.kind].size() > 1;
      role.insert({view.kind, -1, place ? ms.member_rank : -1});
      // Otherwise, its neighbors define the rank's role.
      if (!pipeline || place) continue;
      for (const auto& [kind, distance] : NeighborsOf(model, roles, static_cast<int32_t>(r), m, kRepeated))
        role.insert({view.kind, kind, distance});
    }
    roles.of_rank.push_back(known.try_emplace(std::move(role), static_cast<uint32_t>(known.size())).first->second);
  }
  return roles;
}

}  // namespace lockstep
