#include "analyzer/engine/slow/places.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/model/call_kinds.h"
#include "analyzer/util/chance.h"

namespace lockstep {
namespace {

constexpr size_t kLeastOthers = 2, kLeastPlaces = 6;
// From this ratio on, work counts as longer than that of others; smaller differences are normal.
constexpr double kLonger = 1.08;

struct Work {
  uint32_t rank = 0;
  int64_t ns = 0;
};

// Returns the earliest time after which the record has the calls of every thread. Before it, some threads' calls may be
// lost.
int64_t WholeFrom(const Rank& rank) {
  std::map<uint32_t, int64_t> first;
  for (const Op& op : rank.ops) {
    if (op.recent_only || !IsTime(op.enter_ns)) continue;
    const auto [it, fresh] = first.try_emplace(op.thread, op.enter_ns);
    if (!fresh) it->second = std::min(it->second, op.enter_ns);
  }
  int64_t from = 0;
  for (const auto& [thread, ns] : first) from = std::max(from, ns);
  return from;
}

}  // namespace

std::vector<PlacePace> ComparePlaces(const Timing& timing, const Paces& paces, const std::vector<int64_t>& noise_ns) {
  std::vector<PlacePace> out(timing.ranks.size());
  for (const auto& role : paces.roles) {
    if (std::none_of(role.begin(), role.end(), [&](uint32_t r) { return paces.ranks[r].own_ns.empty(); })) continue;
    std::map<std::pair<uint32_t, int64_t>, std::vector<Work>> places;  // class of communicator, number
    for (uint32_t r : role) {
      const Rank& rank = timing.model.bundle.ranks[r];
      if (rank.time_source == TimeSource::kFrameworkDurations) continue;
      const auto& ops = timing.ranks[r].ops;
      const std::vector<int64_t> gaps = paces.Gaps(r);
      const int64_t from = WholeFrom(rank);
      for (size_t i = 0; i < ops.size(); ++i) {
        const Op& op = rank.ops[ops[i].op];
        if (gaps[i] < 0 || gaps[i] > kLongestOperationNs || op.enter_ns <= from || op.seq < 0 ||
            !NeedsEveryMember(op.kind))
          continue;
        places[{timing.model.comms[ops[i].comm].kind, op.seq}].push_back({r, gaps[i]});
      }
    }
    std::map<uint32_t, std::vector<double>> ratios;
    std::vector<int64_t> others;
    for (const auto& [place, works] : places) {
      if (works.size() <= kLeastOthers) continue;
      others.clear();
      for (const Work& w : works) others.push_back(w.ns);
      std::sort(others.begin(), others.end());
      for (const Work& w : works) {
        // The median of the other values; the smaller of two middle values.
        const auto own = static_cast<size_t>(std::lower_bound(others.begin(), others.end(), w.ns) - others.begin());
        const size_t middle = (others.size() - 2) / 2;
        const int64_t theirs = others[middle < own ? middle : middle + 1];
        if (theirs <= 4 * noise_ns[w.rank]) continue;  // the clock is too imprecise for so little work
        ratios[w.rank].push_back(static_cast<double>(w.ns) / static_cast<double>(theirs));
        out[w.rank].own_ns += w.ns;
        out[w.rank].others_ns += theirs;
      }
    }
    size_t longer = 0, all = 0;
    for (const auto& [r, list] : ratios) {
      longer +=
          static_cast<size_t>(std::count_if(list.begin(), list.end(), [](double ratio) { return ratio > kLonger; }));
      all += list.size();
    }
    for (auto& [r, list] : ratios) {
      if (list.size() < kLeastPlaces) continue;
      PlacePace& pace = out[r];
      pace.places = static_cast<uint32_t>(list.size());
      std::sort(list.begin(), list.end());
      pace.ratio = list[list.size() / 2];
      pace.least_ratio = list[list.size() / 4];
      const auto mine = static_cast<size_t>(list.end() - std::upper_bound(list.begin(), list.end(), kLonger));
      // Plus one, because zero in a small sample does not mean never.
      const double expected = static_cast<double>(longer - mine + 1) / static_cast<double>(all - list.size() + 2);
      pace.by_chance = static_cast<double>(timing.ranks.size()) *
                       AtMostByChance(static_cast<double>(list.size()),
                                      static_cast<double>(mine) / static_cast<double>(list.size()), expected);
    }
  }
  return out;
}

}  // namespace lockstep
