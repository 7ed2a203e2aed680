#include "analyzer/engine/facts/program_read.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

// Identifies a rank's sends to (or receives from) one peer, which are numbered together.
using LaneKey = std::tuple<uint32_t, int, int32_t>;  // membership, kind, peer

// A value for each lane of a rank. Collectives, the most frequent operations, are indexed by communicator alone.
template <typename Value>
class ByLane {
 public:
  void Clear(const Rank& rank) {
    collectives_.assign(rank.memberships.size(), Value());
    exchanges_.clear();
  }
  Value& operator[](const Op& op) {
    if (!IsPointToPoint(op.kind)) return collectives_[op.membership];
    return exchanges_[{op.membership, static_cast<int>(op.kind), op.root_or_peer}];
  }
  absl::flat_hash_map<LaneKey, Value>& exchanges() { return exchanges_; }  // values for sends and receives
  std::vector<Value>& collectives() { return collectives_; }

 private:
  std::vector<Value> collectives_;
  absl::flat_hash_map<LaneKey, Value> exchanges_;
};

class Reader {
 public:
  explicit Reader(const Model& model)
      : model_(model), exchanges_(model.roles().exchanges), given_up_(FindGivenUp(model)) {}

  void Read(size_t rank_index) {
    const Rank& rank = model_.bundle.ranks[rank_index];
    std::map<uint32_t, Program> programs;  // by thread
    const Op* before = nullptr;
    for (const Op& op : rank.ops) {
      if (!Reads(rank, op)) continue;
      if (before == nullptr || before->thread != op.thread) programs.try_emplace(op.thread);
      before = &op;
    }
    // Recorded numbers of each lane. If threads share a lane, a number recorded by another thread is not a gap.
    numbers_.Clear(rank);
    if (programs.size() > 1) {
      for (const Op& op : rank.ops) {
        if (Reads(rank, op)) numbers_[op].push_back(op.seq);
      }
      for (auto& numbers : numbers_.collectives()) std::ranges::sort(numbers);
      for (auto& [lane, numbers] : numbers_.exchanges()) std::ranges::sort(numbers);
    }
    const std::string role = absl::StrCat(model_.roles().of_rank[rank_index]);
    std::map<uint64_t, int> makers;  // for each kind of call: how many of the rank's threads make it
    for (auto& [thread, program] : programs) {
      program.rank = static_cast<int32_t>(rank_index);
      program.role = role;
      CallKinds kinds = Fill(rank, thread, programs.size() > 1, &program);
      for (const auto& [kind, n] : kinds) {
        if (++makers[kind] > 1) shared_.insert(kind);
      }
      if (programs.size() == 1) {
        families_[role].push_back(std::move(program));
      } else {
        unnamed_.push_back({std::move(kinds), std::move(program)});
      }
    }
  }

  // Names each thread after one of the calls that it repeats, preferably one that no rank makes in two threads. If two
  // threads of a rank had the same name, the rank would count twice in their family.
  std::map<std::string, std::vector<Program>> Families() {
    for (Unnamed& thread : unnamed_) {
      uint64_t any = UINT64_MAX, own = UINT64_MAX;
      for (const auto& [kind, n] : thread.kinds) {
        if (n < 2) continue;
        any = std::min(any, kind);
        if (!shared_.contains(kind)) own = std::min(own, kind);
      }
      families_[absl::StrCat(thread.program.role, "|", own != UINT64_MAX ? own : any)].push_back(
          std::move(thread.program));
    }
    unnamed_.clear();
    return std::move(families_);
  }

 private:
  // Maps the kind of call and the place of the call in the code to a count.
  using CallKinds = std::map<uint64_t, int>;
  struct Unnamed {  // one of several threads of a rank
    CallKinds kinds;
    Program program;
  };

  bool Reads(const Rank& rank, const Op& op) const {
    return IsOfProgram(op) && !given_up_[rank.memberships[op.membership].comm];
  }

  // Fills in the thread's calls. Returns how often the thread makes each kind of call; empty if there is only one
  // thread.
  CallKinds Fill(const Rank& rank, uint32_t thread, bool several, Program* program) {
    CallKinds kinds;
    std::tuple<uint32_t, uint64_t, uint32_t> exchange_seen = {kNoIndex, 0, 0};
    ByLane<std::optional<int64_t>> last;
    last.Clear(rank);
    int64_t record = kUnknown;
    bool lost = false;
    for (const Op& op : rank.ops) {
      // A framework numbers all records of a rank consecutively. If some are missing from a damaged file, or were not
      // loaded, the program did not skip those calls.
      lost |= op.after_gap || (rank.damaged && op.record_id >= 0 && record >= 0 && op.record_id > record + 1);
      record = op.record_id;
      if (!Reads(rank, op) || op.thread != thread) continue;
      const Membership& ms = rank.memberships[op.membership];
      Token t{&op, model_.comms[ms.comm].kind, 0, 0};
      if (IsPointToPoint(op.kind)) {
        t.peer =
            model_.roles().Distance(ms.comm, ms.member_rank, op.root_or_peer, model_.comms[ms.comm].members.size());
        t.exchange = exchanges_[ms.comm] && op.group != 0;
        if (t.exchange) {
          const std::tuple<uint32_t, uint64_t, uint32_t> group = {op.membership, op.group, op.thread};
          if (group == exchange_seen) continue;
          exchange_seen = group;
        }
      }
      if (several)
        ++kinds[Mixed(Mixed(op.caller ^ uint64_t{op.caller_object} << 32) ^ (uint64_t{op.call_site} << 20) ^
                      (uint64_t{t.klass} << 8) ^ static_cast<uint64_t>(op.kind))];
      // Numbers of one lane are consecutive, so a gap means missing records. But a hostile file may contain any number.
      const std::optional<int64_t> before = last[op];
      const uint64_t step = before ? static_cast<uint64_t>(op.seq) - static_cast<uint64_t>(*before) : 1;
      bool gap = step != 1 && !IsFramework(rank) && !t.exchange;
      if (gap && several && op.seq > *before) {
        const std::vector<int64_t>& numbers = numbers_[op];
        const auto from = std::upper_bound(numbers.begin(), numbers.end(), *before),
                   to = std::lower_bound(from, numbers.end(), op.seq);
        gap = static_cast<uint64_t>(to - from) != step - 1;
      }
      gap |= lost;
      lost = false;
      if (gap || program->segments.empty()) {
        program->segments.emplace_back();
        if (gap) last.Clear(rank);
      }
      last[op] = op.seq;
      program->segments.back().push_back(t);
      ++program->calls;
    }
    // Segments are compared in pairs, so their number is limited. The newest are the most useful.
    constexpr size_t kMostSegments = 64;
    auto& segments = program->segments;
    if (segments.size() > kMostSegments)
      segments.erase(segments.begin(), segments.end() - static_cast<std::ptrdiff_t>(kMostSegments));
    return kinds;
  }

  const Model& model_;
  const std::vector<bool>& exchanges_;
  const std::vector<bool> given_up_;
  ByLane<std::vector<int64_t>> numbers_;  // of the current rank, if it has several threads
  std::map<std::string, std::vector<Program>> families_;
  std::vector<Unnamed> unnamed_;
  absl::flat_hash_set<uint64_t> shared_;  // kinds of calls that some rank makes in two threads
};

}  // namespace

std::vector<bool> FindGivenUp(const Model& model) {
  std::vector<bool> found(model.comms.size());
  for (const Rank& rank : model.bundle.ranks) {
    int64_t newest = 0;
    for (const Membership& ms : rank.memberships) newest = std::max(newest, ms.created_ns);
    for (const Membership& ms : rank.memberships) {
      if (ms.state == ring::CommState::kAborted && ms.ended_ns > 0 && newest > ms.ended_ns) found[ms.comm] = true;
    }
  }
  return found;
}

std::map<std::string, std::vector<Program>> ReadPrograms(const Model& model) {
  Reader reader(model);
  for (size_t r = 0; r < model.bundle.ranks.size(); ++r) {
    if (!model.bundle.ranks[r].only_active) reader.Read(r);
  }
  return reader.Families();
}

}  // namespace lockstep
