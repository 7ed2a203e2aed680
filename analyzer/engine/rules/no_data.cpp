#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"

namespace lockstep {

Cause NoDataCause(const Facts& facts, int32_t global_rank) {
  Cause c = CauseOf(RANK_NO_DATA, REASON_NO_DATA, GRADE_GUESS);
  c.missing = {global_rank};
  for (const Problem& problem : facts.bundle.problems) {
    if (problem.rank != global_rank || !problem.stopped) continue;
    c.reason = REASON_RECORDING_STOPPED;
    c.Name(problem.text);
  }
  return c;
}

void HoldByUnseen(const Facts& facts, const std::set<uint32_t>& comms, Grade grade, Cause* c) {
  std::set<int32_t> unseen;
  for (const uint32_t comm : comms) {
    for (const Member& m : facts.model.comms[comm].members) {
      if (m.rank_index < 0 && m.global_rank >= 0) unseen.insert(m.global_rank);
    }
  }
  if (unseen.empty()) return;
  c->kind = RANK_NO_DATA;
  c->reason = REASON_NO_DATA_OTHERS_WAIT;
  c->grade = grade;
  c->ranks.clear();
  c->missing.assign(unseen.begin(), unseen.end());
}

std::vector<Cause> FromMissing(const Facts& facts) {
  std::set<int32_t> missing;
  for (const auto& [rank, places] : UnseenMembers(facts.model)) missing.insert(rank);
  // If a rank's record lost its newest part, the rank's current operations are unknown, too.
  for (size_t r = 0; r < facts.bundle.ranks.size() && !missing.empty(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    if (rank.damaged && rank.source != Source::kFlightRecorder) missing.insert(rank.rank);
  }
  if (missing.empty()) return {};
  Cause c = NoDataCause(facts, *missing.begin());
  c.missing.assign(missing.begin(), missing.end());
  return {std::move(c)};
}

Cause WaitedForWithoutData(const Facts& facts, uint32_t node) {
  Cause c = NoDataCause(facts, facts.graph->MissingRank(node));
  c.nodes = {node};
  if (c.reason == REASON_RECORDING_STOPPED) {
    c.Flag(true);
  } else {
    c.reason = REASON_NO_DATA_OTHERS_WAIT;
  }
  if (std::any_of(facts.bundle.ranks.begin(), facts.bundle.ranks.end(),
                  [&](const Rank& rank) { return rank.damaged && rank.rank == c.missing[0]; }))
    c.reason = REASON_DATA_LOST_OTHERS_WAIT;
  c.grade = kWaitedForWithoutData;
  c.first_only = OnlyFirstOperationsWaitFor(facts, node);
  AddWaiterEvidence(facts, node, &c);
  if (c.first_only && c.op == nullptr) c.first_lost = c.comm;
  return c;
}

}  // namespace lockstep
