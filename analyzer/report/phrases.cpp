#include "analyzer/report/phrases.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/report.h"

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

std::string ConfidenceWord(double confidence) {
  return confidence >= 0.85 ? "high" : confidence >= 0.6 ? "medium" : "low";
}

bool MoreThanItsNumber(const Culprit& culprit) {
  return !culprit.host().empty() || culprit.gpu() >= 0 || culprit.pid() != 0;
}

std::string VerdictWord(const Verdict& verdict) {
  if (verdict.verdict() == VERDICT_CRASHED && !verdict.findings().empty()) {
    const Finding& first = verdict.findings(0);
    const bool exited = first.reason() == REASON_EXITED || first.reason() == REASON_EXITED_WHILE_OTHERS_WAIT;
    if (exited && first.detail().number() == 0) return "ENDED EARLY";
  }
  return absl::StrReplaceAll(VerdictName(verdict.verdict()), {{"_", " "}});
}

std::string CulpritText(const Culprit& culprit, bool full) {
  std::vector<std::string> parts;
  if (!culprit.host().empty()) parts.push_back(Printable(culprit.host(), 64));
  if (culprit.gpu() >= 0) parts.push_back(absl::StrCat("GPU ", culprit.gpu()));
  if (full && !culprit.gpu_pci().empty()) parts.push_back(Printable(culprit.gpu_pci(), 32));
  if (full && culprit.pid() != 0) parts.push_back(absl::StrCat("PID ", culprit.pid()));
  return absl::StrCat("rank ", culprit.rank(),
                      parts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(parts, ", "), ")"));
}

std::string CommName(const CommunicatorRef& comm) {
  return Printable(comm.name().empty() ? comm.id() : comm.name(), 200);
}

std::string CommonText(const Finding& finding) {
  const CommonFactor& common = finding.common_factor();
  if (!finding.has_common_factor() || common.name().empty()) return "";
  return absl::StrCat(Printable(common.kind(), 24), common.kind().empty() ? "" : " ", Printable(common.name(), 64));
}

namespace {

// Returns whether the finding's own sentence already contains the rank's place.
bool SaysWhere(const Finding& finding) {
  return finding.reason() == REASON_ELSEWHERE_OTHERS_WAIT || finding.reason() == REASON_ELSEWHERE_BY_STACK;
}

// Returns where the only culprit made the call that differs; null if unknown.
const CallSite* SiteOfCulprit(const Finding& finding) {
  for (const CallSite& site : finding.call_sites()) {
    if (std::find(site.ranks().begin(), site.ranks().end(), finding.culprit_ranks(0)) != site.ranks().end())
      return &site;
  }
  return nullptr;
}

// " is in load() at data.py:64 and", ", in step() at train.py:288,": where the culprit is, or where it made the
// finding's call. The summary follows after a space.
std::string AtPlace(const Finding& finding) {
  const bool colon = SummaryHasSubject(finding);
  const auto in = [&](const std::string& place) {
    return absl::StrCat(colon ? " in " : ", in ", Printable(PlaceText(place), 80), colon ? ":" : ",");
  };
  const char* nowhere = colon ? ":" : "";
  if (SaysWhere(finding)) return nowhere;
  const FindingFacts& facts = FindingFactsOf(finding.kind());
  const bool several = finding.culprit_ranks_size() > 1;
  if (facts.host_shows_why && !finding.place().empty()) {
    if (finding.reason() == REASON_SKIPPED) return nowhere;  // the rank has continued to another place
    return absl::StrCat(several ? " are in " : " is in ", Printable(PlaceText(finding.place()), 80),
                        colon ? ":" : " and");
  }
  // Where the exception was raised.
  if (finding.reason() == REASON_EXITED && !several && !finding.place().empty()) return in(finding.place());
  if (facts.cause != FindingFactsOf(MISMATCH_KIND).cause || several || finding.culprit_ranks().empty()) return nowhere;
  const CallSite* site = SiteOfCulprit(finding);
  return site != nullptr ? in(site->place()) : nowhere;
}

// "; it now waits for its GPU in item() at clip_grads.py:97": where a rank is after a wrong or skipped call. Empty for
// a wrong call with a known call site.
std::vector<Clause> NowIn(const Finding& finding) {
  const FindingFacts& facts = FindingFactsOf(finding.kind());
  if (finding.place().empty() || SaysWhere(finding)) return {};
  const bool several = finding.culprit_ranks_size() > 1;
  if (finding.reason() != REASON_SKIPPED) {
    if (facts.host_shows_why || facts.cause != FindingFactsOf(MISMATCH_KIND).cause || several ||
        finding.culprit_ranks().empty() || SiteOfCulprit(finding) != nullptr)
      return {};
  }
  const bool gpu = !several && finding.culprits_size() == 1 && finding.culprits(0).condition() == Culprit::IN_WAIT;
  return {{"; ", absl::StrCat(several ? "they are now in "
                              : gpu   ? "it now waits for its GPU in "
                                      : "it is now in ",
                              Printable(PlaceText(finding.place()), 80))}};
}

// "; checkpoint, not moving". The evidence shows the same in more words. A moving process is not mentioned: it may
// spin.
std::vector<Clause> Doing(const Finding& finding) {
  const std::string activity = Printable(finding.activity(), 60);
  const bool stopped = !finding.culprits().empty() && finding.culprits(0).condition() == Culprit::STOPPED;
  const char* still = finding.moving() == "not moving" && !stopped ? "not moving" : "";
  if (activity.empty() && *still == 0) return {};
  return {{"; ", absl::StrCat(activity, activity.empty() || *still == 0 ? "" : ", ", still), /*repeated=*/true}};
}

// " (both on node-3)", " (on node-1, node-2)", " (on node-1, node-2 and 6 more)"; empty if any rank's host is unknown.
std::string OnHosts(const Finding& finding) {
  constexpr size_t kFew = 3;
  if (finding.culprits_size() != finding.culprit_ranks_size()) return "";
  std::set<std::string> all;
  for (const Culprit& culprit : finding.culprits()) {
    if (culprit.host().empty()) return "";
    all.insert(Printable(culprit.host(), 64));
  }
  if (all.empty()) return "";
  const char* of = all.size() > 1 ? "" : finding.culprits_size() == 2 ? "both " : "all ";
  std::vector<std::string> hosts(all.begin(), all.end());
  std::string more;
  if (hosts.size() > kFew) {
    more = absl::StrCat(" and ", CountText(static_cast<int64_t>(hosts.size() - kFew + 1)), " more");
    hosts.resize(kFew - 1);
  }
  return absl::StrCat(" (", of, "on ", absl::StrJoin(hosts, ", "), more, ")");
}

// Returns what to print before the cause, by its certainty.
std::string Doubt(const Finding& finding) {
  const std::string word = ConfidenceWord(finding.confidence());
  // That no member finishes an operation is a symptom.
  const bool symptom = FindingFactsOf(finding.kind()).cause == std::string_view("network or gpu");
  if (symptom && (finding.hypothesis() || word != "high")) return "cause open: ";
  return finding.hypothesis() || word == "low" ? "possible cause: " : word == "medium" ? "likely cause: " : "";
}

}  // namespace

bool HasOwnRow(const Evidence& evidence) {
  return evidence.kind() == Evidence::STACK ||
         (evidence.kind() == Evidence::PROCESS_STATE && !evidence.process().state().empty());
}

std::string ShareText(int32_t part, int32_t whole) {
  if (part < whole) return absl::StrCat(CountText(part), " of the ", CountText(whole));
  return whole == 2 ? "both" : absl::StrCat("all ", CountText(whole));
}

std::string RanksReadText(const Verdict& verdict) {
  const int32_t read = verdict.ranks_read() - verdict.ranks_only_ended();
  const bool one = verdict.ranks_expected() == 1 || (verdict.ranks_expected() == 0 && read == 1);
  std::string text = absl::StrCat(
      CountText(read), verdict.ranks_expected() > 0 ? absl::StrCat(" of ", CountText(verdict.ranks_expected())) : "",
      one ? " rank read" : " ranks read");
  if (verdict.ranks_only_ended() > 0)
    absl::StrAppend(&text, " (for ", CountText(verdict.ranks_only_ended()), read > 0 ? " more" : "",
                    ", only the end is known)");
  return text;
}

std::string WaitingText(const Finding& finding) {
  if (finding.victim_count() <= 0 || finding.reason() == REASON_ELSEWHERE_OTHERS_WAIT) return "";
  return absl::StrCat(CountText(finding.victim_count()),
                      finding.victim_count() == 1 ? " other rank is" : " other ranks are", " waiting for ",
                      finding.culprit_ranks_size() == 1 ? "it." : "them.");
}

std::string Headline(const Finding& finding) { return Joined(HeadlineClauses(finding)); }

std::string AlsoText(const Verdict& verdict) {
  for (const bool certain : {true, false}) {
    std::set<int32_t> ranks;
    const Culprit* last = nullptr;
    for (int i = 1; i < verdict.findings_size(); ++i) {
      const Finding& finding = verdict.findings(i);
      if (Doubt(finding).empty() != certain) continue;
      ranks.insert(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
      for (const Culprit& culprit : finding.culprits()) last = &culprit;
    }
    for (const int32_t rank : verdict.findings(0).culprit_ranks()) ranks.erase(rank);
    if (ranks.empty()) continue;
    const bool one = ranks.size() == 1 && last != nullptr && last->rank() == *ranks.begin();
    return absl::StrCat(certain ? "Also at fault: " : "Also suspected: ",
                        one ? CulpritText(*last, /*full=*/false) : RanksText({ranks.begin(), ranks.end()}, 30), ".");
  }
  return "";
}

std::vector<Clause> HeadlineClauses(const Finding& finding) {
  std::string who;
  const std::vector<int32_t> ranks(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  const std::string common = CommonText(finding);
  const int32_t share = finding.common_factor().culprits();
  if (!common.empty() && finding.culprit_ranks_size() > 1 && share >= finding.culprit_ranks_size()) {
    who = absl::StrCat(ShareText(share, finding.common_factor().members()), " ranks on ", common, " (",
                       FoldRanks(ranks, 40), ")");
  } else if (finding.culprits_size() == 1) {
    who = CulpritText(finding.culprits(0), /*full=*/false);
  } else {
    who = RanksText(ranks);
    who += common.empty() ? OnHosts(finding) : absl::StrCat(", ", CountText(share), " of them on ", common);
  }
  std::vector<Clause> clauses = SummaryClauses(finding);
  for (Clause& clause : clauses) clause.text = Printable(clause.text);
  std::string& what = clauses[0].text;
  if (finding.summary().empty()) {
    what = FindingFactsOf(finding.kind()).cause;
    if (!finding.operation().empty()) {
      absl::StrAppend(&what, ", in ", Printable(finding.operation(), 64));
      if (finding.sequence() >= 0) absl::StrAppend(&what, " #", finding.sequence());
    }
    const CommunicatorRef& comm = finding.communicator();
    if (!comm.id().empty()) absl::StrAppend(&what, " on ", CommName(comm));
  }
  what = absl::StrCat(Doubt(finding), who, AtPlace(finding), " ", what);
  for (Clause& clause : NowIn(finding)) clauses.insert(clauses.begin() + 1, std::move(clause));
  for (Clause& clause : Doing(finding)) clauses.push_back(std::move(clause));
  return clauses;
}

std::vector<std::string> AdviceSteps(const Finding& finding) {
  std::vector<std::string> steps;
  for (const std::string& step : finding.advice_steps()) steps.push_back(Printable(step));
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
