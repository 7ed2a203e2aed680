// Transfers: how long communicators take from the arrival of their last member to the end, compared with siblings that
// move the same bytes.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/engine/facts/factor.h"
#include "analyzer/engine/facts/network.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

using ring::CallKind;

constexpr size_t kLeastOperations = 4;
constexpr size_t kMostTransfers = 256;
constexpr int kMostBandwidths = 256;
// A communicator is slow from this ratio to its siblings on. One below the second ratio shows that its links are fine.
constexpr double kSlow = 1.4, kWell = 1.2;

int64_t DatatypeSize(uint8_t datatype) {
  static constexpr int8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < 12 ? kSizes[datatype] : 0;
}

// "BFloat16 -> BFloat16": the size of the first type; 0 unknown.
int64_t FrameworkSize(const Bundle& bundle, uint32_t dtypes) {
  if (dtypes >= bundle.strings.size()) return 0;
  std::string_view text = bundle.strings[dtypes];
  text = text.substr(0, text.find_first_of(" ,"));
  for (const auto& [name, size] : {std::pair<std::string_view, int64_t>{"Float", 4},
                                   {"BFloat16", 2},
                                   {"Half", 2},
                                   {"Double", 8},
                                   {"Long", 8},
                                   {"Int", 4},
                                   {"Byte", 1},
                                   {"Char", 1},
                                   {"Bool", 1},
                                   {"Short", 2},
                                   {"Float8_e4m3fn", 1},
                                   {"Float8_e5m2", 1}}) {
    if (text == name) return size;
  }
  return 0;
}

// The payload as nccl-tests counts it: the whole for AllGather, ReduceScatter and AlltoAll; for the others, what one
// rank passes.
int64_t PayloadBytes(const Bundle& bundle, const Op& op, int64_t members) {
  const bool whole = CallFactsOf(op.kind).payload_is_whole;
  int64_t elements = op.count, size = DatatypeSize(op.datatype), bytes = 0;
  if (elements < 0) {
    elements = std::max(op.input_elements, op.output_elements);
    size = FrameworkSize(bundle, op.dtypes);
    if (elements < 0 || __builtin_mul_overflow(elements, size, &bytes)) return 0;
    return bytes;  // the larger side of a framework's record is already the whole
  }
  if (__builtin_mul_overflow(elements, size, &bytes)) return 0;
  if (whole && __builtin_mul_overflow(bytes, members, &bytes)) return 0;
  return bytes;
}

struct Hosts {
  explicit Hosts(const Bundle& bundle) : of_rank(bundle.ranks.size(), kNoIndex) {
    std::map<std::string, uint32_t> known;
    for (size_t r = 0; r < of_rank.size(); ++r) {
      if (bundle.ranks[r].host.empty()) continue;
      of_rank[r] = known.try_emplace(bundle.ranks[r].host, static_cast<uint32_t>(known.size())).first->second;
    }
  }
  // The number of different hosts among them; 0 if one is unknown.
  uint32_t Count(const std::vector<uint32_t>& ranks) const {
    std::set<uint32_t> seen;
    for (uint32_t r : ranks) {
      if (of_rank[r] == kNoIndex) return 0;
      seen.insert(of_rank[r]);
    }
    return static_cast<uint32_t>(seen.size());
  }
  std::vector<uint32_t> of_rank;
};

struct NowAndThen {
  size_t times = 0;  // slow transfers; 0: not slow now and then
  double ratio = 1;  // their time relative to the usual one
  int64_t lost_ns = 0;
};

// A communicator in which some transfers, more than a few but not nearly all, take several times the usual time, while
// those of its siblings hardly ever do.
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
  // Their share, compared with a tenth of its own.
  if (others * 10 * use.transfers_ns.size() > slow.size() * others_all) return out;
  out.times = slow.size();
  for (int64_t ns : slow) out.lost_ns += ns - use.usual_ns;
  out.ratio = static_cast<double>(Median(std::move(slow))) / static_cast<double>(use.usual_ns);
  return out;
}

}  // namespace

std::vector<LinkUse> FindLinkUses(const Timing& timing, const std::vector<int64_t>& noise_ns) {
  const Bundle& bundle = timing.model.bundle;
  const Hosts hosts(bundle);
  std::vector<LinkUse> uses;
  std::map<std::tuple<uint32_t, int, int64_t, uint32_t, uint32_t>, size_t> at;
  uint32_t comm = kNoIndex;
  const auto add = [&](uint32_t c, CallKind kind, int64_t bytes, const std::vector<uint32_t>& ranks, int64_t transfer,
                       int64_t seq) {
    if (comm != c) at.clear();  // both lists are by communicator
    comm = c;
    const bool pair = ring::IsPointToPoint(kind);
    const auto [it, fresh] =
        at.try_emplace({c, static_cast<int>(kind), bytes, pair ? ranks[0] : 0, pair ? ranks[1] : 0}, uses.size());
    if (fresh) {
      uses.push_back({c, kind, bytes, ranks, {}, {}, 0, 0, false, hosts.Count(ranks)});
      uses.back().crosses_hosts = uses.back().hosts > 1;
      for (uint32_t r : ranks) uses.back().noise_ns = std::max(uses.back().noise_ns, noise_ns[r]);
    }
    LinkUse& use = uses[it->second];
    if (use.transfers_ns.size() >= kMostTransfers) return;
    use.transfers_ns.push_back(transfer);
    use.seqs.push_back(seq);
  };
  std::vector<uint32_t> ranks;
  for (const Meeting& meeting : timing.meetings) {
    // The last arrival is known only if every member is seen.
    const size_t size = timing.model.comms[meeting.comm].members.size();
    if (meeting.count != size || size < 2) continue;
    int64_t least = INT64_MAX;
    bool all = true;
    ranks.clear();
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing.attendance[meeting.first + a];
      all &= timing.At(who).start_ns != 0;
      least = std::min(least, timing.At(who).Duration());
      ranks.push_back(who.rank);
    }
    if (!all) continue;
    const Op& op = timing.OpOf(timing.attendance[meeting.first]);
    add(meeting.comm, op.kind, PayloadBytes(bundle, op, static_cast<int64_t>(size)), ranks, least, meeting.seq);
  }
  comm = kNoIndex;
  for (const Handover& h : timing.handovers) {
    const TimedOp &sent = timing.At(h.sender), &received = timing.At(h.receiver);
    ranks = {h.sender.rank, h.receiver.rank};
    add(h.comm, CallKind::kSend, PayloadBytes(bundle, timing.OpOf(h.sender), 2), ranks,
        std::min(sent.Duration(), received.Duration()), h.seq);
  }
  std::erase_if(uses, [](const LinkUse& use) { return use.transfers_ns.size() < kLeastOperations; });
  for (LinkUse& use : uses) use.usual_ns = Median(use.transfers_ns);
  return uses;
}

double BusBandwidth(const LinkUse& use, int32_t size, int64_t transfer_ns) {
  if (use.bytes <= 0 || transfer_ns <= 0 || size < 2) return 0;
  const double n = size;
  const int passes = CallFactsOf(use.kind).bus_passes;
  const double factor = passes == 0 ? 1 : passes * (n - 1) / n;
  return static_cast<double>(use.bytes) * factor / (static_cast<double>(transfer_ns) * 1e-9);
}

std::vector<Cause> FindSlowLinks(const Timing& timing, const Paces& paces, const std::vector<LinkUse>& uses,
                                 std::vector<Bandwidth>* bandwidths) {
  const Model& model = timing.model;
  const Bundle& bundle = model.bundle;
  // Siblings: the same kind of communicator, size, call and bytes, and equally many hosts.
  std::map<std::tuple<uint32_t, int32_t, int, int64_t, bool>, std::vector<size_t>> siblings;
  for (size_t i = 0; i < uses.size(); ++i) {
    const LinkUse& use = uses[i];
    siblings[{paces.class_of_comm[use.comm], bundle.comms[use.comm].size, static_cast<int>(use.kind), use.bytes,
              use.crosses_hosts}]
        .push_back(i);
  }
  struct Slow {
    size_t use;
    double ratio;
    int64_t lost_ns;  // over the whole recording
    size_t since;     // index into its transfers; 0: from the beginning
    size_t times;     // how many of its transfers are slow; 0: nearly all
  };
  std::vector<Slow> slow;
  std::vector<size_t> well;
  std::vector<std::pair<double, Bandwidth>> table;
  for (const auto& [key, list] : siblings) {
    std::vector<int64_t> usual;
    int64_t best = INT64_MAX;
    for (size_t i : list) {
      usual.push_back(uses[i].usual_ns);
      best = std::min(best, uses[i].usual_ns);
    }
    std::sort(usual.begin(), usual.end());
    for (size_t i : list) {
      const LinkUse& use = uses[i];
      // Compared with the others, without its own value: the median of the rest; of two, the faster one.
      std::vector<int64_t> others = usual;
      others.erase(std::lower_bound(others.begin(), others.end(), use.usual_ns));
      const int64_t peer = others.empty() ? 0 : others[(others.size() - 1) / 2];
      const int32_t size = ring::IsPointToPoint(use.kind) ? 2 : bundle.comms[use.comm].size;
      const bool measured = use.usual_ns > 2 * use.noise_ns;
      // Compared with its own past, if it became slower while the job ran.
      std::vector<int64_t> sorted = use.transfers_ns;
      std::sort(sorted.begin(), sorted.end());
      const int64_t own_best = sorted[sorted.size() / 8];
      double ratio = peer > 0 ? static_cast<double>(use.usual_ns) / static_cast<double>(peer) : 1;
      int64_t excess = 0;
      size_t since = 0;
      const auto bar =
          static_cast<int64_t>(kSlow * static_cast<double>(std::min(own_best, peer > 0 ? peer : own_best)));
      size_t run = 0;
      while (run < use.transfers_ns.size() && use.transfers_ns[use.transfers_ns.size() - 1 - run] > bar) ++run;
      if (run < use.transfers_ns.size() && run >= 3) {
        size_t before = 0;
        for (size_t k = 0; k + run < use.transfers_ns.size(); ++k) before += use.transfers_ns[k] > bar;
        if (before * 5 <= use.transfers_ns.size() - run && use.transfers_ns.size() - run >= 3)
          since = use.transfers_ns.size() - run;
      }
      if (since > 0) {
        const int64_t now = Median({use.transfers_ns.begin() + static_cast<ptrdiff_t>(since), use.transfers_ns.end()});
        const int64_t was =
            Median({use.transfers_ns.begin(), use.transfers_ns.begin() + static_cast<ptrdiff_t>(since)});
        // If all siblings became slower since then, the work changed, or something that they share. Times below the
        // clock's precision count as that precision.
        ratio =
            std::max(ratio, static_cast<double>(now) / static_cast<double>(std::max<int64_t>({was, use.noise_ns, 1})));
        excess = now - was;
      }
      const int64_t reference =
          std::max<int64_t>(static_cast<int64_t>(static_cast<double>(use.usual_ns) / std::max(ratio, 1.0)), 1);
      // Three of four slow operations are not a small share.
      size_t above = 0;
      int64_t lost = 0;
      for (size_t k = since; k < use.transfers_ns.size(); ++k) {
        above += use.transfers_ns[k] > reference + (use.usual_ns - reference) / 2;
        lost += std::max<int64_t>(use.transfers_ns[k] - reference, 0);
      }
      excess = std::max(excess, use.usual_ns - reference);
      if ((peer > 0 || since > 0) && ratio >= kSlow && excess > 3 * use.noise_ns &&
          above * 4 >= (use.transfers_ns.size() - since) * 3) {
        slow.push_back({i, ratio, lost, since, 0});
      } else if (const NowAndThen odd = SlowNowAndThen(use, list, uses); odd.times > 0) {
        slow.push_back({i, odd.ratio, odd.lost_ns, 0, odd.times});
      } else if (ratio < kWell && measured) {
        well.push_back(i);
      }
      if (measured) {
        Bandwidth b;
        const Communicator& c = bundle.comms[use.comm];
        b.mutable_communicator()->set_id(c.id);
        b.mutable_communicator()->set_name(c.name);
        b.mutable_communicator()->set_size(c.size);
        b.set_operation(ring::CallName(use.kind));
        b.set_bytes(use.bytes);
        b.set_operations(static_cast<int64_t>(use.transfers_ns.size()));
        b.set_bus_bytes_per_s(BusBandwidth(use, size, use.usual_ns));
        b.set_best_bus_bytes_per_s(BusBandwidth(use, size, best));
        if (peer > 0) b.set_peer_bus_bytes_per_s(BusBandwidth(use, size, peer));
        b.set_clock(ClockText(bundle.ranks[use.ranks[0]], timing.ranks[use.ranks[0]]));
        if (use.bytes > 0)
          table.push_back({peer > 0 ? static_cast<double>(peer) / static_cast<double>(use.usual_ns) : 1, std::move(b)});
      }
    }
  }
  std::stable_sort(table.begin(), table.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, -a.second.bytes()) < std::tuple(b.first, -b.second.bytes());
  });
  for (size_t i = 0; i < table.size() && i < kMostBandwidths; ++i) bandwidths->push_back(std::move(table[i].second));

  std::vector<Cause> causes;
  if (slow.empty()) return causes;
  // If more than half of a kind is slow compared with the rest, the rest may be the odd part: this is not a link.
  if (slow.size() > well.size() + slow.size() / 2 + 2) return causes;
  std::vector<std::vector<int32_t>> bad, good;
  std::map<uint32_t, int64_t> lost_by_comm;
  size_t worst = 0;
  std::map<uint32_t, std::set<int32_t>> bad_of_comm;
  for (size_t i = 0; i < slow.size(); ++i) {
    bad_of_comm[uses[slow[i].use].comm].insert(uses[slow[i].use].ranks.begin(), uses[slow[i].use].ranks.end());
    lost_by_comm[uses[slow[i].use].comm] += slow[i].lost_ns;
    if (slow[i].lost_ns > slow[worst].lost_ns) worst = i;
  }
  for (const auto& [comm, ranks] : bad_of_comm) bad.emplace_back(ranks.begin(), ranks.end());
  // If no host is named, a fast communicator may lie within one host, unless it is of a kind that is slow elsewhere.
  std::set<uint32_t> slow_kinds;
  for (const Slow& s : slow) slow_kinds.insert(paces.class_of_comm[uses[s.use].comm]);
  for (size_t i : well) {
    if (uses[i].hosts == 0 && !slow_kinds.contains(paces.class_of_comm[uses[i].comm])) continue;
    if (bad_of_comm.contains(uses[i].comm) && !ring::IsPointToPoint(uses[i].kind)) continue;
    if (uses[i].crosses_hosts || uses[i].hosts == 0 || !uses[slow[worst].use].crosses_hosts)
      good.emplace_back(uses[i].ranks.begin(), uses[i].ranks.end());
  }
  const LinkUse& use = uses[slow[worst].use];
  int64_t lost = 0;
  for (const auto& [comm, ns] : lost_by_comm) lost = std::max(lost, ns);
  size_t steps = 1;
  int64_t step_ns = paces.step_ns;
  for (uint32_t r : use.ranks) {
    if (paces.ranks[r].own_ns.size() > steps) steps = paces.ranks[r].own_ns.size();
    if (step_ns == 0) step_ns = paces.ranks[r].step_ns;
  }
  const int64_t cost = lost / static_cast<int64_t>(steps);
  if (step_ns > 0 && static_cast<double>(cost) < kWorthSaying * static_cast<double>(step_ns)) return causes;

  const Things things(bundle);
  const Crossing crossing = FindCrossing(bundle, things, bad, good);
  Cause c;
  c.kind = SLOW_LINK;
  c.cause = "network";
  c.ranks = crossing.ranks;
  c.comm = use.comm;
  c.cost_ns_per_step = cost;
  c.cost_uncertainty_ns = 2 * use.noise_ns;
  c.slowdown = slow[worst].ratio;
  const bool random = slow[worst].times > 0;
  c.pattern = slow[worst].since > 0 ? absl::StrCat("since #", use.seqs[slow[worst].since])
              : random              ? "random"
                                    : "persistent";
  // The operation that shows it, from one rank's own record.
  const Member* member = nullptr;
  for (const Member& m : model.comms[use.comm].members) {
    if (m.rank_index >= 0 && static_cast<uint32_t>(m.rank_index) == use.ranks[0]) member = &m;
  }
  if (member != nullptr && !ring::IsPointToPoint(use.kind)) {
    c.op = model.FindCollective(*member, use.seqs[slow[worst].since]);
    c.op_rank = static_cast<int32_t>(use.ranks[0]);
  }
  std::string where = "the members of one communicator";
  if (crossing.thing != nullptr) {
    c.factor.emplace();
    c.factor->set_kind(crossing.thing->kind);
    c.factor->set_name(crossing.thing->name);
    c.factor->set_culprits(static_cast<int32_t>(crossing.ranks.size()));
    c.factor->set_members(static_cast<int32_t>(crossing.thing->ranks.size()));
    where = absl::StrCat(crossing.thing->kind, " ", crossing.thing->name);
    if (std::string_view(crossing.thing->kind) == "host") c.kind = SLOW_LINK;
  } else if (crossing.link.size() == 2) {
    where = absl::StrCat("the link between ", crossing.link[0], " and ", crossing.link[1]);
  } else if (crossing.ranks.size() == 1) {
    where = absl::StrCat("the links of rank ", bundle.ranks[static_cast<size_t>(crossing.ranks[0])].rank);
  }
  c.reason = REASON_SLOW_TRANSFERS;
  *c.detail.mutable_call() = CallNamed(ring::CallName(use.kind), CommText(bundle.comms[use.comm]));
  c.detail.set_flag(slow[worst].since > 0);
  if (random) {
    c.detail.set_count(static_cast<int64_t>(slow[worst].times));
    c.detail.set_of(static_cast<int64_t>(use.transfers_ns.size()));
  }
  c.detail.set_name(where);
  // Slow only now and then: less certain to come from the link.
  const bool at_one = random || crossing.ranks.size() <= 2 || crossing.thing != nullptr;
  c.grade = crossing.certain && !random ? GRADE_GOOD : at_one ? GRADE_FAIR : GRADE_WEAK;
  const auto bandwidth = [&](int64_t ns) {
    const int32_t size = ring::IsPointToPoint(use.kind) ? 2 : bundle.comms[use.comm].size;
    return absl::StrFormat("%.1f GB/s", BusBandwidth(use, size, ns) / 1e9);
  };
  const auto slow_ns =
      random ? static_cast<int64_t>(static_cast<double>(use.usual_ns) * slow[worst].ratio) : use.usual_ns;
  if (use.bytes > 0) {
    c.evidence.push_back(
        {absl::StrCat(ring::CallName(use.kind), " of ", use.bytes, " bytes on ", CommText(bundle.comms[use.comm]), ": ",
                      bandwidth(slow_ns), " bus bandwidth, ",
                      bandwidth(static_cast<int64_t>(static_cast<double>(slow_ns) / slow[worst].ratio)),
                      slow[worst].since > 0 ? " before" : " for comparable transfers"),
         {use.ranks.begin(), use.ranks.end()}});
  }
  c.evidence.push_back(
      {absl::StrCat(slow.size(), slow.size() == 1 ? " communicator or pair is" : " communicators or pairs are",
                    " slow, ", well.size(),
                    " that move the same amount are not; waits for late arrivals are subtracted"),
       c.ranks});
  // Steps that were waiting when the data was captured show where the time goes.
  const std::vector<StuckStep> waiting = StuckSteps(model, use.comm, use.kind, kUnknown);
  for (size_t i = 0; i < waiting.size() && i < 2; ++i) {
    c.evidence.push_back(
        {absl::StrCat("rank ", bundle.ranks[waiting[i].rank_index].rank, " ", StepText(model, waiting[i])),
         {waiting[i].rank_index}});
  }
  if (!crossing.certain && waiting.empty()) c.AddRival(Rival::ANOTHER_PORT);
  causes.push_back(std::move(c));
  return causes;
}

}  // namespace lockstep
