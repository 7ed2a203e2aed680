#include "analyzer/report/content.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/report/checkpoint.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/code.h"
#include "analyzer/report/finding.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "analyzer/report/roofline.h"
#include "analyzer/report/state.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

constexpr size_t kMaxProblemsShown = 8;
constexpr int kMaxRowsShown = 3;
constexpr size_t kMaxBlindShown = 4;
constexpr size_t kMaxAlikeShown = 8;
constexpr int64_t kLongStartNs = 10'000'000'000;  // a shorter start does not matter for a stuck job
constexpr size_t kMaxHardwareLines = 4;
constexpr size_t kFullFindings = 3;            // later findings appear without states, stacks and evidence
constexpr int64_t kSmallOffsetNs = 1'000'000;  // do not report clocks that differ by less than this

// Returns the ranks without data, and what that means for the verdict.
std::string MissingText(const Verdict& verdict, const std::vector<int32_t>& missing) {
  std::set<int32_t> suspects, named;
  for (const Finding& finding : verdict.findings()) {
    const bool waits = finding.kind() != RANK_NO_DATA || finding.chain_size() > 0;
    for (int32_t rank : finding.culprit_ranks()) (waits ? suspects : named).insert(rank);
  }
  std::vector<int32_t> waited_for, unknown, others;
  for (int32_t rank : missing)
    (suspects.count(rank) ? waited_for : named.count(rank) ? unknown : others).push_back(rank);
  std::vector<std::string> parts;
  if (!waited_for.empty())
    parts.push_back(absl::StrCat("no data from ", RanksText(waited_for), ", which others wait for"));
  if (!unknown.empty())
    parts.push_back(
        absl::StrCat("no data from ", RanksText(unknown), ": the data shows no other rank that delays the job"));
  if (!others.empty()) {
    parts.push_back(absl::StrCat("no data from ", RanksText(others),
                                 verdict.findings().empty() ? ""
                                 : others.size() == 1       ? ": nothing shows that it is the cause"
                                                            : ": nothing shows that they are the cause"));
  }
  return absl::StrJoin(parts, "; ");
}

// Problems that differ only in their numbers appear once, because a thousand files may share one problem.
std::vector<std::string> ProblemLines(const Verdict& verdict) {
  struct Kind {
    const DataProblem* first;
    size_t count = 0;
    std::vector<int32_t> ranks;
  };
  std::vector<Kind> kinds;
  std::map<std::string, size_t> index;
  for (const DataProblem& problem : verdict.problems()) {
    auto [it, fresh] = index.try_emplace(problem.like().empty() ? problem.text() : problem.like(), kinds.size());
    if (fresh) kinds.push_back({&problem, 0, {}});
    Kind& kind = kinds[it->second];
    ++kind.count;
    if (problem.rank() >= 0) kind.ranks.push_back(problem.rank());
  }
  std::vector<std::string> lines;
  for (const Kind& kind : kinds) {
    const DataProblem& problem = *kind.first;
    std::string where = Printable(problem.path(), 200);
    if (problem.offset() >= 0) absl::StrAppend(&where, " at byte ", problem.offset());
    if (problem.rank() >= 0) absl::StrAppend(&where, where.empty() ? "" : " ", "(rank ", problem.rank(), ")");
    std::string line = absl::StrCat(where, where.empty() ? "" : ": ", Printable(problem.text(), 400));
    if (kind.count > 1) {
      absl::StrAppend(&line, " - and ", CountText(static_cast<int64_t>(kind.count) - 1), " more like it");
      if (kind.ranks.size() > 1) absl::StrAppend(&line, " (", RanksText(kind.ranks), ")");
    }
    lines.push_back(std::move(line));
  }
  KeepFirst(kMaxProblemsShown, " kinds of problems, in the JSON report", &lines);
  return lines;
}

std::vector<std::string> ClockLines(const Verdict& verdict, const Bundle& bundle) {
  std::vector<std::string> unaligned, stepped, off;
  int64_t widest = 0;
  const std::vector<int64_t> walls = WallClocksAhead(verdict, bundle);
  for (int i = 0; i < verdict.clocks_size(); ++i) {
    const ClockOffset& clock = verdict.clocks(i);
    const std::string host = Printable(clock.host(), 64);
    if (clock.uncertainty_ns() < 0) {
      unaligned.push_back(host);
      continue;
    }
    widest = std::max(widest, clock.uncertainty_ns());
    if (clock.stepped()) stepped.push_back(host);
    const int64_t ahead = walls[static_cast<size_t>(i)];
    if (std::max(ahead, -ahead) >= kSmallOffsetNs)
      off.push_back(absl::StrCat(host, " ", DurationText(std::max(ahead, -ahead)), ahead > 0 ? " ahead" : " behind"));
  }
  const auto list = [](std::vector<std::string> names) {
    const size_t more = names.size() > kMaxRowsShown ? names.size() - kMaxRowsShown : 0;
    names.resize(names.size() - more);
    return absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
  };
  std::vector<std::string> lines;
  if (verdict.clocks_size() > 1 && widest > 0)
    lines.push_back(absl::StrCat(verdict.clocks_size() - static_cast<int>(unaligned.size()), " hosts aligned to +- ",
                                 DurationText(widest)));
  if (!off.empty()) lines.push_back(absl::StrCat("wall clocks differ and were corrected: ", list(off)));
  if (!stepped.empty()) lines.push_back(absl::StrCat("clocks set while the job ran: ", list(stepped)));
  if (verdict.clocks_size() > 1 && !unaligned.empty())
    lines.push_back(absl::StrCat("clocks that cannot be aligned, so their times are not compared: ", list(unaligned)));
  return lines;
}

// The ranks that arrive last, and the slow communicators. Text reports omit this for a stuck job; other formats keep
// it.
void AddSpeed(const Verdict& verdict, ReportBlock* block) {
  if (verdict.verdict() != VERDICT_SLOW && verdict.verdict() != VERDICT_HEALTHY && verdict.verdict() != VERDICT_LATE)
    return;
  std::vector<std::string> lines;
  for (const Arrival& arrival : verdict.arrivals()) {
    if (static_cast<int>(lines.size()) == kMaxRowsShown || arrival.last() == 0) break;
    lines.push_back(absl::StrCat(
        "rank ", arrival.rank(), " arrived last in ", CountText(arrival.last()), " of ",
        CountText(arrival.operations()), " operations, late by ", DurationText(arrival.lateness_ns()), " in total",
        arrival.uncertainty_ns() > 0 ? absl::StrCat(" (+- ", DurationText(arrival.uncertainty_ns()), ")") : ""));
  }
  block->AddRow("last", std::move(lines));
  block->AddRow("speed", SpeedLines(verdict, static_cast<size_t>(kMaxRowsShown)));
  std::vector<std::string> rates;
  bool measured = false;
  for (const Bandwidth& b : verdict.bandwidths()) {
    if (b.bus_bytes_per_s() <= 0) continue;
    measured = true;
    if (static_cast<int>(rates.size()) == kMaxRowsShown) break;
    std::string line = absl::StrCat(Printable(b.operation(), 40), " of ", BytesText(b.bytes()), " on ",
                                    CommName(b.communicator()), ": ", RateText(b.bus_bytes_per_s()));
    if (b.peer_bus_bytes_per_s() > 0)
      absl::StrAppend(&line,
                      absl::StrFormat(", %.2f of its peers' rate", b.bus_bytes_per_s() / b.peer_bus_bytes_per_s()));
    if (b.best_bus_bytes_per_s() > 0)
      absl::StrAppend(&line,
                      absl::StrFormat(", %.2f of the best rate", b.bus_bytes_per_s() / b.best_bus_bytes_per_s()));
    rates.push_back(line);
  }
  if (!measured && verdict.bandwidths_size() > 0)
    rates.push_back("not measured: this data has no times of the operations themselves");
  block->AddRow("rates", std::move(rates));
}

std::set<std::string> FoldersOf(const Bundle& bundle) {
  std::set<std::string> folders;
  for (const Rank& rank : bundle.ranks) {
    const size_t slash = rank.path.rfind('/');
    if (!rank.path.empty())
      folders.insert(slash == std::string::npos ? "." : slash == 0 ? "/" : rank.path.substr(0, slash));
  }
  return folders;
}

// `told` is the number of problems that the headline already shows.
ReportBlock DataBlock(const Verdict& verdict, const Bundle& bundle, size_t told) {
  ReportBlock block;
  std::vector<int32_t> present, damaged;
  std::vector<const Rank*> unmarked;
  uint64_t lost = 0;
  for (const Rank& rank : bundle.ranks) {
    present.push_back(rank.rank);
    if (rank.damaged) damaged.push_back(rank.rank);
    if (rank.gpu_marks == ring::GpuMarks::kOff && rank.source != Source::kFlightRecorder && !rank.memberships.empty())
      unmarked.push_back(&rank);
    lost += rank.records_lost;
  }
  std::vector<std::string> lines;
  lines.push_back(RanksReadText(verdict));
  const std::vector<int32_t> missing = MissingRanks(verdict.ranks_expected(), present);
  if (!missing.empty()) lines.push_back(MissingText(verdict, missing));
  if (!damaged.empty()) lines.push_back(absl::StrCat("partly unreadable: ", RanksText(damaged)));
  if (lost > 0)
    lines.push_back(
        absl::StrCat(Counted(static_cast<int64_t>(lost), "record was", "records were"), " dropped while recording"));
  if (!unmarked.empty())
    lines.push_back(absl::StrCat(
        "GPU progress markers are off on ",
        Counted(static_cast<int64_t>(unmarked.size()), "rank: what its GPU did", "ranks: what their GPUs did"),
        " was not recorded"));
  block.AddRow("DATA", std::move(lines));
  block.AddRow("clocks", ClockLines(verdict, bundle));

  std::vector<std::string> problems = ProblemLines(verdict);
  problems.erase(problems.begin(), problems.begin() + static_cast<ptrdiff_t>(std::min(told, problems.size())));
  block.AddRow("problems", std::move(problems));
  std::vector<std::string> files;
  for (const std::string& folder : FoldersOf(bundle)) files.push_back(Printable(folder, 400));
  KeepFirst(4, " folders", &files);
  block.AddRow("files", std::move(files));
  return block;
}

std::vector<std::string> NotLines(const Verdict& verdict) {
  std::vector<std::string> lines;
  for (const NotTheCause& ruled_out : verdict.ruled_out()) lines.push_back(Printable(RuledOutText(ruled_out), 400));
  return lines;
}

std::vector<std::string> BlindLines(const Verdict& verdict) {
  std::vector<std::string> lines, not_measured;
  for (const std::string& text : verdict.blind()) lines.push_back(Printable(text, 400));
  for (const std::string& text : verdict.not_measured())
    not_measured.push_back(absl::StrCat("not measured: ", Printable(text, 400)));
  for (auto* list : {&lines, &not_measured}) KeepFirst(kMaxBlindShown, ", in the JSON report", list);
  lines.insert(lines.end(), not_measured.begin(), not_measured.end());
  return lines;
}

// Findings that differ only in names and numbers have equal keys.
auto LikenessOf(const Finding& finding) {
  const std::string state = finding.culprits().empty() ? "" : finding.culprits(0).state();
  return std::make_tuple(finding.kind(), finding.hypothesis(), ConfidenceWord(finding.confidence()), finding.cause(),
                         finding.activity(), finding.pattern(), finding.operation(), state,
                         finding.culprit_ranks_size() > 1, finding.advice());
}

void AddLikewise(const std::vector<const Finding*>& findings, ReportBlock* block) {
  if (findings.empty()) return;
  std::vector<std::string> who;
  for (const Finding* finding : findings)
    who.push_back(RanksText({finding->culprit_ranks().begin(), finding->culprit_ranks().end()}));
  KeepFirst(kMaxAlikeShown, "", &who);
  ReportRow row{
      "likewise",
      {absl::StrCat(findings.size(), findings.size() == 1 ? " more finding that differs" : " more findings that differ",
                    " only in names and numbers: ", absl::StrJoin(who, "; "))}};
  auto at = std::find_if(block->rows.begin(), block->rows.end(), [](const ReportRow& r) { return r.label == "cause"; });
  block->rows.insert(at, std::move(row));
}

}  // namespace

std::string ReportContent::Sentences() const {
  std::string text = headline;
  for (const std::string& more : {waiting, also})
    if (!more.empty()) absl::StrAppend(&text, absl::EndsWith(text, ".") ? " " : ". ", more);
  return text;
}

ReportContent BuildReport(const Verdict& verdict, const Bundle& bundle) {
  ReportContent content;
  content.verdict = VerdictWord(verdict);
  content.lasted = LastedText(verdict);
  bool told = false;  // the headline has the first problem
  const std::string who =
      verdict.ranks_read() < verdict.ranks_expected()
          ? absl::StrCat(CountText(verdict.ranks_read()), " of ", CountText(verdict.ranks_expected()), " ranks")
          : Counted(verdict.ranks_read(), "rank", "ranks");
  if (!verdict.findings().empty()) {
    content.headline = Headline(verdict.findings(0));
    content.waiting = WaitingText(verdict.findings(0));
    content.also = AlsoText(verdict);
    content.first = FindingBlock(verdict.findings(0), bundle, /*brief=*/false);
    content.first.finding = 0;
  } else if (verdict.verdict() == VERDICT_HEALTHY) {
    content.headline = absl::StrCat(who, ": nothing is stuck and no calls differ");
  } else if (verdict.verdict() == VERDICT_LATE) {
    content.headline = absl::StrCat(who, ": an operation is slow; the data shows no rank that delays it");
    content.first.AddRow("do", {"1. Look again in a minute: long operations end on their own."});
  } else if (verdict.verdict() == VERDICT_HUNG) {
    const std::vector<std::string> problems = ProblemLines(verdict);
    told = !problems.empty();
    content.headline = absl::StrCat(who, ": the job is stuck; the recording does not show why",
                                    told ? absl::StrCat(". ", absl::StripSuffix(problems[0], ".")) : "");
    content.first.AddRow("do", {"1. Look in all ranks' stacks for a rank in a different place.",
                                "2. Read the row `blind`: it shows what was not recorded."});
  } else {
    // Without a finding, describes what is missing, or what the data shows instead.
    const std::vector<std::string> problems = ProblemLines(verdict);
    told = !problems.empty();
    // Ranks with an operation that a watchdog gave up on.
    std::vector<int32_t> waited, present;
    for (const Rank& rank : bundle.ranks) {
      present.push_back(rank.rank);
      // Some backends retire every operation.
      if (!rank.ends_untold && std::any_of(rank.ops.begin(), rank.ops.end(), [](const Op& op) { return op.retired; }))
        waited.push_back(rank.rank);
    }
    const std::vector<int32_t> missing = MissingRanks(verdict.ranks_expected(), present);
    const auto not_seen = [&](NotSeen::Kind kind) {
      return std::any_of(verdict.not_seen().begin(), verdict.not_seen().end(),
                         [kind](const NotSeen& of) { return of.kind() == kind; });
    };
    const bool moving = not_seen(NotSeen::RANKS_MOVING);
    const bool only_stacks = missing.empty() && !told && not_seen(NotSeen::ONLY_STACKS);
    const bool no_calls = verdict.ranks_only_ended() == verdict.ranks_read() && missing.empty();
    const bool only_stacks_help =
        missing.empty() && !told && (not_seen(NotSeen::STILL_RUNNING) || not_seen(NotSeen::NO_CALL_IN_DUMPS));
    const std::string gap = missing.empty() ? "" : absl::StrCat("; there is no data from ", RanksText(missing, 8));
    const bool one = verdict.ranks_read() == 1;
    const char* const no_culprit =
        one ? ", and its data does not point to a culprit" : ", and their data does not point to a culprit";
    const std::string read = absl::StrCat(who, one ? " was read" : " were read");
    if (verdict.ranks_read() == 0) {
      content.headline = "the data does not show how far any rank is";
    } else if (no_calls && !told) {
      content.headline = absl::StrCat(who, " ended, and nothing shows a fault; their calls were not recorded");
    } else if (moving && !told) {
      content.headline = absl::StrCat(who, " were examined: some are still moving, and nothing shows a hang");
    } else if (only_stacks) {
      content.headline = absl::StrCat("not known whether the job hangs: ", who,
                                      " were examined, and their stacks do not show which one delays the others");
    } else if (told || !waited.empty()) {
      content.headline = absl::StrCat(read, told || gap.empty() ? no_culprit : gap);
    } else {
      content.headline =
          absl::StrCat("not known whether the job hangs: ", read, one ? " and shows no fault" : " and show no fault",
                       gap.empty() && !only_stacks_help ? "; other data is missing or unreadable" : gap);
    }
    if (told) {
      absl::StrAppend(&content.headline, ". ", absl::StripSuffix(problems[0], "."));
    } else if (!waited.empty()) {
      absl::StrAppend(&content.headline, "; ", RanksText(waited), " waited for others until a timeout expired");
    }
    const std::set<std::string> folders = FoldersOf(bundle);
    const std::string to = folders.size() == 1 ? absl::StrCat(" to ", Printable(*folders.begin(), 400)) : "";
    content.first.AddRow("do",
                         {moving              ? "1. Look again in a minute. A job that continues is not stuck."
                          : only_stacks_help  ? "1. Check whether the job still makes progress. If not, add the ranks' "
                                                "stacks (`py-spy dump --pid PID`) and analyze again."
                          : only_stacks       ? "1. If the job does not continue, add Flight Recorder dumps: run "
                                                "`lockstep attach --ask-torch`."
                          : no_calls && !told ? "1. If this job uses NCCL, run `lockstep doctor` where it runs."
                          : missing.empty() || told
                              ? "1. Add the missing or unreadable data, and analyze again."
                              : absl::StrCat("1. Add data from ", RanksText(missing, 8), to, " and analyze again.")});
  }
  std::vector<ReportRow>& rows = content.first.rows;
  rows.insert(rows.begin(), {"job", {absl::StrJoin(CircumstanceTexts(verdict), "; ")}});
  const auto before = [&rows](std::string_view label) {
    return std::find_if(rows.begin(), rows.end(),
                        [label](const ReportRow& r) { return r.label == label || r.label == "do"; });
  };
  ReportBlock middle;
  middle.AddRow("NOT", NotLines(verdict));
  rows.insert(
      before(std::any_of(rows.begin(), rows.end(), [](const ReportRow& r) { return r.label == "maybe"; }) ? "maybe"
                                                                                                          : "sure"),
      middle.rows.begin(), middle.rows.end());
  ReportBlock late;
  late.AddRow("blind", BlindLines(verdict));
  late.AddRow("code", CodeLines(verdict));
  late.AddRow("saving", CheckpointLines(verdict));
  rows.insert(before("do"), late.rows.begin(), late.rows.end());
  // Groups findings that differ only in names and numbers: eight pipelines stuck in the same way appear once.
  std::map<decltype(LikenessOf(Finding())), size_t> known;  // 0 for the first finding, n for others[n - 1]
  std::vector<std::vector<const Finding*>> alike(1);
  if (!verdict.findings().empty()) known.emplace(LikenessOf(verdict.findings(0)), 0);
  for (int i = 1; i < verdict.findings_size(); ++i) {
    const Finding& finding = verdict.findings(i);
    const auto [it, fresh] = known.try_emplace(LikenessOf(finding), content.others.size() + 1);
    if (!fresh) {
      alike[it->second].push_back(&finding);
      continue;
    }
    ReportBlock block = FindingBlock(finding, bundle, /*brief=*/content.others.size() + 1 >= kFullFindings);
    block.title = Headline(finding);
    block.finding = i;
    content.others.push_back(std::move(block));
    alike.emplace_back();
  }
  for (size_t i = 0; i < alike.size(); ++i) AddLikewise(alike[i], i == 0 ? &content.first : &content.others[i - 1]);
  content.data = DataBlock(verdict, bundle, told ? 1 : 0);
  if (!verdict.findings().empty()) {
    const auto& culprits = verdict.findings(0).culprits();
    const bool known =
        std::any_of(culprits.begin(), culprits.end(), [](const Culprit& culprit) { return !culprit.host().empty(); });
    MergedLines seen;
    size_t looked = 0;
    for (const Culprit& culprit : culprits) {
      const Rank* rank = FindRank(bundle, culprit.rank());
      if (rank == nullptr || rank->process.evidence == nullptr) continue;
      seen.Add(Printable(HardwareSeen(*rank->process.evidence), 400), culprit.rank());
      ++looked;
    }
    std::vector<std::string> lines = seen.Lines(looked, kMaxHardwareLines);
    if (lines.empty()) {
      std::set<std::string_view> hosts;
      for (const Culprit& culprit : culprits) hosts.insert(culprit.host());
      lines.push_back(known ? absl::StrCat("hardware errors were not read: check the kernel log of the ",
                                           hosts.size() > 1 ? "hosts" : "host", " named above")
                            : "this data contains neither hardware errors nor host names");
    }
    content.data.rows.insert(content.data.rows.begin() + 1, {"hardware", std::move(lines)});
  }
  if (const std::string redacted = RedactionLine(bundle); !redacted.empty())
    content.data.AddRow("redacted", {redacted});
  AddSpeed(verdict, &content.data);
  const bool moves =
      verdict.verdict() == VERDICT_HEALTHY || verdict.verdict() == VERDICT_SLOW || verdict.verdict() == VERDICT_LATE;
  if (!verdict.start_up().text().empty() && (moves || verdict.start_up().total_ns() >= kLongStartNs))
    content.data.AddRow("start-up", {Printable(verdict.start_up().text(), 1500)});
  return content;
}

}  // namespace lockstep
