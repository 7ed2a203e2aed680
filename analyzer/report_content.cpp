#include "analyzer/report_content.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/report.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

constexpr int kMaxCulpritsShown = 8;
constexpr int kMaxLinksShown = 12;
constexpr int kMaxEvidenceShown = 10;
constexpr int kMaxProblemsShown = 8;
constexpr size_t kMaxFramesShown = 12;

std::vector<int32_t> List(const google::protobuf::RepeatedField<int32_t>& ranks) {
  return {ranks.begin(), ranks.end()};
}

const Rank* Find(const Bundle& bundle, int32_t rank) {
  auto it = std::lower_bound(bundle.ranks.begin(), bundle.ranks.end(), rank,
                             [](const Rank& a, int32_t b) { return a.rank < b; });
  return it != bundle.ranks.end() && it->rank == rank ? &*it : nullptr;
}

std::string ProcessText(const Process& process) {
  static const std::map<std::string, std::string> kLetters = {{"R", "running"},
                                                              {"S", "sleeping"},
                                                              {"D", "in uninterruptible wait"},
                                                              {"T", "stopped"},
                                                              {"t", "stopped by a debugger"},
                                                              {"Z", "dead, not yet collected"}};
  switch (process.life) {
    case Life::kKilled:
      return absl::StrCat("process killed by signal ", process.signal);
    case Life::kExited:
      return absl::StrCat("process exited ", process.exit_code);
    case Life::kGone:
      return "process gone";
    default:
      break;
  }
  if (process.state.empty()) return "";
  auto it = kLetters.find(process.state);
  std::string text =
      absl::StrCat("process ", it == kLetters.end() ? "in state" : it->second, " (", Printable(process.state, 8), ")");
  if (!process.wchan.empty() && process.wchan != "0")
    absl::StrAppend(&text, " in kernel function ", Printable(process.wchan, 64));
  return text;
}

std::string HostText(const Rank& rank) {
  const ring::ThreadSnapshot* inside = nullptr;
  for (const ring::ThreadSnapshot& thread : rank.threads) {
    if (thread.call == ring::CallKind::kNone && thread.wait == ring::CallKind::kNone && thread.group_depth == 0)
      continue;
    if (inside == nullptr || thread.since_ns + thread.wait_since_ns > inside->since_ns + inside->wait_since_ns)
      inside = &thread;
  }
  if (inside == nullptr) return rank.threads.empty() ? "" : "host in no NCCL call";
  const bool call = inside->call != ring::CallKind::kNone;
  const bool wait = inside->wait != ring::CallKind::kNone;
  std::string text = call   ? absl::StrCat("host inside nccl", ring::CallName(inside->call))
                     : wait ? absl::StrCat("host inside ", ring::CallName(inside->wait))
                            : absl::StrCat("host in an open group (depth ", inside->group_depth, ")");
  const int64_t since = call ? inside->since_ns : wait ? inside->wait_since_ns : inside->group_since_ns;
  if (since > 0 && rank.captured_ns > since) absl::StrAppend(&text, " for ", DurationText(rank.captured_ns - since));
  return text;
}

std::string MovingText(const Rank& rank) {
  const Process& process = rank.process;
  if (process.cpu_ns_between_samples < 0 && process.io_bytes_between_samples < 0) return "";
  std::vector<std::string> parts;
  if (process.cpu_ns_between_samples >= 0)
    parts.push_back(absl::StrFormat("%.0f ms of CPU", static_cast<double>(process.cpu_ns_between_samples) / 1e6));
  if (process.io_bytes_between_samples >= 0)
    parts.push_back(absl::StrCat(process.io_bytes_between_samples, " bytes of I/O"));
  const bool moves = process.cpu_ns_between_samples > 0 || process.io_bytes_between_samples > 0;
  std::string text = absl::StrCat(moves ? "yes: " : "no: ", absl::StrJoin(parts, ", "));
  if (process.sample_gap_ns > 0) absl::StrAppend(&text, " in ", DurationText(process.sample_gap_ns));
  return text;
}

std::string LinkText(const ChainLink& link) {
  const bool one = link.ranks_size() == 1;
  std::string text = absl::StrCat(RanksText(List(link.ranks())), one ? " waits" : " wait");
  if (!link.operation().empty()) absl::StrAppend(&text, " in ", Printable(link.operation(), 80));
  const CommunicatorRef& comm = link.communicator();
  if (!comm.id().empty() || !comm.name().empty())
    absl::StrAppend(&text, " on ", Printable(comm.name().empty() ? comm.id() : comm.name(), 64));
  if (link.waits_for_size() > 0) absl::StrAppend(&text, " for ", RanksText(List(link.waits_for())));
  return text;
}

void Add(ReportBlock* block, std::string label, std::vector<std::string> lines) {
  if (!lines.empty()) block->rows.push_back({std::move(label), std::move(lines)});
}

ReportBlock FindingBlock(const Finding& finding, const Bundle& bundle) {
  ReportBlock block;
  Add(&block, "cause", {finding.cause().empty() ? CauseWord(finding.kind()) : Printable(finding.cause(), 40)});
  std::vector<std::string> who, states, moving, stacks;
  const bool several = finding.culprits_size() > 1;
  for (int i = 0; i < finding.culprits_size(); ++i) {
    const Culprit& culprit = finding.culprits(i);
    if (i == kMaxCulpritsShown) {
      who.push_back(absl::StrCat("and ", finding.culprits_size() - i, " more"));
      break;
    }
    if (several) who.push_back(CulpritText(culprit));
    const std::string prefix = several ? absl::StrCat("rank ", culprit.rank(), ": ") : "";
    const Rank* rank = Find(bundle, culprit.rank());
    std::string state = Printable(culprit.state(), 200);
    if (rank == nullptr) {
      if (!state.empty()) states.push_back(prefix + state);
      continue;
    }
    const std::string process = ProcessText(rank->process), seen = MovingText(*rank);
    if (!process.empty() && rank->process.life <= Life::kRunning)
      absl::StrAppend(&state, state.empty() ? "" : "; ", process);
    if (!state.empty()) states.push_back(prefix + state);
    if (!seen.empty()) moving.push_back(prefix + seen);
    std::vector<std::string> frames = rank->process.stack;
    if (frames.size() > kMaxFramesShown) frames.resize(kMaxFramesShown);
    for (std::string& frame : frames) frame = Printable(frame, 160);
    if (!frames.empty()) stacks.push_back(absl::StrCat(prefix, absl::StrJoin(frames, " < ")));
    if (frames.empty() && !rank->process.stack_refused.empty())
      stacks.push_back(absl::StrCat(prefix, "none: ", Printable(rank->process.stack_refused, 300)));
  }
  // With bare numbers the headline has said it all.
  if (std::any_of(who.begin(), who.end(), [](const std::string& line) { return absl::StrContains(line, "="); }))
    Add(&block, "who", std::move(who));
  Add(&block, "state", std::move(states));
  Add(&block, "stack", std::move(stacks));
  Add(&block, "moving", std::move(moving));

  std::vector<std::string> chain;
  for (int i = 0; i < finding.chain_size() && i < kMaxLinksShown; ++i) chain.push_back(LinkText(finding.chain(i)));
  if (finding.chain_size() > kMaxLinksShown)
    chain.push_back(absl::StrCat("and ", finding.chain_size() - kMaxLinksShown, " more links"));
  if (finding.victim_count() > 0) {
    chain.push_back(absl::StrCat(finding.victim_count(), finding.victim_count() == 1 ? " rank waits" : " ranks wait",
                                 " because of it in all"));
  }
  Add(&block, "chain", std::move(chain));

  std::vector<std::string> evidence;
  for (const Evidence& item : finding.evidence()) {
    // Shown above, better laid out.
    if (absl::StrContains(item.text(), " stack: ") || absl::StrContains(item.text(), ": process state ")) continue;
    if (static_cast<int>(evidence.size()) == kMaxEvidenceShown) break;
    evidence.push_back(Printable(item.text(), 400));
  }
  Add(&block, "evidence", std::move(evidence));
  std::string sure = ConfidenceWord(finding.confidence());
  if (!finding.refuted_by().empty())
    absl::StrAppend(&sure, "; would be refuted by ", Printable(finding.refuted_by(), 300));
  Add(&block, "sure", {sure});
  std::vector<std::string> steps = AdviceSteps(finding);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = absl::StrCat(i + 1, ". ", steps[i]);
  Add(&block, "do", std::move(steps));
  return block;
}

// Whose data is missing, and what that means for them.
std::string MissingText(const Verdict& verdict, const std::vector<int32_t>& missing) {
  std::set<int32_t> suspects;
  for (const Finding& finding : verdict.findings()) {
    for (int32_t rank : finding.culprit_ranks()) suspects.insert(rank);
  }
  std::vector<int32_t> waited_for, others;
  for (int32_t rank : missing) (suspects.count(rank) ? waited_for : others).push_back(rank);
  std::vector<std::string> parts;
  if (!waited_for.empty())
    parts.push_back(absl::StrCat("no data of ", RanksText(waited_for), ", for whom others wait"));
  if (!others.empty()) {
    parts.push_back(
        absl::StrCat("no data of ", RanksText(others),
                     verdict.findings().empty() ? "" : ": no suspects, nobody is seen waiting for them first"));
  }
  return absl::StrJoin(parts, "; ");
}

ReportBlock DataBlock(const Verdict& verdict, const Bundle& bundle) {
  ReportBlock block;
  std::vector<int32_t> present, damaged;
  std::vector<const Rank*> unmarked;
  uint64_t lost = 0;
  std::set<std::string> folders;
  for (const Rank& rank : bundle.ranks) {
    present.push_back(rank.rank);
    if (rank.damaged) damaged.push_back(rank.rank);
    if (rank.gpu_marks == ring::GpuMarks::kOff && rank.source != Source::kFlightRecorder) unmarked.push_back(&rank);
    lost += rank.records_lost;
    const size_t slash = rank.path.rfind('/');
    if (!rank.path.empty())
      folders.insert(slash == std::string::npos ? "." : slash == 0 ? "/" : rank.path.substr(0, slash));
  }
  std::vector<std::string> lines;
  lines.push_back(verdict.ranks_expected() > 0
                      ? absl::StrCat(verdict.ranks_read(), " of ", verdict.ranks_expected(), " ranks")
                      : absl::StrCat(verdict.ranks_read(), " ranks"));
  const std::vector<int32_t> missing = MissingRanks(verdict.ranks_expected(), present);
  if (!missing.empty()) lines.push_back(MissingText(verdict, missing));
  if (!damaged.empty()) lines.push_back(absl::StrCat("parts could not be read: ", RanksText(damaged)));
  if (lost > 0) lines.push_back(absl::StrCat(lost, " records were dropped while recording"));
  if (!unmarked.empty())
    lines.push_back(absl::StrCat("GPU marks off on ", unmarked.size(), " ranks: what their GPUs did is not recorded"));
  Add(&block, "DATA", std::move(lines));

  std::vector<std::string> problems;
  for (const DataProblem& problem : verdict.problems()) {
    if (static_cast<int>(problems.size()) == kMaxProblemsShown) {
      problems.push_back(
          absl::StrCat("and ", verdict.problems_size() - kMaxProblemsShown, " more, in the JSON report"));
      break;
    }
    std::string where = Printable(problem.path(), 200);
    if (problem.offset() >= 0) absl::StrAppend(&where, " at byte ", problem.offset());
    if (problem.rank() >= 0) absl::StrAppend(&where, where.empty() ? "" : " ", "(rank ", problem.rank(), ")");
    problems.push_back(absl::StrCat(where, where.empty() ? "" : ": ", Printable(problem.text(), 400)));
  }
  Add(&block, "problems", std::move(problems));
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    if (files.size() == 4) {
      files.push_back(absl::StrCat("and ", folders.size() - 4, " more folders"));
      break;
    }
    files.push_back(Printable(folder, 400));
  }
  Add(&block, "files", std::move(files));
  return block;
}

}  // namespace

std::string RankStateText(const Rank& rank) {
  std::vector<std::string> parts;
  for (const std::string& text : {ProcessText(rank.process), HostText(rank)}) {
    if (!text.empty()) parts.push_back(text);
  }
  return absl::StrJoin(parts, "; ");
}

ReportContent BuildReport(const Verdict& verdict, const Bundle& bundle) {
  ReportContent content;
  content.verdict = VerdictName(verdict.verdict());
  std::string who = verdict.ranks_read() < verdict.ranks_expected()
                        ? absl::StrCat(verdict.ranks_read(), " of ", verdict.ranks_expected(), " ranks")
                        : absl::StrCat(verdict.ranks_read(), verdict.ranks_read() == 1 ? " rank" : " ranks");
  if (verdict.stalled_ns() > 0) absl::StrAppend(&who, ", ", DurationText(verdict.stalled_ns()));
  if (!verdict.findings().empty()) {
    content.headline = absl::StrCat(who, ": ", Headline(verdict.findings(0)));
    content.first = FindingBlock(verdict.findings(0), bundle);
  } else if (verdict.verdict() == VERDICT_HEALTHY) {
    content.headline = absl::StrCat(who, ": nothing stands still and no calls differ");
  } else {
    content.headline = absl::StrCat(who, ": nothing wrong in what could be read; not everything could");
  }
  if (!verdict.job().empty())
    content.first.rows.insert(content.first.rows.begin(), {"job", {Printable(verdict.job(), 200)}});
  if (!verdict.not_the_cause().empty()) {
    ReportRow row{"NOT", {}};
    for (const std::string& text : verdict.not_the_cause())
      row.lines.push_back(Printable(absl::StartsWith(text, "NOT ") ? text.substr(4) : text, 400));
    auto at = std::find_if(content.first.rows.begin(), content.first.rows.end(),
                           [](const ReportRow& r) { return r.label == "evidence" || r.label == "sure"; });
    content.first.rows.insert(at, std::move(row));
  }
  for (int i = 1; i < verdict.findings_size(); ++i) {
    ReportBlock block = FindingBlock(verdict.findings(i), bundle);
    block.title = Headline(verdict.findings(i));
    content.others.push_back(std::move(block));
  }
  content.data = DataBlock(verdict, bundle);
  if (!verdict.findings().empty()) {
    const auto& culprits = verdict.findings(0).culprits();
    const bool known =
        std::any_of(culprits.begin(), culprits.end(), [](const Culprit& culprit) { return !culprit.host().empty(); });
    content.data.rows.insert(content.data.rows.begin() + 1,
                             {"hardware",
                              {known ? "errors were not read: look in the kernel log of the host named above"
                                     : "errors are not in this data; it names no hosts"}});
  }
  return content;
}

}  // namespace lockstep
