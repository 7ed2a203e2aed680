// Finds the wrong member if members disagree without a majority. Compares the members with those of other communicators
// of the same class.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/program.h"

namespace lockstep {
namespace {

// Returns whether the calls have the same name, or the same kind if a name is unknown: for most calls, a log contains
// only the kind. Names are interned, so equal indexes mean equal names.
bool SameName(const Op& a, const Op& b) {
  return a.name == kNoIndex || b.name == kNoIndex ? a.kind == b.kind : a.name == b.name;
}

// Returns whether CompareCalls finds no difference, and the names are equal.
bool Alike(const Bundle& bundle, const Op& a, const Op& b) {
  return CompareCalls(bundle, a, b, nullptr, nullptr) == FINDING_UNSPECIFIED && SameName(a, b);
}

// Returns whether equal sequence numbers mean equal calls in two communicators. This requires that the last calls
// before `seq` are equal, as far as both members recorded them. These calls differ in replicas with different numbers
// of micro-batches or sequence lengths.
bool NumberAlike(const Model& model, const Member& a, const Member& b, int64_t seq) {
  constexpr int64_t kBefore = 8;
  bool compared = seq <= 1;
  for (int64_t back = 1; back <= kBefore; ++back) {
    const Op *x = model.FindCollective(a, seq - back), *y = model.FindCollective(b, seq - back);
    if (x == nullptr || y == nullptr) continue;
    if (!Alike(model.bundle, *x, *y)) return false;
    compared = true;
  }
  return compared;
}

// Calls `look` for each recorded member of each communicator in this class, with communicator, rank and collectives.
template <typename Look>
void EachOfKind(const Model& model, uint32_t comm, Look look) {
  for (const uint32_t c : model.kinds[model.comms[comm].kind]) {
    for (const Member& m : model.comms[c].members) {
      if (m.recorded()) look(c, model.bundle.ranks[m.rank_index], model.ranks[m.rank_index].collectives[m.membership]);
    }
  }
}

// Decides between two calls at number `seq` by the names of the calls before it, in all communicators of this class.
// Ignores sizes. Tries the last three calls, then two, then one. Returns the usual call: 0 for `first`, 1 for `second`,
// -1 if undecided.
int ByContext(const Model& model, uint32_t comm, int64_t seq, const Op& first, const Op& second) {
  if (SameName(first, second)) return -1;
  for (int64_t length = 3; length >= 1; --length) {
    std::vector<const Op*> context;
    for (const Member& m : model.comms[comm].members) {
      context.clear();
      for (int64_t back = length; back >= 1; --back) {
        const Op* op = model.FindCollective(m, seq - back);
        // An unfinished call may itself be at the wrong number.
        if (op != nullptr && op->state == OpState::kCompleted) context.push_back(op);
      }
      if (static_cast<int64_t>(context.size()) == length) break;
    }
    if (static_cast<int64_t>(context.size()) != length) continue;
    int votes[2] = {0, 0};
    EachOfKind(model, comm, [&](uint32_t c, const Rank& rank, const std::vector<uint32_t>& list) {
      for (size_t i = context.size(); i < list.size(); ++i) {
        const Op& op = rank.ops[list[i]];
        // This communicator's calls from `seq` on are in dispute.
        if (c == comm && op.seq >= seq) break;
        const bool is_first = SameName(op, first);
        if (!is_first && !SameName(op, second)) continue;
        bool same = rank.ops[list[i - context.size()]].seq == op.seq - length;
        for (size_t k = 0; same && k < context.size(); ++k) {
          same = SameName(rank.ops[list[i - context.size() + k]], *context[k]);
        }
        if (same) ++votes[is_first ? 0 : 1];
      }
    });
    if (const int usual = Agreed(votes); usual >= 0) return usual;
    if (votes[0] > 0 && votes[1] > 0) return -1;
  }
  return -1;
}

}  // namespace

int WitnessesAgainst(const Model& model, uint32_t comm, int64_t seq, const Op& first, const Op& second) {
  const Bundle& bundle = model.bundle;
  const auto side_of = [&](const Op& op) { return Alike(bundle, op, first) ? 0 : Alike(bundle, op, second) ? 1 : -1; };
  const auto other_than = [](int usual) { return usual < 0 ? -1 : 1 - usual; };
  // Compares the calls at this number in other communicators of the class, if their preceding calls are equal.
  int at_place[2] = {0, 0};
  for (const uint32_t c : model.kinds[model.comms[comm].kind]) {
    if (c == comm) continue;
    for (const Member& m : model.comms[c].members) {
      const auto calls = model.CollectivesAt(m, seq);
      if (calls.empty() || !std::ranges::all_of(model.comms[comm].members,
                                                [&](const Member& own) { return NumberAlike(model, own, m, seq); }))
        continue;
      for (const uint32_t i : calls) {
        if (const int side = side_of(bundle.ranks[m.rank_index].ops[i]); side >= 0) ++at_place[side];
      }
    }
  }
  for (const int usual : {Agreed(at_place), ByContext(model, comm, seq, first, second)}) {
    if (usual >= 0) return other_than(usual);
  }
  // As a last resort, counts occurrences anywhere in communicators of this class. Calls with different names are
  // counted by name, others by their arguments. Sizes prove nothing if few calls have equal sizes. Names are not
  // counted in dumps with only unfinished calls.
  const bool by_name = !SameName(first, second);
  constexpr size_t kRepeats = 4;
  int anywhere[2] = {0, 0};
  size_t calls = 0;
  absl::flat_hash_set<std::pair<int64_t, int64_t>> sizes;
  EachOfKind(model, comm, [&](uint32_t c, const Rank& rank, const std::vector<uint32_t>& list) {
    if (by_name && rank.only_active) return;
    for (const uint32_t i : list) {
      const Op& op = rank.ops[i];
      // This communicator's calls from `seq` on are in dispute.
      if (c == comm && op.seq >= seq) break;
      const bool is_first = SameName(op, first);
      const int side = !by_name ? side_of(op) : is_first ? 0 : SameName(op, second) ? 1 : -1;
      if (side >= 0) ++anywhere[side];
      if (by_name || !is_first) continue;
      ++calls;
      sizes.insert({op.count, op.input_elements});
    }
  });
  return sizes.size() * kRepeats > calls && sizes.size() > 1 ? -1 : other_than(Agreed(anywhere));
}

}  // namespace lockstep
