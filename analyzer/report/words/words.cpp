#include "analyzer/report/words/words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/words/activity.h"
#include "analyzer/report/words/chain.h"
#include "analyzer/report/words/evidence.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/util/time_text.h"

namespace lockstep {

std::string CallText(const CallRef& call) {
  return call.on().empty() ? call.text() : absl::StrCat(call.text(), " on ", call.on());
}

std::string CallAndSite(const CallRef& call) {
  return call.site().empty() ? CallText(call) : absl::StrCat(CallText(call), " (", call.site(), ")");
}

std::string ForText(const Detail& detail) {
  return detail.has_duration_ns() ? absl::StrCat(" for ", DurationText(detail.duration_ns())) : "";
}

std::string RankNames(const google::protobuf::RepeatedField<int32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks({ranks.begin(), ranks.end()}));
}

std::string NeverEntered(const Finding& finding) {
  const Detail& detail = finding.detail();
  if (!detail.has_call()) return "";
  const std::string call = CallText(detail.call());
  // If there are ranks, the missing call is the counterpart of their send or receive.
  return detail.ranks_size() > 0
             ? absl::StrCat("never made the call that matches ", RankNames(detail.ranks()), "'s ", call)
             : absl::StrCat("never called ", call);
}

std::vector<Clause> AndNeverEntered(const Finding& finding) {
  const std::string never = NeverEntered(finding);
  if (never.empty()) return {};
  return {{"; ", absl::StrCat(Pick(finding, "it ", "they "), never)}};
}

std::vector<Clause> WhereOthersIssued(const Finding& finding) {
  const CallSite* most = nullptr;
  int sites = 0;
  for (const CallSite& site : finding.call_sites()) {
    if (std::find_first_of(site.ranks().begin(), site.ranks().end(), finding.culprit_ranks().begin(),
                           finding.culprit_ranks().end()) != site.ranks().end())
      continue;
    ++sites;
    if (most == nullptr || site.ranks_size() > most->ranks_size()) most = &site;
  }
  if (most == nullptr || most->place().empty()) return {};
  return {{"; ",
           absl::StrCat(sites == 1 ? "others" : Counted(most->ranks_size(), "other rank", "other ranks"),
                        " called it in ", PlaceText(most->place())),
           /*repeated=*/true}};
}

namespace {

// An alternative, and the fact that would decide whether it is true. If `decides` is empty, Words::tells_apart decides.
struct RivalWords {
  std::string what, decides;
};

RivalWords WordsOf(const Rival& rival) {
  const Detail& detail = rival.detail();
  constexpr char kLongerRecord[] = "a longer record (a larger ring); its GPU's error log";
  switch (rival.kind()) {
    case Rival::SECOND_CAUSE:
      return {
          absl::StrCat("a second cause at ", RankNames(detail.ranks()), ": others wait for it, and it left no data"),
          ""};
    case Rival::UNSEEN_MEMBER:
      return {absl::StrCat(detail.ranks_size() == 1 ? "" : "one of ", RankNames(detail.ranks()),
                           ", which left no data, is also a member and never arrived"),
              ""};
    case Rival::GPU_ORDER:
      return {absl::StrCat("the GPUs of the ", CountText(detail.count()), " members run this call and ",
                           CallText(detail.call()), " in different orders; all members called both"),
              "the job running with NCCL_LAUNCH_ORDER_IMPLICIT=1 (launch order, stream priorities and "
              "CUDA_DEVICE_MAX_CONNECTIONS decide what a GPU runs first)"};
    case Rival::OTHER_STREAM:
      return {
          "the rank waits for another stream of its GPU, and the recording no longer contains that stream's operation",
          kLongerRecord};
    case Rival::OWN_GPU:
      return {"the process waits for its own GPU, or for space in its launch queue",
              "the stack of the process (is it in a CUDA synchronization?); a kernel trace of its GPU"};
    case Rival::LOST_WAIT:
      return {"the rank waits in an operation that its damaged record does not contain",
              "an undamaged record of the rank, or its stack"};
    case Rival::MEETS_OUTSIDE:
      return {
          "the fault is in the process for which this one waits outside NCCL; that process waits in NCCL, or left no "
          "data",
          "which process must set that key, or is missing from that barrier"};
    case Rival::WATCHDOG:
      return {
          "the rank was only waiting, and its watchdog ended it: the record that would show this is damaged or missing",
          ""};
    case Rival::JOB_MOVED:
      if (detail.has_duration_ns()) {
        return {absl::StrCat("the job is still running and this wait is normal: its processes were watched for only ",
                             DurationText(detail.duration_ns())),
                "the same stacks a minute later; the job's last output"};
      }
      return {
          "the job was making progress until its data was taken or its processes were ended: the data does not "
          "show how long it had been stuck",
          "when the files were written; the job's last output; what ended it"};
    case Rival::SWITCH: return {"the fault is in one switch or link that all of these communicators use", ""};
    case Rival::SILENT_RANK: return {"these ranks wait for a rank that left no data", ""};
    case Rival::OTHER_GONE:
      return {"the cause is another rank, in an operation that the recording no longer contains",
              "a longer record (a larger ring), or a dump taken earlier"};
    case Rival::LOST_FILE:
      return {absl::StrCat(RankNames(detail.ranks()), detail.ranks_size() == 1 ? " is" : " are",
                           " stuck for another reason, and only the file of the rank without data is missing"),
              absl::StrCat("the stacks of ", RankNames(detail.ranks()),
                           "; whether the process without data is still running")};
    case Rival::ROOTS_DIFFER:
      return {"the members name different roots, or none of them is the root: the record does not contain roots",
              "the root that each member passes to that call"};
    case Rival::ANOTHER_PORT:
      return {"the fault is in another port or link between these ranks",
              "NCCL's profiler with network steps, or the ports' own counters"};
    case Rival::ORDER_IN_CIRCLE:
      return {"another rank in the cycle made its calls in the wrong order",
              "a longer record (a larger ring), or a dump taken earlier"};
    default: return {};
  }
}

Words WordsOf(const Finding& finding) {
  for (const auto family : {ProcessWords, HostWords, NoDataWords, GpuWords, StuckWords, CallWords, ProgramWords,
                            CountWords, CircleWords, CreationWords, SlowWords}) {
    if (std::optional<Words> words = family(finding)) return std::move(*words);
  }
  return {};
}

std::vector<Clause> ClausesOf(const Words& words) {
  std::vector<Clause> clauses = {{"", words.what}};
  clauses.insert(clauses.end(), words.more.begin(), words.more.end());
  return clauses;
}

bool IsOfGpu(Rival::Kind kind) {
  return kind == Rival::GPU_ORDER || kind == Rival::OTHER_STREAM || kind == Rival::OWN_GPU;
}

// Below this confidence, a finding with several ranks includes a fact that would distinguish them.
constexpr double kSure = 0.9;

}  // namespace

std::string Joined(const std::vector<Clause>& clauses) {
  std::string text;
  for (const Clause& clause : clauses) absl::StrAppend(&text, clause.joint, clause.text);
  return text;
}

std::vector<Clause> SummaryClauses(const Finding& finding) {
  std::vector<Clause> clauses = ClausesOf(WordsOf(finding));
  // The verdict may be from a version with other words.
  if (Joined(clauses) != finding.summary()) clauses = {{"", finding.summary()}};
  return clauses;
}

bool SummaryHasSubject(const Finding& finding) {
  return finding.reason() == REASON_UNSPECIFIED || WordsOf(finding).own_subject;
}

void PutIntoWords(Finding* finding) {
  Words words = WordsOf(*finding);
  if (std::vector<std::string> better = ActivityAdvice(*finding); !better.empty()) words.advice = std::move(better);
  finding->set_summary(Joined(ClausesOf(words)));
  finding->set_refuted_by(std::move(words.refuted_by));
  for (Culprit& culprit : *finding->mutable_culprits()) culprit.set_state(ConditionText(culprit));
  for (ChainLink& link : *finding->mutable_chain()) PutIntoWords(&link);
  for (Evidence& evidence : *finding->mutable_evidence()) evidence.set_text(EvidenceText(evidence));
  finding->clear_alternatives();
  finding->clear_advice();
  finding->clear_advice_steps();
  std::vector<std::string> decides;
  if (!words.tells_apart.empty()) decides.push_back(std::move(words.tells_apart));
  for (const Rival& rival : finding->rivals()) {
    if (finding->cpu_only() && IsOfGpu(rival.kind())) continue;
    auto [what, deciding] = WordsOf(rival);
    finding->add_alternatives(std::move(what));
    if (!deciding.empty() && std::find(decides.begin(), decides.end(), deciding) == decides.end())
      decides.push_back(std::move(deciding));
  }
  for (std::string& rival : words.rivals) finding->add_alternatives(std::move(rival));
  // Every open question (which of several ranks, or which explanation) comes with a way to decide it.
  const bool set = Several(*finding) && finding->confidence() < kSure && !finding->has_common_factor();
  if (decides.empty() && (set || finding->alternatives_size() > 0))
    decides.push_back(FindingFactsOf(finding->kind()).tells_apart);
  finding->set_tells_apart(absl::StrJoin(decides, "; "));
  for (std::string& step : words.advice) {
    absl::StrAppend(finding->mutable_advice(), finding->advice_steps_size() > 0 ? "\n" : "",
                    finding->advice_steps_size() + 1, ". ", step);
    finding->add_advice_steps(std::move(step));
  }
}

}  // namespace lockstep
