// Handles jobs in which no rank waits in NCCL: all but a few are seen waiting for another process outside NCCL. A job's
// start looks like this if the rank that publishes a unique ID does not get that far.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {

std::vector<Cause> FromRendezvous(const Facts& facts, int64_t late_after_ns) {
  constexpr size_t kFew = 4;  // if several ranks do not wait, at least this many must wait for each of them
  constexpr Grade kOne = GRADE_GOOD, kSeveral = GRADE_WEAK, kNoData = GRADE_OPEN;
  std::vector<int32_t> waiting, standing;
  int64_t least = INT64_MAX;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    const RankView& view = facts.model.ranks[r];
    // For a rank in NCCL, or one that waits for its GPU, that wait is what counts.
    if (!view.in_flight.empty() || view.host == HostState::kInCall || view.host == HostState::kInWait) return {};
    if (ClassifyActivity(rank.process).stall != Stall::kRendezvous) {
      standing.push_back(static_cast<int32_t>(r));
      continue;
    }
    waiting.push_back(static_cast<int32_t>(r));
    const bool told = view.thread != nullptr && view.thread->last_call_ns > 0 && rank.captured_ns > 0;
    least = std::min(least, told ? rank.captured_ns - view.thread->last_call_ns : 0);
  }
  if (waiting.empty() || (!facts.bundle.known_stalled && least < late_after_ns)) return {};
  const std::vector<int32_t> missing = RanksWithoutData(facts.bundle, waiting.size() + 1);
  const size_t others = standing.empty() ? missing.size() : standing.size();
  if (others == 0 || (others > 1 && others * kFew > waiting.size())) return {};
  const bool one = standing.size() == 1 && missing.empty();
  Cause c = standing.empty() ? CauseOf(RANK_NO_DATA, REASON_NO_DATA_OTHERS_MEET, kNoData)
                             : CauseOf(HOST_STALL, REASON_OUTSIDE_NCCL_OTHERS_MEET, one ? kOne : kSeveral, standing);
  c.waiting = waiting;
  c.wait = ChainLink::RENDEZVOUS;
  EvidenceItem& wait = c.Add(Evidence::FOR_OTHER_PROCESS, waiting).Count(waiting.size());
  if (least > 0 && least < INT64_MAX) wait.fields.set_duration_ns(least);
  if (standing.empty()) {
    c.missing = missing;
    return {std::move(c)};
  }
  const ring::ThreadSnapshot* thread = facts.model.ranks[standing[0]].thread;
  if (standing.size() == 1 && thread != nullptr) {
    if (const auto lasted = Lasted(facts.bundle.ranks[standing[0]], thread->last_call_ns))
      c.detail.set_duration_ns(*lasted);
  }
  if (!missing.empty()) c.AddRival(Rival::SILENT_RANK);
  c.moving = std::any_of(standing.begin(), standing.end(), [&](int32_t r) {
    return ClassifyActivity(facts.bundle.ranks[r].process).moving == Moving::kYes;
  });
  for (int32_t r : standing) {
    if (standing.size() <= 4) AddHostEvidence(facts, r, &c);
  }
  return {std::move(c)};
}

}  // namespace lockstep
