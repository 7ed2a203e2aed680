#include "analyzer/replay/simulator.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"

namespace lockstep::replay {
namespace {

struct State {
  uint32_t need = 0, arrived = 0;
  uint32_t known = 0, unfinished = 0;  // parts with a call; of these, unfinished in the record
  const Op* first = nullptr;
  int32_t first_program = -1;
  uint32_t sized = 0;           // calls of an all-to-all with known sizes
  uint64_t balance = 0;         // elements that these send minus elements that they receive
  std::vector<uint32_t> units;  // units that have a part of this meeting
};

// Calls that start together: those of a group, or a single call.
struct Batch {
  uint32_t program = 0, queue = kOwnQueue;
  uint32_t next = kNoIndex;  // next batch in the same queue
  uint32_t open = 0;         // number of the batch's calls that are still open
  bool blocked = false, front = true;
  std::vector<uint32_t> meetings;
};

class Player {
 public:
  Player(const Job& job, const Agree& agree) : job_(job), agree_(agree) {}

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
    for (uint32_t p = 0; p < job_.programs.size(); ++p) {
      if (job_.programs[p].host == Host::kFree) GoOn(p);
      if (job_.programs[p].host == Host::kWaits && open_calls_[p] == 0) GoOn(p);
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
  using Lane = std::tuple<uint32_t, int32_t, int32_t>;  // communicator, sender, receiver
  struct Sides {
    uint32_t first = 0, sends = 0, recvs = 0;
  };

  // The program's member in a communicator. Calls on one communicator are mostly consecutive, so the last is cached.
  struct Part {
    uint32_t comm = kNoIndex;
    int32_t place = -1;        // position among the members; -1: none
    uint32_t collectives = 0;  // so far
  };
  Part& PartOf(uint32_t comm, uint32_t program) {
    if (last_ == nullptr || last_->comm != comm || last_program_ != program) {
      last_ = &parts_.try_emplace({comm, program}, Part{comm}).first->second;
      last_program_ = program;
    }
    return *last_;
  }
  static Lane LaneOf(const Call& call, int32_t me) {
    return call.send ? Lane(call.comm, me, call.peer) : Lane(call.comm, call.peer, me);
  }

  // Counts the meetings and assigns their places. Returns false if there are too many.
  bool Number() {
    size_t& parts = out_.parts;
    for (uint32_t c = 0; c < job_.comms.size(); ++c) {
      const auto& members = job_.comms[c].members;
      for (size_t m = 0; m < members.size(); ++m) {
        if (members[m] >= 0) parts_[{c, static_cast<uint32_t>(members[m])}] = {c, static_cast<int32_t>(m), 0};
      }
      parts += members.size();
      if (parts > kMostParts) return false;
    }
    most_.assign(job_.comms.size(), 0);
    first_.assign(job_.comms.size(), 0);
    for (uint32_t p = 0; p < job_.programs.size(); ++p) {
      for (const Call& call : job_.programs[p].calls) {
        Part& part = PartOf(call.comm, p);
        if (part.place < 0) continue;
        if (call.peer < 0) {
          most_[call.comm] = std::max(most_[call.comm], ++part.collectives);
        } else {
          Sides& sides = lanes_[LaneOf(call, part.place)];
          ++(call.send ? sides.sends : sides.recvs);
        }
        if (++parts > kMostParts) return false;
      }
    }
    for (uint32_t c = 0; c < job_.comms.size(); ++c) {
      parts += size_t{most_[c]} * job_.comms[c].members.size();
      if (parts > kMostParts) return false;
      first_[c] = static_cast<uint32_t>(out_.meetings.size());
      const auto known = std::count_if(job_.comms[c].members.begin(), job_.comms[c].members.end(),
                                       [](int32_t program) { return program >= 0; });
      for (uint32_t n = 0; n < most_[c]; ++n) Add({.comm = c, .number = n}, static_cast<uint32_t>(known));
    }
    std::vector<Lane> order;  // the same outcome in each run
    for (const auto& [lane, sides] : lanes_) order.push_back(lane);
    std::sort(order.begin(), order.end());
    for (const Lane& lane : order) {
      Sides& sides = lanes_[lane];
      sides.first = static_cast<uint32_t>(out_.meetings.size());
      const auto& [comm, sender, receiver] = lane;
      for (uint32_t n = 0; n < std::max(sides.sends, sides.recvs); ++n)
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
    open_calls_.assign(job_.programs.size(), 0);
    for (auto& [key, part] : parts_) part.collectives = 0;
    absl::flat_hash_map<std::pair<Lane, bool>, uint32_t> exchanged;
    for (uint32_t p = 0; p < job_.programs.size(); ++p) {
      absl::flat_hash_map<uint32_t, uint32_t> last;  // unit of each queue
      uint32_t group = 0;
      for (const Call& call : job_.programs[p].calls) {
        Part& part = PartOf(call.comm, p);
        if (part.place < 0) continue;
        uint32_t meeting = 0;
        if (call.peer < 0) {
          meeting = first_[call.comm] + part.collectives++;
        } else {
          const Lane lane = LaneOf(call, part.place);
          meeting = lanes_[lane].first + exchanged[{lane, call.send}]++;
        }
        if (call.unit == 0 || call.unit != group || units_.empty() || units_.back().program != p) {
          const auto unit = static_cast<uint32_t>(units_.size());
          units_.push_back({.program = p, .queue = call.queue, .meetings = {}});
          if (call.queue != kOwnQueue) {
            const auto [before, first] = last.try_emplace(call.queue, unit);
            units_[unit].front = first;
            if (!first) units_[std::exchange(before->second, unit)].next = unit;
          }
        }
        group = call.unit;
        Batch& unit = units_.back();
        unit.blocked |= call.blocked;
        unit.meetings.push_back(meeting);
        ++unit.open;
        ++open_calls_[p];
        State& state = states_[meeting];
        state.units.push_back(static_cast<uint32_t>(units_.size() - 1));
        ++state.known;
        state.unfinished += call.unfinished;
        if (call.op == nullptr) continue;
        if (call.op->kind == ring::CallKind::kAlltoAll && call.op->input_elements >= 0 &&
            call.op->output_elements >= 0) {
          ++state.sized;
          state.balance += static_cast<uint64_t>(call.op->input_elements - call.op->output_elements);
        }
        if (state.first == nullptr) {
          state.first = call.op;
          state.first_program = static_cast<int32_t>(p);
        } else if (!agree_(*state.first, *call.op) && std::exchange(out_.meetings[meeting].agree, false)) {
          out_.meetings[meeting].unlike = {state.first_program, static_cast<int32_t>(p)};
        }
      }
    }
    // All members of an all-to-all together send what they receive.
    for (size_t m = 0; m < states_.size(); ++m)
      out_.meetings[m].agree &= states_[m].balance == 0 || states_[m].sized < states_[m].need;
  }

  // Finds the calls that others need from each rank and that it did not make.
  void Owe() {
    owed_.resize(job_.programs.size());
    for (uint32_t c = 0; c < job_.comms.size(); ++c) {
      for (const int32_t program : job_.comms[c].members) {
        if (program < 0) continue;
        const auto p = static_cast<uint32_t>(program);
        for (uint32_t n = PartOf(c, p).collectives; n < most_[c]; ++n) owed_[p].push_back(first_[c] + n);
      }
    }
    for (const auto& [lane, sides] : lanes_) {
      const auto& [comm, sender, receiver] = lane;
      const auto& members = job_.comms[comm].members;
      const int32_t lacking = sides.sends < sides.recvs ? sender : receiver;
      if (lacking < 0 || static_cast<size_t>(lacking) >= members.size() || members[lacking] < 0) continue;
      for (uint32_t n = std::min(sides.sends, sides.recvs); n < std::max(sides.sends, sides.recvs); ++n)
        owed_[members[lacking]].push_back(sides.first + n);
    }
  }

  void Arrive(uint32_t meeting) {
    State& state = states_[meeting];
    if (++state.arrived == state.need && out_.meetings[meeting].agree) ready_.push_back(meeting);
  }

  void Reach(uint32_t unit) {
    if (units_[unit].blocked) return;
    for (const uint32_t meeting : units_[unit].meetings) Arrive(meeting);
  }

  void GoOn(uint32_t program) {
    for (const uint32_t meeting : owed_[program]) Arrive(meeting);
  }

  void Complete(uint32_t meeting) {
    out_.meetings[meeting].complete = true;
    for (const uint32_t u : states_[meeting].units) {
      const Batch& unit = units_[u];
      const Program& program = job_.programs[unit.program];
      if (--units_[u].open == 0 && unit.next != kNoIndex) Reach(unit.next);
      if (--open_calls_[unit.program] == 0 && program.host == Host::kWaits) GoOn(unit.program);
    }
  }

  void Report() {
    out_.owes.resize(job_.programs.size());
    out_.meets.resize(job_.programs.size());
    for (size_t p = 0; p < owed_.size(); ++p) {
      out_.owes[p] = !owed_[p].empty();
      out_.meets[p] = open_calls_[p] > 0 || std::any_of(owed_[p].begin(), owed_[p].end(),
                                                        [&](uint32_t m) { return !out_.meetings[m].complete; });
    }
    for (size_t m = 0; m < states_.size(); ++m) {
      const State& state = states_[m];
      // All calls of a group complete together.
      out_.meetings[m].unfinished =
          state.unfinished > 0 && state.unfinished == state.need &&
          std::all_of(state.units.begin(), state.units.end(), [&](uint32_t u) { return units_[u].open == 0; });
      out_.open += !out_.meetings[m].complete;
    }
  }

  const Job& job_;
  const Agree& agree_;
  Outcome out_;
  absl::node_hash_map<std::pair<uint32_t, uint32_t>, Part> parts_;  // by communicator, program
  Part* last_ = nullptr;
  uint32_t last_program_ = 0;
  absl::flat_hash_map<Lane, Sides> lanes_;
  std::vector<uint32_t> most_, first_;  // collectives of each communicator; its first meeting
  std::vector<State> states_;           // as Outcome::meetings
  std::vector<Batch> units_;
  std::vector<std::vector<uint32_t>> owed_;  // meetings, by program
  std::vector<uint32_t> open_calls_;         // by program
  std::vector<uint32_t> ready_;
};

}  // namespace

Outcome Play(const Job& job, const Agree& agree) { return Player(job, agree).Play(); }

}  // namespace lockstep::replay
