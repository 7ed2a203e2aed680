// Finds slow links: communicators whose transfers take longer than those of similar ones that move the same bytes, or
// longer than their own earlier transfers.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/factor.h"
#include "analyzer/engine/facts/network.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr size_t kMostBandwidths = 256;
// A communicator is slow if its time is at least `kSlow` times that of similar ones. Below `kWell`, its links are fine.
constexpr double kSlow = 1.4, kWell = 1.2;

struct NowAndThen {
  size_t times = 0;  // number of slow transfers; 0 if there is no such pattern
  double ratio = 1;  // their time relative to the usual time
  int64_t lost_ns = 0;
};

// Finds out whether at least an eighth of the use's transfers take several times its usual time, while transfers of
// similar uses almost never do. `siblings`: indexes of the similar uses, including `use`.
NowAndThen SlowNowAndThen(const LinkUse& use, const std::vector<size_t>& siblings, const std::vector<LinkUse>& uses) {
  constexpr double kMuch = 2.5;
  constexpr size_t kLeastTimes = 6;
  NowAndThen out;
  if (siblings.size() < 3 || use.usual_ns <= 0) return out;
  const auto bar = [&](const LinkUse& u) {
    return std::max(static_cast<int64_t>(kMuch * static_cast<double>(u.usual_ns)), u.usual_ns + 6 * u.noise_ns);
  };
  std::vector<int64_t> slow;
  for (int64_t ns : use.transfers_ns) {
    if (ns > bar(use)) slow.push_back(ns);
  }
  if (slow.size() < kLeastTimes || slow.size() * 8 < use.transfers_ns.size()) return out;
  size_t others = 0, others_all = 0;
  for (size_t i : siblings) {
    if (&uses[i] == &use) continue;
    for (int64_t ns : uses[i].transfers_ns) others += ns > bar(uses[i]);
    others_all += uses[i].transfers_ns.size();
  }
  // The others' share of slow transfers must be at most a tenth of its own.
  if (others * 10 * use.transfers_ns.size() > slow.size() * others_all) return out;
  out.times = slow.size();
  for (int64_t ns : slow) out.lost_ns += ns - use.usual_ns;
  out.ratio = static_cast<double>(Median(std::move(slow))) / static_cast<double>(use.usual_ns);
  return out;
}

// The transfers of one use, compared with those of similar uses and with its own earlier ones.
struct Compared {
  int64_t peer_ns = 0;  // the usual time of similar ones; 0 if there are none
  double ratio = 1;
  int64_t excess_ns = 0;  // time lost in one transfer
  int64_t lost_ns = 0;    // time lost over the whole recording
  size_t since = 0;       // index of the first slow transfer; 0: from the beginning
  bool nearly_all = false;
};

// Returns the index of the transfer from which on all are slow, although most earlier ones were not; 0 if there is
// none.
size_t SlowSince(const std::vector<int64_t>& transfers_ns, int64_t bar) {
  constexpr size_t kLeast = 3;
  size_t run = 0;
  while (run < transfers_ns.size() && transfers_ns[transfers_ns.size() - 1 - run] > bar) ++run;
  const size_t since = transfers_ns.size() - run;
  if (since < kLeast || run < kLeast) return 0;
  size_t before = 0;
  for (size_t k = 0; k < since; ++k) before += transfers_ns[k] > bar;
  return before * 5 <= since ? since : 0;
}

// `usual` contains the usual times of all similar uses, including its own, ascending.
Compared Compare(const LinkUse& use, std::vector<int64_t> usual) {
  Compared out;
  // Excludes its own value, and uses the median of the rest, or the faster of two.
  usual.erase(std::lower_bound(usual.begin(), usual.end(), use.usual_ns));
  if (!usual.empty()) out.peer_ns = usual[(usual.size() - 1) / 2];
  if (out.peer_ns > 0) out.ratio = static_cast<double>(use.usual_ns) / static_cast<double>(out.peer_ns);
  // Compares it with its own past, if it became slower while the job ran.
  std::vector<int64_t> sorted = use.transfers_ns;
  std::sort(sorted.begin(), sorted.end());
  const int64_t own_best = sorted[sorted.size() / 8];
  const int64_t best = out.peer_ns > 0 ? std::min(own_best, out.peer_ns) : own_best;
  out.since = SlowSince(use.transfers_ns, static_cast<int64_t>(kSlow * static_cast<double>(best)));
  if (out.since > 0) {
    const auto from = use.transfers_ns.begin() + static_cast<ptrdiff_t>(out.since);
    const int64_t now = Median({from, use.transfers_ns.end()}), was = Median({use.transfers_ns.begin(), from});
    // Times below the clock's precision count as equal to it.
    out.ratio =
        std::max(out.ratio, static_cast<double>(now) / static_cast<double>(std::max<int64_t>({was, use.noise_ns, 1})));
    out.excess_ns = now - was;
  }
  const int64_t reference =
      std::max<int64_t>(static_cast<int64_t>(static_cast<double>(use.usual_ns) / std::max(out.ratio, 1.0)), 1);
  out.excess_ns = std::max(out.excess_ns, use.usual_ns - reference);
  size_t above = 0;
  for (size_t k = out.since; k < use.transfers_ns.size(); ++k) {
    above += use.transfers_ns[k] > reference + (use.usual_ns - reference) / 2;
    out.lost_ns += std::max<int64_t>(use.transfers_ns[k] - reference, 0);
  }
  out.nearly_all = above * 4 >= (use.transfers_ns.size() - out.since) * 3;
  return out;
}

Bandwidth BandwidthOf(const Timing& timing, const LinkUse& use, int64_t best_ns, int64_t peer_ns) {
  const Bundle& bundle = timing.model.bundle;
  const Communicator& comm = bundle.comms[use.comm];
  const int32_t size = MembersOf(bundle, use);
  Bandwidth out;
  out.mutable_communicator()->set_id(comm.id);
  out.mutable_communicator()->set_name(comm.name);
  out.mutable_communicator()->set_size(comm.size);
  out.set_operation(ring::CallName(use.kind));
  out.set_bytes(use.bytes);
  out.set_operations(static_cast<int64_t>(use.transfers_ns.size()));
  out.set_bus_bytes_per_s(BusBandwidth(use, size, use.usual_ns));
  out.set_best_bus_bytes_per_s(BusBandwidth(use, size, best_ns));
  if (peer_ns > 0) out.set_peer_bus_bytes_per_s(BusBandwidth(use, size, peer_ns));
  out.set_clock(ClockText(bundle.ranks[use.ranks[0]], timing.ranks[use.ranks[0]]));
  return out;
}

struct Slow {
  size_t use;
  double ratio;
  int64_t lost_ns;  // time lost over the whole recording
  size_t since;     // index into its transfers; 0: from the beginning
  size_t times;     // number of its transfers that are slow; 0: almost all
};

// All uses, divided into slow ones, fine ones, and the rest.
struct Sorted {
  std::vector<Slow> slow;
  std::vector<size_t> well;
};

Sorted SortUses(const Timing& timing, const std::vector<LinkUse>& uses, std::vector<Bandwidth>* bandwidths) {
  const Bundle& bundle = timing.model.bundle;
  // Similar communicators have the same kind, size, call and bytes, and either all or none of them cross hosts.
  std::map<std::tuple<uint32_t, int32_t, int, int64_t, bool>, std::vector<size_t>> siblings;
  for (size_t i = 0; i < uses.size(); ++i) {
    const LinkUse& use = uses[i];
    siblings[{timing.model.comms[use.comm].kind, bundle.comms[use.comm].size, static_cast<int>(use.kind), use.bytes,
              use.crosses_hosts}]
        .push_back(i);
  }
  Sorted out;
  std::vector<std::pair<double, Bandwidth>> table;
  for (const auto& [key, list] : siblings) {
    std::vector<int64_t> usual;
    for (size_t i : list) usual.push_back(uses[i].usual_ns);
    std::sort(usual.begin(), usual.end());
    for (size_t i : list) {
      const LinkUse& use = uses[i];
      const Compared compared = Compare(use, usual);
      const bool measured = use.usual_ns > 2 * use.noise_ns;
      if ((compared.peer_ns > 0 || compared.since > 0) && compared.ratio >= kSlow &&
          compared.excess_ns > 3 * use.noise_ns && compared.nearly_all) {
        out.slow.push_back({i, compared.ratio, compared.lost_ns, compared.since, 0});
      } else if (const NowAndThen odd = SlowNowAndThen(use, list, uses); odd.times > 0) {
        out.slow.push_back({i, odd.ratio, odd.lost_ns, 0, odd.times});
      } else if (compared.ratio < kWell && measured) {
        out.well.push_back(i);
      }
      if (!measured || use.bytes <= 0) continue;
      const double share =
          compared.peer_ns > 0 ? static_cast<double>(compared.peer_ns) / static_cast<double>(use.usual_ns) : 1;
      table.emplace_back(share, BandwidthOf(timing, use, usual.front(), compared.peer_ns));
    }
  }
  std::stable_sort(table.begin(), table.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, -a.second.bytes()) < std::tuple(b.first, -b.second.bytes());
  });
  for (size_t i = 0; i < table.size() && i < kMostBandwidths; ++i) bandwidths->push_back(std::move(table[i].second));
  return out;
}

// Finds what the slow uses have in common and the fine ones do not.
Crossing WhereSlow(const Model& model, const Things& things, const std::vector<LinkUse>& uses, const Sorted& sorted,
                   bool worst_crosses_hosts) {
  std::map<uint32_t, std::set<int32_t>> bad_of_comm;
  std::set<uint32_t> slow_kinds;
  for (const Slow& s : sorted.slow) {
    bad_of_comm[uses[s.use].comm].insert(uses[s.use].ranks.begin(), uses[s.use].ranks.end());
    slow_kinds.insert(model.comms[uses[s.use].comm].kind);
  }
  std::vector<std::vector<int32_t>> bad, good;
  for (const auto& [comm, ranks] : bad_of_comm) bad.emplace_back(ranks.begin(), ranks.end());
  for (size_t i : sorted.well) {
    const LinkUse& use = uses[i];
    // If no hosts are known, a fast communicator may be within one host, unless others of its kind are slow.
    if (use.hosts == 0 && !slow_kinds.contains(model.comms[use.comm].kind)) continue;
    if (bad_of_comm.contains(use.comm) && !ring::IsPointToPoint(use.kind)) continue;
    if (use.crosses_hosts || use.hosts == 0 || !worst_crosses_hosts)
      good.emplace_back(use.ranks.begin(), use.ranks.end());
  }
  return FindCrossing(model.bundle, things, bad, good);
}

// Returns what a training step loses, in ns: the time lost on the communicator that loses most, divided by the number
// of steps. Returns -1 if that is too little to report.
int64_t CostOfStep(const Paces& paces, const std::vector<LinkUse>& uses, const std::vector<Slow>& slow,
                   const LinkUse& worst) {
  std::map<uint32_t, int64_t> lost_by_comm;
  for (const Slow& s : slow) lost_by_comm[uses[s.use].comm] += s.lost_ns;
  int64_t lost = 0;
  for (const auto& [comm, ns] : lost_by_comm) lost = std::max(lost, ns);
  size_t steps = 1;
  int64_t step_ns = paces.step_ns;
  for (uint32_t r : worst.ranks) {
    steps = std::max(steps, paces.ranks[r].own_ns.size());
    if (step_ns == 0) step_ns = paces.ranks[r].step_ns;
  }
  const int64_t cost = lost / static_cast<int64_t>(steps);
  return step_ns > 0 && static_cast<double>(cost) < kWorthSaying * static_cast<double>(step_ns) ? -1 : cost;
}

std::string NameOf(const Bundle& bundle, const Crossing& crossing) {
  if (crossing.thing != nullptr) return absl::StrCat(crossing.thing->kind, " ", crossing.thing->name);
  if (crossing.ranks.size() == 1)
    return absl::StrCat("the links of rank ", bundle.ranks[static_cast<size_t>(crossing.ranks[0])].rank);
  return "the members of one communicator";
}

Cause SlowLinkCause(const Timing& timing, const LinkUse& use, const Slow& worst, const Sorted& sorted,
                    const Crossing& crossing, int64_t cost_ns) {
  const Model& model = timing.model;
  const Bundle& bundle = model.bundle;
  const bool random = worst.times > 0;
  // If the link is slow only now and then, it is less certain to be the reason.
  const bool at_one = random || crossing.ranks.size() <= 2 || crossing.thing != nullptr;
  const Grade grade = crossing.certain && !random ? GRADE_GOOD : at_one ? GRADE_FAIR : GRADE_WEAK;
  Cause c = CauseOf(SLOW_LINK, REASON_SLOW_TRANSFERS, grade, crossing.ranks);
  c.cause = "network";
  c.comm = use.comm;
  c.cost_ns_per_step = cost_ns;
  c.cost_uncertainty_ns = 2 * use.noise_ns;
  c.slowdown = worst.ratio;
  c.pattern = worst.since > 0 ? absl::StrCat("since #", use.seqs[worst.since]) : random ? "random" : "persistent";
  // Shows the slow transfers by the operation of one rank.
  if (!ring::IsPointToPoint(use.kind)) {
    for (const Member& m : model.comms[use.comm].members) {
      if (m.rank_index < 0 || static_cast<uint32_t>(m.rank_index) != use.ranks[0]) continue;
      c.op = model.FindCollective(m, use.seqs[worst.since]);
      c.op_rank = m.rank_index;
    }
  }
  if (crossing.thing != nullptr) SetFactor(*crossing.thing, crossing.ranks.size(), &c);
  c.Call(CallNamed(ring::CallName(use.kind), CommText(bundle, use.comm)));
  c.Flag(worst.since > 0).Name(NameOf(bundle, crossing));
  if (random) c.CountOf(worst.times, use.transfers_ns.size());
  if (use.bytes > 0) {
    const int32_t size = MembersOf(bundle, use);
    const auto slow_ns = random ? static_cast<int64_t>(static_cast<double>(use.usual_ns) * worst.ratio) : use.usual_ns;
    const auto usual_ns = static_cast<int64_t>(static_cast<double>(slow_ns) / worst.ratio);
    Detail* transfers = c.Add(Evidence::TRANSFERS, {use.ranks.begin(), use.ranks.end()})
                            .Call(c.detail.call())
                            .Flag(worst.since > 0)
                            .mutable_detail();
    transfers->set_number(use.bytes);
    transfers->set_value(BusBandwidth(use, size, slow_ns));
    transfers->set_other_value(BusBandwidth(use, size, usual_ns));
  }
  c.Add(Evidence::SLOW_AND_NOT, c.ranks).CountOf(sorted.slow.size(), sorted.well.size());
  // Network steps that were waiting when the data was captured show where the time is spent.
  const std::vector<StuckStep> waiting = StuckSteps(model, use.comm, use.kind, kUnknown);
  for (size_t i = 0; i < waiting.size() && i < 2; ++i) c.evidence.push_back(EvidenceOf(model, waiting[i]));
  if (!crossing.certain && waiting.empty()) c.AddRival(Rival::ANOTHER_PORT);
  return c;
}

}  // namespace

std::vector<Cause> FindSlowLinks(const Timing& timing, const Paces& paces, const std::vector<LinkUse>& uses,
                                 std::vector<Bandwidth>* bandwidths) {
  const Sorted sorted = SortUses(timing, uses, bandwidths);
  const std::vector<Slow>& slow = sorted.slow;
  // If more than about two thirds of the uses are slow, the others may just be fast. So a link is not the cause.
  if (slow.empty() || slow.size() > sorted.well.size() + slow.size() / 2 + 2) return {};
  const Slow& worst =
      *std::max_element(slow.begin(), slow.end(), [](const Slow& a, const Slow& b) { return a.lost_ns < b.lost_ns; });
  const LinkUse& use = uses[worst.use];
  const int64_t cost_ns = CostOfStep(paces, uses, slow, use);
  if (cost_ns < 0) return {};
  const Things things(timing.model.bundle);
  const Crossing crossing = WhereSlow(timing.model, things, uses, sorted, use.crosses_hosts);
  return {SlowLinkCause(timing, use, worst, sorted, crossing, cost_ns)};
}

}  // namespace lockstep
