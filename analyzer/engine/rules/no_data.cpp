#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/engine/rules/causes.h"

namespace lockstep {

Cause Causes::NoDataCause(int32_t global_rank) const {
  Cause c;
  c.kind = RANK_NO_DATA;
  c.missing = {global_rank};
  c.reason = REASON_NO_DATA;
  c.grade = GRADE_GUESS;
  for (const Problem& problem : bundle_.problems) {
    if (problem.rank != global_rank || !problem.stopped) continue;
    c.reason = REASON_RECORDING_STOPPED;
    c.detail.set_name(problem.text);
  }
  return c;
}

std::vector<Cause> Causes::FromMissing() const {
  std::vector<Cause> causes;
  std::set<int32_t> missing;
  for (const CommView& view : model_.comms) {
    for (const Member& m : view.members) {
      if (m.rank_index < 0 && m.global_rank >= 0) missing.insert(m.global_rank);
    }
  }
  // The current operations of ranks whose records lost that part are unknown too.
  for (size_t r = 0; r < bundle_.ranks.size() && !missing.empty(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    if (rank.damaged && rank.source != Source::kFlightRecorder) missing.insert(rank.rank);
  }
  for (int32_t rank : missing) {
    Cause c = NoDataCause(rank);
    if (causes.empty()) {
      causes.push_back(std::move(c));
    } else {
      causes[0].missing.push_back(rank);
    }
  }
  return causes;
}

Cause Causes::WaitedForWithoutData(uint32_t node) const {
  Cause c = NoDataCause(graph_->MissingRank(node));
  c.nodes = {node};
  if (c.reason == REASON_RECORDING_STOPPED) {
    c.detail.set_flag(true);
  } else {
    c.reason = REASON_NO_DATA_OTHERS_WAIT;
  }
  if (damaged_.contains(c.missing[0])) c.reason = REASON_DATA_LOST_OTHERS_WAIT;
  c.grade = kWaitedForWithoutData;
  c.first_only = OnlyFirstOperationsWaitFor(node);
  AddWaiterEvidence(node, &c);
  if (c.first_only && c.op == nullptr) c.first_lost = c.comm;
  // An operation that a damaged record shows in flight may follow a lost one. Then the rank itself delays the others.
  std::set<int32_t> waiting;
  const auto lost_some = [&](uint32_t w) {
    const int32_t r = graph_->RankOf(w);
    if (r < 0 || !bundle_.ranks[static_cast<size_t>(r)].damaged ||
        bundle_.ranks[static_cast<size_t>(r)].source == Source::kFlightRecorder)
      return false;
    waiting.insert(r);
    return true;
  };
  const auto& back = graph_->back;
  const bool all = std::all_of(back[node].begin(), back[node].end(), [&](uint32_t w) {
    return graph_->Kind(w) == WaitGraph::NodeKind::kCollective ? std::all_of(back[w].begin(), back[w].end(), lost_some)
                                                               : lost_some(w);
  });
  if (all && !waiting.empty()) {
    for (int32_t r : waiting) c.missing.push_back(bundle_.ranks[static_cast<size_t>(r)].rank);
    c.reason = REASON_NO_DATA_OR_LOST;
    c.by_damaged = true;
  }
  return c;
}

}  // namespace lockstep
