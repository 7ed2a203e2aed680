#include "analyzer/engine/facts/startup.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr int kMaxCreations = 200;
constexpr size_t kMaxRanks = 256;
constexpr size_t kMostNames = 3;
// A pause of at least this length between two creations is training, not part of the start.
constexpr int64_t kPause = 60'000'000'000;
// A rank that trails the median member by less than this is not late.
constexpr int64_t kWorthSaying = 1'000'000'000;

// One member's part in a creation. Times are first on its host's clock, and after Align since the job's first entry.
struct Part {
  int32_t rank = -1;  // index into Bundle::ranks
  uint32_t membership = 0;
  int64_t enter = 0, leave = 0;  // leave is 0 while the member is still inside
};

struct Call {
  uint32_t comm = kNoIndex;     // the first communicator it created
  std::set<std::string> names;  // names of a few created communicators
  int32_t made = 0;             // number of created communicators
  int32_t size = 0;             // size of the largest one
  std::vector<Part> parts;
  int64_t begin = 0, last_in = 0, end = 0;  // first and last entry, last return; `end` is 0 if not complete
  int32_t last_rank = -1;
  int64_t last_by = 0;
  bool serial = false;
};

// Same order as StartUp.phases.
enum Phase { kComing, kWaiting, kRoots, kSplits, kBetween, kFirstOperations, kPhases };
constexpr const char* kPhaseNames[kPhases] = {"before",    "waiting", "creating",
                                              "splitting", "between", "first operations"};
constexpr int64_t kNotRecorded = -1;

struct RankPhases {
  int64_t ns[kPhases] = {0, 0, 0, 0, 0, kNotRecorded};
  int32_t last = 0;        // number of creations at which it arrived last
  int64_t last_by_ns = 0;  // its total lateness at these creations

  int64_t Sum() const { return ns[kComing] + ns[kWaiting] + ns[kRoots] + ns[kSplits] + ns[kBetween]; }
};

// Returns how long the CPU thread was in the first operations of communicators, which create connections; kNotRecorded
// if there are none. An operation in an explicit group returns before its work is done, so it does not count.
int64_t InFirstOperations(const Rank& rank) {
  size_t open = 0;
  std::vector<bool> wanted(rank.memberships.size());
  for (size_t m = 0; m < rank.memberships.size(); ++m) {
    const Membership& ms = rank.memberships[m];
    wanted[m] = ms.lost_records == 0 && ms.not_loaded == 0 && ms.unrecorded == 0 && ms.issued >= ms.first_seq &&
                ms.first_seq >= 0;
    open += wanted[m];
  }
  int64_t sum = kNotRecorded;
  for (size_t i = 0; i < rank.ops.size() && open > 0; ++i) {
    const Op& op = rank.ops[i];
    if (op.membership >= wanted.size() || !wanted[op.membership] || !IsCollective(op.kind)) continue;
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
  explicit StartUpStory(const Model& model) : model_(model), bundle_(model.bundle) {}

  bool Collect() {
    // A split is a single call on its parent, regardless of its colors.
    std::map<std::pair<std::string, uint32_t>, uint32_t> calls;
    call_of_comm_.assign(bundle_.comms.size(), kNoIndex);
    for (uint32_t c = 0; c < bundle_.comms.size(); ++c) {
      const Communicator& comm = bundle_.comms[c];
      const bool split = comm.origin == ring::CallKind::kCommSplit && !comm.parent_id.empty() && comm.ordinal > 0;
      const auto key = split ? std::pair(comm.parent_id, comm.ordinal) : std::pair("/" + comm.id, uint32_t{0});
      auto [it, fresh] = calls.try_emplace(key, static_cast<uint32_t>(calls_.size()));
      if (fresh) calls_.emplace_back().comm = c;
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
        if (outside || counted[ms.comm]) continue;
        counted[ms.comm] = true;
        ++call.made;
        call.size = std::max(call.size, comm.size);
        if (call.names.size() < kMostNames) call.names.insert(NameOf(comm));
      }
    }
    return std::ranges::any_of(calls_, [](const Call& c) { return !c.parts.empty(); });
  }

  // Converts all times to nanoseconds since the job's first entry. Without alignment, uses the host's wall clock.
  void Align(const Verdict& verdict) {
    absl::flat_hash_map<std::string, int64_t> known;
    for (const ClockOffset& clock : verdict.clocks()) {
      if (clock.uncertainty_ns() >= 0) known[clock.host()] = clock.offset_ns();
    }
    const auto first = std::ranges::find_if(bundle_.ranks, [&](const Rank& rank) { return known.contains(rank.host); });
    const int64_t base = first == bundle_.ranks.end() ? 0 : first->real_minus_mono_ns - known[first->host];
    offset_of_rank_.reserve(bundle_.ranks.size());
    for (const Rank& rank : bundle_.ranks) {
      const auto at = known.find(rank.host);
      offset_of_rank_.push_back(at != known.end() ? at->second : rank.real_minus_mono_ns - base);
    }
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (Call& call : calls_) {
      for (Part& part : call.parts) {
        const int64_t offset = offset_of_rank_[part.rank];
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
      std::ranges::sort(
          mine, [&](const auto& a, const auto& b) { return std::tuple(At(a).enter, a) < std::tuple(At(b).enter, b); });
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
      for (const Part& part : call.parts) end = std::max({end, part.leave, part.enter});
    }
    out->set_total_ns(end);
    int64_t waiting = 0;
    for (const RankPhases& p : phases_) waiting += p.ns[kWaiting];
    const auto ranks = std::ranges::count_if(of_rank_, [](const auto& mine) { return !mine.empty(); });
    out->set_waiting_ns(ranks > 0 ? waiting / ranks : 0);
    out->set_serial_ns(ranks > 0 ? saved_ns_ / ranks : 0);
    out->set_creations_total(static_cast<int32_t>(order.size()));
    std::ranges::stable_sort(order, [](const Call* a, const Call* b) { return Span(*a) > Span(*b); });
    for (size_t i = 0; i < order.size() && i < kMaxCreations; ++i) WriteCall(*order[i], out->add_creations());
    WritePhases(out);
    WriteRanks(out);
    Sum(order, out);
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // call and part

  const Part& At(const Place& p) const { return calls_[p.first].parts[p.second]; }

  static int64_t Span(const Call& call) { return (call.end != 0 ? call.end : call.last_in) - call.begin; }

  // Returns whether the creation `later` needs a communicator that `earlier` created.
  bool Needs(uint32_t later, uint32_t earlier) const {
    constexpr int kDeepest = 16;
    uint32_t parent = ParentOf(calls_[later]);
    for (int depth = 0; parent != kNoIndex && depth < kDeepest; ++depth) {
      if (call_of_comm_[parent] == earlier) return true;
      parent = ParentOf(calls_[call_of_comm_[parent]]);
    }
    return false;
  }

  // Finds, on each rank, runs of creations that do not need each other's results, although each started after the
  // previous one ended. Made at the same time, they would take only as long as the longest one. The remaining time is
  // the cost of serializing them.
  void FindSerial() {
    absl::flat_hash_map<uint64_t, bool> needs;
    std::vector<int32_t> votes(calls_.size());
    for (const auto& mine : of_rank_) {
      int64_t run_work = 0, run_longest = 0;
      auto close = [&] {
        saved_ns_ += run_work - run_longest;
        run_work = run_longest = 0;
      };
      for (size_t i = 0; i < mine.size(); ++i) {
        const Part& part = At(mine[i]);
        const Call& call = calls_[mine[i].first];
        const int64_t work =
            part.leave == 0 ? 0 : std::max<int64_t>(0, part.leave - std::max(part.enter, call.last_in));
        if (i > 0) {
          const Part& before = At(mine[i - 1]);
          bool apart = before.leave != 0 && part.enter >= before.leave && part.enter - before.leave < kPause;
          if (apart) {
            auto [it, fresh] = needs.try_emplace((uint64_t{mine[i].first} << 32) | mine[i - 1].first, false);
            if (fresh) it->second = Needs(mine[i].first, mine[i - 1].first);
            apart = !it->second;
          }
          votes[mine[i].first] += apart;
          if (!apart) close();
        }
        run_work += work;
        run_longest = std::max(run_longest, work);
      }
      close();
    }
    for (size_t c = 0; c < calls_.size(); ++c)
      calls_[c].serial = 2 * static_cast<size_t>(votes[c]) > calls_[c].parts.size();
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
      p.ns[kComing] = At(mine[0]).enter;  // since the job's first entry
      int64_t covered = At(mine[0]).enter;
      for (const Place& at : mine) {
        const Part& part = At(at);
        const Call& call = calls_[at.first];
        // If the rank is still inside, its wait is known only up to the arrival of the last member.
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
      RankPhases& p = phases_[call.last_rank];
      ++p.last;
      p.last_by_ns += call.last_by;
    }
  }

  void WritePhases(StartUp* out) const {
    // For each phase, the rank that was last by the largest margin.
    std::array<std::pair<int64_t, int32_t>, kPhases> last;
    last.fill({0, -1});
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
      to->set_longest_rank(NumberOf(longest_rank));
      if (phase == kComing && longest > median) last[phase] = {longest - median, longest_rank};
      to->set_last_rank(NumberOf(last[phase].second));
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

  int32_t NumberOf(int32_t rank_index) const { return rank_index < 0 ? -1 : bundle_.ranks[rank_index].rank; }
  static const std::string& NameOf(const Communicator& comm) { return comm.name.empty() ? comm.id : comm.name; }
  // Returns the communicator that was split; kNoIndex if it is unknown.
  uint32_t ParentOf(const Call& call) const { return model_.comms[call.comm].parent; }

  void WriteCall(const Call& call, Creation* out) const {
    const Communicator& comm = bundle_.comms[call.comm];
    out->mutable_communicator()->set_id(comm.id);
    out->mutable_communicator()->set_size(call.size);
    out->set_call(ring::CallName(comm.origin));
    out->set_begin_ns(call.begin);
    out->set_end_ns(call.end);
    std::vector<int64_t> own;
    for (const Part& part : call.parts) {
      if (part.leave != 0) own.push_back(part.leave - part.enter);
    }
    if (!own.empty()) out->set_longest_ns(*std::ranges::max_element(own));
    out->set_median_ns(Median(std::move(own)));
    out->set_last_rank(call.parts.size() > 1 ? bundle_.ranks[call.last_rank].rank : -1);
    out->set_last_by_ns(call.parts.size() > 1 ? call.last_by : 0);
    out->set_members_entered(static_cast<int32_t>(call.parts.size()));
    out->set_serial(call.serial);
    out->set_made(call.made);
    for (const std::string& name : call.names) out->add_names(name);
    if (ParentOf(call) != kNoIndex) out->set_parent(NameOf(bundle_.comms[ParentOf(call)]));
  }

  void Sum(const std::vector<const Call*>& order, StartUp* out) const {
    std::map<int32_t, std::pair<int, const Call*>> last;  // rank: how often it was last, and in which call by the most
    for (const Call* call : order) {
      out->set_communicators(out->communicators() + call->made);
      out->set_open(out->open() + (call->end == 0 ? 1 : 0));
      out->set_serial_creations(out->serial_creations() + (call->serial ? 1 : 0));
      if (call->parts.size() < 2 || call->last_by < kWorthSaying) continue;
      auto& [times, worst] = last[call->last_rank];
      ++times;
      if (worst == nullptr || call->last_by > worst->last_by) worst = call;
    }
    const auto worst = std::ranges::max_element(
        last, [](const auto& a, const auto& b) { return a.second.second->last_by < b.second.second->last_by; });
    if (worst == last.end()) return;
    WriteCall(*worst->second.second, out->mutable_latest());
    out->set_latest_host(bundle_.ranks[worst->first].host);
    out->set_latest_times(worst->second.first);
  }

  const Model& model_;
  const Bundle& bundle_;
  std::vector<Call> calls_;
  std::vector<uint32_t> call_of_comm_;
  std::vector<std::vector<Place>> of_rank_;  // in the order of entry
  std::vector<int64_t> offset_of_rank_;      // to be added to the rank's times
  std::vector<RankPhases> phases_;           // by rank
  int64_t saved_ns_ = 0;  // what all ranks together would save if independent creations were made at the same time
};

}  // namespace

void ExplainStartUp(const Model& model, Verdict* verdict) {
  StartUpStory story(model);
  if (model.bundle.ranks.empty()) return;
  if (!story.Collect()) {
    verdict->add_unmeasured()->set_kind(Unmeasured::CREATIONS);
    return;
  }
  story.Align(*verdict);
  story.Measure();
  story.Write(verdict);
}

}  // namespace lockstep
