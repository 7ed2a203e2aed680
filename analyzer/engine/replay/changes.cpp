#include "analyzer/engine/replay/changes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/facts/mismatch.h"

namespace lockstep::replay {
namespace {

// Returns the position of the communicator's collective `number`, from 0; the end of the program if there are fewer.
std::vector<Call>::iterator FindNumber(Program* program, uint32_t comm, int64_t number) {
  return std::find_if(program->calls.begin(), program->calls.end(),
                      [&](const Call& call) { return call.comm == comm && call.peer < 0 && number-- == 0; });
}

bool IsExchange(const Finding& finding) {
  return finding.operation() == ring::CallName(ring::CallKind::kSend) ||
         finding.operation() == ring::CallName(ring::CallKind::kRecv);
}

// Removes the program's sends and receives that have no match.
void DropUnmet(const Job& job, Program* program) {
  absl::flat_hash_map<uint32_t, uint32_t> dropped;  // indexed by lane
  auto& calls = program->calls;
  std::vector<bool> unmet(calls.size());
  for (size_t i = calls.size(); i-- > 0;) {
    if (calls[i].lane == kNoIndex) continue;
    const Job::Lane& lane = job.lanes[calls[i].lane];
    if (static_cast<size_t>(calls[i].peer) >= job.comms[lane.comm].members.size()) continue;
    const uint32_t mine = calls[i].send ? lane.sends : lane.recvs, theirs = calls[i].send ? lane.recvs : lane.sends;
    uint32_t& gone = dropped[calls[i].lane];
    if (mine - gone <= theirs) continue;
    ++gone;
    unmet[i] = true;
  }
  std::erase_if(calls, [&](const Call& call) { return unmet[static_cast<size_t>(&call - calls.data())]; });
}

}  // namespace

bool IsMismatch(FindingKind kind) { return kind >= MISMATCH_KIND && kind <= MISMATCH_SPLITS; }

Place PlaceOfFinding(const Model& model, const Finding& finding) {
  const auto& comms = model.bundle.comms;
  const auto comm = std::find_if(comms.begin(), comms.end(),
                                 [&](const Communicator& c) { return c.id == finding.communicator().id(); });
  if (comm == comms.end()) return {};
  return {static_cast<uint32_t>(comm - comms.begin()), finding.sequence(), IsExchange(finding)};
}

std::vector<Change> ChangesFor(const Finding& finding) {
  const bool exchange = IsExchange(finding);
  switch (finding.reason()) {
    case REASON_SKIPPED:
    case REASON_LEFT_OUT:
      if (exchange) return {Proof::OTHER_ORDER};
      return {Proof::ADD_CALLS, Proof::CONTINUE};
    case REASON_EXTRA:
    case REASON_AHEAD:
      if (exchange) return {Proof::OTHER_ORDER};
      return {Proof::REMOVE_CALLS};
    case REASON_REORDERED: return {Proof::OTHER_ORDER};
    case REASON_ELSEWHERE_IN_CIRCLE:  // an earlier call was skipped or added
      return {Proof::ADD_CALLS, Proof::REMOVE_CALLS, Proof::OTHER_ORDER};
    default: break;
  }
  switch (finding.kind()) {
    case RANK_NOT_ARRIVED:
    case RANK_NO_DATA:
    case RANK_DEAD:
    case HOST_STALL:
    case GROUP_LEFT_OPEN:
    case INIT_INCOMPLETE: return {Proof::CONTINUE, Proof::BOTH_CONTINUE};
    case GPU_STALL:
    case ASYNC_ERROR: return {Proof::GPU_CONTINUES, Proof::BOTH_CONTINUE};
    case RANK_AHEAD: return {Proof::REMOVE_CALLS};
    case MISMATCH_KIND:
    case MISMATCH_COUNT:
    case MISMATCH_DATATYPE:
    case MISMATCH_REDUCTION:
    case MISMATCH_ROOT:
      // A missing or extra call becomes visible at the first call that differs.
      if (exchange) return {Proof::SAME_ARGUMENTS};
      return {Proof::SAME_ARGUMENTS, Proof::ADD_CALLS, Proof::REMOVE_CALLS};
    case MISMATCH_SPLITS: return {Proof::SAME_ARGUMENTS};
    case ORDER_INVERSION:
    case P2P_UNMATCHED:
    case DEADLOCK_CYCLE: return {Proof::OTHER_ORDER};
    default: return {};
  }
}

std::vector<Remedy> RivalsOf(const Remedy& remedy, Host host) {
  std::vector<Remedy> rivals = {remedy};
  if (host == Host::kHalted && remedy.change != Proof::BOTH_CONTINUE) rivals.push_back({Proof::BOTH_CONTINUE, {}});
  if (host != Host::kHalted && remedy.change != Proof::GPU_CONTINUES) rivals.push_back({Proof::GPU_CONTINUES, {}});
  if (remedy.change == Proof::ADD_CALLS) rivals.push_back({Proof::REMOVE_CALLS, remedy.place, remedy.calls});
  if (remedy.change == Proof::REMOVE_CALLS) rivals.push_back({Proof::ADD_CALLS, remedy.place, remedy.calls});
  return rivals;
}

void Apply(const Remedy& remedy, uint32_t program, const Recorded& recorded, Variant* variant) {
  Program& of = variant->Change(program);
  const uint32_t comm =
      remedy.place.comm < recorded.job_comms.size() ? recorded.job_comms[remedy.place.comm] : kNoIndex;
  const int64_t number = comm == kNoIndex ? 0 : remedy.place.seq - recorded.job.comms[comm].first;
  switch (remedy.change) {
    case Proof::CONTINUE:
      of.host = Host::kFree;
      for (Call& call : of.calls) call.blocked &= !call.by_host;
      return;
    case Proof::GPU_CONTINUES:
      for (Call& call : of.calls) call.blocked = false;
      return;
    case Proof::BOTH_CONTINUE:
      of.host = Host::kFree;
      for (Call& call : of.calls) call.blocked = false;
      return;
    case Proof::ADD_CALLS:
      if (comm == kNoIndex) return;
      if (const auto member = recorded.job.member_of.find({comm, program}); member != recorded.job.member_of.end())
        of.calls.insert(FindNumber(&of, comm, number), static_cast<size_t>(remedy.calls),
                        {.comm = comm, .member = member->second});
      return;
    case Proof::REMOVE_CALLS: {
      if (comm == kNoIndex) return;
      int left = remedy.calls;
      const auto from = FindNumber(&of, comm, number);
      of.calls.erase(std::remove_if(from, of.calls.end(),
                                    [&](const Call& call) {
                                      return left > 0 && call.comm == comm && call.peer < 0 && left-- > 0;
                                    }),
                     of.calls.end());
      return;
    }
    case Proof::SAME_ARGUMENTS:
      if (comm == kNoIndex) return;
      if (remedy.place.exchange) {
        // The sends and receives of one group are one exchange, even if their numbers differ.
        std::set<uint32_t> units;
        const auto is_it = [&](const Call& call) {
          return call.comm == comm && call.peer >= 0 && call.op != nullptr && call.op->seq == remedy.place.seq;
        };
        for (const Call& call : of.calls) {
          if (is_it(call) && call.unit != 0) units.insert(call.unit);
        }
        for (Call& call : of.calls) {
          if (is_it(call) || units.contains(call.unit)) call.op = nullptr;
        }
      } else if (const auto call = FindNumber(&of, comm, number); call != of.calls.end()) {
        call->op = nullptr;
      }
      return;
    case Proof::OTHER_ORDER:
      of.host = Host::kFree;
      for (Call& call : of.calls) {
        call.queue = kOwnQueue;
        call.unit = 0;
      }
      DropUnmet(recorded.job, &of);
      return;
    default: return;
  }
}

bool OrdersDiffer(const Program& a, const Program& b) {
  // Calls `visit` for each collective with its communicator and number.
  const auto each = [](const Program& program, auto visit) {
    absl::flat_hash_map<uint32_t, uint32_t> numbers;
    for (const Call& call : program.calls) {
      if (call.peer < 0) visit(std::pair(call.comm, numbers[call.comm]++));
    }
  };
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, size_t> places;
  each(a, [&](const auto& call) { places.try_emplace(call, places.size()); });
  size_t last = 0;
  bool differ = false;
  each(b, [&](const auto& call) {
    const auto place = places.find(call);
    if (place == places.end()) return;
    differ |= place->second < last;
    last = std::max(last, place->second);
  });
  return differ;
}

bool CallsAgree(const Bundle& bundle, const Op& a, const Op& b) {
  if (ring::IsPointToPoint(a.kind) || ring::IsPointToPoint(b.kind)) return ExchangeFits(a, b);
  return CompareCalls(bundle, a, b, nullptr, nullptr) == FINDING_UNSPECIFIED;
}

}  // namespace lockstep::replay
