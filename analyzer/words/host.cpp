// Processes that do not reach the operation of others, because of their own code.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/words/commands.h"
#include "analyzer/words/reasons.h"

namespace lockstep {
namespace {

constexpr char kOwnRecord[] = "that rank's own record of the operation";
constexpr char kUsual[] = "data loader, checkpoint, lock, exception, garbage collection";

// The place in the code is already shown, or must be looked up.
std::vector<std::string> StackAdvice(const Finding& finding) {
  if (finding.place().empty())
    return {Step(absl::StrCat("Read ", Pick(finding, "its stacks", "their stacks"), " (", kUsual, ")"),
                 LookCommand(finding))};
  const std::string who = finding.culprit_ranks_size() == 1 ? absl::StrCat("rank ", finding.culprit_ranks(0), " does")
                                                            : Pick(finding, "the rank does", "the ranks do");
  return {absl::StrCat("Find out why ", who, " not return from ", PlaceText(finding.place()), ": ", kUsual, "."),
          Step("See what its other threads do", LookCommand(finding))};
}

std::vector<std::string> KernelAdvice(const Finding& finding) {
  if (finding.cpu_only()) return StackAdvice(finding);
  return {"Look for a kernel that never ends on this GPU.",
          Step("Read the GPU's state and Xid errors", GpuCommand(finding))};
}

std::string InNothing(const Finding& finding) {
  return absl::StrCat(Pick(finding, "its process is", "their processes are"), " in no NCCL call and no GPU wait",
                      ForText(finding.detail()));
}

}  // namespace

std::optional<Words> HostWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string never = NeverEntered(finding);
  Words words;
  words.refuted_by = kOwnRecord;
  switch (finding.reason()) {
    case REASON_GROUP_OPEN:
      words.what = absl::StrCat("called ncclGroupStart without ncclGroupEnd (depth ", detail.count(),
                                detail.flag() ? ") and exited with status 0" : absl::StrCat(")", ForText(detail)),
                                ": its calls were accepted, none was launched");
      words.advice = {"Find the path that leaves the group without ncclGroupEnd (an early return, an exception)."};
      break;
    case REASON_BATCH_OPEN:
      words.what = absl::StrCat("never ended the batch that ", CallText(detail.call()),
                                " is part of: its calls since then were accepted, none was launched");
      words.advice = {
          "Find the path that leaves the group of calls without ending it (an early return, an exception)."};
      break;
    case REASON_LEFT_LOOP:
      words.what = absl::StrCat(never.empty() ? "it" : absl::StrCat(never, "; it"),
                                " has left the training loop and ends its communicators");
      words.advice = {
          "Find out why this rank left the loop: its data ran out, a swallowed exception, a different number of steps.",
          "Make every rank run the same number of steps, or agree on the end through a collective."};
      break;
    case REASON_INSIDE_CALL:
      words.what = absl::StrCat(Pick(finding, "is", "are"), " inside nccl", detail.name(), ForText(detail),
                                AndNeverEntered(finding));
      words.advice = {Step("See where inside the call its threads are", LookCommand(finding))};
      break;
    case REASON_WAITS_FOR_OTHER_WORK:
      words.what = absl::StrCat(Pick(finding, "waits", "wait"), " in ", detail.name(), ForText(detail),
                                " for non-NCCL GPU work", AndNeverEntered(finding));
      words.advice = KernelAdvice(finding);
      break;
    case REASON_WAITS_UNSEEN:
      words.what = absl::StrCat(Pick(finding, "waits", "wait"), " in ", detail.name(), ForText(detail), " for ",
                                Pick(finding, "its GPU", "their GPUs"), ", and nothing recorded what runs there",
                                AndNeverEntered(finding));
      words.rivals = {"it waits for an NCCL operation, and is a victim"};
      words.tells_apart = "GPU marks (LOCKSTEP_GPU=done or full)";
      words.advice = KernelAdvice(finding);
      break;
    case REASON_OUTSIDE_NCCL:
      words.what = never.empty()             ? InNothing(finding)
                   : finding.place().empty() ? absl::StrCat(never, "; ", InNothing(finding))
                                             : never;
      words.advice = StackAdvice(finding);
      break;
    case REASON_OUTSIDE_NCCL_OTHERS_MEET:
      words.what = absl::StrCat(InNothing(finding), ", and all others wait for another process outside NCCL");
      words.rivals = {"the program needs no call of the named ranks there, and what the others wait for is elsewhere"};
      words.tells_apart = "which key or barrier they wait for, and which process sets it";
      words.refuted_by = "the named ranks being inside that rendezvous as well";
      words.advice = {Step("See what it does: it has not reached what the others wait for", LookCommand(finding)),
                      "At the start of a job: does this rank hand out the unique id of a group?"};
      break;
    case REASON_FEWER_LAUNCHES:
      words.what = absl::StrCat("launched its CUDA graph ", Counted(detail.count(), "time", "times"), ", and ",
                                InNothing(finding));
      words.rivals = {"a rank without data is stuck, and this one does other work"};
      words.tells_apart = "the dumps of the ranks without data";
      words.refuted_by = "that rank having less to launch by design";
      words.advice = StackAdvice(finding);
      break;
    case REASON_NEVER_ENTERED:
      words.what = never.empty() ? "never arrived" : never;
      words.advice = StackAdvice(finding);
      break;
    case REASON_STOPPED_SHORT:
      words.what =
          absl::StrCat(Pick(finding, "its process", "their processes"),
                       " stopped before a call that ranks with the same role made with the same work unfinished");
      words.advice = StackAdvice(finding);
      break;
    case REASON_ELSEWHERE_OTHERS_WAIT:
      words.what = absl::StrCat(Pick(finding, "is ", "are "), detail.name(), " while ",
                                Counted(detail.count(), "other rank waits", "other ranks wait"));
      words.rivals = {"the named rank waits for another one by means that its stack does not show"};
      words.tells_apart = "a record of their NCCL calls";
      words.refuted_by = "the named rank moving on while the others still wait";
      words.advice = StackAdvice(finding);
      break;
    case REASON_ELSEWHERE_BY_STACK:
      words.what = absl::StrCat(Pick(finding, "is ", "are "), detail.name(),
                                Pick(finding, ", where no other rank is", ", where none of the others is"));
      words.rivals = {"the stacks were taken at different times, while the job was running",
                      "the ranks have different roles there, and what holds them up shows in no Python stack"};
      words.tells_apart = "a record of their NCCL calls";
      words.refuted_by = "the other ranks passing that place as well";
      words.advice = {"Compare the two places of the program: which condition sends ranks to different ones?",
                      "Take the stacks of all ranks twice, a few seconds apart: a rank that moves is not stuck."};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
