// Replays the recorded calls in the simulator of NCCL's rules (analyzer/engine/replay/simulator.h), twice. In the first
// run, each send waits for its receive: a program that completes needs no buffers. In the second run, the collectives
// of each thread run one after another, even on different streams. A GPU may run the kernels of two communicators like
// this, so NCCL requires the same order of communicators on all ranks.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/replay/simulator.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/sorted.h"
#include "collector/tools/check/compare.h"

namespace lockstep::check {
namespace {

using replay::Call;
using replay::Job;
using replay::Meeting;

enum class Strict { kStreams, kThreads };

// Returns the calls of each rank. Calls in one queue run one after another, calls in one group together. kThreads: only
// collectives.
Job StrictJob(const Model& model, Strict strict) {
  const Bundle& bundle = model.bundle;
  Job job;
  for (uint32_t c = 0; c < bundle.comms.size(); ++c) {
    Job::Comm comm;
    comm.bundle_comm = c;
    for (const Member& member : model.comms[c].members) comm.members.push_back(member.rank_index);
    job.comms.push_back(std::move(comm));
  }
  for (const Rank& rank : bundle.ranks) {
    replay::Program program;
    program.host = replay::Host::kFree;  // a rank that was killed would have made the calls that others wait for
    std::map<std::pair<bool, uint32_t>, uint32_t> queues;
    uint32_t unit = 0;
    std::pair<uint32_t, uint32_t> group = {0, kNoIndex};  // group, thread
    for (const Op& op : rank.ops) {
      if (!IsLaunched(op)) continue;
      const bool collective = ring::IsCollective(op.kind);
      if (!collective && (op.root_or_peer < 0 || strict == Strict::kThreads)) continue;
      // If streams are not recorded, assumes one stream per communicator, as frameworks use.
      const bool known = op.stream != kNoIndex;
      std::pair<bool, uint32_t> key = {known, known ? op.stream : op.membership};
      if (strict == Strict::kThreads) key = {true, op.thread};
      const std::pair<uint32_t, uint32_t> own = {op.group, op.thread};
      if (op.group == 0 || own != group) ++unit;
      group = own;
      program.calls.push_back({.comm = rank.memberships[op.membership].comm,
                               .peer = collective ? -1 : op.root_or_peer,
                               .send = op.kind == ring::CallKind::kSend,
                               .queue = queues.try_emplace(key, static_cast<uint32_t>(queues.size())).first->second,
                               .unit = unit,
                               .op = &op});
    }
    job.programs.push_back(std::move(program));
  }
  return job;
}

using MeetingKey = std::tuple<uint32_t, int32_t, int32_t, uint32_t>;  // communicator, sender, receiver, number

// Finds calls that wait for each other, given which calls completed.
class Cycle {
 public:
  Cycle(const Job& job, const replay::Outcome& outcome) : job_(job) {
    for (const Meeting& m : outcome.meetings) {
      if (!m.complete) open_[{m.comm, m.sender, m.receiver, m.number}];
    }
    for (uint32_t p = 0; p < job.programs.size(); ++p) Place(p);
  }

  // Returns a cycle of calls: each waits for the rank of the next call, which must first complete that call. Empty if
  // there is none.
  std::vector<std::pair<uint32_t, const Call*>> Find() const {
    std::vector<uint32_t> path;
    std::map<uint32_t, size_t> place;
    for (uint32_t start = 0; start < fronts_.size(); ++start) {
      path.clear();
      place.clear();
      std::optional<uint32_t> at = start;
      while (at && place.try_emplace(*at, path.size()).second) {
        path.push_back(*at);
        at = Next(*at);
      }
      if (!at) continue;
      std::vector<std::pair<uint32_t, const Call*>> cycle;
      for (size_t i = place[*at]; i < path.size(); ++i)
        cycle.emplace_back(fronts_[path[i]].program, waits_.at(path[i]));
      return cycle;
    }
    return {};
  }

 private:
  struct Front {
    uint32_t program = 0;
    std::vector<std::pair<MeetingKey, const Call*>> calls;  // incomplete calls in the unit at the front of a queue
  };
  struct Part {
    uint32_t program = 0, front = 0;
    bool behind = false;  // the call is behind this front
  };

  void Place(uint32_t p) {
    std::map<uint32_t, uint32_t> collectives;
    std::map<std::tuple<uint32_t, int32_t, int32_t>, uint32_t> lanes[2];
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> queues;  // front -> its unit
    std::map<uint32_t, int32_t> places;
    for (const Call& call : job_.programs[p].calls) {
      MeetingKey key;
      if (call.peer < 0) {
        key = {call.comm, -1, -1, collectives[call.comm]++};
      } else {
        const auto& members = job_.comms[call.comm].members;
        const auto [me, fresh] = places.try_emplace(call.comm, -1);
        if (fresh)
          me->second = static_cast<int32_t>(std::find(members.begin(), members.end(), static_cast<int32_t>(p)) -
                                            members.begin());
        const int32_t from = call.send ? me->second : call.peer, to = call.send ? call.peer : me->second;
        key = {call.comm, from, to, lanes[call.send][{call.comm, from, to}]++};
      }
      const auto open = open_.find(key);
      if (open == open_.end()) continue;
      const auto [front, first] = queues.try_emplace(call.queue, static_cast<uint32_t>(fronts_.size()), call.unit);
      if (first) fronts_.push_back({p, {}});
      const auto [index, unit] = front->second;
      if (unit == call.unit) fronts_[index].calls.emplace_back(key, &call);
      open->second.push_back({p, index, unit != call.unit});
    }
  }

  // Returns the front that the given front waits for.
  std::optional<uint32_t> Next(uint32_t front) const {
    for (const auto& [key, call] : fronts_[front].calls) {
      for (const Part& part : open_.at(key)) {
        if (!part.behind) continue;
        waits_[front] = call;
        return part.front;
      }
    }
    return std::nullopt;
  }

  const Job& job_;
  std::map<MeetingKey, std::vector<Part>> open_;
  std::vector<Front> fronts_;
  mutable std::map<uint32_t, const Call*> waits_;  // indexed by front: the call that waits for the next front
};

}  // namespace

std::vector<Fault> FindCycles(const Model& model) {
  for (const Strict strict : {Strict::kStreams, Strict::kThreads}) {
    Job job = StrictJob(model, strict);
    replay::Arrange(&job);
    const replay::Outcome outcome = replay::Play(replay::Variant(job), [](const Op&, const Op&) { return true; });
    if (outcome.too_large || outcome.completes()) continue;
    Fault fault = {.kind = "POSSIBLE_CYCLE", .ranks = {}, .text = "", .calls = {}};
    for (const auto& [program, call] : Cycle(job, outcome).Find()) {
      fault.ranks.push_back(model.bundle.ranks[program].rank);
      fault.calls.push_back(CallOfRank(model.bundle, program, *call->op));
    }
    if (fault.ranks.empty()) continue;
    SortUnique(&fault.ranks);
    fault.text = absl::StrCat(
        "ranks ", FoldRanks(fault.ranks), " can wait for each other: ",
        strict == Strict::kStreams
            ? "each rank's call waits for another rank, and the job continued only because the sends fitted into "
              "buffers"
            : "they use communicators in conflicting orders; the job continued only because the calls ran at the "
              "same time on separate streams, which a GPU does not guarantee");
    return {fault};
  }
  return {};
}

}  // namespace lockstep::check
