// Jobs with only stacks: a few ranks are in a different place in the program from all others.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/evidence/frames.h"

namespace lockstep {
namespace {

// The frame at this depth below the outermost one; empty: the stack is shorter.
std::string FrameAt(const Rank& rank, size_t depth) {
  const std::vector<std::string>& stack = rank.process.python_stack;
  return depth < stack.size() ? std::string(WithoutOffset(stack[stack.size() - 1 - depth])) : "";
}

// "qkv_proj (model.py:245) < forward (model.py:300)".
std::string Place(const Rank& rank, size_t depth) {
  const std::string outer = depth == 0 ? "" : FrameAt(rank, depth - 1);
  const std::string inner = FrameAt(rank, depth);
  if (inner.empty()) return absl::StrCat("in ", outer, " itself");
  return absl::StrCat("in ", inner, outer.empty() ? "" : absl::StrCat(" < ", outer));
}

std::string Function(const std::string& frame) {
  return ParseFrame(frame).function();
}

// Where stacks separate, from the outermost frame inwards: the stacks of most ranks, and the rest.
struct Parting {
  size_t depth = 0;
  std::vector<int32_t> most, few;
};

Parting WhereTheyPart(const Bundle& bundle, const std::vector<int32_t>& ranks) {
  size_t deepest = 0;
  for (const int32_t r : ranks)
    deepest = std::max(deepest, bundle.ranks[static_cast<size_t>(r)].process.python_stack.size());
  Parting out;
  for (; out.depth < deepest; ++out.depth) {
    std::map<std::string, std::vector<int32_t>> classes;
    for (const int32_t r : ranks) classes[FrameAt(bundle.ranks[static_cast<size_t>(r)], out.depth)].push_back(r);
    if (classes.size() < 2) continue;
    const auto largest = std::max_element(
        classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [frame, members] : classes) {
      if (frame != largest->first) out.few.insert(out.few.end(), members.begin(), members.end());
    }
    out.most = std::move(largest->second);
    std::sort(out.few.begin(), out.few.end());
    return out;
  }
  return out;
}

}  // namespace

std::vector<Cause> Causes::FromStacks() const {
  constexpr size_t kManyAgainstOne = 3;
  constexpr Grade kOne = GRADE_FAIR, kSeveral = GRADE_OPEN;
  std::vector<int32_t> ranks;
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    // What ranks called says more than where they are.
    if (!rank.memberships.empty() || !rank.ops.empty() || !rank.threads.empty()) return {};
    if (!rank.process.python_stack.empty()) ranks.push_back(static_cast<int32_t>(r));
  }
  const Parting parting = WhereTheyPart(bundle_, ranks);
  // One of three is the odd one; of more ranks, at most a quarter are.
  const bool alone = parting.few.size() == 1 && parting.most.size() >= 2;
  if (parting.few.empty() || (!alone && parting.few.size() * kManyAgainstOne > parting.most.size())) return {};
  const Rank& odd = bundle_.ranks[static_cast<size_t>(parting.few[0])];
  const Rank& usual = bundle_.ranks[static_cast<size_t>(parting.most[0])];
  const bool same_call = Function(odd.process.python_stack[0]) == Function(usual.process.python_stack[0]);
  Cause c;
  c.kind = same_call ? RANK_NOT_ARRIVED : HOST_STALL;
  if (same_call) c.cause = "code mismatch";
  c.ranks = parting.few;
  c.waiting = parting.most;
  c.op_name = same_call ? Function(usual.process.python_stack[0]) : "";
  c.grade = parting.few.size() == 1 ? kOne : kSeveral;
  const std::string place = Place(odd, parting.depth), others = Place(usual, parting.depth);
  c.reason = REASON_ELSEWHERE_BY_STACK;
  c.detail.set_name(place);
  c.evidence.push_back({absl::StrCat(place, ", as a stack shows"), {parting.few[0]}});
  c.evidence.push_back(
      {absl::StrCat(parting.most.size(), " ranks are ", others, ", as their stacks show"), parting.most});
  return {std::move(c)};
}

}  // namespace lockstep
