#include "analyzer/engine/facts/init.h"
#include "analyzer/util/sorted.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommState;

bool NeedsParent(CallKind origin) { return origin == CallKind::kCommSplit || origin == CallKind::kCommShrink; }

// Returns whether the communicator is certainly still being created. If it has carried an operation, its creation
// ended, even if the record of the creation says otherwise.
bool InTheMaking(const Membership& ms) {
  return ms.state == CommState::kInitializing && ms.issued <= 0 && ms.peers.empty();
}

class Finder {
 public:
  Finder(const Model& model, int64_t late_after_ns)
      : model_(model), bundle_(model.bundle), late_after_ns_(late_after_ns) {}

  std::vector<PendingCreation> Run() {
    if (!AnyPending()) return {};
    Gather();
    std::vector<PendingCreation> found;
    for (auto& [key, creation] : creations_) {
      if (creation.waiting.empty() && creation.failed.empty()) continue;
      if (creation.parent != kNoIndex) {
        MissingOfParent(&creation);
      } else {
        MissingOfRoot(&creation);
      }
      found.push_back(std::move(creation));
    }
    JoinStrays(&found);
    // A partly read file may have lost later operations of the communicator. So an unfinished creation counts only if a
    // thread is inside it, or an undamaged file shows it.
    std::erase_if(found, [&](const PendingCreation& p) {
      return std::ranges::none_of(p.waiting, [&](int32_t r) {
        const Rank& rank = bundle_.ranks[r];
        return !rank.damaged ||
               std::ranges::any_of(rank.threads, [](const auto& t) { return ring::IsCommInit(t.call); });
      });
    });
    std::erase_if(found, [&](const PendingCreation& p) {
      return p.waiting.empty() || (!bundle_.known_stalled && p.dated && p.oldest_ns < late_after_ns_);
    });
    return found;
  }

 private:
  // (communicator, 0) for a root communicator; (parent, ordinal) for a split, which is one creation for all colors.
  using Key = std::pair<uint32_t, uint32_t>;

  static bool Counts(const Membership& ms) { return ms.origin == CallKind::kNone || ring::IsCommInit(ms.origin); }

  // Returns whether the creation of any communicator is unfinished or failed. Usually there is none, and then the
  // members need not be looked up.
  bool AnyPending() const {
    return std::ranges::any_of(bundle_.ranks, [](const Rank& rank) {
      return std::ranges::any_of(rank.memberships, [](const Membership& ms) {
        return Counts(ms) && (InTheMaking(ms) || ms.state == CommState::kInitFailed);
      });
    });
  }

  void Gather() {
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
      const Rank& rank = bundle_.ranks[r];
      for (const Membership& ms : rank.memberships) {
        if (!Counts(ms)) continue;
        const Communicator& comm = bundle_.comms[ms.comm];
        Key key{ms.comm, 0};
        uint32_t parent = kNoIndex;
        if (NeedsParent(comm.origin) && comm.ordinal > 0) {
          parent = model_.comms[ms.comm].parent;
          if (parent != kNoIndex) key = {parent, comm.ordinal};
        }
        PendingCreation& creation = creations_[key];
        if (creation.comm == kNoIndex) {
          creation.comm = ms.comm;
          creation.parent = parent;
          creation.call = comm.origin != CallKind::kNone ? comm.origin : ms.origin;
          creation.size = parent == kNoIndex ? comm.size : 0;
        }
        if (InTheMaking(ms)) {
          creation.comm = ms.comm;
          creation.waiting.push_back(static_cast<int32_t>(r));
          creation.dated |= !IsFramework(rank);
          if (rank.captured_ns > 0 && ms.created_ns > 0) {
            creation.oldest_ns = std::max(creation.oldest_ns, rank.captured_ns - ms.created_ns);
          }
        } else if (ms.state == CommState::kInitFailed) {
          creation.failed.push_back(static_cast<int32_t>(r));
        } else {
          creation.returned.push_back(static_cast<int32_t>(r));
        }
      }
    }
  }

  static std::set<int32_t> Entered(const PendingCreation& creation) {
    std::set<int32_t> entered;
    for (const auto* list : {&creation.waiting, &creation.returned, &creation.failed})
      entered.insert(list->begin(), list->end());
    return entered;
  }

  void AddMissing(const Member& member, PendingCreation* creation) const {
    if (member.rank_index < 0 && member.global_rank < 0) {
      ++creation->unnamed;
    } else if (member.rank_index < 0 || bundle_.ranks[member.rank_index].damaged) {
      // In a partly read file, the record of the rank's arrival may be lost.
      creation->unseen.push_back(member.global_rank);
    } else {
      creation->absent.push_back(member.rank_index);
    }
  }

  void MissingOfRoot(PendingCreation* creation) const {
    const CommView& view = model_.comms[creation->comm];
    const std::set<int32_t> entered = Entered(*creation);
    for (const Member& m : view.members) {
      if (!m.recorded() && !entered.contains(m.rank_index)) AddMissing(m, creation);
    }
    std::ranges::sort(creation->absent);
  }

  void MissingOfParent(PendingCreation* creation) const {
    const std::set<int32_t> entered = Entered(*creation);
    absl::flat_hash_set<int32_t> excluded;
    if (creation->call == CallKind::kCommShrink) {
      for (int32_t r : creation->waiting) {
        if (const Membership* ms = MembershipIn(bundle_.ranks[r], creation->comm); ms != nullptr)
          excluded.insert(ms->recorded->excluded.begin(), ms->recorded->excluded.end());
      }
    }
    const auto& members = model_.comms[creation->parent].members;
    creation->size = static_cast<int32_t>(members.size());
    for (size_t m = 0; m < members.size(); ++m) {
      if (excluded.contains(static_cast<int32_t>(m))) continue;
      const int32_t r = members[m].rank_index;
      if (entered.contains(r)) continue;
      // A rank that passed no color gets no communicator, so its record may not show the parent. Then any call of this
      // kind counts.
      const bool inside =
          r >= 0 && std::ranges::any_of(
                        bundle_.ranks[r].threads, [&, &memberships = bundle_.ranks[r].memberships](const auto& t) {
                          return t.call == creation->call &&
                                 (t.comm >= memberships.size() || memberships[t.comm].comm == creation->parent);
                        });
      if (inside) {
        creation->waiting.push_back(r);
      } else {
        AddMissing(members[m], creation);
      }
    }
    std::ranges::sort(creation->absent);
    std::ranges::sort(creation->waiting);
  }

  int32_t PlaceIn(int32_t rank, uint32_t comm) const {
    const Membership* ms = MembershipIn(bundle_.ranks[rank], comm);
    return ms == nullptr ? -1 : ms->member_rank;
  }

  // Returns whether the places of the ranks that wait in `p` are free in `right`.
  bool FillPlaces(const PendingCreation& p, const PendingCreation& right) const {
    absl::flat_hash_set<int32_t> taken;
    for (int32_t r : Entered(right)) taken.insert(PlaceIn(r, right.comm));
    return std::ranges::none_of(p.waiting, [&](int32_t r) { return taken.contains(PlaceIn(r, p.comm)); });
  }

  // Joins two creations of one name and size if the members of one fit the free places of the other. Both are one
  // communicator, created with two unique ids. The larger part counts as the right one.
  void JoinStrays(std::vector<PendingCreation>* found) const {
    std::map<std::pair<int32_t, std::string>, std::vector<size_t>> alike;
    for (size_t i = 0; i < found->size(); ++i) {
      const PendingCreation& p = (*found)[i];
      if (p.parent != kNoIndex || p.size < 2 || p.waiting.empty() || !p.returned.empty()) continue;
      if (p.absent.empty() && p.unseen.empty() && p.unnamed == 0) continue;
      alike[{p.size, bundle_.comms[p.comm].name}].push_back(i);
    }
    for (auto& [key, list] : alike) {
      std::ranges::stable_sort(
          list, [&](size_t a, size_t b) { return (*found)[a].waiting.size() > (*found)[b].waiting.size(); });
      // For each free place in the larger creations: maps the rank that belongs there to the creation.
      absl::flat_hash_map<int32_t, size_t> free;
      for (size_t i : list) {
        PendingCreation& p = (*found)[i];
        size_t home = SIZE_MAX;
        for (int32_t r : p.waiting) {
          auto it = free.find(r);
          const size_t place = it == free.end() ? SIZE_MAX : it->second;
          if (r == p.waiting[0]) home = place;
          if (place != home) home = SIZE_MAX;
          if (home == SIZE_MAX) break;
        }
        // If these two creations are the only ones of their kind, the missing ranks need not be known.
        if (home == SIZE_MAX && list.size() == 2 && i == list[1] && (*found)[list[0]].unnamed > 0) home = list[0];
        if (home != SIZE_MAX && FillPlaces(p, (*found)[home])) {
          PendingCreation& right = (*found)[home];
          Append(p.waiting, &right.astray);
          right.other = p.comm;
          for (int32_t r : p.waiting) std::erase(right.absent, r);
          right.unnamed = std::max(0, right.unnamed - static_cast<int32_t>(p.waiting.size()));
          p.waiting.clear();
          continue;
        }
        for (int32_t r : p.absent) free.try_emplace(r, i);
      }
    }
  }

  const Model& model_;
  const Bundle& bundle_;
  const int64_t late_after_ns_;
  std::map<Key, PendingCreation> creations_;
};

}  // namespace

std::vector<PendingCreation> FindPendingCreations(const Model& model, int64_t late_after_ns) {
  return Finder(model, late_after_ns).Run();
}

std::vector<int32_t> PossibleMembers(const Model& model, const PendingCreation& creation) {
  const Bundle& bundle = model.bundle;
  const auto ranks = static_cast<int32_t>(bundle.ranks.size());
  if (creation.unnamed <= 0 || !creation.unseen.empty() || bundle.ranks_expected <= 0 || ranks < bundle.ranks_expected)
    return {};
  std::set<int32_t> known, fitting;
  int32_t low = 0;
  bool in_order = true;
  const std::vector<Member>& members = model.comms[creation.comm].members;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].rank_index >= 0) {
      in_order &= members[m].rank_index >= low;
      low = members[m].rank_index + 1;
      known.insert(members[m].rank_index);
      continue;
    }
    const auto next = std::find_if(members.begin() + static_cast<std::ptrdiff_t>(m), members.end(),
                                   [](const Member& member) { return member.rank_index >= 0; });
    for (int32_t r = low; r < (next == members.end() ? ranks : next->rank_index); ++r) fitting.insert(r);
  }
  for (const auto* list : {&creation.waiting, &creation.returned, &creation.failed})
    known.insert(list->begin(), list->end());
  std::vector<int32_t> possible;
  for (const bool any : {false, true}) {
    possible.clear();
    for (int32_t r = 0; r < ranks; ++r) {
      if (known.count(r) == 0 && (any || (in_order && fitting.count(r) > 0))) possible.push_back(r);
    }
    if (possible.size() >= static_cast<size_t>(creation.unnamed)) return possible;
  }
  return {};
}

}  // namespace lockstep
