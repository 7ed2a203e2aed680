#include "analyzer/view_facts.h"

#include "analyzer/view_report.h"

namespace lockstep {
namespace {

template <typename Ranks>
void SetRuns(const Ranks& ascending, RankRuns* runs) {
  for (const int32_t rank : ascending) {
    const int n = runs->bounds_size();
    if (n > 0 && runs->bounds(n - 1) == rank - 1) {
      runs->set_bounds(n - 1, rank);
    } else {
      runs->add_bounds(rank);
      runs->add_bounds(rank);
    }
  }
}

int32_t CommIndex(const Bundle& bundle, const CommunicatorRef& ref) {
  if (ref.id().empty()) return -1;
  for (size_t i = 0; i < bundle.comms.size(); ++i) {
    if (bundle.comms[i].id == ref.id()) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict) {
  ViewFacts facts;
  *facts.mutable_verdict() = verdict;
  SetReport(bundle, verdict, &facts);
  for (const Rank& rank : bundle.ranks) {
    RankFacts* out = facts.add_ranks();
    out->set_rank(rank.rank);
    out->set_path(rank.path);
    out->set_gpu_pci(rank.gpu_pci);
    out->set_stage(-1);
    out->set_wait_class(-1);
    out->set_clock_uncertainty_ns(-1);
    out->set_records_lost(rank.records_lost);
    out->set_damaged(rank.damaged);
    if (rank.process.evidence != nullptr) *out->mutable_evidence() = *rank.process.evidence;
  }
  for (int i = 0; i < verdict.findings_size(); ++i) {
    const Finding& finding = verdict.findings(i);
    Anomaly* anomaly = facts.add_anomalies();
    anomaly->set_text(finding.summary());
    SetRuns(finding.culprit_ranks(), anomaly->mutable_ranks());
    anomaly->set_comm(CommIndex(bundle, finding.communicator()));
    anomaly->set_sequence(finding.sequence());
    anomaly->set_finding(i);
  }
  return facts;
}

}  // namespace lockstep
