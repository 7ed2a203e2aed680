#include "analyzer/engine/facts/stopped.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace lockstep {
namespace {

using ring::IsCollective;
using ring::IsPointToPoint;

// If more operations than this are in flight, a full launch queue may have blocked the process. The queue fills at
// about, but not exactly, the same call on all ranks.
constexpr size_t kMayFillQueue = 64;

// One rank's place in the kinds of communicators that it is in exactly once.
struct PlaceInProgram {
  std::vector<std::pair<uint32_t, uint32_t>> memberships;  // class, index into Rank::memberships; ascending
  bool usable = false;

  uint32_t At(uint32_t klass) const {
    auto it = std::lower_bound(memberships.begin(), memberships.end(), std::pair(klass, 0u));
    return it != memberships.end() && it->first == klass ? it->second : kNoIndex;
  }
};

class Comparer {
 public:
  // Whether the data is from a framework's dump or Lockstep's own: the two count sends and receives differently.
  Comparer(const Model& model, bool frameworks) : model_(model), places_(model.ranks.size()) {
    for (const CommView& view : model.comms) {
      int64_t furthest = kUnknown;
      for (const Member& m : view.members) furthest = std::max(furthest, m.arrived);
      furthest_.push_back(furthest);
    }
    for (size_t r = 0; r < places_.size(); ++r) {
      const Rank& rank = model.bundle.ranks[r];
      PlaceInProgram& place = places_[r];
      if ((rank.source == Source::kFlightRecorder) != frameworks || rank.damaged) continue;
      // Why a process waits can be separated from what blocks its GPU only if that GPU's operation is known.
      const bool starts =
          rank.gpu_marks == ring::GpuMarks::kFull || (rank.gpu_marks == ring::GpuMarks::kEvents && rank.start_recorded);
      if (!frameworks && !starts) continue;
      for (uint32_t i = 0; i < rank.memberships.size(); ++i) {
        const uint32_t comm = rank.memberships[i].comm, klass = model.comms[comm].kind;
        place.memberships.push_back({klass, i});
      }
      std::sort(place.memberships.begin(), place.memberships.end());
      place.usable = std::adjacent_find(place.memberships.begin(), place.memberships.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; }) ==
                     place.memberships.end();
    }
  }

  // Ranks with the same role, each list ascending.
  std::vector<std::vector<uint32_t>> Families() const {
    std::map<uint32_t, std::vector<uint32_t>> families;
    for (size_t r = 0; r < places_.size(); ++r) {
      if (places_[r].usable) families[model_.roles().of_rank[r]].push_back(static_cast<uint32_t>(r));
    }
    std::vector<std::vector<uint32_t>> out;
    out.reserve(families.size());
    for (auto& [unused, family] : families) out.push_back(std::move(family));
    return out;
  }

  // Ranks with one program have about the same numbers everywhere.
  bool NumberAlike(size_t a, size_t b) const {
    for (const auto& [klass, index] : places_[a].memberships) {
      const Membership &p = At(a, index), &q = At(b, places_[b].At(klass));
      if (model_.comms[p.comm].used_for_p2p) continue;
      if (p.issued >= 0 && q.completed >= 0 && p.issued < q.completed) return false;
      if (q.issued >= 0 && p.completed >= 0 && q.issued < p.completed) return false;
    }
    return true;
  }

  // Ranks of one family in the same state, ascending in each group. A state is the counts in every kind of
  // communicator, and the work in flight with its neighbors. Every question below about two ranks has one answer for
  // all pairs of two groups.
  std::vector<std::vector<uint32_t>> Alike(const std::vector<uint32_t>& family) const {
    absl::flat_hash_map<std::pair<size_t, size_t>, uint32_t>
        known;  // indexed by two hashes, because states may be long and all different
    std::vector<std::vector<uint32_t>> groups;
    std::vector<int64_t> state;
    for (uint32_t r : family) {
      state.clear();
      for (const auto& [klass, index] : places_[r].memberships) {
        const Membership& ms = At(r, index);
        const auto& members = model_.comms[ms.comm].members;
        const bool member = ms.member_rank >= 0 && static_cast<size_t>(ms.member_rank) < members.size();
        state.insert(state.end(), {ms.issued, ms.completed, ms.member_rank >= 0,
                                   member ? members[ms.member_rank].arrived : kUnknown});
      }
      const Rank& rank = model_.bundle.ranks[r];
      for (const Unit& unit : model_.ranks[r].in_flight) {
        state.push_back(INT64_MIN);
        for (uint32_t i : unit.ops) {
          const Op& op = rank.ops[i];
          const Membership& ms = rank.memberships[op.membership];
          const int64_t towards = IsPointToPoint(op.kind) ? op.root_or_peer - ms.member_rank : 0;
          state.insert(state.end(), {model_.comms[ms.comm].kind, static_cast<int64_t>(op.kind), op.seq, towards,
                                     model_.comms[ms.comm].used_for_p2p});
        }
      }
      const auto [it, fresh] =
          known.try_emplace({absl::HashOf(state), absl::HashOf(1, state)}, static_cast<uint32_t>(groups.size()));
      if (fresh) groups.emplace_back();
      groups[it->second].push_back(r);
    }
    return groups;
  }

  // The first call that `witness` made and `rank` did not, after all unfinished work of the rank; null if there is
  // none. Calls of the witness before that work prove nothing, because the rank may have taken another path to it. A
  // call that no member of the rank's own communicator made proves nothing either, because that communicator has its
  // own number of rounds.
  const Op* WentPast(size_t witness, size_t rank) const {
    const auto& units = model_.ranks[witness].in_flight;
    size_t after = 1;  // `units[0]` is the call that the witness waits in, not one with which it continued
    for (const Unit& unit : model_.ranks[rank].in_flight) {
      for (uint32_t i : unit.ops) {
        const size_t place = Holds(witness, rank, model_.bundle.ranks[rank].ops[i]);
        if (place == units.size()) return nullptr;
        after = std::max(after, place + 1);
      }
    }
    const Rank& theirs = model_.bundle.ranks[witness];
    for (size_t u = after; u < units.size(); ++u) {
      for (uint32_t i : units[u].ops) {
        const Op& op = theirs.ops[i];
        const CommView& comm = model_.comms[theirs.memberships[op.membership].comm];
        if (!IsCollective(op.kind) || comm.used_for_p2p) continue;
        const uint32_t index = places_[rank].At(comm.kind);
        if (index == kNoIndex || At(rank, index).member_rank < 0) continue;
        const Membership& own = At(rank, index);
        const Member& member = model_.comms[own.comm].members[own.member_rank];
        if (own.issued >= 0 && std::max(own.issued, member.arrived) < op.seq && furthest_[own.comm] >= op.seq)
          return &op;
      }
    }
    return nullptr;
  }

 private:
  const Membership& At(size_t r, uint32_t i) const { return model_.bundle.ranks[r].memberships[i]; }

  // Returns which of the witness's units in flight corresponds to the rank's operation, at the same place in the
  // program; the number of units if none does.
  size_t Holds(size_t witness, size_t rank, const Op& op) const {
    const Rank &mine = model_.bundle.ranks[rank], &theirs = model_.bundle.ranks[witness];
    const Membership& own = mine.memberships[op.membership];
    const uint32_t there = places_[witness].At(model_.comms[own.comm].kind);
    const auto& units = model_.ranks[witness].in_flight;
    for (size_t u = 0; u < units.size(); ++u) {
      for (uint32_t i : units[u].ops) {
        const Op& other = theirs.ops[i];
        if (other.membership != there || other.kind != op.kind || other.seq != op.seq) continue;
        if (!IsPointToPoint(op.kind)) return u;
        // The same neighbor, seen from each rank.
        const Membership& at = theirs.memberships[there];
        if (op.root_or_peer - own.member_rank == other.root_or_peer - at.member_rank) return u;
      }
    }
    return units.size();
  }

  const Model& model_;
  std::vector<PlaceInProgram> places_;
  std::vector<int64_t> furthest_;  // by communicator: number of calls of the most advanced member
};

std::vector<StoppedHost> FindPassed(const Model& model, const std::vector<bool>& distrusted, bool frameworks,
                                    HostState state) {
  const size_t n = model.ranks.size();
  std::vector<StoppedHost> found(n);
  const Comparer comparer(model, frameworks);
  for (const std::vector<uint32_t>& family : comparer.Families()) {
    const std::vector<std::vector<uint32_t>> groups = comparer.Alike(family);
    // The groups that may serve as evidence, lowest rank first.
    std::vector<std::pair<uint32_t, int32_t>> witnesses;  // the first rank of a group, and the group's size
    for (const auto& group : groups) {
      const auto trusted = [&](uint32_t r) { return !distrusted[r]; };
      const auto first = std::find_if(group.begin(), group.end(), trusted);
      if (first != group.end())
        witnesses.push_back({*first, static_cast<int32_t>(std::count_if(first, group.end(), trusted))});
    }
    std::sort(witnesses.begin(), witnesses.end());
    for (const auto& group : groups) {
      if (model.ranks[group[0]].in_flight.size() > kMayFillQueue) continue;
      const auto silent = [&](uint32_t r) { return model.ranks[r].host == state && !distrusted[r]; };
      if (std::none_of(group.begin(), group.end(), silent)) continue;
      StoppedHost host;
      for (const auto& [w, count] : witnesses) {
        if (!comparer.NumberAlike(w, group[0])) continue;
        const Op* next = comparer.WentPast(w, group[0]);
        if (next == nullptr) continue;
        if (host.witnesses == 0) host.witness = static_cast<int32_t>(w), host.next = next;
        host.witnesses += count;
      }
      // A single rank may itself be the one that left the program.
      if (host.witnesses < 2) continue;
      for (uint32_t r : group) {
        if (silent(r)) found[r] = host;
      }
    }
  }
  return found;
}

}  // namespace

std::vector<StoppedHost> FindStoppedHosts(const Model& model, const std::vector<bool>& distrusted) {
  return FindPassed(model, distrusted, true, HostState::kUnknown);
}

std::vector<StoppedHost> FindWaitsTooEarly(const Model& model, const std::vector<bool>& distrusted) {
  std::vector<StoppedHost> found = FindPassed(model, distrusted, false, HostState::kInWait);
  const std::vector<StoppedHost> frameworks = FindStoppedHosts(model, distrusted);
  for (size_t r = 0; r < found.size(); ++r) {
    if (found[r].witness < 0) found[r] = frameworks[r];
  }
  return found;
}

}  // namespace lockstep
