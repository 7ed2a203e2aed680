#include "analyzer/engine/facts/strands.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {
namespace {

// A few ranks that share communicators are enough to find the order in which kinds of communicators are used.
constexpr size_t kCommsOfClass = 4, kMembersOfComm = 8;
constexpr size_t kNewestCalls = 512;  // number of newest calls read from each of these ranks
constexpr size_t kMostComms = 32;     // limit on the communicators of one rank

// Finds pairs of classes whose operations completed in the order in which they were issued, no matter which class came
// first.
class OrderReader {
 public:
  explicit OrderReader(const Model& model) : model_(model) {
    calls_of_class_.resize(model.kinds.size());
    calls_of_comm_.resize(model.comms.size());
    for (const int32_t r : SomeRanks()) Read(r);
  }

  std::vector<uint32_t> Strands() const {
    // Communicators of one class are one kind, unless two of them are in different strands.
    std::vector<uint32_t> kinds, kind_of_class(calls_of_class_.size(), kNoIndex);
    std::vector<uint32_t> strand_of_comm(model_.comms.size());
    for (uint32_t c = 0; c < model_.comms.size(); ++c) {
      uint32_t& kind = kind_of_class[model_.comms[c].kind];
      if (kind == kNoIndex || split_classes_.contains(model_.comms[c].kind)) kinds.push_back(kind = c);
    }
    const auto calls = [&](uint32_t kind) {
      const uint32_t klass = model_.comms[kind].kind;
      return split_classes_.contains(klass) ? calls_of_comm_[kind] : calls_of_class_[klass];
    };
    std::stable_sort(kinds.begin(), kinds.end(), [&](uint32_t a, uint32_t b) { return calls(a) > calls(b); });
    std::vector<std::vector<uint32_t>> strands;
    for (const uint32_t kind : kinds) {
      const auto fits = std::find_if(strands.begin(), strands.end(), [&](const std::vector<uint32_t>& strand) {
        return std::none_of(strand.begin(), strand.end(), [&](uint32_t other) { return Unordered(kind, other); });
      });
      strand_of_comm[kind] = static_cast<uint32_t>(fits - strands.begin());
      if (fits == strands.end()) strands.emplace_back();
      strands[strand_of_comm[kind]].push_back(kind);
    }
    for (uint32_t c = 0; c < model_.comms.size(); ++c) {
      if (!split_classes_.contains(model_.comms[c].kind))
        strand_of_comm[c] = strand_of_comm[kind_of_class[model_.comms[c].kind]];
    }
    return strand_of_comm;
  }

 private:
  std::set<int32_t> SomeRanks() const {
    std::set<int32_t> ranks;
    std::vector<size_t> comms_of_class(calls_of_class_.size());
    for (uint32_t c = 0; c < model_.comms.size(); ++c) {
      std::vector<int32_t> here;
      for (const Member& m : model_.comms[c].members) {
        if (m.rank_index >= 0 && here.size() < kMembersOfComm) here.push_back(m.rank_index);
      }
      if (here.size() < 2 || ++comms_of_class[model_.comms[c].kind] > kCommsOfClass) continue;
      ranks.insert(here.begin(), here.end());
    }
    return ranks;
  }

  static bool Tells(const Op& op) {
    return op.membership != kNoIndex && ring::IsCollective(op.kind) && op.seq >= 0 && !op.recent_only;
  }

  void Read(int32_t rank_index) {
    const Rank& rank = model_.bundle.ranks[rank_index];
    size_t from = rank.ops.size();
    for (size_t calls = 0; from > 0 && calls < kNewestCalls; --from) calls += Tells(rank.ops[from - 1]);
    // The newest number issued on each communicator; for a communicator without a call so far, the number before its
    // first one.
    std::vector<std::pair<uint32_t, int64_t>> issued;
    std::vector<size_t> place(rank.memberships.size(), kMostComms);
    for (size_t i = from; i < rank.ops.size(); ++i) {
      const Op& op = rank.ops[i];
      if (!Tells(op)) continue;
      const uint32_t comm = model_.CommOf(rank, op);
      ++calls_of_comm_[comm];
      ++calls_of_class_[model_.comms[comm].kind];
      if (place[op.membership] < kMostComms || issued.size() == kMostComms) continue;
      place[op.membership] = issued.size();
      issued.push_back({comm, op.seq - 1});
    }
    if (issued.size() < 2) return;
    for (size_t i = from; i < rank.ops.size(); ++i) {
      const Op& op = rank.ops[i];
      if (!Tells(op) || place[op.membership] == kMostComms) continue;
      const auto& [own, before] = issued[place[op.membership]];
      if (op.state == OpState::kCompleted && NeedsEveryMember(op.kind)) {
        for (const auto& [comm, number] : issued) {
          if (comm != own) Compare(rank_index, own, op.seq, comm, number);
        }
      }
      issued[place[op.membership]].second = op.seq;
    }
  }

  static std::pair<uint32_t, uint32_t> Pair(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }

  bool Unordered(uint32_t comm, uint32_t other) const {
    const uint32_t a = model_.comms[comm].kind, b = model_.comms[other].kind;
    return a == b ? unordered_comms_.contains(Pair(comm, other)) : unordered_.contains(Pair(a, b));
  }

  // Notes that the rank issued collective `seq` of `comm` after `number` collectives of `other`.
  void Compare(int32_t rank_index, uint32_t comm, int64_t seq, uint32_t other, int64_t number) {
    if (Unordered(comm, other)) return;
    const auto [it, fresh] = seen_.try_emplace({comm, seq, other}, rank_index, number);
    const auto [before_rank, before] = it->second;
    if (fresh || before == number) return;
    const int64_t between = std::min(before, number) + 1;
    const int early = OrderAt(before < number ? before_rank : rank_index, comm, seq, other, between);
    const int late = OrderAt(before < number ? rank_index : before_rank, comm, seq, other, between);
    if (early >= 0 || late <= 0) return;
    const uint32_t a = model_.comms[comm].kind, b = model_.comms[other].kind;
    if (a == b) split_classes_.insert(a);
    (a == b ? unordered_comms_ : unordered_).insert(a == b ? Pair(comm, other) : Pair(a, b));
  }

  // Returns -1 if the rank issued the collective of `comm` first; 1 if that of `other`. Returns 0 if unknown, or if one
  // of them is not complete.
  int OrderAt(int32_t rank_index, uint32_t comm, int64_t seq, uint32_t other, int64_t other_seq) const {
    const auto op_of = [&](uint32_t c, int64_t number) -> const Op* {
      for (const Membership& ms : model_.bundle.ranks[rank_index].memberships) {
        const Member* member = ms.comm == c ? model_.MemberAt(c, ms.member_rank) : nullptr;
        if (member == nullptr) continue;
        const Op* op = model_.FindCollective(*member, number);
        return op != nullptr && op->state == OpState::kCompleted && NeedsEveryMember(op->kind) ? op : nullptr;
      }
      return nullptr;
    };
    const Op *x = op_of(comm, seq), *y = op_of(other, other_seq);
    // The calls of one group are not ordered.
    if (x == nullptr || y == nullptr || (x->group != 0 && x->group == y->group)) return 0;
    return x < y ? -1 : 1;
  }

  const Model& model_;
  std::vector<size_t> calls_of_class_, calls_of_comm_;
  // Maps (communicator, number, other communicator) to the first rank seen there and its number in the other one.
  absl::flat_hash_map<std::tuple<uint32_t, int64_t, uint32_t>, std::pair<int32_t, int64_t>> seen_;
  std::set<std::pair<uint32_t, uint32_t>> unordered_, unordered_comms_;  // classes; communicators of one class
  std::set<uint32_t> split_classes_;                                     // the classes of these communicators
};

}  // namespace

std::vector<uint32_t> FindStrands(const Model& model) { return OrderReader(model).Strands(); }

}  // namespace lockstep
