#include "analyzer/engine/facts/counts.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/engine/facts/program_read.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

using ring::CallKind;

using Counts = std::vector<int64_t>;

constexpr size_t kFew = 2;         // if more ranks of one role differ, there is a different reason
constexpr size_t kReferences = 6;  // approximate number of ranks with the same role that a rank is compared with
constexpr size_t kMostPlaces = 512;

bool AtMost(const Counts& a, const Counts& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

struct Counted {
  int32_t rank = -1;
  std::vector<Counts> places;  // newest first: at the capture, and before each recorded call
};

// Calls that are counted together: the collectives of a kind of communicator, or the sends to (or receives from) a
// peer. A framework counts all sends and receives together.
using Lane = std::array<int64_t, 3>;  // kind of communicator, kind of call, distance

Lane LaneOf(const Model& model, const Rank& rank, uint32_t membership, ring::CallKind kind, int32_t peer) {
  const Membership& ms = rank.memberships[membership];
  const bool exchange = IsPointToPoint(kind), by_peer = exchange && !IsFramework(rank);
  return {model.comms[ms.comm].kind, by_peer ? static_cast<int64_t>(kind) : -1 - int64_t{exchange},
          by_peer ? int64_t{peer} - ms.member_rank : 0};
}

struct Lanes {
  std::map<Lane, int64_t> count;  // how many calls the rank issued
  // Equal for ranks whose counts are comparable: the number of the role, then the lanes of collectives, and the kinds
  // of communicators whose sends and receives are counted.
  std::vector<int64_t> role;
};

// Returns nothing if the counts are not comparable: two communicators of one kind, or fewer than two lanes.
std::optional<Lanes> LanesOf(const Model& model, const std::vector<bool>& left_out, size_t index) {
  const Rank& rank = model.bundle.ranks[index];
  constexpr size_t kNeighbors = 2;  // of a pipeline or a ring
  Lanes lanes;
  std::set<std::array<int64_t, 2>> comparable;
  bool twice = false;
  const auto add = [&](uint32_t m, ring::CallKind kind, int32_t peer, int64_t count) {
    if (count < 0 && count != kNone) return;
    twice |= !lanes.count.try_emplace(LaneOf(model, rank, m, kind, peer), std::max<int64_t>(count, 0)).second;
    comparable.insert({model.comms[rank.memberships[m].comm].kind, IsPointToPoint(kind)});
  };
  for (uint32_t m = 0; m < rank.memberships.size(); ++m) {
    const Membership& ms = rank.memberships[m];
    if (left_out[ms.comm]) continue;
    add(m, CallKind::kAllReduce, 0, ms.issued);
    if (!model.comms[ms.comm].used_for_p2p) continue;
    if (IsFramework(rank)) {
      add(m, CallKind::kSend, 0, ms.p2p_issued);
    } else if (ms.recorded->peers_lost == 0 && ms.peers.size() <= kNeighbors + 1) {
      // In an exchange among many ranks, the calls depend on the data, so their counts are not compared. A rank that
      // called a wrong peer has one more than its neighbors.
      for (const PeerCount& p : ms.peers) {
        add(m, CallKind::kSend, p.peer, p.sends);
        add(m, CallKind::kRecv, p.peer, p.recvs);
      }
    }
  }
  if (twice || lanes.count.size() < 2) return std::nullopt;
  lanes.role = {model.roles().of_rank[index]};
  for (const auto& kind : comparable) Append(kind, &lanes.role);
  return lanes;
}

// Reads the rank's counts at up to `most` places. `order` has the lanes of all ranks with the role. Returns nothing if
// the file is damaged.
std::optional<Counted> Read(const Model& model, const std::vector<bool>& left_out, size_t index, size_t most,
                            const std::map<Lane, size_t>& order) {
  const Rank& rank = model.bundle.ranks[index];
  // In a framework's file, counters precede entries. So a file truncated in its entries still shows the rank's place,
  // but not how the rank got there.
  if (rank.damaged && (!IsFramework(rank) || most > 1)) return std::nullopt;
  Counted program{static_cast<int32_t>(index), {}};
  Counts now(order.size());
  const std::optional<Lanes> lanes = LanesOf(model, left_out, index);
  for (const auto& [lane, count] : lanes->count) now[order.at(lane)] = count;
  program.places.push_back(now);
  for (size_t i = rank.ops.size(); i-- > 0 && program.places.size() < most;) {
    const Op& op = rank.ops[i];
    if (i + 1 < rank.ops.size() && rank.ops[i + 1].after_gap) break;
    if (!IsOfProgram(op) || left_out[model.CommOf(rank, op)]) continue;
    const auto lane = order.find(LaneOf(model, rank, op.membership, op.kind, op.root_or_peer));
    if (lane == order.end()) continue;
    int64_t& count = now[lane->second];
    if (op.seq < count) break;     // later calls are not recorded
    if (op.seq > count) continue;  // calls of one batch share a number
    count = op.seq - 1;
    if (now != program.places.back()) program.places.push_back(now);
  }
  return program;
}

// Returns whether a rank that runs the program of `sibling`, a rank with the same role, can never have these counts.
bool Contradicts(const Counts& counts, const Counted& sibling) {
  for (const Counts& c : sibling.places) {
    // All older places are behind `c`.
    if (AtMost(c, counts)) return &c != &sibling.places.front() && c != counts;
    if (!AtMost(counts, c)) return true;
  }
  return false;
}

// Returns whether the counts at one of the newest `most` places of `a` never occur in the program of `b`.
bool Differ(const Counted& a, const Counted& b, size_t most) {
  return std::any_of(a.places.begin(), a.places.begin() + static_cast<std::ptrdiff_t>(std::min(most, a.places.size())),
                     [&](const Counts& counts) { return Contradicts(counts, b); });
}

// Returns the communicators of a rank that the other is not in. Ranks with equal lists have equal counts, so together
// they are one piece of evidence.
std::vector<uint32_t> CommsApart(const Model& model, int32_t rank_index, int32_t other) {
  std::vector<uint32_t> apart;
  for (const Membership& ms : model.bundle.ranks[rank_index].memberships) {
    if (MembershipIn(model.bundle.ranks[other], ms.comm) == nullptr) apart.push_back(ms.comm);
  }
  std::ranges::sort(apart);
  return apart;
}

}  // namespace

std::vector<int32_t> FindOtherPrograms(const Model& model, size_t recent) {
  const std::vector<bool> left_out = FindGivenUp(model);
  struct Role {
    std::vector<size_t> ranks;
    std::map<Lane, size_t> order;
  };
  std::map<std::vector<int64_t>, Role> roles;
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const std::optional<Lanes> lanes = LanesOf(model, left_out, r);
    if (!lanes) continue;
    Role& role = roles[lanes->role];
    role.ranks.push_back(r);
    for (const auto& [lane, count] : lanes->count) role.order.try_emplace(lane, role.order.size());
  }
  std::vector<int32_t> odd;
  for (const auto& [key, role] : roles) {
    std::vector<Counted> programs;
    for (const size_t r : role.ranks) {
      const size_t places = model.bundle.ranks[r].damaged ? 1 : recent;
      if (auto program = Read(model, left_out, r, places, role.order)) programs.push_back(*std::move(program));
    }
    if (programs.size() < 3) continue;
    std::vector<int32_t> here;
    std::vector<Counted> references;
    const size_t stride = std::max<size_t>(1, programs.size() / kReferences);
    for (size_t i = 0; i < programs.size(); i += stride) {
      if (auto reference = Read(model, left_out, static_cast<size_t>(programs[i].rank), kMostPlaces, role.order))
        references.push_back(*std::move(reference));
    }
    for (const Counted& p : programs) {
      size_t against = 0, compared = 0, fellows = 0;
      std::set<std::vector<uint32_t>> apart;
      for (const Counted& reference : references) {
        if (reference.rank == p.rank) continue;
        ++compared;
        if (!Differ(p, reference, recent)) continue;
        ++against;
        std::vector<uint32_t> others = CommsApart(model, reference.rank, p.rank);
        fellows += others.empty();
        if (!others.empty()) apart.insert(std::move(others));
      }
      if (fellows + apart.size() >= 2 && 2 * against > compared) here.push_back(p.rank);
    }
    if (here.empty() || here.size() > kFew || 2 * here.size() >= programs.size()) continue;
    // Only ranks that agree with each other show the program of their role. Programs differ by design with dynamic
    // batching, for example.
    constexpr size_t kEnough = 64;
    std::erase_if(references, [&](const Counted& reference) { return Contains(here, reference.rank); });
    const bool agree = std::ranges::none_of(references, [&](const Counted& a) {
      return std::ranges::any_of(references, [&](const Counted& b) { return Differ(a, b, kEnough); });
    });
    if (agree) Append(here, &odd);
  }
  std::ranges::sort(odd);
  return odd;
}

bool MeetNowhereElse(const Model& model, int32_t rank_index, const Op& op) {
  const Rank& own = model.bundle.ranks[rank_index];
  const Member* peer = model.PeerOf(own, op);
  if (peer == nullptr || !peer->recorded()) return false;
  const Rank& theirs = model.bundle.ranks[peer->rank_index];
  if (own.damaged || theirs.damaged || own.only_active || theirs.only_active) return false;
  const int32_t me = own.memberships[op.membership].member_rank;
  const auto others = [](const Rank& rank, uint32_t membership, int32_t with, const Op* but) {
    int64_t count = 0, with_it = 0;
    if (!IsFramework(rank)) {
      for (const PeerCount& p : rank.memberships[membership].peers)
        (p.peer == with ? with_it : count) += p.sends + p.recvs;
      with_it -= but != nullptr;
    } else {
      for (const Op& o : rank.ops) {
        if (&o == but || o.membership != membership || !IsPointToPoint(o.kind)) continue;
        ++(o.root_or_peer == with ? with_it : count);
      }
    }
    return with_it == 0 && count > 0;
  };
  return others(own, op.membership, op.root_or_peer, &op) && others(theirs, peer->membership, me, nullptr);
}

namespace {

// Returns whether the other rank has issued a collective that this rank issued after the call.
bool WentOn(const Model& model, int32_t rank_index, const Op& op, int32_t other) {
  const Rank& rank = model.bundle.ranks[rank_index];
  for (const Op* next = &op + 1; next != rank.ops.data() + rank.ops.size(); ++next) {
    if (!IsCollective(next->kind) || next->membership == kNoIndex || next->thread != op.thread) continue;
    const Membership* ms = MembershipIn(model.bundle.ranks[other], model.CommOf(rank, *next));
    if (ms != nullptr && ms->issued >= next->seq) return true;
  }
  return false;
}

// Returns a member, other than the peer, that waits for a call of this kind from this rank; null if there is none. A
// rank that used the wrong peer keeps the right peer waiting.
const Member* WhoElseExpects(const Model& model, uint32_t comm, int32_t me, const Op& op) {
  const std::vector<Member>& members = model.comms[comm].members;
  const auto found = std::ranges::find_if(
      members, [&](const Member& m) { return &m != &members[op.root_or_peer] && model.WaitsForCall(m, op.kind, me); });
  return found == members.end() ? nullptr : &*found;
}

}  // namespace

bool TookTheWrongPeer(const Model& model, int32_t rank_index, const Op& op, bool peer_waits) {
  const Rank& rank = model.bundle.ranks[rank_index];
  const Membership& ms = rank.memberships[op.membership];
  const Member* peer = IsPointToPoint(op.kind) ? model.PeerOf(rank, op) : nullptr;
  if (peer == nullptr || !peer->recorded() || model.MemberAt(ms.comm, ms.member_rank) == nullptr) return false;
  if (model.Met(rank_index, op) == true) return false;
  // The cheap checks come first, because many ranks may wait for one rank.
  const bool apart = peer_waits && MeetNowhereElse(model, rank_index, op);
  if (!apart && !WentOn(model, rank_index, op, peer->rank_index)) return false;
  const Member* right = WhoElseExpects(model, ms.comm, ms.member_rank, op);
  return right != nullptr && (apart || WentOn(model, rank_index, op, right->rank_index));
}

}  // namespace lockstep
