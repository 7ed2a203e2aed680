#include "analyzer/engine/replay/simulator.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::replay {
namespace {

struct State {
  uint32_t need = 0, arrived = 0;
  uint32_t known = 0, unfinished = 0;  // calls that were made; how many of these the record shows as unfinished
  const Op* first = nullptr;
  int32_t first_program = -1;
  uint32_t sized = 0;    // calls of an all-to-all with known sizes
  uint64_t balance = 0;  // elements that these send minus elements that they receive
};

// Calls that start together: those of a group, or a single call.
struct Batch {
  uint32_t program = 0;
  uint32_t first_call = 0, calls = 0;
  uint32_t next = kNoIndex;  // index of the next batch in the same queue
  uint32_t open = 0;         // number of the batch's calls that are still open
  bool blocked = false, front = true;
};

// Lists of numbers, stored consecutively in one array.
class Lists {
 public:
  explicit Lists(size_t count) : begins_(count + 1) {}
  // Count all entries first, then fill them in.
  void Count(size_t list) { ++begins_[list + 1]; }
  void Counted() {
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    items_.resize(begins_.back());
    filled_.assign(begins_.begin(), begins_.end() - 1);
  }
  void Add(size_t list, uint32_t item) { items_[filled_[list]++] = item; }
  struct Range {
    const uint32_t *first, *last;
    const uint32_t* begin() const { return first; }
    const uint32_t* end() const { return last; }
    bool empty() const { return first == last; }
  };
  Range operator[](size_t list) const { return {items_.data() + begins_[list], items_.data() + begins_[list + 1]}; }

 private:
  std::vector<uint32_t> begins_, filled_, items_;
};

class Player {
 public:
  Player(const Variant& variant, const Agree& agree)
      : job_(variant.job), agree_(agree), owed_(variant.job.programs.size()), units_of_(0) {
    programs_.reserve(job_.programs.size());
    for (uint32_t p = 0; p < job_.programs.size(); ++p) programs_.push_back(&variant.Of(p));
  }

  Outcome Play() {
    if (!Number()) {
      out_.too_large = true;
      return std::move(out_);
    }
    Connect();
    Owe();
    for (uint32_t u = 0; u < units_.size(); ++u) {
      if (units_[u].front) Reach(u);
    }
    for (uint32_t p = 0; p < programs_.size(); ++p) {
      if (programs_[p]->host == Host::kFree) GoOn(p);
      if (programs_[p]->host == Host::kWaits && open_calls_[p] == 0) GoOn(p);
    }
    while (!ready_.empty()) {
      const uint32_t meeting = ready_.back();
      ready_.pop_back();
      Complete(meeting);
    }
    Report();
    return std::move(out_);
  }

 private:
  struct Sides {
    uint32_t first = 0, sends = 0, recvs = 0;
  };

  uint32_t SlotOf(const Call& call) const { return job_.comms[call.comm].slot + static_cast<uint32_t>(call.member); }

  // Counts the meetings and numbers them. Returns false if there are too many.
  bool Number() {
    size_t& parts = out_.parts;
    parts = job_.slots;
    if (parts > kMostParts) return false;
    done_.assign(job_.slots, 0);
    most_.assign(job_.comms.size(), 0);
    first_.assign(job_.comms.size(), 0);
    lanes_.resize(job_.lanes.size());
    for (const Program* program : programs_) {
      for (const Call& call : program->calls) {
        if (call.member < 0) continue;
        if (call.lane == kNoIndex) {
          most_[call.comm] = std::max(most_[call.comm], ++done_[SlotOf(call)]);
        } else {
          ++(call.send ? lanes_[call.lane].sends : lanes_[call.lane].recvs);
        }
        if (++parts > kMostParts) return false;
      }
    }
    for (uint32_t c = 0; c < job_.comms.size(); ++c) {
      parts += size_t{most_[c]} * job_.comms[c].members.size();
      if (parts > kMostParts) return false;
      first_[c] = static_cast<uint32_t>(out_.meetings.size());
      for (uint32_t n = 0; n < most_[c]; ++n) Add({.comm = c, .number = n}, job_.comms[c].known);
    }
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const auto& [comm, sender, receiver, all_sends, all_recvs] = job_.lanes[l];
      lanes_[l].first = static_cast<uint32_t>(out_.meetings.size());
      for (uint32_t n = 0; n < std::max(lanes_[l].sends, lanes_[l].recvs); ++n)
        Add({.comm = comm, .sender = sender, .receiver = receiver, .number = n}, 2);
    }
    return true;
  }

  void Add(Meeting meeting, uint32_t need) {
    out_.meetings.push_back(meeting);
    states_.emplace_back().need = need;
  }

  // Puts each rank's calls into units and queues.
  void Connect() {
    open_calls_.assign(programs_.size(), 0);
    std::vector<uint32_t> made(job_.slots);
    std::vector<std::pair<uint32_t, uint32_t>> exchanged(lanes_.size());                    // sends, receives
    std::vector<std::pair<uint32_t, uint32_t>> last(job_.queues, std::pair(kNoIndex, 0u));  // program, its unit
    for (uint32_t p = 0; p < programs_.size(); ++p) {
      uint32_t group = 0;
      bool first = true;
      for (const Call& call : programs_[p]->calls) {
        if (call.member < 0) continue;
        uint32_t meeting = 0;
        if (call.lane == kNoIndex) {
          meeting = first_[call.comm] + made[SlotOf(call)]++;
        } else {
          auto& [sends, recvs] = exchanged[call.lane];
          meeting = lanes_[call.lane].first + (call.send ? sends : recvs)++;
        }
        if (call.unit == 0 || call.unit != group || first) {
          const auto unit = static_cast<uint32_t>(units_.size());
          units_.push_back({.program = p, .first_call = static_cast<uint32_t>(calls_.size())});
          if (call.queue != kOwnQueue) {
            const auto before = std::exchange(last[call.queue], {p, unit});
            units_[unit].front = before.first != p;
            if (before.first == p) units_[before.second].next = unit;
          }
        }
        first = false;
        group = call.unit;
        Batch& unit = units_.back();
        unit.blocked |= call.blocked;
        ++unit.calls;
        ++unit.open;
        calls_.push_back(meeting);
        ++open_calls_[p];
        Compare(call, p, meeting);
      }
    }
    units_of_ = Lists(states_.size());
    for (const uint32_t meeting : calls_) units_of_.Count(meeting);
    units_of_.Counted();
    for (uint32_t u = 0; u < units_.size(); ++u) {
      for (uint32_t c = 0; c < units_[u].calls; ++c) units_of_.Add(calls_[units_[u].first_call + c], u);
    }
    // An all-to-all's members together must send as much as they receive.
    for (size_t m = 0; m < states_.size(); ++m)
      out_.meetings[m].agree &= states_[m].balance == 0 || states_[m].sized < states_[m].need;
  }

  void Compare(const Call& call, uint32_t program, uint32_t meeting) {
    State& state = states_[meeting];
    ++state.known;
    state.unfinished += call.unfinished;
    if (call.op == nullptr) return;
    if (call.op->kind == ring::CallKind::kAlltoAll && call.op->input_elements >= 0 && call.op->output_elements >= 0) {
      ++state.sized;
      state.balance += static_cast<uint64_t>(call.op->input_elements - call.op->output_elements);
    }
    if (state.first == nullptr) {
      state.first = call.op;
      state.first_program = static_cast<int32_t>(program);
    } else if (!agree_(*state.first, *call.op) && std::exchange(out_.meetings[meeting].agree, false)) {
      out_.meetings[meeting].unlike = {state.first_program, static_cast<int32_t>(program)};
    }
  }

  // Calls owe(program, meeting) for each call that others need from a program and that it did not make.
  template <typename Owes>
  void EachOwed(Owes owe) const {
    for (uint32_t c = 0; c < job_.comms.size(); ++c) {
      const Job::Comm& comm = job_.comms[c];
      for (size_t m = 0; m < comm.members.size(); ++m) {
        if (comm.members[m] < 0) continue;
        for (uint32_t n = done_[comm.slot + m]; n < most_[c]; ++n)
          owe(static_cast<size_t>(comm.members[m]), first_[c] + n);
      }
    }
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const Sides& sides = lanes_[l];
      const auto& members = job_.comms[job_.lanes[l].comm].members;
      const int32_t lacking = sides.sends < sides.recvs ? job_.lanes[l].sender : job_.lanes[l].receiver;
      if (lacking < 0 || static_cast<size_t>(lacking) >= members.size() || members[lacking] < 0) continue;
      for (uint32_t n = std::min(sides.sends, sides.recvs); n < std::max(sides.sends, sides.recvs); ++n)
        owe(static_cast<size_t>(members[lacking]), sides.first + n);
    }
  }

  void Owe() {
    EachOwed([this](size_t program, uint32_t) { owed_.Count(program); });
    owed_.Counted();
    EachOwed([this](size_t program, uint32_t meeting) { owed_.Add(program, meeting); });
  }

  void Arrive(uint32_t meeting) {
    State& state = states_[meeting];
    if (++state.arrived == state.need && out_.meetings[meeting].agree) ready_.push_back(meeting);
  }

  void Reach(uint32_t unit) {
    const Batch& batch = units_[unit];
    if (batch.blocked) return;
    for (uint32_t c = 0; c < batch.calls; ++c) Arrive(calls_[batch.first_call + c]);
  }

  void GoOn(uint32_t program) {
    for (const uint32_t meeting : owed_[program]) Arrive(meeting);
  }

  void Complete(uint32_t meeting) {
    out_.meetings[meeting].complete = true;
    for (const uint32_t u : units_of_[meeting]) {
      Batch& unit = units_[u];
      if (--unit.open == 0 && unit.next != kNoIndex) Reach(unit.next);
      if (--open_calls_[unit.program] == 0 && programs_[unit.program]->host == Host::kWaits) GoOn(unit.program);
    }
  }

  // All calls of a group complete together, and a GPU runs a group's transfers in any order. So a group with an open
  // call may hold up the groups that exchange with it, and those may hold up further groups.
  std::vector<bool> Held() const {
    std::vector<bool> held(units_.size());
    std::vector<uint32_t> next;
    for (uint32_t u = 0; u < units_.size(); ++u) {
      held[u] = units_[u].open > 0;
      if (held[u] && units_[u].calls > 1) next.push_back(u);
    }
    while (!next.empty()) {
      const Batch& group = units_[next.back()];
      next.pop_back();
      for (uint32_t c = 0; c < group.calls; ++c) {
        for (const uint32_t u : units_of_[calls_[group.first_call + c]]) {
          if (held[u] || units_[u].calls == 1) continue;
          held[u] = true;
          next.push_back(u);
        }
      }
    }
    return held;
  }

  void Report() {
    out_.owes.resize(programs_.size());
    out_.meets.resize(programs_.size());
    for (size_t p = 0; p < programs_.size(); ++p) {
      const Lists::Range owed = owed_[p];
      out_.owes[p] = !owed.empty();
      out_.meets[p] = open_calls_[p] > 0 ||
                      std::any_of(owed.begin(), owed.end(), [&](uint32_t m) { return !out_.meetings[m].complete; });
    }
    const std::vector<bool> held = Held();
    for (size_t m = 0; m < states_.size(); ++m) {
      const State& state = states_[m];
      const Lists::Range units = units_of_[m];
      out_.meetings[m].unfinished = state.unfinished > 0 && state.unfinished == state.need &&
                                    std::none_of(units.begin(), units.end(), [&](uint32_t u) { return held[u]; });
      out_.open += !out_.meetings[m].complete;
    }
  }

  const Job& job_;
  const Agree& agree_;
  Outcome out_;
  std::vector<const Program*> programs_;
  std::vector<uint32_t> done_;          // collectives made by the member at each slot
  std::vector<uint32_t> most_, first_;  // by communicator: most collectives of a member; first meeting
  std::vector<Sides> lanes_;            // indexed like Job::lanes
  std::vector<State> states_;           // indexed like Outcome::meetings
  std::vector<Batch> units_;
  std::vector<uint32_t> calls_;       // meetings of each unit
  Lists owed_, units_of_;             // meetings by program; units by meeting
  std::vector<uint32_t> open_calls_;  // indexed by program
  std::vector<uint32_t> ready_;
};

}  // namespace

void Arrange(Job* job) {
  job->slots = job->queues = 0;
  job->lanes.clear();
  job->member_of.clear();
  for (uint32_t c = 0; c < job->comms.size(); ++c) {
    Job::Comm& comm = job->comms[c];
    comm.slot = job->slots;
    comm.known = 0;
    job->slots += static_cast<uint32_t>(comm.members.size());
    for (size_t m = 0; m < comm.members.size(); ++m) {
      if (comm.members[m] < 0) continue;
      ++comm.known;
      job->member_of[{c, static_cast<uint32_t>(comm.members[m])}] = static_cast<int32_t>(m);
    }
  }
  const auto each_call = [job](auto visit) {
    for (uint32_t p = 0; p < job->programs.size(); ++p) {
      for (Call& call : job->programs[p].calls) visit(p, &call);
    }
  };
  absl::flat_hash_map<std::pair<uint32_t, std::pair<int32_t, int32_t>>, uint32_t> known;
  each_call([&](uint32_t program, Call* call) {
    const auto member = job->member_of.find({call->comm, program});
    call->member = member == job->member_of.end() ? -1 : member->second;
    call->lane = kNoIndex;
    if (call->queue != kOwnQueue) job->queues = std::max(job->queues, call->queue + 1);
    if (call->peer < 0 || call->member < 0) return;
    const auto ends = call->send ? std::pair(call->member, call->peer) : std::pair(call->peer, call->member);
    const auto [lane, fresh] = known.try_emplace({call->comm, ends}, static_cast<uint32_t>(job->lanes.size()));
    if (fresh) job->lanes.push_back({call->comm, ends.first, ends.second, 0, 0});
    call->lane = lane->second;
    ++(call->send ? job->lanes[call->lane].sends : job->lanes[call->lane].recvs);
  });
  // Sorted by members, so that it does not matter which program made the first call.
  std::vector<uint32_t> order(job->lanes.size()), place(job->lanes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [job](uint32_t a, uint32_t b) { return job->lanes[a] < job->lanes[b]; });
  std::vector<Job::Lane> sorted;
  sorted.reserve(order.size());
  for (const uint32_t lane : order) {
    place[lane] = static_cast<uint32_t>(sorted.size());
    sorted.push_back(job->lanes[lane]);
  }
  job->lanes = std::move(sorted);
  each_call([&](uint32_t, Call* call) {
    if (call->lane != kNoIndex) call->lane = place[call->lane];
  });
}

Outcome Play(const Variant& variant, const Agree& agree) { return Player(variant, agree).Play(); }

}  // namespace lockstep::replay
