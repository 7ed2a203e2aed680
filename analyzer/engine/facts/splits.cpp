#include "analyzer/engine/facts/splits.h"
#include "analyzer/util/sorted.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommState;

// Patterns tried per split; the shape of most communicators is among the first few.
constexpr size_t kMaxPatterns = 12;
constexpr size_t kRanksShown = 8;
// The highest grade if a whole group, or the rank itself, left no data.
constexpr Grade kUnseen = GRADE_GOOD;

// One parent member's part in a split.
struct Entry {
  int32_t place = -1;        // member rank in the parent
  int32_t rank = -1;         // index into Bundle::ranks; -1 if known only as a member
  uint32_t comm = kNoIndex;  // kNoIndex: the rank got none because it passed no color
  int32_t color = 0;
};

// A regular layout: each communicator (class) has `size` members, `stride` places apart.
struct Pattern {
  int64_t stride = 1, size = 1;
  int64_t ClassOf(int64_t place) const { return place / (stride * size) * stride + place % stride; }
  auto operator<=>(const Pattern&) const = default;
};

std::string RankList(const CommView& view) {
  std::string text;
  size_t shown = 0;
  for (const Member& m : view.members) {
    if (m.global_rank < 0) continue;
    if (shown++ == kRanksShown) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text, text.empty() ? "" : ", ", m.global_rank);
  }
  return text;
}

class Split {
 public:
  // If `parent` is kNoIndex, these are groups with one description in a framework's dumps, and places are global ranks.
  Split(const Model& model, std::vector<Entry> entries, uint32_t parent, uint32_t ordinal)
      : model_(model), bundle_(model.bundle), entries_(std::move(entries)), parent_(parent), ordinal_(ordinal) {
    std::ranges::sort(entries_, {}, &Entry::place);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].comm != kNoIndex) children_[entries_[i].comm].push_back(i);
    }
  }

  void Colours(bool stalled, std::vector<SplitFault>* faults) const {
    if (children_.size() < 2) return;
    Fit best;
    size_t equals = 0;  // number of patterns that fit equally well
    for (const Pattern& pattern : Candidates()) {
      Fit fit = Measure(pattern);
      if (equals > 0 && fit.odd.size() > best.odd.size()) continue;
      equals = equals > 0 && fit.odd.size() == best.odd.size() ? equals + 1 : 1;
      if (equals == 1) best = std::move(fit);
    }
    if (best.odd.empty() || best.odd.size() * 4 > entries_.size()) return;
    // A pattern is strong under two conditions. At least two communicators fit it exactly; and their number plus that
    // of the odd members is at least half the number of communicators. Fewer may be a coincidence or intended.
    const bool strong = best.exact >= 2 && 2 * best.exact + 2 * best.odd.size() >= children_.size();
    if (!strong && !(stalled && best.odd.size() == 1 && equals == 1)) return;
    SplitFault fault;
    fault.agreed = parent_ == kNoIndex;
    std::set<uint32_t> affected;
    for (size_t i : best.odd) {
      const Entry& e = entries_[i];
      if (e.rank >= 0) {
        fault.ranks.push_back(e.rank);
      } else if (e.place >= 0 && parent_ != kNoIndex && best.odd.size() == 1 && strong) {
        fault.missing.push_back(model_.comms[parent_].members[e.place].global_rank);
      } else {
        return;  // without other evidence, no rank is blamed
      }
      if (e.comm != kNoIndex) affected.insert(e.comm);
      auto home = best.owner.find(best.pattern.ClassOf(e.place));
      if (home != best.owner.end()) affected.insert(home->second);
    }
    const Entry& first = entries_[best.odd[0]];
    fault.comm = first.comm;
    if (auto home = best.owner.find(best.pattern.ClassOf(first.place)); home != best.owner.end())
      fault.home = home->second;
    if (fault.comm == kNoIndex) fault.comm = fault.home;
    fault.affected.assign(affected.begin(), affected.end());
    fault.grade = strong ? (best.exact >= 4 ? GRADE_RECORDED : GRADE_STRONG) : GRADE_FAIR;
    // Ranks that left no data give weaker evidence.
    if (fault.home == kNoIndex || !fault.missing.empty()) fault.grade = std::min(fault.grade, kUnseen);
    if (!fault.missing.empty() || parent_ == kNoIndex) {
      fault.reason = REASON_IN_OTHER_GROUP;
      fault.Flag(!fault.missing.empty());
      fault.Names(CommName(bundle_.comms[fault.comm]), RankList(model_.comms[fault.comm]));
    } else {
      const Entry* usual = nullptr;
      if (fault.home != kNoIndex) {
        for (size_t i : children_.at(fault.home)) {
          if (entries_[i].rank >= 0) usual = &entries_[i];
        }
      }
      fault.reason = REASON_OTHER_COLOUR;
      fault.Call(SplitCall()).Name(first.comm == kNoIndex ? "no color" : absl::StrCat("color ", first.color));
      if (usual != nullptr) fault.detail.set_other_name(absl::StrCat("color ", usual->color));
    }
    Detail* sizes = fault.Add(Evidence::GROUP_SIZES, fault.ranks)
                        .CountOf(best.exact, best.pattern.size)
                        .Number(best.pattern.stride)
                        .mutable_detail();
    for (uint32_t comm : fault.affected) {
      CommunicatorRef* group = sizes->add_groups();
      group->set_id(bundle_.comms[comm].id);
      group->set_name(bundle_.comms[comm].name);
      group->set_size(static_cast<int32_t>(children_.at(comm).size()));
      sizes->add_members(RankList(model_.comms[comm]));
    }
    faults->push_back(std::move(fault));
  }

 private:
  CallRef SplitCall() const {
    CallRef call;
    call.set_text(absl::StrCat("split #", ordinal_, " of ", CommText(bundle_, parent_)));
    return call;
  }
  struct Fit {
    Pattern pattern;
    std::vector<size_t> odd;  // indexes into entries_
    size_t exact = 0;         // number of communicators that are exactly one class
    // Maps a class to the communicator that has most of the class's members.
    absl::flat_hash_map<int64_t, uint32_t> owner;
  };

  std::vector<Pattern> Candidates() const {
    std::map<Pattern, size_t> votes;
    std::map<size_t, size_t> sizes;
    std::map<int64_t, size_t> strides;
    for (const auto& [comm, list] : children_) {
      ++sizes[list.size()];
      if (list.size() < 2) continue;
      std::map<int64_t, size_t> steps;
      for (size_t k = 1; k < list.size(); ++k) ++steps[entries_[list[k]].place - entries_[list[k - 1]].place];
      const int64_t step =
          std::ranges::max_element(steps, [](const auto& a, const auto& b) { return a.second < b.second; })->first;
      if (steps.size() == 1) ++votes[{step, static_cast<int64_t>(list.size())}];
      ++strides[step];
    }
    std::vector<std::pair<size_t, Pattern>> order;
    order.reserve(votes.size());
    for (const auto& [pattern, count] : votes) order.push_back({count, pattern});
    std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Pattern> found;
    for (const auto& [count, pattern] : order) {
      if (found.size() < kMaxPatterns / 2) found.push_back(pattern);
    }
    // If a member moved into every second communicator, no communicator has the right size. So also tries the mean
    // size.
    if (!sizes.empty()) {
      const auto middle = static_cast<int64_t>((entries_.size() + children_.size() / 2) / children_.size());
      for (const auto& [stride, count] : strides) {
        for (int64_t size : {middle, middle + 1}) {
          const Pattern p{stride, size};
          if (size > 1 && found.size() < kMaxPatterns && !Contains(found, p)) found.push_back(p);
        }
      }
    }
    return found;
  }

  Fit Measure(const Pattern& pattern) const {
    Fit fit;
    fit.pattern = pattern;
    std::map<std::pair<int64_t, uint32_t>, size_t> held;
    absl::flat_hash_map<int64_t, size_t> class_size;
    for (const Entry& e : entries_) {
      ++class_size[pattern.ClassOf(e.place)];
      if (e.comm != kNoIndex) ++held[{pattern.ClassOf(e.place), e.comm}];
    }
    // A communicator represents the class that most of its members belong to; a class belongs to the largest
    // communicator that represents it.
    absl::flat_hash_map<uint32_t, std::pair<size_t, int64_t>> speaks_for;
    for (const auto& [key, count] : held) {
      auto& [best, klass] = speaks_for[key.second];
      if (count > best) best = count, klass = key.first;
    }
    std::map<int64_t, std::vector<uint32_t>> claims;  // class: largest communicators that claim it
    for (const auto& [comm, list] : children_) {
      const auto& [count, klass] = speaks_for[comm];
      std::vector<uint32_t>& claim = claims[klass];
      if (!claim.empty() && speaks_for[claim[0]].first < count) claim.clear();
      if (claim.empty() || speaks_for[claim[0]].first == count) claim.push_back(comm);
    }
    for (const auto& [klass, claim] : claims) {
      if (claim.size() > 1) continue;
      fit.owner[klass] = claim[0];
      const size_t here = children_.at(claim[0]).size();
      fit.exact += here > 1 && speaks_for[claim[0]].first == here && class_size[klass] == here &&
                   static_cast<int64_t>(here) == pattern.size;
    }
    Settle(claims, &fit);
    std::set<int64_t> disputed;
    for (const auto& [klass, claim] : claims) {
      if (!fit.owner.contains(klass)) disputed.insert(klass);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      const int64_t klass = pattern.ClassOf(entries_[i].place);
      const auto it = fit.owner.find(klass);
      if (it != fit.owner.end() ? it->second != entries_[i].comm : disputed.contains(klass)) fit.odd.push_back(i);
    }
    return fit;
  }

  int32_t ColourOf(uint32_t comm) const {
    for (size_t i : children_.at(comm)) {
      if (entries_[i].rank >= 0) return entries_[i].color;
    }
    return -1;
  }

  // If several communicators claim a class, the right one has the color that follows from the other classes: the
  // class's number, or the lowest place. Does nothing unless exactly one of these rules holds.
  void Settle(const std::map<int64_t, std::vector<uint32_t>>& claims, Fit* fit) const {
    bool by_order = true, by_place = true;
    int32_t order = 0;
    size_t settled = 0;
    for (const auto& [klass, claim] : claims) {
      if (claim.size() == 1) {
        const int32_t color = ColourOf(claim[0]);
        by_order &= color == order;
        by_place &= color == entries_[children_.at(claim[0])[0]].place;
        ++settled;
      }
      ++order;
    }
    if (settled < 2 || by_order == by_place) return;
    order = 0;
    for (const auto& [klass, claim] : claims) {
      uint32_t right = kNoIndex;
      int32_t place = INT32_MAX;
      for (uint32_t comm : claim) place = std::min(place, entries_[children_.at(comm)[0]].place);
      for (uint32_t comm : claim) {
        if (ColourOf(comm) == (by_order ? order : place)) right = right == kNoIndex ? comm : kNoIndex - 1;
      }
      if (claim.size() > 1 && right < kNoIndex - 1) fit->owner[klass] = right;
      ++order;
    }
  }

  const Model& model_;
  const Bundle& bundle_;
  std::vector<Entry> entries_;                        // ascending by place
  std::map<uint32_t, std::vector<size_t>> children_;  // communicator: indexes of its members in entries_
  uint32_t parent_, ordinal_;
};

void FromSplits(const Model& model, bool stalled, std::vector<SplitFault>* faults) {
  const Bundle& bundle = model.bundle;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> splits;  // parent, ordinal: children
  for (uint32_t c = 0; c < bundle.comms.size(); ++c) {
    const Communicator& comm = bundle.comms[c];
    const uint32_t parent = model.comms[c].parent;
    if (comm.origin == CallKind::kCommSplit && comm.ordinal > 0 && parent != kNoIndex)
      splits[{parent, comm.ordinal}].push_back(c);
  }
  if (splits.empty()) return;
  std::map<uint32_t, absl::flat_hash_map<int32_t, int32_t>> place_of;   // parent: global rank to member rank
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Entry>> outside;  // ranks without a color
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    for (const Membership& ms : bundle.ranks[r].memberships) {
      if (ms.state != CommState::kNotMember) continue;
      outside[{model.comms[ms.comm].parent, bundle.comms[ms.comm].ordinal}].push_back(
          {-1, static_cast<int32_t>(r), kNoIndex, ms.color});
    }
  }
  for (const auto& [key, children] : splits) {
    auto [places, fresh] = place_of.try_emplace(key.first);
    if (fresh) {
      const auto& members = model.comms[key.first].members;
      for (size_t m = 0; m < members.size(); ++m) {
        if (members[m].global_rank >= 0) places->second[members[m].global_rank] = static_cast<int32_t>(m);
      }
    }
    std::vector<Entry> entries = std::move(outside[key]);
    for (Entry& e : entries) {
      const auto place = places->second.find(bundle.ranks[e.rank].rank);
      if (place != places->second.end()) e.place = place->second;
    }
    bool pending = false;
    for (uint32_t c : children) {
      const auto& members = model.comms[c].members;
      for (size_t m = 0; m < members.size(); ++m) {
        auto place = places->second.find(members[m].global_rank);
        if (place == places->second.end()) continue;
        // The member was inferred from the shape of the other groups, but its own record contradicts that.
        if (members[m].rank_index >= 0 && members[m].membership == kNoIndex) continue;
        Entry e{place->second, -1, c, 0};
        if (members[m].rank_index >= 0) {
          const Membership& ms = model.MembershipOf(members[m]);
          if (ms.state == CommState::kNotMember) continue;
          pending |= ms.state == CommState::kInitializing;
          e.rank = members[m].rank_index;
          e.color = ms.color;
        }
        entries.push_back(e);
      }
    }
    std::erase_if(entries, [](const Entry& e) { return e.place < 0; });
    if (entries.size() < 3 || pending) continue;
    Split(model, std::move(entries), key.first, key.second).Colours(stalled, faults);
  }
}

// Checks groups with the same description in a framework's dumps, if no rank is in two of them: the slices of a layout.
void FromDescriptions(const Model& model, std::vector<SplitFault>* faults) {
  const Bundle& bundle = model.bundle;
  std::map<std::string, std::vector<uint32_t>> families;
  for (uint32_t c = 0; c < bundle.comms.size(); ++c) {
    const Communicator& comm = bundle.comms[c];
    const auto& members = model.comms[c].members;
    const bool framework = std::ranges::any_of(
        members, [&](const Member& m) { return m.rank_index >= 0 && IsFramework(bundle.ranks[m.rank_index]); });
    if (framework && !comm.members_inferred && !comm.name.empty() && comm.name != "undefined")
      families[comm.name].push_back(c);
  }
  for (const auto& [name, list] : families) {
    if (list.size() < 3) continue;
    std::vector<Entry> entries;
    std::set<int32_t> taken;
    bool apart = true;
    for (uint32_t c : list) {
      const auto& members = model.comms[c].members;
      for (const Member& m : members) {
        apart = apart && m.global_rank >= 0 && taken.insert(m.global_rank).second &&
                (m.rank_index < 0 || m.membership != kNoIndex);
        entries.push_back({m.global_rank, m.rank_index, c, 0});
      }
    }
    if (!apart) continue;
    Split(model, std::move(entries), kNoIndex, 0).Colours(false, faults);
  }
}

}  // namespace

std::vector<SplitFault> FindSplitFaults(const Model& model, bool stalled) {
  std::vector<SplitFault> faults;
  FromSplits(model, stalled, &faults);
  FromDescriptions(model, &faults);
  return faults;
}

}  // namespace lockstep
