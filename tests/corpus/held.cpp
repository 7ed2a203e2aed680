#include "tests/corpus/held.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "tests/corpus/shown.h"

namespace lockstep::corpus {
namespace {

// Two ranks that agree form a majority against one that differs.
constexpr size_t kAgree = 2;

class Held {
 public:
  Held(const Request& request, const std::vector<std::shared_ptr<const Program>>& base, const Outcome& outcome)
      : request_(request),
        base_(base),
        run_(*outcome.run),
        job_(outcome.job),
        options_(outcome.dump.capture),
        unreadable_(Unreadable(run_, outcome.dump, request.fr)) {}

  bool Tells(int32_t culprit) {
    if (unreadable_.count(culprit) > 0) return false;
    // The state of a thread in Lockstep's own dumps shows the open group.
    if (request_.scenario == 26 && !request_.fr) return true;
    if (request_.scenario == 26) return HasQueued(View(culprit));
    const Program& program = *job_.programs[static_cast<size_t>(culprit)];
    for (uint32_t i = 0; i < program.size(); ++i) {
      if (program[i].fault != 1) continue;
      if (Skips() ? SkipIsHeld(culprit, i) : CallIsHeld(culprit, i)) return true;
      if (!request_.fr && program[i].slot == kPp && OnlyStranger(culprit)) return true;
    }
    return CountersTell(culprit);
  }

  // Returns whether the culprit's ring still contains the wrong call.
  bool HoldsItsCall(int32_t culprit) {
    const Program& program = *job_.programs[static_cast<size_t>(culprit)];
    const std::vector<OpView>& ops = View(culprit).ops;
    return std::any_of(ops.begin(), ops.end(), [&](const OpView& op) {
      return op.instr >= program.data() && op.instr < program.data() + program.size() && op.instr->fault == 1;
    });
  }

 private:
  bool Skips() const { return request_.scenario == 1 || request_.scenario == 31; }

  const RankView& View(int32_t rank) {
    auto [it, fresh] = views_.try_emplace(rank);
    if (fresh) it->second = Capture(run_, options_, rank);
    return it->second;
  }

  static const CommView* CommOf(const RankView& view, Slot slot) {
    for (const CommView& c : view.comms) {
      if (c.slot == slot) return &c;
    }
    return nullptr;
  }

  static bool HasQueued(const RankView& view) {
    return std::any_of(view.ops.begin(), view.ops.end(), [](const OpView& op) { return op.stage == Stage::kQueued; });
  }

  // Returns the ranks that should run the same program and whose records are readable.
  std::vector<int32_t> Siblings(int32_t rank) const {
    std::vector<int32_t> found;
    for (int32_t r = 0; r < job_.ranks; ++r) {
      if (r != rank && unreadable_.count(r) == 0 && base_[static_cast<size_t>(r)] == base_[static_cast<size_t>(rank)])
        found.push_back(r);
    }
    return found;
  }

  bool Holds(int32_t rank, Slot slot, const std::function<bool(const OpView&)>& fits) {
    if (unreadable_.count(rank) > 0) return false;
    const RankView& view = View(rank);
    return std::any_of(view.ops.begin(), view.ops.end(), [&](const OpView& op) { return op.slot == slot && fits(op); });
  }

  // Returns whether the call and its references are still recorded. The references of a collective are the same
  // sequence number at two other members, or at one if there are only two. A send or receive needs a reference only in
  // scenario 25: the call at that position of a rank with the same role.
  bool CallIsHeld(int32_t culprit, uint32_t at) {
    const Instr& in = (*job_.programs[static_cast<size_t>(culprit)])[at];
    const OpView* mine = nullptr;
    for (const OpView& op : View(culprit).ops) {
      if (op.instr == &in) mine = &op;
    }
    if (mine == nullptr) return false;
    if (in.act == Act::kCall && !ring::IsCollective(in.kind)) {
      // Only the same call of a rank with the same role in another pipeline shows that a send went to the wrong peer
      // (25).
      for (int32_t s : Siblings(culprit)) {
        const Instr* same = job_.programs[static_cast<size_t>(s)]->data() + at;
        if (Holds(s, in.slot, [&](const OpView& op) { return op.instr == same; })) return true;
      }
      return request_.scenario != 25;
    }
    const Comm& comm = *job_.CommOf(culprit, in.slot);
    const uint32_t seq = mine->seq;
    size_t others = 0;
    for (int32_t m : comm.members)
      others += m != culprit && Holds(m, in.slot, [&](const OpView& op) { return op.seq == seq; });
    return others >= std::min(kAgree, comm.members.size() - 1);
  }

  // Returns whether calls before the skipped one are recorded, and whether two ranks with the same role recorded the
  // skipped call.
  bool SkipIsHeld(int32_t culprit, uint32_t at) {
    const Program& program = *job_.programs[static_cast<size_t>(culprit)];
    const RankView& view = View(culprit);
    const bool before = std::any_of(view.ops.begin(), view.ops.end(), [&](const OpView& op) {
      return !op.recent_only && op.instr >= program.data() && op.instr < program.data() + at;
    });
    if (!before) return false;
    const Instr& left_out = (*base_[static_cast<size_t>(culprit)])[at];
    size_t holders = 0;
    const std::vector<int32_t> siblings = Siblings(culprit);
    for (int32_t s : siblings) {
      const Instr* same = job_.programs[static_cast<size_t>(s)]->data() + at;
      holders += Holds(s, left_out.slot, [&](const OpView& op) { return op.instr == same; });
    }
    return holders >= kAgree;  // with only two ranks in a role, either rank may be wrong
  }

  // Returns whether only this rank made a single send or receive with a peer that made none with it. The counts for
  // each pair are never overwritten.
  bool OnlyStranger(int32_t culprit) {
    std::set<int32_t> strangers;
    for (int32_t r = 0; r < job_.ranks; ++r) {
      if (unreadable_.count(r) > 0) continue;
      const CommView* mine = CommOf(View(r), kPp);
      if (mine == nullptr) continue;
      for (const PeerProgress& peer : mine->peers) {
        if (peer.sends + peer.recvs != 1) continue;
        const int32_t other = job_.comms[static_cast<size_t>(mine->comm)].members[static_cast<size_t>(peer.peer)];
        if (unreadable_.count(other) > 0) continue;
        const CommView* theirs = CommOf(View(other), kPp);
        const bool answered =
            theirs != nullptr && std::any_of(theirs->peers.begin(), theirs->peers.end(), [&](const PeerProgress& p) {
              return p.peer == mine->member_rank && p.sends + p.recvs > 0;
            });
        if (!answered) strangers.insert(r);
      }
    }
    return strangers == std::set<int32_t>{culprit};
  }

  bool CountersTell(int32_t culprit) {
    for (const CommView& c : View(culprit).comms) {
      if (StandsAtItsCount(culprit, c) || (!request_.fr && HashDiffers(culprit, c))) return true;
    }
    return OddAmongSiblings(culprit);
  }

  // Returns whether all other members issued the same number of calls, the culprit issued another number, and all are
  // stuck exactly at the difference. The culprit must not wait for another rank: its current operation is on the same
  // communicator, or it has none.
  bool StandsAtItsCount(int32_t culprit, const CommView& c) {
    const std::vector<int32_t>& members = job_.comms[static_cast<size_t>(c.comm)].members;
    std::set<int64_t> issued, done{c.done};
    size_t others = 0;
    for (int32_t m : members) {
      if (m == culprit || unreadable_.count(m) > 0) continue;
      const CommView* theirs = CommOf(View(m), c.slot);
      if (theirs == nullptr) return false;
      issued.insert(theirs->issued);
      done.insert(theirs->done);
      ++others;
    }
    if (others < kAgree || issued.size() != 1 || done.size() != 1) return false;
    const int64_t theirs = *issued.begin();
    if (theirs == c.issued || *done.begin() != std::min(theirs, c.issued)) return false;
    for (const CommView& other : View(culprit).comms) {
      if (other.slot != c.slot && (other.issued > other.done || other.p2p > 0)) return false;
    }
    return true;
  }

  // Returns whether the rolling argument hash differs at a sequence number where the hashes of all others agree. Two
  // others must have a hash there, or one if there are only two members.
  bool HashDiffers(int32_t culprit, const CommView& c) {
    auto at = [](const CommView& view) {
      std::map<int64_t, uint64_t> known{{view.issued, view.hash}};
      for (const auto& [seq, hash] : view.checkpoints) known[seq] = hash;
      return known;
    };
    const auto mine = at(c);
    std::map<int64_t, std::map<uint64_t, size_t>> others;
    const std::vector<int32_t>& members = job_.comms[static_cast<size_t>(c.comm)].members;
    for (int32_t m : members) {
      if (m == culprit || unreadable_.count(m) > 0) continue;
      const CommView* theirs = CommOf(View(m), c.slot);
      if (theirs == nullptr) continue;
      for (const auto& [seq, hash] : at(*theirs)) ++others[seq][hash];
    }
    return std::any_of(mine.begin(), mine.end(), [&](const auto& own) {
      const auto it = others.find(own.first);
      return it != others.end() && it->second.size() == 1 &&
             it->second.begin()->second >= std::min(kAgree, members.size() - 1) &&
             it->second.begin()->first != own.second;
    });
  }

  using Counts =
      std::array<int64_t, 2 * kSlots>;  // indexed by family: number of collectives, then of sends and receives

  static bool AtMost(const Counts& a, const Counts& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] > b[i]) return false;
    }
    return true;
  }

  // Returns a rank's counts at the capture, and before each record that it still has; newest first.
  std::vector<Counts> CountsOf(int32_t rank) {
    const RankView& view = View(rank);
    Counts now{};
    for (const CommView& c : view.comms) {
      now[c.slot] = request_.fr ? c.called : c.issued;
      now[kSlots + c.slot] = c.p2p;
    }
    std::vector<Counts> counts{now};
    for (size_t i = view.ops.size(); i-- > 0;) {
      const OpView& op = view.ops[i];
      if (op.recent_only || op.all_to_all || op.instr->act != Act::kCall || op.stage == Stage::kCaptured) continue;
      --now[(ring::IsCollective(op.kind) ? 0 : kSlots) + op.slot];
      counts.push_back(now);
    }
    return counts;
  }

  // A program's counts only grow, so any two positions in it have an order, and the records show the positions between.
  // A rank whose counts match no position of another program of the same role runs a different program. Returns whether
  // the culprit's counts contradict at least two ranks of its role, and more than half of them.
  bool OddAmongSiblings(int32_t culprit) {
    const std::vector<int32_t> siblings = Siblings(culprit);
    const Counts mine = CountsOf(culprit).front();
    size_t against = 0;
    for (int32_t s : siblings) {
      const std::vector<Counts> theirs = CountsOf(s);
      const bool ordered = std::all_of(theirs.begin(), theirs.end(),
                                       [&](const Counts& c) { return AtMost(c, mine) || AtMost(mine, c); });
      const bool between = AtMost(mine, theirs.front()) && AtMost(theirs.back(), mine);
      against += !ordered || (between && std::find(theirs.begin(), theirs.end(), mine) == theirs.end());
    }
    return against >= kAgree && 2 * against > siblings.size();
  }

  const Request& request_;
  const std::vector<std::shared_ptr<const Program>>& base_;
  const Simulator& run_;
  const Job& job_;
  const CaptureOptions& options_;
  const std::set<int32_t> unreadable_;
  std::map<int32_t, RankView> views_;
};

}  // namespace

void SettleOverwritten(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                       Outcome* outcome) {
  // Without 12 and 24: a rank that ended its epoch early (12) waits in its newest call, and the counters of their
  // streams identify two ranks in a mutual exchange (24).
  static const std::set<int> kOfProgram{1, 2, 3, 4, 5, 6, 22, 25, 26, 31};
  Truth& truth = outcome->truth;
  if (!truth.identifiable || truth.healthy || kOfProgram.count(request.scenario) == 0) return;
  // A counter or a hash only shows that the rank's calls were different.
  auto& kinds = truth.kinds_allowed;
  if (request.scenario <= 6 && std::find(kinds.begin(), kinds.end(), "SILENT_DESYNC") == kinds.end())
    kinds.push_back("SILENT_DESYNC");
  // In addition, the counter does not show what call the rank waits in. It may be an extra call, or a call that the
  // others reach much later.
  if (request.scenario == 2) kinds.push_back("RANK_NOT_ARRIVED");
  Held held(request, base, *outcome);
  // If a job continues with rings of the usual length, the evidence is lost only if the call itself was overwritten.
  if (request.scenario == 5 && request.variant != "overwritten" && held.HoldsItsCall(truth.culprit_ranks[0])) return;
  if (std::any_of(truth.culprit_ranks.begin(), truth.culprit_ranks.end(), [&](int32_t r) { return held.Tells(r); }))
    return;
  truth.identifiable = false;
  truth.needs =
      "longer rings: the faulty call, or its siblings' calls, are overwritten, and no counter shows the difference";
  // The records then show only that the ranks are stuck in unrecorded operations. In a job that continues, the records
  // show not even that.
  kinds.push_back("COLLECTIVE_STUCK");
  if (request.scenario == 5) truth.verdicts_allowed.push_back("HEALTHY");
}

}  // namespace lockstep::corpus
