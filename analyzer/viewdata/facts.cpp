#include "analyzer/viewdata/facts.h"

#include <algorithm>

#include "analyzer/engine/replay/judge.h"
#include "analyzer/report/phrases.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

void Fill(const ViewInput& in, ViewFacts* facts) {
  *facts->mutable_verdict() = in.verdict;
  SetReport(in.bundle, in.verdict, facts);
  SetRanks(in, facts);
  SetWaits(in, facts);
  SetMismatches(in, facts);
  SetStacks(in.bundle, facts);
  SetBandwidths(in, facts);
  SetAnomalies(in, facts);
  SetFocuses(in, facts);
  SetUnknown(in, facts);
  if (!in.missing.empty()) SetRuns(in.missing, facts->add_missing());
}

}  // namespace

ViewInput::ViewInput(const Bundle& given, const AnalysisView& view, const Verdict& said)
    : bundle(given), analysis(view), verdict(said) {
  const std::vector<Rank>& seen = view.model.bundle.ranks;
  row_of_model.assign(seen.size(), -1);
  std::vector<int32_t> present;
  // `given.ranks` and `seen` are both sorted by rank.
  for (size_t row = 0, m = 0; row < given.ranks.size(); ++row) {
    const bool same = m < seen.size() && seen[m].rank == given.ranks[row].rank;
    model_of_row.push_back(same ? static_cast<int32_t>(m) : -1);
    if (same) row_of_model[m++] = static_cast<int32_t>(row);
    present.push_back(given.ranks[row].rank);
  }
  missing = MissingRanks(said.ranks_expected(), present);
  for (size_t c = 0; c < given.comms.size(); ++c) comm_of_id.try_emplace(given.comms[c].id, static_cast<int32_t>(c));
}

bool ViewInput::IsSend(const std::string& operation) const {
  for (const ring::CallKind kind : {ring::CallKind::kSend, ring::CallKind::kRecv}) {
    if (operation == ring::CallName(kind)) return true;
  }
  const auto at = std::find(bundle.strings.begin(), bundle.strings.end(), operation);
  if (at == bundle.strings.end()) return false;
  const auto name = static_cast<uint32_t>(at - bundle.strings.begin());
  for (const Rank& rank : bundle.ranks) {
    for (const Op& op : rank.ops) {
      if (op.name == name) return ring::IsPointToPoint(op.kind);
    }
  }
  return false;
}

int32_t ViewInput::CommOf(const CommunicatorRef& ref) const {
  const auto it = ref.id().empty() ? comm_of_id.end() : comm_of_id.find(ref.id());
  return it == comm_of_id.end() ? -1 : it->second;
}

void AddToRuns(int32_t rank, RankRuns* runs) {
  const int n = runs->bounds_size();
  if (n > 0 && runs->bounds(n - 1) >= rank) return;
  if (n > 0 && runs->bounds(n - 1) == rank - 1) {
    runs->set_bounds(n - 1, rank);
  } else {
    runs->add_bounds(rank);
    runs->add_bounds(rank);
  }
}

void SetRuns(std::vector<int32_t> ranks, RankRuns* runs) {
  std::sort(ranks.begin(), ranks.end());
  for (const int32_t rank : ranks) {
    if (rank >= 0 && rank < static_cast<int32_t>(kIndexMaxRanks)) AddToRuns(rank, runs);
  }
}

ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict) {
  ViewFacts facts;
  AnalyzeAndLook(bundle, {}, [&](const AnalysisView& view) { Fill(ViewInput(bundle, view, verdict), &facts); });
  return facts;
}

ViewFacts BuildViewFacts(const Bundle& bundle) {
  ViewFacts facts;
  AnalyzeAndLook(bundle, {}, [&](const AnalysisView& view) {
    const Verdict verdict = replay::WithProof(view);
    Fill(ViewInput(bundle, view, verdict), &facts);
  });
  return facts;
}

}  // namespace lockstep
