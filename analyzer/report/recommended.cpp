#include "analyzer/report/recommended.h"

#include <algorithm>
#include <string_view>

#include "analyzer/model/finding_kinds.h"

namespace lockstep {
namespace {

// A process that exited or used too much memory would end again. If another event ended it, it may run elsewhere.
Action AfterDeath(const Finding& finding) {
  switch (finding.reason()) {
    case REASON_EXITED:
    case REASON_EXITED_WHILE_OTHERS_WAIT:
    case REASON_KILLED_FOR_MEMORY: return Action::kAsk;
    default: return Action::kRequeue;
  }
}

Action ActionFor(const Finding& finding, const std::vector<std::string>& hosts) {
  if (finding.hypothesis()) return Action::kAsk;
  const std::string_view cause =
      finding.cause().empty() ? FindingFactsOf(finding.kind()).cause : std::string_view(finding.cause());
  if (cause == "dead") return AfterDeath(finding);
  const bool host = cause == "host", gpu = cause == "gpu";
  if (!host && !gpu) return cause == "network" || cause == "network or gpu" ? Action::kRequeue : Action::kAsk;
  if (finding.moving() == "moving") return Action::kWait;
  // The stack shows what the process is doing, so the host is not to blame.
  if (!finding.activity().empty()) return Action::kAsk;
  if (hosts.empty() || (finding.has_common_factor() && finding.common_factor().kind() != "host")) return Action::kAsk;
  return Action::kExclude;
}

}  // namespace

Recommended RecommendedFor(const Verdict& verdict) {
  Recommended out;
  if (verdict.findings().empty()) {
    if (verdict.verdict() != VERDICT_HEALTHY && verdict.verdict() != VERDICT_LATE) out.action = Action::kAsk;
    return out;
  }
  const Finding& finding = verdict.findings(0);
  out.ranks.assign(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  std::sort(out.ranks.begin(), out.ranks.end());
  out.why = finding.summary();
  out.confidence = finding.confidence();
  const bool one_host = finding.has_common_factor() && finding.common_factor().kind() == "host";
  if (one_host) out.hosts = {finding.common_factor().name()};
  for (const Culprit& culprit : finding.culprits()) {
    const bool listed = std::find(out.hosts.begin(), out.hosts.end(), culprit.host()) != out.hosts.end();
    if (!one_host && !culprit.host().empty() && !listed) out.hosts.push_back(culprit.host());
  }
  std::sort(out.hosts.begin(), out.hosts.end());
  switch (verdict.verdict()) {
    case VERDICT_HUNG:
    case VERDICT_CRASHED: out.action = ActionFor(finding, out.hosts); break;
    case VERDICT_HEALTHY:
    case VERDICT_LATE: out.action = Action::kWait; break;
    default: out.action = Action::kAsk;
  }
  return out;
}

const char* ActionName(Action action) {
  switch (action) {
    case Action::kWait: return "wait";
    case Action::kRequeue: return "requeue";
    case Action::kExclude: return "exclude";
    default: return "ask";
  }
}

}  // namespace lockstep
