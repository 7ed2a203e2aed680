#include "analyzer/report/report.h"

namespace lockstep {

std::string VerdictName(VerdictKind kind) {
  const std::string name = VerdictKind_Name(kind);
  constexpr std::string_view kPrefix = "VERDICT_";
  return name.compare(0, kPrefix.size(), kPrefix) == 0 ? name.substr(kPrefix.size()) : "UNSPECIFIED";
}

std::string FindingName(FindingKind kind) {
  return kind == FINDING_UNSPECIFIED || !FindingKind_IsValid(kind) ? "UNSPECIFIED" : FindingKind_Name(kind);
}

int ExitStatus(const Verdict& verdict) {
  return verdict.verdict() == VERDICT_HEALTHY && verdict.findings().empty() ? 0 : 1;
}

}  // namespace lockstep
