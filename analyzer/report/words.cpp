#include "analyzer/report/words.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace lockstep {
std::string RanksText(const std::vector<int32_t>& ranks, size_t limit) {
  if (ranks.empty()) return "no rank";
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks, limit));
}

std::string RateText(double bytes_per_s) {
  if (!(bytes_per_s > 0)) return "not measured";
  const char* unit = " GB/s";
  double value = bytes_per_s / 1e9;
  if (bytes_per_s < 1e9) value = bytes_per_s / 1e6, unit = " MB/s";
  if (bytes_per_s < 1e6) value = bytes_per_s / 1e3, unit = " kB/s";
  return absl::StrFormat("%.*f%s", value < 10 ? 2 : value < 100 ? 1 : 0, value, unit);
}

std::string BytesText(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const double value = static_cast<double>(bytes);
  if (bytes < int64_t{1} << 20) return absl::StrFormat("%.4g KiB", value / 1024);
  if (bytes < int64_t{1} << 30) return absl::StrFormat("%.4g MiB", value / (1 << 20));
  return absl::StrFormat("%.4g GiB", value / (1 << 30));
}

std::string CauseWord(FindingKind kind) {
  switch (kind) {
    case RANK_DEAD:
      return "dead";
    case RANK_NO_DATA:
      return "no data";
    case HOST_STALL:
    case SLOW_HOST:
      return "host";
    case GPU_STALL:
      return "gpu";
    case COLLECTIVE_STUCK:
      return "network or gpu";
    case ASYNC_ERROR:
    case SLOW_LINK:
      return "network";
    case RANK_NOT_ARRIVED:
    case INIT_INCOMPLETE:
    case STRAGGLER:
      return "late";
    case RANK_AHEAD:
    case MISMATCH_KIND:
    case MISMATCH_COUNT:
    case MISMATCH_DATATYPE:
    case MISMATCH_REDUCTION:
    case MISMATCH_ROOT:
    case MISMATCH_SPLITS:
    case ORDER_INVERSION:
    case P2P_UNMATCHED:
    case DEADLOCK_CYCLE:
    case GROUP_LEFT_OPEN:
    case SPLIT_MISMATCH:
    case SILENT_DESYNC:
      return "code mismatch";
    default:
      return "unknown";
  }
}

std::string ConfidenceWord(double confidence) {
  return confidence >= 0.85 ? "high" : confidence >= 0.6 ? "medium" : "low";
}

std::string CulpritText(const Culprit& culprit) {
  std::string text = absl::StrCat("rank ", culprit.rank());
  if (culprit.host().empty() && culprit.gpu() < 0 && culprit.pid() == 0) return text;
  absl::StrAppend(&text, " =");
  if (!culprit.host().empty()) absl::StrAppend(&text, " ", Printable(culprit.host(), 64));
  if (culprit.gpu() >= 0) absl::StrAppend(&text, " gpu ", culprit.gpu());
  std::string more = Printable(culprit.gpu_pci(), 32);
  if (culprit.pid() != 0) absl::StrAppend(&more, more.empty() ? "" : ", ", "pid ", culprit.pid());
  if (!more.empty()) absl::StrAppend(&text, " (", more, ")");
  return text;
}

std::string CommName(const CommunicatorRef& comm) {
  return Printable(comm.name().empty() ? comm.id() : comm.name(), 200);
}

std::string CommonText(const Finding& finding) {
  const CommonFactor& common = finding.common_factor();
  if (!finding.has_common_factor() || common.name().empty()) return "";
  return absl::StrCat(Printable(common.kind(), 24), common.kind().empty() ? "" : " ", Printable(common.name(), 64));
}

std::string Headline(const Finding& finding) {
  std::string who;
  const std::vector<int32_t> ranks(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  const std::string common = CommonText(finding);
  const int32_t share = finding.common_factor().culprits();
  if (!common.empty() && finding.culprit_ranks_size() > 1 && share >= finding.culprit_ranks_size()) {
    who = absl::StrCat(common, " (", share, " of its ", finding.common_factor().members(),
                       " ranks: ", FoldRanks(ranks, 40), ")");
  } else if (finding.culprits_size() == 1) {
    who = CulpritText(finding.culprits(0));
  } else {
    who = RanksText(ranks);
    if (!common.empty()) absl::StrAppend(&who, ", ", share, " of them on ", common);
  }
  std::string what = Printable(finding.summary());
  if (what.empty()) {
    what = CauseWord(finding.kind());
    if (!finding.operation().empty()) {
      absl::StrAppend(&what, ", in ", Printable(finding.operation(), 64));
      if (finding.sequence() >= 0) absl::StrAppend(&what, " #", finding.sequence());
    }
    const CommunicatorRef& comm = finding.communicator();
    if (!comm.id().empty()) absl::StrAppend(&what, " on ", CommName(comm));
  }
  return absl::StrCat(finding.hypothesis() ? "possibly " : "", who, ": ", what);
}

std::vector<std::string> AdviceSteps(const Finding& finding) {
  std::vector<std::string> steps;
  for (absl::string_view line : absl::StrSplit(finding.advice(), '\n', absl::SkipWhitespace())) {
    size_t digits = 0;
    while (digits < line.size() && isdigit(static_cast<unsigned char>(line[digits]))) ++digits;
    if (digits > 0 && digits + 1 < line.size() && line[digits] == '.') line.remove_prefix(digits + 1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    if (!line.empty()) steps.push_back(Printable(std::string(line)));
  }
  return steps;
}

std::vector<int32_t> MissingRanks(int32_t expected, const std::vector<int32_t>& present) {
  std::vector<int32_t> missing;
  size_t at = 0;
  for (int32_t rank = 0; rank < std::min(expected, 1 << 20); ++rank) {
    while (at < present.size() && present[at] < rank) ++at;
    if (at >= present.size() || present[at] != rank) missing.push_back(rank);
  }
  return missing;
}

}  // namespace lockstep
