#include <algorithm>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {
namespace {

// Returns how long the members have been in a cause's collective; -1 if unknown. A damaged file may not contain its
// capture time, so every member is tried.
int64_t AgeOf(const Model& model, const Cause& c) {
  const auto tells = [](const Rank& rank, const Op& op) {
    return !rank.damaged && rank.captured_ns > 0 && op.enter_ns > 0 && op.enter_ns <= rank.captured_ns;
  };
  const Rank& first = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
  if (tells(first, *c.op)) return first.captured_ns - c.op->enter_ns;
  for (const Member& m : model.comms[c.comm].members) {
    const Op* op = model.FindCollective(m, c.op->seq);
    if (op == nullptr) continue;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(m.rank_index)];
    if (tells(rank, *op)) return rank.captured_ns - op->enter_ns;
  }
  return first.captured_ns > 0 ? first.captured_ns - c.op->enter_ns : -1;
}

// Returns whether each of these GPUs finished an operation just before its data was taken.
bool JustFinished(const Model& model, const std::vector<int32_t>& ranks, int64_t late_after_ns) {
  return std::ranges::all_of(ranks, [&](int32_t r) {
    const std::vector<int64_t>& finished = model.ranks[r].finished_ns;
    const int64_t last = finished.empty() ? 0 : *std::ranges::max_element(finished);
    return last > 0 && model.bundle.ranks[r].captured_ns - last < late_after_ns;
  });
}

}  // namespace

std::vector<NotTheCause> TakeLegalOperations(const Model& model, int64_t late_after_ns, std::vector<Cause>* causes) {
  constexpr int64_t kMayConnect = 120'000'000'000, kMayCompute = 120'000'000'000;
  std::vector<NotTheCause> legal;
  const auto add = [&legal](NotTheCause::NotYet why) {
    NotTheCause& out = legal.emplace_back();
    out.set_what(NotTheCause::HANG);
    out.set_not_yet(why);
    return out.mutable_detail();
  };
  std::erase_if(*causes, [&](const Cause& c) {
    const bool unseen = c.kind == RANK_NO_DATA && c.first_only;
    if (c.first_lost != kNoIndex && c.op == nullptr && (unseen || c.kind != RANK_NO_DATA)) {
      // The operation's record was overwritten while the job continued. The newest call limits how long ago that was.
      const Rank& rank = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
      int64_t newest = 0;
      for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
      if (rank.captured_ns <= 0 || rank.captured_ns - newest > kMayConnect) return false;
      Detail* detail = add(NotTheCause::CONNECTING_UNSEEN);
      detail->set_flag(unseen);
      detail->set_name(CommText(model.bundle, c.first_lost));
      return true;
    }
    // The GPUs are working, so what they have not reached yet may be next. Also, the data of their peers may be newer.
    if (c.op != nullptr && (c.reason == REASON_STREAM_BLOCKED || c.reason == REASON_GPU_BEHIND) &&
        JustFinished(model, c.ranks, late_after_ns)) {
      Detail* detail = add(NotTheCause::NOT_BEGUN);
      detail->set_flag(true);
      for (const int32_t r : c.ranks) detail->add_ranks(model.bundle.ranks[r].rank);
      *detail->mutable_call() = BriefCall(model.bundle, c.op_rank, *c.op);
      return true;
    }
    if (c.op == nullptr || c.op_rank < 0 || c.comm == kNoIndex || !IsCollective(c.op->kind)) return false;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(c.op_rank)];
    // Not c.op->membership: if the waiting rank's own record is lost, the operation may be another member's record.
    const Membership* m = MembershipIn(rank, c.comm);
    if (m == nullptr) return false;
    const int64_t age = AgeOf(model, c);
    if (c.not_begun) {
      if (age > kMayCompute) return false;
      *add(NotTheCause::NOT_BEGUN)->mutable_call() = BriefCall(model.bundle, c.op_rank, *c.op);
      return true;
    }
    // A rank that left no data may be in the operation as well.
    if ((c.kind != COLLECTIVE_STUCK && !unseen) || c.op->seq != m->first_seq || age < 0 || age > kMayConnect)
      return false;
    Detail* detail = add(NotTheCause::CONNECTING);
    detail->set_flag(unseen);
    *detail->mutable_call() = BriefCall(model.bundle, c.op_rank, *c.op);
    return true;
  });
  return legal;
}

}  // namespace lockstep
