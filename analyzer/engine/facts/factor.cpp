#include "analyzer/engine/facts/factor.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/model/topology.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

// A thing is common to the culprits if at least kNearlyAll of its ranks are culprits, and at most kFewOthers of the
// culprits are outside it.
constexpr double kNearlyAll = 0.75;
constexpr double kFewOthers = 0.1;
// With fewer hosts, a fault of a rail cannot be distinguished from a fault of one host.
constexpr int32_t kRailHosts = 3;

// Returns each rank's rail number; -1 if unknown. A rail is all GPUs at the same position in their hosts, and their
// network ports. The number is the GPU's index if the ranks of each host have different indexes. If they do not (each
// process sees one GPU), it is the position of the GPU's PCI address among all addresses of the job, because hosts of
// one kind have the same addresses. Without addresses, it is the local rank.
std::vector<int32_t> Rails(const Bundle& bundle) {
  std::map<std::string_view, std::pair<std::set<int32_t>, size_t>>
      indexes;  // host -> indexes of its GPUs, number of ranks with a known index
  std::set<std::string_view> addresses;
  for (const Rank& rank : bundle.ranks) {
    if (rank.host.empty()) continue;
    auto& [seen, ranks] = indexes[rank.host];
    if (rank.gpu_index >= 0) seen.insert(rank.gpu_index), ++ranks;
    if (!rank.gpu_pci.empty()) addresses.insert(rank.gpu_pci);
  }
  bool told = false, shared = false;
  for (const auto& [host, known] : indexes) {
    told |= known.second >= 2 && known.first.size() == known.second;
    shared |= known.first.size() < known.second;
  }
  std::vector<int32_t> rails(bundle.ranks.size(), -1);
  for (size_t r = 0; r < rails.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    if (rank.host.empty()) continue;
    if (told && !shared) {
      rails[r] = rank.gpu_index;
    } else if (addresses.size() >= 2) {
      const auto at = rank.gpu_pci.empty() ? addresses.end() : addresses.find(rank.gpu_pci);
      if (at != addresses.end()) rails[r] = static_cast<int32_t>(std::distance(addresses.begin(), at));
    } else {
      rails[r] = rank.local_rank;
    }
  }
  return rails;
}

}  // namespace

Things::Things(const Bundle& bundle) : of_rank(bundle.ranks.size()) {
  std::map<std::string, std::vector<int32_t>> hosts, switches, racks;
  std::map<int32_t, std::vector<int32_t>> rails;
  std::map<std::string, const HostPlace*> place_of;
  const std::vector<int32_t> rail_of = Rails(bundle);
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    const auto index = static_cast<int32_t>(r);
    if (rail_of[r] >= 0) rails[rail_of[r]].push_back(index);
    if (rank.host.empty()) continue;
    hosts[rank.host].push_back(index);
    const auto [it, fresh] = place_of.try_emplace(rank.host, nullptr);
    if (fresh) it->second = FindPlace(bundle, rank.host);
    if (it->second == nullptr) continue;
    if (!it->second->leaf_switch.empty()) switches[it->second->leaf_switch].push_back(index);
    if (!it->second->rack.empty()) racks[it->second->rack].push_back(index);
  }
  const auto add = [&](const char* kind, const std::string& name, std::vector<int32_t> ranks, int32_t rail,
                       size_t least_hosts) {
    if (ranks.size() < 2 || ranks.size() >= bundle.ranks.size()) return;
    std::set<std::string_view> seen;
    for (int32_t r : ranks) seen.insert(bundle.ranks[r].host);
    if (seen.size() < least_hosts) return;
    for (int32_t r : ranks) of_rank[r].push_back(static_cast<uint32_t>(things.size()));
    things.push_back({kind, name, std::move(ranks), static_cast<int32_t>(seen.size()), rail});
  };
  for (auto& [name, ranks] : hosts) add("host", name, std::move(ranks), -1, 1);
  for (auto& [name, ranks] : switches) add("switch", name, std::move(ranks), -1, 2);
  for (auto& [name, ranks] : racks) add("rack", name, std::move(ranks), -1, 2);
  for (auto& [gpu, ranks] : rails) {
    if (hosts.size() >= kRailHosts) add("rail", absl::StrCat(gpu), std::move(ranks), gpu, 1);
  }
}

const Things::Thing* Things::CommonTo(const std::vector<int32_t>& culprits) const {
  if (culprits.size() < 2) return nullptr;
  std::map<uint32_t, size_t> counts;
  for (int32_t r : culprits) {
    for (uint32_t t : of_rank[r]) ++counts[t];
  }
  const Thing* best = nullptr;
  for (const auto& [t, count] : counts) {
    const Thing& thing = things[t];
    if (static_cast<double>(count) < kNearlyAll * static_cast<double>(thing.ranks.size())) continue;
    if (static_cast<double>(culprits.size() - count) > kFewOthers * static_cast<double>(culprits.size())) continue;
    // Things are sorted by kind, smallest first. If several things have equally few ranks, such as a switch and the
    // rack that contains only that switch, the first is used.
    if (best == nullptr || thing.ranks.size() < best->ranks.size()) best = &thing;
  }
  return best;
}

namespace {

// Returns the rail with nearly all stuck communicators, on at least three hosts, and with (nearly) no working
// communicator; null if there is none. A communicator is on a rail if all its members are, and they are on several
// hosts.
const Things::Thing* OneRail(const Bundle& bundle, const Things& things, const std::vector<std::vector<int32_t>>& bad,
                             const std::vector<std::vector<int32_t>>& good) {
  const auto on = [&](const std::vector<int32_t>& ranks) -> const Things::Thing* {
    if (ranks.size() < 2) return nullptr;
    for (uint32_t t : things.of_rank[ranks[0]]) {
      const Things::Thing& thing = things.things[t];
      if (thing.rail < 0) continue;
      const bool all =
          std::ranges::all_of(ranks, [&](int32_t r) { return std::ranges::binary_search(thing.ranks, r); });
      const std::string& first = bundle.ranks[ranks[0]].host;
      const bool across = std::ranges::any_of(ranks, [&](int32_t r) { return bundle.ranks[r].host != first; });
      return all && across ? &thing : nullptr;
    }
    return nullptr;
  };
  std::map<const Things::Thing*, size_t> bad_on, good_on;
  std::map<const Things::Thing*, std::set<std::string_view>> hosts;
  for (const auto& ranks : bad) {
    const Things::Thing* rail = on(ranks);
    if (rail == nullptr) continue;
    ++bad_on[rail];
    for (int32_t r : ranks) hosts[rail].insert(bundle.ranks[r].host);
  }
  for (const auto& ranks : good) {
    if (const Things::Thing* rail = on(ranks)) ++good_on[rail];
  }
  for (const auto& [rail, count] : bad_on) {
    if (count >= 2 && count * 10 >= bad.size() * 9 && hosts[rail].size() >= static_cast<size_t>(kRailHosts) &&
        good_on[rail] * 10 <= count)
      return rail;
  }
  return nullptr;
}

}  // namespace

Crossing FindCrossing(const Bundle& bundle, const Things& things, const std::vector<std::vector<int32_t>>& bad,
                      const std::vector<std::vector<int32_t>>& good) {
  Crossing out;
  std::vector<int32_t> bad_of(bundle.ranks.size()), good_of(bundle.ranks.size());
  for (const auto& ranks : bad) {
    for (int32_t r : ranks) ++bad_of[r];
  }
  for (const auto& ranks : good) {
    for (int32_t r : ranks) ++good_of[r];
  }
  const auto all_bad = static_cast<int32_t>(bad.size());
  // A communicator crosses a thing if it has members inside and outside. A stuck communicator may also lie inside the
  // thing.
  std::vector<int32_t> bad_here(things.things.size()), good_out(things.things.size());
  std::vector<size_t> inside(things.things.size());
  const auto count = [&](const std::vector<std::vector<int32_t>>& lists, bool outwards, std::vector<int32_t>* counts) {
    std::vector<uint32_t> touched;
    for (const auto& ranks : lists) {
      touched.clear();
      for (int32_t r : ranks) {
        for (uint32_t t : things.of_rank[r]) {
          if (inside[t]++ == 0) touched.push_back(t);
        }
      }
      for (uint32_t t : touched) {
        (*counts)[t] += !outwards || inside[t] < ranks.size();
        inside[t] = 0;
      }
    }
  };
  count(bad, false, &bad_here);
  count(good, true, &good_out);
  // Finds one rank that is in all stuck communicators, and in few working ones.
  std::vector<int32_t> common;
  for (size_t r = 0; r < bad_of.size(); ++r) {
    if (bad_of[r] == all_bad) common.push_back(static_cast<int32_t>(r));
  }
  const auto explains = [&](size_t t) { return bad_here[t] * 10 >= all_bad * 9 && good_out[t] * 10 <= bad_here[t]; };
  std::vector<int32_t> alone;
  for (int32_t r : common) {
    if (good_of[r] * 4 <= all_bad) alone.push_back(r);
  }
  if (all_bad >= 2 && alone.size() == 1) {
    out.ranks = alone;
    out.certain = true;
    return out;
  }
  // Finds the smallest thing that nearly all stuck communicators touch and nearly no working ones cross.
  if (all_bad >= 2) {
    std::vector<const Things::Thing*> fits;
    for (size_t t = 0; t < things.things.size(); ++t) {
      const Things::Thing& thing = things.things[t];
      if (std::string_view(thing.kind) == "rail" || !explains(t)) continue;
      // A rack with its own switch is the same set of ranks as that switch. The switch is used, because it carries the
      // traffic.
      if (std::ranges::any_of(fits, [&](const Things::Thing* known) { return known->ranks == thing.ranks; })) continue;
      // Two things of one kind explain everything equally well, no matter how many ranks of each left data.
      const bool alike = !fits.empty() && std::string_view(thing.kind) == fits[0]->kind;
      if (fits.empty() || alike || thing.ranks.size() <= fits[0]->ranks.size()) {
        if (!fits.empty() && !alike && thing.ranks.size() < fits[0]->ranks.size()) fits.clear();
        fits.push_back(&thing);
      }
    }
    out.thing = fits.size() == 1 ? fits[0] : fits.empty() ? OneRail(bundle, things, bad, good) : nullptr;
    if (out.thing != nullptr) {
      out.certain = true;
      for (int32_t r : out.thing->ranks) {
        if (bad_of[r] > 0) out.ranks.push_back(r);
      }
      return out;
    }
  }
  if (!common.empty()) {
    // A rank that is in no working communicator is more likely the culprit.
    std::vector<int32_t> unseen;
    for (int32_t r : common) {
      if (good_of[r] == 0) unseen.push_back(r);
    }
    out.ranks = unseen.empty() ? common : unseen;
    return out;
  }
  for (size_t r = 0; r < bad_of.size(); ++r) {
    if (bad_of[r] > 0) out.ranks.push_back(static_cast<int32_t>(r));
  }
  return out;
}

namespace {

bool StuckPair(const Cause& c) {
  return c.kind == COLLECTIVE_STUCK && !c.factor.has_value() && !c.hypothesis && c.op != nullptr &&
         IsPointToPoint(c.op->kind);
}

// Returns the ranks of each stuck operation. Pairs of neighbors in one pipeline form one set. A batch of sends and
// receives ends as a whole, so any of them may delay the others.
std::vector<std::vector<int32_t>> Together(const std::vector<Cause*>& stuck) {
  std::vector<std::vector<int32_t>> sets;
  std::map<std::pair<uint32_t, int32_t>, size_t> holder;  // maps communicator and rank to the index of a set
  for (const Cause* c : stuck) {
    size_t into = sets.size();
    if (StuckPair(*c)) {
      for (const int32_t r : c->ranks) {
        if (auto it = holder.find({c->comm, r}); it != holder.end()) into = std::min(into, it->second);
      }
    }
    if (into == sets.size()) sets.emplace_back();
    sets[into].insert(sets[into].end(), c->ranks.begin(), c->ranks.end());
    if (StuckPair(*c)) {
      for (const int32_t r : c->ranks) holder[{c->comm, r}] = into;
    }
  }
  for (auto& ranks : sets) {
    SortUnique(&ranks);
  }
  return sets;
}

// If one rank, host, switch, rack or rail explains all stuck operations, makes one finding of them.
void FoldStuck(const Bundle& bundle, const Things& things, std::vector<Cause>* causes) {
  std::vector<std::vector<int32_t>> bad;
  std::vector<Cause*> stuck;
  for (Cause& c : *causes) {
    if (c.kind != COLLECTIVE_STUCK || c.hypothesis || c.ranks.size() < 2) continue;
    bad.push_back(c.ranks);
    stuck.push_back(&c);
  }
  if (stuck.size() < 2) return;
  const Crossing crossing = FindCrossing(bundle, things, bad, {});
  // There is no evidence of working communicators here, and two operations may share a member by chance.
  if (!crossing.certain || (stuck.size() < 3 && crossing.thing == nullptr)) return;
  // If one operation of a batch is blocked, all are. So only an explanation for whole batches counts.
  if (const auto batches = Together(stuck); batches.size() < bad.size()) {
    const Crossing again = FindCrossing(bundle, things, batches, {});
    if (!again.certain || again.thing != crossing.thing) return;
  }
  Cause& first = *stuck[0];
  std::vector<int32_t> ranks = crossing.thing != nullptr ? crossing.thing->ranks : crossing.ranks;
  const std::string where = crossing.thing != nullptr
                                ? absl::StrCat(crossing.thing->kind, " ", crossing.thing->name)
                                : absl::StrCat("rank ", bundle.ranks[ranks[0]].rank, " and its network port");
  first.reason = REASON_STUCK_SIBLINGS;
  first.Count(stuck.size()).Name(where);
  first.evidence.insert(first.evidence.begin(),
                        EvidenceItem(Evidence::ALL_CROSS, ranks).Count(stuck.size()).Name(where));
  first.ranks = std::move(ranks);
  first.grade = GRADE_FAIR;
  if (crossing.thing != nullptr) SetFactor(*crossing.thing, first.ranks.size(), &first);
  for (size_t k = stuck.size(); k-- > 1;) {
    first.nodes.insert(first.nodes.end(), stuck[k]->nodes.begin(), stuck[k]->nodes.end());
    stuck[k]->kind = FINDING_UNSPECIFIED;
  }
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

// Joins the causes of communicators of one size that hang at once, without a known explanation. A fault of something
// that they share, like a switch or the network, is likelier than several separate faults. The recording does not show
// which side is at fault, so all their ranks become one set.
void JoinStuckSiblings(const Bundle& bundle, std::vector<Cause>* causes) {
  std::map<std::pair<int32_t, bool>, size_t> holder;  // maps (size, point to point) to the cause to keep
  for (size_t i = 0; i < causes->size(); ++i) {
    Cause& c = (*causes)[i];
    if (c.kind != COLLECTIVE_STUCK || c.factor.has_value() || c.hypothesis || c.op == nullptr || c.comm == kNoIndex)
      continue;
    const auto [it, fresh] = holder.try_emplace({bundle.comms[c.comm].size, IsPointToPoint(c.op->kind)}, i);
    if (fresh) continue;
    Cause& first = (*causes)[it->second];
    if (first.reason != REASON_STUCK_SIBLINGS) {
      first.reason = REASON_STUCK_SIBLINGS;
      first.AddRival(Rival::SWITCH);
      first.grade = std::min(first.grade, GRADE_OPEN);
    }
    Append(c.ranks, &first.ranks);
    Append(c.nodes, &first.nodes);
    c.kind = FINDING_UNSPECIFIED;
  }
  for (const auto& [key, at] : holder) {
    std::vector<int32_t>& ranks = (*causes)[at].ranks;
    SortUnique(&ranks);
  }
  std::erase_if(*causes, [](const Cause& c) { return c.kind == FINDING_UNSPECIFIED; });
}

}  // namespace

void SetFactor(const Things::Thing& thing, size_t culprits, Cause* cause) {
  cause->factor.emplace();
  cause->factor->set_kind(thing.kind);
  cause->factor->set_name(thing.name);
  cause->factor->set_culprits(static_cast<int32_t>(culprits));
  cause->factor->set_members(static_cast<int32_t>(thing.ranks.size()));
}

void FoldByFactor(const Model& model, std::vector<Cause>* causes) {
  if (causes->empty()) return;
  const Bundle& bundle = model.bundle;
  std::optional<Things> things;
  if (std::ranges::count_if(*causes, [](const Cause& c) { return c.kind == COLLECTIVE_STUCK; }) >= 2) {
    things.emplace(bundle);
    FoldStuck(bundle, *things, causes);
    JoinStuckSiblings(bundle, causes);
  }
  for (Cause& c : *causes) {
    if (c.factor.has_value() || c.ranks.size() < 2 || !FindingFactsOf(c.kind).one_broken_thing) continue;
    if (!things.has_value()) things.emplace(bundle);
    const Things::Thing* thing = things->CommonTo(c.ranks);
    if (thing == nullptr) continue;
    const auto here =
        std::ranges::count_if(c.ranks, [&](int32_t r) { return std::ranges::binary_search(thing->ranks, r); });
    SetFactor(*thing, static_cast<size_t>(here), &c);
  }
}

}  // namespace lockstep
