#include "analyzer/engine/facts/program_numbers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "analyzer/engine/facts/mismatch.h"

namespace lockstep {
namespace {

// How many siblings are asked for one number (more would say the same), and how many are checked for one whose records
// still contain it.
constexpr size_t kAsked = 16, kLookedAt = 512;

class ByNumber {
 public:
  explicit ByNumber(const Model& model) : model_(model) {}

  std::optional<Divergence> Find(int32_t rank, const std::set<int32_t>& role) const {
    const Rank& own = model_.bundle.ranks[static_cast<size_t>(rank)];
    if (own.damaged) return std::nullopt;
    for (const Unit& unit : model_.ranks[static_cast<size_t>(rank)].in_flight) {
      for (const uint32_t i : unit.ops) {
        const Op& op = own.ops[i];
        if (op.membership == kNoIndex || !ring::IsCollective(op.kind) || op.seq <= 0 || op.seq == INT64_MAX) continue;
        return AtOddsWith(role, rank, op);  // what it waits in first: the calls behind it differ as well
      }
    }
    return std::nullopt;
  }

 private:
  bool Same(const Op& a, const Op& b) const {
    return CompareCalls(model_.bundle, a, b, nullptr, nullptr) == FINDING_UNSPECIFIED;
  }

  // The only membership of a rank in a communicator of that kind.
  std::optional<Member> MemberOf(int32_t rank, const std::string& klass) const {
    std::optional<Member> found;
    const std::vector<Membership>& memberships = model_.bundle.ranks[static_cast<size_t>(rank)].memberships;
    for (size_t m = 0; m < memberships.size(); ++m) {
      if (model_.comms[memberships[m].comm].klass != klass) continue;
      if (found) return std::nullopt;
      found.emplace();
      found->rank_index = rank;
      found->membership = static_cast<uint32_t>(m);
    }
    return found;
  }

  // What all siblings that still record it issued there, and the rank of the first; null if they differ or are fewer
  // than two.
  const Op* Agreed(const std::set<int32_t>& role, int32_t rank, const std::string& klass, int64_t seq, int32_t* sibling,
                   int32_t* agreeing) const {
    const Op* usual = nullptr;
    size_t looked = 0;
    *agreeing = 0;
    for (const int32_t other : role) {
      if (++looked > kLookedAt) break;
      if (other == rank || model_.bundle.ranks[static_cast<size_t>(other)].damaged) continue;
      const std::optional<Member> member = MemberOf(other, klass);
      const Op* op = member ? model_.FindCollective(*member, seq) : nullptr;
      if (op == nullptr) continue;
      if (usual != nullptr && !Same(*usual, *op)) return nullptr;
      if (usual == nullptr) usual = op, *sibling = other;
      if (static_cast<size_t>(++*agreeing) >= kAsked) break;
    }
    return *agreeing >= 2 ? usual : nullptr;
  }

  std::optional<Divergence> AtOddsWith(const std::set<int32_t>& role, int32_t rank, const Op& op) const {
    const CommView& comm = model_.comms[model_.CommOf(model_.bundle.ranks[static_cast<size_t>(rank)], op)];
    for (const Member& m : comm.members) {
      if (m.rank_index >= 0 && m.rank_index != rank && model_.FindCollective(m, op.seq) != nullptr) return std::nullopt;
    }
    const std::optional<Member> own = MemberOf(rank, comm.klass);
    if (!own) return std::nullopt;
    Divergence d;
    d.rank = rank;
    d.own = &op;
    d.by_number = true;
    int32_t sibling = -1, agreeing = 0;
    d.sibling = Agreed(role, rank, comm.klass, op.seq, &d.sibling_rank, &d.siblings_agreeing);
    if (d.sibling == nullptr) return std::nullopt;
    const FindingKind kind = CompareCalls(model_.bundle, op, *d.sibling, nullptr, nullptr);
    if (kind != MISMATCH_KIND && kind != MISMATCH_COUNT) return std::nullopt;
    const Op* before = model_.FindCollective(*own, op.seq - 1);
    const Op* theirs_before = Agreed(role, rank, comm.klass, op.seq - 1, &sibling, &agreeing);
    if (before == nullptr || theirs_before == nullptr || !Same(*before, *theirs_before)) return std::nullopt;
    const Op* theirs_after = nullptr;
    size_t looked = 0;
    for (auto other = role.begin(); other != role.end() && theirs_after == nullptr && looked < kLookedAt;
         ++other, ++looked) {
      const std::optional<Member> member = *other == rank ? std::nullopt : MemberOf(*other, comm.klass);
      if (member) theirs_after = model_.FindCollective(*member, op.seq + 1);
    }
    if (theirs_after != nullptr && Same(op, *theirs_after)) {
      d.type = Divergence::Type::kSkipped;
    } else if (Same(op, *theirs_before)) {
      d.type = Divergence::Type::kExtra;
    } else {
      d.type = Divergence::Type::kChanged;
    }
    return d;
  }

  const Model& model_;
};

}  // namespace

std::vector<Divergence> FindLeftByNumber(const Model& model,
                                         const std::map<std::string, std::vector<Program>>& families) {
  // By role alone: which thread makes a call does not matter for its number.
  std::map<std::string, std::set<int32_t>> roles;
  for (const auto& [key, family] : families) {
    for (const Program& p : family) roles[p.role].insert(p.rank);
  }
  const ByNumber numbers(model);
  std::vector<Divergence> found;
  for (const auto& [key, role] : roles) {
    if (role.size() < 3) continue;
    for (const int32_t rank : role) {
      if (std::optional<Divergence> d = numbers.Find(rank, role)) {
        d->family_size = static_cast<int32_t>(role.size());
        found.push_back(*d);
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Divergence& a, const Divergence& b) { return a.rank < b.rank; });
  return found;
}

}  // namespace lockstep
