#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/report.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int32_t> Sorted(const google::protobuf::RepeatedField<int32_t>& ranks) {
  std::vector<int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Json CommunicatorJson(const CommunicatorRef& comm) {
  return {{"id", comm.id()}, {"name", comm.name()}, {"size", comm.size()}};
}

// A file's name says nothing lasting: the same dumps under other names must give the same report.
std::string SourceOf(const Evidence& evidence, const std::vector<int32_t>& ranks) {
  if (evidence.source().find('/') == std::string::npos) return evidence.source();
  if (ranks.empty()) return "dump";
  return ranks.size() == 1 ? absl::StrCat("rank ", ranks[0], "'s dump")
                           : absl::StrCat("dumps of ranks ", FoldRanks(ranks, 200));
}

Json FindingJson(const Finding& finding) {
  std::vector<const Culprit*> culprits;
  for (const Culprit& culprit : finding.culprits()) culprits.push_back(&culprit);
  std::stable_sort(culprits.begin(), culprits.end(),
                   [](const Culprit* a, const Culprit* b) { return a->rank() < b->rank(); });
  Json who = Json::array(), chain = Json::array(), evidence = Json::array();
  for (const Culprit* culprit : culprits) {
    who.push_back({{"rank", culprit->rank()},
                   {"host", culprit->host()},
                   {"gpu", culprit->gpu()},
                   {"gpu_pci", culprit->gpu_pci()},
                   {"pid", culprit->pid()},
                   {"state", culprit->state()}});
  }
  for (const ChainLink& link : finding.chain()) {
    chain.push_back({{"ranks", Sorted(link.ranks())},
                     {"operation", link.operation()},
                     {"communicator", CommunicatorJson(link.communicator())},
                     {"waits_for", Sorted(link.waits_for())},
                     {"text", link.text()}});
  }
  for (const Evidence& item : finding.evidence()) {
    const std::vector<int32_t> ranks = Sorted(item.ranks());
    evidence.push_back({{"text", item.text()}, {"source", SourceOf(item, ranks)}, {"ranks", ranks}});
  }
  return {{"kind", FindingName(finding.kind())},
          {"culprit_ranks", Sorted(finding.culprit_ranks())},
          {"culprits", who},
          {"communicator", CommunicatorJson(finding.communicator())},
          {"operation", finding.operation()},
          {"sequence", finding.sequence()},
          {"victim_count", finding.victim_count()},
          {"chain", chain},
          {"confidence", finding.confidence()},
          {"evidence", evidence},
          {"advice", finding.advice()},
          {"summary", finding.summary()},
          {"refuted_by", finding.refuted_by()}};
}

}  // namespace

std::string ReportJson(const Verdict& verdict) {
  Json findings = Json::array(), problems = Json::array();
  for (const Finding& finding : verdict.findings()) findings.push_back(FindingJson(finding));
  std::vector<const DataProblem*> sorted;
  for (const DataProblem& problem : verdict.problems()) sorted.push_back(&problem);
  std::stable_sort(sorted.begin(), sorted.end(), [](const DataProblem* a, const DataProblem* b) {
    return std::forward_as_tuple(a->rank(), a->path(), a->offset(), a->text()) <
           std::forward_as_tuple(b->rank(), b->path(), b->offset(), b->text());
  });
  for (const DataProblem* problem : sorted) {
    problems.push_back({{"path", problem->path()},
                        {"offset", problem->offset()},
                        {"text", problem->text()},
                        {"rank", problem->rank()}});
  }
  const Json json = {
      {"verdict", VerdictName(verdict.verdict())},
      {"findings", findings},
      {"ranks_expected", verdict.ranks_expected()},
      {"ranks_read", verdict.ranks_read()},
      {"problems", problems},
      {"not_the_cause", std::vector<std::string>(verdict.not_the_cause().begin(), verdict.not_the_cause().end())},
      {"job", verdict.job()},
      {"stalled_ns", verdict.stalled_ns()}};
  // Names from files may be no valid UTF-8; ASCII output also keeps terminals safe.
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
