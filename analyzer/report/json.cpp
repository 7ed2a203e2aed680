#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/report/before.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int32_t> Sorted(const google::protobuf::RepeatedField<int32_t>& ranks) {
  std::vector<int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> Texts(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return {texts.begin(), texts.end()};
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
          {"refuted_by", finding.refuted_by()},
          {"cause", finding.cause()},
          {"common_factor",
           {{"kind", finding.common_factor().kind()},
            {"name", finding.common_factor().name()},
            {"culprits", finding.common_factor().culprits()},
            {"members", finding.common_factor().members()}}},
          {"activity", finding.activity()},
          {"moving", finding.moving()},
          {"alternatives", Texts(finding.alternatives())},
          {"tells_apart", finding.tells_apart()},
          {"cost_ns_per_step", finding.cost_ns_per_step()},
          {"cost_uncertainty_ns", finding.cost_uncertainty_ns()},
          {"pattern", finding.pattern()},
          {"slowdown", finding.slowdown()},
          {"hypothesis", finding.hypothesis()},
          {"graph_replay",
           {{"graph", finding.graph_replay().graph()},
            {"number", finding.graph_replay().number()},
            {"operation", finding.graph_replay().operation()},
            {"operations", finding.graph_replay().operations()}}}};
}

Json ClocksJson(const Verdict& verdict) {
  Json list = Json::array();
  for (const ClockOffset& clock : verdict.clocks()) {
    list.push_back({{"host", clock.host()},
                    {"offset_ns", clock.offset_ns()},
                    {"uncertainty_ns", clock.uncertainty_ns()},
                    {"stepped", clock.stepped()}});
  }
  return list;
}

Json ArrivalsJson(const Verdict& verdict) {
  Json list = Json::array();
  for (const Arrival& arrival : verdict.arrivals()) {
    list.push_back({{"rank", arrival.rank()},
                    {"operations", arrival.operations()},
                    {"last", arrival.last()},
                    {"lateness_ns", arrival.lateness_ns()},
                    {"uncertainty_ns", arrival.uncertainty_ns()},
                    {"pattern", arrival.pattern()}});
  }
  return list;
}

Json BandwidthsJson(const Verdict& verdict) {
  Json list = Json::array();
  for (const Bandwidth& bandwidth : verdict.bandwidths()) {
    list.push_back({{"communicator", CommunicatorJson(bandwidth.communicator())},
                    {"operation", bandwidth.operation()},
                    {"bytes", bandwidth.bytes()},
                    {"operations", bandwidth.operations()},
                    {"bus_bytes_per_s", bandwidth.bus_bytes_per_s()},
                    {"best_bus_bytes_per_s", bandwidth.best_bus_bytes_per_s()},
                    {"peer_bus_bytes_per_s", bandwidth.peer_bus_bytes_per_s()},
                    {"clock", bandwidth.clock()}});
  }
  return list;
}

Json BeforeJson(const Before& before) {
  Json list = Json::array();
  for (const Before::Item& item : before.items) {
    list.push_back({{"what", item.what},
                    {"name", item.name},
                    {"culprit_of", item.culprit_of},
                    {"incidents", item.incidents},
                    {"last_real_ns", item.last_real_ns},
                    {"last_kind", item.last_kind},
                    {"text", item.text}});
  }
  return list;
}

Json StartUpJson(const StartUp& start) {
  Json creations = Json::array();
  for (const Creation& creation : start.creations()) {
    creations.push_back({{"communicator", CommunicatorJson(creation.communicator())},
                         {"call", creation.call()},
                         {"begin_ns", creation.begin_ns()},
                         {"end_ns", creation.end_ns()},
                         {"median_ns", creation.median_ns()},
                         {"longest_ns", creation.longest_ns()},
                         {"last_rank", creation.last_rank()},
                         {"last_by_ns", creation.last_by_ns()},
                         {"members_entered", creation.members_entered()},
                         {"serial", creation.serial()}});
  }
  Json phases = Json::array(), ranks = Json::array();
  for (const StartUpPhase& phase : start.phases()) {
    phases.push_back({{"name", phase.name()},
                      {"ranks", phase.ranks()},
                      {"median_ns", phase.median_ns()},
                      {"longest_ns", phase.longest_ns()},
                      {"longest_rank", phase.longest_rank()},
                      {"last_rank", phase.last_rank()},
                      {"last_by_ns", phase.last_by_ns()}});
  }
  for (const StartUpRank& rank : start.ranks()) {
    ranks.push_back({{"rank", rank.rank()},
                     {"host", rank.host()},
                     {"phases_ns", std::vector<int64_t>(rank.phases_ns().begin(), rank.phases_ns().end())},
                     {"creations", rank.creations()},
                     {"last", rank.last()},
                     {"last_by_ns", rank.last_by_ns()}});
  }
  return {{"total_ns", start.total_ns()},
          {"waiting_ns", start.waiting_ns()},
          {"serial_ns", start.serial_ns()},
          {"creations", creations},
          {"creations_total", start.creations_total()},
          {"phases", phases},
          {"ranks", ranks},
          {"text", start.text()}};
}

}  // namespace

std::string ReportJson(const Verdict& verdict) {
  return ReportJson(verdict, Before());
}

std::string ReportJson(const Verdict& verdict, const Before& before) {
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
  const Json json = {{"verdict", VerdictName(verdict.verdict())},
                     {"findings", findings},
                     {"ranks_expected", verdict.ranks_expected()},
                     {"ranks_read", verdict.ranks_read()},
                     {"problems", problems},
                     {"not_the_cause", Texts(verdict.not_the_cause())},
                     {"job", verdict.job()},
                     {"stalled_ns", verdict.stalled_ns()},
                     {"clocks", ClocksJson(verdict)},
                     {"arrivals", ArrivalsJson(verdict)},
                     {"bandwidths", BandwidthsJson(verdict)},
                     {"start_up", StartUpJson(verdict.start_up())},
                     {"not_measured", Texts(verdict.not_measured())},
                     {"blind", Texts(verdict.blind())},
                     {"before", BeforeJson(before)},
                     {"before_unknown", before.unknown}};
  // Names from files may be no valid UTF-8; ASCII output also keeps terminals safe.
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
