#include "analyzer/engine/facts/startup.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr int kMaxCreations = 200;
constexpr size_t kMaxRanks = 256;
constexpr size_t kNamesShown = 2;
// A creation longer than this after the previous one belongs to training, not to the start.
constexpr int64_t kPause = 60'000'000'000;
// A rank later than the median member by less than this is not late.
constexpr int64_t kWorthSaying = 1'000'000'000;

// One member's part in a creation; times on its host's clock, moved to the common clock later.
struct Part {
  int32_t rank = -1;  // into Bundle::ranks
  uint32_t membership = 0;
  int64_t enter = 0, leave = 0;  // leave 0: still in it
};

struct Call {
  uint32_t comm = kNoIndex;     // the first communicator it made
  uint32_t parent = kNoIndex;   // communicator split from, if known
  std::set<std::string> names;  // of what it created, a few
  int32_t made = 0;             // communicators
  int32_t size = 0;             // of the largest
  std::vector<Part> parts;
  int64_t begin = 0, last_in = 0, end = 0;
  int32_t last_rank = -1;
  int64_t last_by = 0;
  bool serial = false;
};

std::string Seconds(int64_t ns) {
  return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9);
}

// In the order of StartUp.phases.
enum Phase { kComing, kWaiting, kRoots, kSplits, kBetween, kFirstOperations, kPhases };
constexpr const char* kPhaseNames[kPhases] = {"coming", "waiting", "roots", "splits", "between", "first operations"};
constexpr int64_t kNotRecorded = -1;

struct RankPhases {
  int64_t ns[kPhases] = {0, 0, 0, 0, 0, kNotRecorded};
  int32_t last = 0;        // last to arrive in so many creations
  int64_t last_by_ns = 0;  // total lateness there

  int64_t Sum() const { return ns[kComing] + ns[kWaiting] + ns[kRoots] + ns[kSplits] + ns[kBetween]; }
};

// How long the CPU thread was in the first operation of each communicator, which creates its connections. An operation
// inside an explicit group returns before its work is done, so it does not count.
int64_t InFirstOperations(const Rank& rank) {
  size_t open = 0;
  std::vector<bool> wanted(rank.memberships.size());
  for (size_t m = 0; m < rank.memberships.size(); ++m) {
    const Membership& ms = rank.memberships[m];
    wanted[m] = ms.lost_records == 0 && ms.not_loaded == 0 && ms.issued >= ms.first_seq && ms.first_seq >= 0;
    open += wanted[m];
  }
  int64_t sum = kNotRecorded;
  for (size_t i = 0; i < rank.ops.size() && open > 0; ++i) {
    const Op& op = rank.ops[i];
    if (op.membership >= wanted.size() || !wanted[op.membership] || !ring::IsCollective(op.kind)) continue;
    wanted[op.membership] = false;
    --open;
    if (op.seq != rank.memberships[op.membership].first_seq || op.group != 0 || op.replayed) continue;
    if (op.enter_ns <= 0 || op.return_ns < op.enter_ns) continue;
    sum = std::max<int64_t>(sum, 0) + (op.return_ns - op.enter_ns);
  }
  return sum;
}

class StartUpStory {
 public:
  explicit StartUpStory(const Bundle& bundle) : bundle_(bundle) {}

  bool Collect() {
    absl::flat_hash_map<std::string, uint32_t> comm_of_id;
    for (uint32_t c = 0; c < bundle_.comms.size(); ++c) comm_of_id.try_emplace(bundle_.comms[c].id, c);
    // A split is one call on its parent, whatever its colors.
    std::map<std::pair<std::string, uint32_t>, uint32_t> calls;
    call_of_comm_.assign(bundle_.comms.size(), kNoIndex);
    for (uint32_t c = 0; c < bundle_.comms.size(); ++c) {
      const Communicator& comm = bundle_.comms[c];
      const bool split = comm.origin == ring::CallKind::kCommSplit && !comm.parent_id.empty() && comm.ordinal > 0;
      const auto key = split ? std::pair(comm.parent_id, comm.ordinal) : std::pair("/" + comm.id, uint32_t{0});
      auto [it, fresh] = calls.try_emplace(key, static_cast<uint32_t>(calls_.size()));
      if (fresh) {
        calls_.emplace_back();
        calls_.back().comm = c;
        if (auto parent = comm_of_id.find(comm.parent_id); parent != comm_of_id.end())
          calls_.back().parent = parent->second;
      }
      call_of_comm_[c] = it->second;
    }
    std::vector<bool> counted(bundle_.comms.size());
    of_rank_.resize(bundle_.ranks.size());
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
      const Rank& rank = bundle_.ranks[r];
      for (uint32_t m = 0; m < rank.memberships.size(); ++m) {
        const Membership& ms = rank.memberships[m];
        if (ms.created_ns <= 0) continue;
        Call& call = calls_[call_of_comm_[ms.comm]];
        const Communicator& comm = bundle_.comms[ms.comm];
        Part part{static_cast<int32_t>(r), m, ms.created_ns, 0};
        const bool outside = ms.state == ring::CommState::kNotMember;
        if (outside && ms.ended_ns >= ms.created_ns) part.leave = ms.ended_ns;
        if (ms.ready_ns >= ms.created_ns) part.leave = ms.ready_ns;
        if (part.leave == 0 && ms.state != ring::CommState::kInitializing) continue;  // its return time is not recorded
        of_rank_[r].push_back({call_of_comm_[ms.comm], static_cast<uint32_t>(call.parts.size())});
        call.parts.push_back(part);
        if (outside) continue;
        if (!counted[ms.comm]) {
          counted[ms.comm] = true;
          ++call.made;
          call.size = std::max(call.size, comm.size);
          if (call.names.size() <= kNamesShown) call.names.insert(comm.name.empty() ? comm.id : comm.name);
        }
      }
    }
    return std::any_of(calls_.begin(), calls_.end(), [](const Call& c) { return !c.parts.empty(); });
  }

  // Offsets of hosts to the clock of the first one. Wall clocks are the first guess. If they contradict the order of
  // calls, they are moved as little as necessary.
  void Align(const Verdict& verdict) {
    absl::flat_hash_map<std::string, int64_t> known;
    for (const ClockOffset& clock : verdict.clocks()) {
      if (clock.uncertainty_ns() >= 0) known[clock.host()] = clock.offset_ns();
    }
    absl::flat_hash_map<std::string, uint32_t> hosts;
    host_of_rank_.reserve(bundle_.ranks.size());
    for (const Rank& rank : bundle_.ranks) {
      // Ranks whose host is not known may each have a clock of their own.
      const std::string name = rank.host.empty() ? absl::StrCat("/", rank.rank) : rank.host;
      auto [it, fresh] = hosts.try_emplace(name, static_cast<uint32_t>(hosts.size()));
      if (fresh) {
        auto at = known.find(rank.host);
        fixed_.push_back(at != known.end());
        offset_.push_back(at != known.end() ? at->second : rank.real_minus_mono_ns);
      }
      host_of_rank_.push_back(it->second);
    }
    if (std::any_of(fixed_.begin(), fixed_.end(), [](bool f) { return !f; })) SettleByCalls();
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (Call& call : calls_) {
      for (Part& part : call.parts) {
        const int64_t offset = offset_[host_of_rank_[part.rank]];
        part.enter += offset;
        if (part.leave != 0) part.leave += offset;
        earliest = std::min(earliest, part.enter);
      }
    }
    for (Call& call : calls_) {
      for (Part& part : call.parts) {
        part.enter -= earliest;
        if (part.leave != 0) part.leave = std::max(part.leave - earliest, part.enter);
      }
    }
  }

  void Measure() {
    for (Call& call : calls_) {
      if (call.parts.empty()) continue;
      std::vector<int64_t> enters;
      bool complete = call.made > 0;
      call.begin = std::numeric_limits<int64_t>::max();
      for (const Part& part : call.parts) {
        enters.push_back(part.enter);
        call.begin = std::min(call.begin, part.enter);
        if (call.last_rank < 0 || part.enter > call.last_in) call.last_in = part.enter, call.last_rank = part.rank;
        complete &= part.leave != 0;
        call.end = std::max(call.end, part.leave);
      }
      call.last_by = call.last_in - Median(std::move(enters));
      if (!complete) call.end = 0;
    }
    for (auto& mine : of_rank_) {
      std::sort(mine.begin(), mine.end(),
                [&](const auto& a, const auto& b) { return std::tuple(At(a).enter, a) < std::tuple(At(b).enter, b); });
    }
    FindSerial();
    FindPhases();
  }

  void Write(Verdict* verdict) const {
    StartUp* out = verdict->mutable_start_up();
    int64_t end = 0;
    std::vector<const Call*> order;
    for (const Call& call : calls_) {
      if (call.parts.empty()) continue;
      order.push_back(&call);
      for (const Part& part : call.parts) end = std::max(end, std::max(part.leave, part.enter));
    }
    int64_t begin = std::numeric_limits<int64_t>::max();
    for (const Call* call : order) begin = std::min(begin, call->begin);
    out->set_total_ns(end - begin);
    int64_t waiting = 0, ranks = 0;
    for (const auto& mine : of_rank_) {
      if (mine.empty()) continue;
      ++ranks;
      for (const auto& at : mine) {
        const Part& part = At(at);
        const int64_t last_in = calls_[at.first].last_in;
        waiting += std::max<int64_t>(0, std::min(part.leave == 0 ? last_in : part.leave, last_in) - part.enter);
      }
    }
    waiting = ranks > 0 ? waiting / ranks : 0;
    out->set_waiting_ns(waiting);
    out->set_serial_ns(serial_ns_);
    out->set_creations_total(static_cast<int32_t>(order.size()));
    std::stable_sort(order.begin(), order.end(), [](const Call* a, const Call* b) { return Span(*a) > Span(*b); });
    for (size_t i = 0; i < order.size() && i < kMaxCreations; ++i) WriteCall(*order[i], out->add_creations());
    WritePhases(out);
    WriteRanks(out);
    out->set_text(Text(order, *out));
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // call, part

  const Part& At(const Place& p) const { return calls_[p.first].parts[p.second]; }

  static int64_t Span(const Call& call) {
    return (call.end != 0 ? call.end : std::max(call.end, call.last_in)) - call.begin;
  }

  // For every call and host, the host's last entry must not come after another host's first return. In a few rounds,
  // each host that violates this is moved by half of what it misses against the tightest partner. The bounds are
  // seconds wide, so more rounds would only suggest false precision.
  void SettleByCalls() {
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds; ++round) {
      bool moved = false;
      for (const Call& call : calls_) {
        if (call.parts.size() < 2) continue;
        absl::flat_hash_map<uint32_t, std::pair<int64_t, int64_t>> ends;  // host: last entry, first return
        for (const Part& part : call.parts) {
          const uint32_t host = host_of_rank_[part.rank];
          auto [it, fresh] = ends.try_emplace(
              host, std::pair(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
          it->second.first = std::max(it->second.first, part.enter + offset_[host]);
          if (part.leave != 0) it->second.second = std::min(it->second.second, part.leave + offset_[host]);
        }
        if (ends.size() < 2) continue;
        // The medians over the hosts are what most clocks agree on.
        std::vector<int64_t> ins, outs;
        for (const auto& [host, e] : ends) {
          ins.push_back(e.first);
          if (e.second != std::numeric_limits<int64_t>::max()) outs.push_back(e.second);
        }
        const int64_t usual_in = Median(ins),
                      usual_out = outs.empty() ? std::numeric_limits<int64_t>::max() : Median(outs);
        for (const auto& [host, e] : ends) {
          if (fixed_[host]) continue;
          if (e.first > usual_out)
            offset_[host] -= e.first - usual_out, moved = true;
          else if (e.second < usual_in)
            offset_[host] += usual_in - e.second, moved = true;
        }
      }
      if (!moved) return;
    }
  }

  // Whether `later` needs something that `earlier` made.
  bool Needs(uint32_t later, uint32_t earlier) const {
    constexpr int kDeepest = 16;
    uint32_t parent = calls_[later].parent;
    for (int depth = 0; parent != kNoIndex && depth < kDeepest; ++depth) {
      if (call_of_comm_[parent] == earlier) return true;
      parent = calls_[call_of_comm_[parent]].parent;
    }
    return false;
  }

  // On each rank: runs of creations that do not need each other's results, each begun after the previous one ended.
  // Together they could take as long as the longest; the rest is the cost of the order.
  void FindSerial() {
    absl::flat_hash_map<uint64_t, bool> needs;
    std::vector<int32_t> votes(calls_.size());
    int64_t saved = 0, ranks = 0;
    for (const auto& mine : of_rank_) {
      if (mine.empty()) continue;
      ++ranks;
      int64_t run_work = 0, run_longest = 0;
      auto close = [&] {
        saved += run_work - run_longest;
        run_work = run_longest = 0;
      };
      for (size_t i = 0; i < mine.size(); ++i) {
        const Part& part = At(mine[i]);
        const Call& call = calls_[mine[i].first];
        const int64_t work =
            part.leave == 0 ? 0 : std::max<int64_t>(0, part.leave - std::max(part.enter, call.last_in));
        if (i > 0) {
          const Part& before = At(mine[i - 1]);
          const bool after = before.leave != 0 && part.enter >= before.leave && part.enter - before.leave < kPause;
          bool apart = after;
          if (after) {
            auto [it, fresh] = needs.try_emplace((uint64_t{mine[i].first} << 32) | mine[i - 1].first, false);
            if (fresh) it->second = Needs(mine[i].first, mine[i - 1].first);
            apart = !it->second;
          }
          if (apart) {
            ++votes[mine[i].first];
          } else {
            close();
          }
        }
        run_work += work;
        run_longest = std::max(run_longest, work);
      }
      close();
    }
    for (size_t c = 0; c < calls_.size(); ++c)
      calls_[c].serial = 2 * static_cast<size_t>(votes[c]) > calls_[c].parts.size();
    serial_ns_ = ranks > 0 ? saved / ranks : 0;
  }

  static bool IsSplit(const Bundle& bundle, const Call& call) {
    return bundle.comms[call.comm].origin == ring::CallKind::kCommSplit;
  }

  void FindPhases() {
    phases_.resize(of_rank_.size());
    for (size_t r = 0; r < of_rank_.size(); ++r) {
      const auto& mine = of_rank_[r];
      RankPhases& p = phases_[r];
      if (mine.empty()) continue;
      p.ns[kComing] = At(mine[0]).enter;  // from the job's first entry
      int64_t covered = At(mine[0]).enter;
      for (const Place& at : mine) {
        const Part& part = At(at);
        const Call& call = calls_[at.first];
        // Still inside: known up to the arrival of the last member.
        const int64_t leave = part.leave != 0 ? part.leave : std::max(part.enter, call.last_in);
        const int64_t worked_from = std::clamp(call.last_in, part.enter, leave);
        p.ns[kWaiting] += worked_from - part.enter;
        p.ns[IsSplit(bundle_, call) ? kSplits : kRoots] += leave - worked_from;
        if (part.enter > covered && part.enter - covered < kPause) p.ns[kBetween] += part.enter - covered;
        covered = std::max(covered, leave);
      }
      p.ns[kFirstOperations] = InFirstOperations(bundle_.ranks[r]);
    }
    for (const Call& call : calls_) {
      if (call.parts.size() < 2 || call.last_by < kWorthSaying) continue;
      RankPhases& p = phases_[static_cast<size_t>(call.last_rank)];
      ++p.last;
      p.last_by_ns += call.last_by;
    }
  }

  void WritePhases(StartUp* out) const {
    // The rank that came last in the phase by the largest margin.
    std::pair<int64_t, int32_t> last[kPhases];
    for (auto& l : last) l = {0, -1};
    for (const Call& call : calls_) {
      if (call.parts.size() < 2 || call.last_by <= 0) continue;
      auto& l = last[IsSplit(bundle_, call) ? kSplits : kRoots];
      if (call.last_by > l.first) l = {call.last_by, call.last_rank};
    }
    for (int phase = 0; phase < kPhases; ++phase) {
      std::vector<int64_t> values;
      int64_t longest = kNotRecorded;
      int32_t longest_rank = -1;
      for (size_t r = 0; r < phases_.size(); ++r) {
        const int64_t ns = phases_[r].ns[phase];
        if (of_rank_[r].empty() || ns == kNotRecorded) continue;
        values.push_back(ns);
        if (ns > longest) longest = ns, longest_rank = static_cast<int32_t>(r);
      }
      StartUpPhase* to = out->add_phases();
      to->set_name(kPhaseNames[phase]);
      to->set_ranks(static_cast<int32_t>(values.size()));
      const int64_t median = Median(std::move(values));
      to->set_median_ns(median);
      to->set_longest_ns(std::max<int64_t>(longest, 0));
      to->set_longest_rank(longest_rank < 0 ? -1 : bundle_.ranks[static_cast<size_t>(longest_rank)].rank);
      if (phase == kComing && longest > median) last[phase] = {longest - median, longest_rank};
      to->set_last_rank(last[phase].second < 0 ? -1 : bundle_.ranks[static_cast<size_t>(last[phase].second)].rank);
      to->set_last_by_ns(last[phase].first);
    }
  }

  void WriteRanks(StartUp* out) const {
    std::vector<uint32_t> order;
    for (uint32_t r = 0; r < of_rank_.size(); ++r) {
      if (!of_rank_[r].empty()) order.push_back(r);
    }
    const auto before = [&](uint32_t a, uint32_t b) {
      const RankPhases &x = phases_[a], &y = phases_[b];
      const int64_t sum_x = x.Sum(), sum_y = y.Sum();
      return std::tie(y.last_by_ns, sum_y, a) < std::tie(x.last_by_ns, sum_x, b);
    };
    const size_t shown = std::min(order.size(), kMaxRanks);
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(shown), order.end(), before);
    for (size_t i = 0; i < shown; ++i) {
      const RankPhases& p = phases_[order[i]];
      StartUpRank* to = out->add_ranks();
      to->set_rank(bundle_.ranks[order[i]].rank);
      to->set_host(bundle_.ranks[order[i]].host);
      for (int64_t ns : p.ns) to->add_phases_ns(ns);
      to->set_creations(static_cast<int32_t>(of_rank_[order[i]].size()));
      to->set_last(p.last);
      to->set_last_by_ns(p.last_by_ns);
    }
  }

  std::string Name(const Call& call) const {
    if (call.names.empty()) return call.parent == kNoIndex ? "" : absl::StrCat("no one, of ", ParentName(call));
    std::string text;
    size_t shown = 0;
    for (const std::string& name : call.names) {
      if (shown++ == kNamesShown) break;
      absl::StrAppend(&text, text.empty() ? "" : ", ", name);
    }
    if (call.made > static_cast<int32_t>(kNamesShown) && call.names.size() > kNamesShown) {
      absl::StrAppend(&text, " and ", call.made - static_cast<int32_t>(kNamesShown), " more");
    }
    return text;
  }

  std::string ParentName(const Call& call) const {
    const Communicator& parent = bundle_.comms[call.parent];
    return parent.name.empty() ? parent.id : parent.name;
  }

  void WriteCall(const Call& call, Creation* out) const {
    const Communicator& comm = bundle_.comms[call.comm];
    out->mutable_communicator()->set_id(comm.id);
    out->mutable_communicator()->set_name(Name(call));
    out->mutable_communicator()->set_size(call.size);
    out->set_call(ring::CallName(comm.origin));
    out->set_begin_ns(call.begin);
    out->set_end_ns(call.end);
    std::vector<int64_t> own;
    for (const Part& part : call.parts) {
      if (part.leave != 0) own.push_back(part.leave - part.enter);
    }
    if (!own.empty()) out->set_longest_ns(*std::max_element(own.begin(), own.end()));
    out->set_median_ns(Median(std::move(own)));
    out->set_last_rank(call.parts.size() > 1 ? bundle_.ranks[call.last_rank].rank : -1);
    out->set_last_by_ns(call.parts.size() > 1 ? call.last_by : 0);
    out->set_members_entered(static_cast<int32_t>(call.parts.size()));
    out->set_serial(call.serial);
  }

  std::string Text(const std::vector<const Call*>& order, const StartUp& out) const {
    int64_t communicators = 0;
    std::map<int32_t, std::pair<int, const Call*>> last;  // rank: how often it was last, and where by the most
    size_t open = 0, serial = 0;
    for (const Call* call : order) {
      communicators += call->made;
      open += call->end == 0;
      serial += call->serial;
      if (call->parts.size() < 2 || call->last_by < kWorthSaying) continue;
      auto& [times, worst] = last[call->last_rank];
      ++times;
      if (worst == nullptr || call->last_by > worst->last_by) worst = call;
    }
    std::string text = absl::StrCat(communicators, communicators == 1 ? " communicator" : " communicators", " in ",
                                    order.size(), order.size() == 1 ? " creation" : " creations", ", ",
                                    Seconds(out.total_ns()), " from the first entry to the last return");
    if (open > 0) absl::StrAppend(&text, "; ", open, open == 1 ? " is" : " are", " not complete");
    absl::StrAppend(&text, ". On average a rank spent ", Seconds(out.waiting_ns()),
                    " of it waiting for the last rank to arrive.");
    std::string typical;
    for (const StartUpPhase& phase : out.phases()) {
      if (phase.ranks() == 0 || phase.median_ns() < kWorthSaying / 10) continue;
      absl::StrAppend(&typical, typical.empty() ? " The median rank, by phase: " : ", ", phase.name(), " ",
                      Seconds(phase.median_ns()));
    }
    if (!typical.empty()) absl::StrAppend(&text, typical, ".");
    const auto worst = std::max_element(last.begin(), last.end(), [](const auto& a, const auto& b) {
      return a.second.second->last_by < b.second.second->last_by;
    });
    if (worst != last.end()) {
      const Rank& rank = bundle_.ranks[worst->first];
      const auto& [times, call] = worst->second;
      absl::StrAppend(&text, " Rank ", rank.rank, rank.host.empty() ? "" : absl::StrCat(" (", rank.host, ")"),
                      " came last in ", times, ", by ", Seconds(call->last_by), " in nccl",
                      ring::CallName(bundle_.comms[call->comm].origin), " of ", Name(*call), ".");
    }
    if (serial_ns_ >= kWorthSaying) {
      absl::StrAppend(&text, " ", serial,
                      " creations began only after another one had ended, although they do not need it: made together "
                      "(in one group, or non-blocking) they would save up to ",
                      Seconds(serial_ns_), ".");
    }
    return text;
  }

  const Bundle& bundle_;
  std::vector<Call> calls_;
  std::vector<uint32_t> call_of_comm_;
  std::vector<std::vector<Place>> of_rank_;  // in the order of entry
  std::vector<uint32_t> host_of_rank_;
  std::vector<int64_t> offset_;     // by host, to be added
  std::vector<bool> fixed_;         // by host: aligned by something better
  std::vector<RankPhases> phases_;  // by rank
  int64_t serial_ns_ = 0;
};

}  // namespace

void ExplainStartUp(const Bundle& bundle, Verdict* verdict) {
  StartUpStory story(bundle);
  if (bundle.ranks.empty()) return;
  if (!story.Collect()) {
    verdict->add_not_measured(
        "start-up: nothing recorded when communicators were created (Flight Recorder does not; Lockstep's own recorder "
        "does)");
    return;
  }
  story.Align(*verdict);
  story.Measure();
  story.Write(verdict);
}

}  // namespace lockstep
