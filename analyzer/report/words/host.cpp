// Processes whose own code keeps them from reaching the others' operation.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

std::vector<std::string> StackAdvice(const Finding& finding) {
  constexpr char kUsual[] = "Common reasons: data loader, checkpoint, lock, exception, garbage collection.";
  if (AllEnded(finding))
    return {Pick(finding, "Read the end of its log: its process has ended.",
                 "Read the ends of their logs: their processes have ended."),
            kUsual};
  return {LookStep(finding), finding.place().empty() ? kUsual : "Find out what keeps the process there."};
}

std::vector<std::string> KernelAdvice(const Finding& finding) {
  if (finding.cpu_only()) return StackAdvice(finding);
  return {GpuStep(finding), "Look for a kernel on it that never ends."};
}

// "waits"; "has waited" if a duration follows.
std::string Waits(const Finding& finding) {
  if (finding.detail().has_duration_ns()) return Pick(finding, "has waited", "have waited");
  return Pick(finding, "waits", "wait");
}

std::string InNothing(const Finding& finding) {
  if (!finding.detail().has_duration_ns())
    return absl::StrCat(Pick(finding, "is", "are"), " outside NCCL, not waiting for a GPU");
  return absl::StrCat(Pick(finding, "has been outside NCCL", "have been outside NCCL"), ForText(finding.detail()),
                      ", not waiting for a GPU");
}

}  // namespace

std::optional<Words> HostWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string never = NeverEntered(finding);
  Words words;
  words.refuted_by = kEntered;
  switch (finding.reason()) {
    case REASON_GROUP_OPEN:
      words.what =
          absl::StrCat("called ncclGroupStart",
                       detail.has_duration_ns() ? absl::StrCat(" ", DurationText(detail.duration_ns()), " ago") : "",
                       detail.count() > 1 ? absl::StrCat(" (depth ", detail.count(), ")") : "", " without ncclGroupEnd",
                       detail.flag() ? " and exited with status 0" : "");
      words.more = {{": ", "NCCL has launched none of the group's calls"}};
      words.advice = {"Find the code that skips ncclGroupEnd: early return? exception?",
                      "In PyTorch, batch_isend_irecv and _coalescing_manager open such groups."};
      break;
    case REASON_BATCH_OPEN:
      words.what = absl::StrCat("never ended the group of calls that contains ", CallText(detail.call()));
      words.more = {{": ", "NCCL has launched none of them"}};
      words.advice = {"Find the code that never ends the group: early return? exception?"};
      break;
    case REASON_LEFT_LOOP:
      words.what = absl::StrCat(never, never.empty() ? "" : ", ",
                                Pick(finding, "has left the training loop and destroys its communicators",
                                     "have left the training loop and are destroying their communicators"));
      words.advice = {"Find out why it left the loop: out of data? swallowed exception?",
                      "Make every rank run the same number of steps, or agree on when to stop through a collective."};
      break;
    case REASON_INSIDE_CALL:
      words.what =
          absl::StrCat(detail.has_duration_ns() ? Pick(finding, "has been", "have been") : Pick(finding, "is", "are"),
                       " inside nccl", detail.name(), ForText(detail));
      words.more = AndNeverEntered(finding);
      words.advice = {LookStep(finding)};
      break;
    case REASON_WAITS_FOR_OTHER_WORK:
      words.what = absl::StrCat(Waits(finding), " in ", detail.name(), ForText(detail), ", for non-NCCL GPU work");
      words.more = AndNeverEntered(finding);
      words.advice = KernelAdvice(finding);
      break;
    case REASON_WAITS_UNSEEN:
      words.what = absl::StrCat(Waits(finding), " in ", detail.name(), ForText(detail), ", for ",
                                Pick(finding, "its GPU", "their GPUs"));
      words.more = AndNeverEntered(finding);
      if (detail.flag())
        words.more = {
            {"; ", absl::StrCat("no call matches ", RankNames(detail.ranks()), "'s ", CallText(detail.call()))}};
      words.more.insert(words.more.begin(), {"; ", "the recording does not show what runs there"});
      words.rivals = {Pick(finding, "the rank waits in an NCCL operation, held up by another rank",
                           "the ranks wait in NCCL operations, held up by other ranks")};
      words.tells_apart = "GPU progress markers (LOCKSTEP_GPU=done or full)";
      words.advice = KernelAdvice(finding);
      if (detail.flag()) {
        words.advice.insert(words.advice.begin(), "Compare their calls: is one missing, extra, or for the wrong peer?");
      }
      break;
    case REASON_OUTSIDE_NCCL:
      words.what = never.empty() ? InNothing(finding) : never;
      if (!never.empty() && finding.place().empty())
        words.more.push_back({"; ", absl::StrCat(Pick(finding, "it ", "they "), InNothing(finding))});
      words.advice = StackAdvice(finding);
      break;
    case REASON_OUTSIDE_NCCL_OTHERS_MEET:
      words.what = absl::StrCat(InNothing(finding), ", while all other ranks wait for another process outside NCCL");
      words.rivals = {"the others wait for something else, in which the named ranks take no part"};
      words.tells_apart = "the key or barrier that the others wait for, and the process that must set it";
      words.refuted_by = "stacks that show the named ranks in the same wait";
      words.advice = {
          LookStep(finding),
          "If the job has just started, check whether this rank must send a group's unique id to the others."};
      break;
    case REASON_NEVER_ENTERED:
      words.what = never.empty() ? "never arrived" : never;
      if (!never.empty()) words.more = WhereOthersIssued(finding);
      words.advice = StackAdvice(finding);
      break;
    case REASON_STOPPED_SHORT:
      words.what =
          "made no further call, although ranks with the same role made one while the same work was unfinished";
      words.advice = StackAdvice(finding);
      break;
    case REASON_ELSEWHERE_OTHERS_WAIT:
      words.what = absl::StrCat(Pick(finding, "is ", "are "), detail.name(), " while ",
                                Counted(detail.count(), "other rank waits", "other ranks wait"));
      words.rivals = {"the named rank waits for another rank in a way that its stack does not show"};
      words.tells_apart = "a record of the ranks' NCCL calls";
      words.refuted_by = "the named rank continuing while the others still wait";
      words.advice = StackAdvice(finding);
      break;
    case REASON_ELSEWHERE_BY_STACK:
      words.what = detail.flag()
                       ? "wait at different places in the program"
                       : absl::StrCat(Pick(finding, "is ", "are "), detail.name(),
                                      Pick(finding, ", where no other rank is", ", where none of the others is"));
      words.rivals = {"the stacks were taken at different times, while the job was running",
                      "the ranks have different roles there, and no Python stack shows what delays them"};
      words.tells_apart = "a record of the ranks' NCCL calls";
      words.refuted_by = "the other ranks reaching that place as well";
      words.advice = {"Compare these places: which condition sends the ranks there?",
                      "Take the stacks of all ranks twice, a few seconds apart: a rank that moves is not stuck."};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
