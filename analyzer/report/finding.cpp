#include "analyzer/report/finding.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/state.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

constexpr int kMaxCulpritsShown = 8;
constexpr size_t kMaxHostsShown = 8;
constexpr int kMaxSitesShown = 4;
constexpr size_t kMaxLinesShown = 8;
constexpr size_t kMaxHardwareShown = 5;  // for one host
constexpr size_t kMaxEvidenceShown = 8;
constexpr size_t kMaxFramesShown = 12;

std::vector<int32_t> List(const google::protobuf::RepeatedField<int32_t>& ranks) {
  return {ranks.begin(), ranks.end()};
}

// Lists each culprit if there are few, otherwise host by host.
std::vector<std::string> WhoLines(const Finding& finding) {
  std::vector<std::string> lines;
  if (finding.culprits_size() <= kMaxCulpritsShown) {
    for (const Culprit& culprit : finding.culprits()) lines.push_back(CulpritText(culprit, /*full=*/true));
    // Without hosts, GPUs and PIDs there is nothing to add to the headline.
    const bool more = std::any_of(finding.culprits().begin(), finding.culprits().end(), MoreThanItsNumber);
    return more ? lines : std::vector<std::string>();
  }
  std::map<std::string, std::vector<int32_t>> hosts;
  for (const Culprit& culprit : finding.culprits()) hosts[culprit.host()].push_back(culprit.rank());
  for (const auto& [host, ranks] : hosts) {
    if (!host.empty()) lines.push_back(absl::StrCat(RanksText(ranks), " (", Printable(host, 64), ")"));
  }
  KeepFirst(kMaxHostsShown, " hosts", &lines);
  return lines;
}

// "tp_3, 8 ranks, id 44e8ec155b0c1557": as in the NCCL log and the viewer.
std::string GroupText(const CommunicatorRef& comm) {
  if (comm.id().empty()) return "";
  return absl::StrCat(
      comm.name().empty() ? "" : absl::StrCat(Printable(comm.name(), 200), ", "),
      comm.size() > 0 ? absl::StrCat(CountText(comm.size()), comm.size() == 1 ? " rank, " : " ranks, ") : "", "id ",
      Printable(comm.id(), 80));
}

std::string CostText(const Finding& finding) {
  std::vector<std::string> parts;
  if (finding.cost_ns_per_step() != 0) {
    parts.push_back(absl::StrCat(DurationText(finding.cost_ns_per_step()),
                                 finding.detail().flag() ? " lost in each step" : " lost during the recording"));
    if (finding.cost_uncertainty_ns() > 0)
      absl::StrAppend(&parts.back(), " (+- ", DurationText(finding.cost_uncertainty_ns()), ")");
  }
  if (finding.slowdown() > 0) parts.push_back(absl::StrFormat("%.2f times as long as peers", finding.slowdown()));
  if (!finding.pattern().empty()) parts.push_back(Printable(finding.pattern(), 80));
  return absl::StrJoin(parts, "; ");
}

std::vector<std::string> ChainLines(const Finding& finding) {
  std::vector<std::string> lines;
  for (const ChainLink& link : finding.chain()) lines.push_back(Printable(link.text(), 400));
  KeepFirst(kMaxLinksShown, " links", &lines);
  if (finding.victim_count() > 0) {
    lines.push_back(absl::StrCat("in total, ", CountText(finding.victim_count()),
                                 finding.victim_count() == 1 ? " rank waits" : " ranks wait", " because of this"));
  }
  return lines;
}

// "high; would be refuted by ..", and whether the finding is a hypothesis.
std::string SureText(const Finding& finding) {
  std::string sure = ConfidenceWord(finding.confidence());
  if (finding.hypothesis()) absl::StrAppend(&sure, "; a hypothesis that fits the evidence but is not proved");
  if (!finding.refuted_by().empty())
    absl::StrAppend(&sure, "; would be refuted by ", Printable(finding.refuted_by(), 300));
  return sure;
}

}  // namespace

ReportBlock FindingBlock(const Finding& finding, const Bundle& bundle, bool brief) {
  ReportBlock block;
  const std::string common = CommonText(finding);
  if (!common.empty()) {
    block.AddRow("common", {absl::StrCat(ShareText(finding.common_factor().culprits(), finding.culprit_ranks_size()),
                                         " named ranks are on ", common, ", which has ",
                                         CountText(finding.common_factor().members()),
                                         " ranks: suspect one shared fault first")});
  }
  block.AddRow("who", WhoLines(finding));
  if (const std::string group = GroupText(finding.communicator()); !group.empty()) block.AddRow("group", {group});
  std::vector<std::string> calls;
  for (int i = 0; i < std::min(finding.call_sites_size(), kMaxSitesShown); ++i) {
    const CallSite& site = finding.call_sites(i);
    calls.push_back(absl::StrCat(RanksText(List(site.ranks())), ": ", Printable(site.operation(), 40), " in ",
                                 Printable(PlaceText(site.place()), 120)));
  }
  block.AddRow("calls", std::move(calls));
  std::string cause = finding.cause().empty() ? FindingFactsOf(finding.kind()).cause : Printable(finding.cause(), 40);
  if (!finding.activity().empty()) absl::StrAppend(&cause, ", in ", Printable(finding.activity(), 60));
  block.AddRow("cause", {cause});

  MergedLines states, moving, stacks, python, hardware, memory;
  const size_t total = static_cast<size_t>(finding.culprits_size());
  for (const Culprit& culprit : finding.culprits()) {
    const Rank* rank = FindRank(bundle, culprit.rank());
    std::string state = Printable(culprit.state(), 200);
    if (rank == nullptr) {
      states.Add(std::move(state), culprit.rank());
      continue;
    }
    const std::string process = ProcessText(rank->process);
    if (!process.empty() && rank->process.life <= Life::kRunning)
      absl::StrAppend(&state, state.empty() ? "" : "; ", process);
    states.Add(std::move(state), culprit.rank());
    moving.Add(MovingText(*rank), culprit.rank());
    stacks.Add(absl::StrJoin(Frames(rank->process.stack, kMaxFramesShown), " < "), culprit.rank());
    python.Add(absl::StrJoin(Frames(rank->process.python_stack, kMaxFramesShown), " < "), culprit.rank());
    if (!rank->process.stack_refused.empty()) {
      const char* what = rank->process.stack.empty() ? "none: " : "kernel stack only: ";
      stacks.Add(absl::StrCat(what, Printable(rank->process.stack_refused, 400)), culprit.rank());
    }
    if (rank->process.evidence != nullptr) {
      for (const std::string& line : HardwareTrouble(*rank->process.evidence, kMaxHardwareShown))
        hardware.Add(Printable(line, 300), culprit.rank());
      memory.Add(Printable(MemoryTrouble(*rank->process.evidence), 300), culprit.rank());
    }
  }
  if (!brief) {
    block.AddRow("state", states.Lines(total, kMaxLinesShown));
    block.AddRow("python", python.Lines(total, kMaxLinesShown));
    block.AddRow("stack", stacks.Lines(total, kMaxLinesShown));
    block.AddRow("hardware", hardware.Lines(total, kMaxLinesShown));
    block.AddRow("memory", memory.Lines(total, kMaxLinesShown));
    std::vector<std::string> evidence;
    for (const Evidence& item : finding.evidence()) {
      if (!HasOwnRow(item)) evidence.push_back(Printable(item.text(), 400));
    }
    KeepFirst(kMaxEvidenceShown, ", in the JSON report", &evidence);
    block.AddRow("evidence", std::move(evidence));
  }
  if (const std::string cost = CostText(finding); !cost.empty()) block.AddRow("costs", {cost});
  std::vector<std::string> moves = moving.Lines(total, kMaxLinesShown);
  if (moves.empty() && finding.moving() == "moving") moves = {"yes"};
  if (moves.empty() && finding.moving() == "not moving") moves = {"no"};
  block.AddRow("moving", std::move(moves));
  block.AddRow("chain", ChainLines(finding));
  std::vector<std::string> maybe;
  for (const std::string& text : finding.alternatives()) maybe.push_back(absl::StrCat("or: ", Printable(text, 300)));
  if (!finding.tells_apart().empty())
    maybe.push_back(absl::StrCat("would decide: ", Printable(finding.tells_apart(), 300)));
  block.AddRow("maybe", std::move(maybe));
  std::vector<std::string> sure = {SureText(finding)};
  if (finding.has_proof()) sure.push_back(Printable(finding.proof().text(), 400));
  block.AddRow("sure", std::move(sure));
  std::vector<std::string> steps = AdviceSteps(finding);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = absl::StrCat(i + 1, ". ", steps[i]);
  block.AddRow("do", std::move(steps));
  return block;
}

}  // namespace lockstep
