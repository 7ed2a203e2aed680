// GPUs that are stuck on their own, and members that completed an operation alone.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> GpuWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  const std::string gpu_state = GpuStep(finding);
  const std::string drain = RestartStep(finding, "If the GPU is broken, restart");
  constexpr char kKernel[] = "Look for an earlier kernel or host callback that never ends.";
  constexpr char kEarlierKernel[] = "an earlier kernel does not finish";
  constexpr char kStart[] = "a record showing that this operation started on that GPU";
  constexpr char kSlowWatchdog[] = "a watchdog that notices completions late on this rank";
  constexpr char kByEnd[] = "a record showing that the error was only a consequence of the job's end";
  const std::vector<Clause> error =
      detail.name().empty() ? std::vector<Clause>() : std::vector<Clause>{{"; ", detail.name()}};
  Words words;
  words.own_subject = true;
  switch (finding.reason()) {
    case REASON_GPU_ERROR:
      words.what = absl::StrCat(Pick(finding, "its GPU reported an error and has completed",
                                     "their GPUs reported an error and have completed"),
                                " nothing since", call.empty() ? "" : absl::StrCat("; first unfinished: ", call));
      words.more = error;
      words.advice = {"Read the end of the rank's error output.", gpu_state,
                      RestartStep(finding, "If it is a hardware error, restart")};
      words.refuted_by = kByEnd;
      break;
    case REASON_GPU_BEHIND:
      words.what = absl::StrCat(Pick(finding, "its GPU", "their GPUs"), " never completed ", call, ", which ",
                                Pick(finding, "its", "their"), " peers completed");
      words.more = error;
      words.advice = {gpu_state, drain};
      words.refuted_by = kSlowWatchdog;
      break;
    case REASON_GPU_OR_OTHER_CALL:
      words.own_subject = false;
      words.what = absl::StrCat("disagree about ", call);
      words.more = {
          {": ", absl::StrCat(RankNames(detail.ranks()), " has not finished it, and ", RankNames(detail.others()),
                              " counts it as finished in a damaged file that does not contain the call")}};
      words.more.insert(words.more.end(), error.begin(), error.end());
      words.rivals = {absl::StrCat("the GPU of ", RankNames(detail.ranks()), " is stuck"),
                      absl::StrCat(RankNames(detail.others()), " made a different call with that number")};
      words.tells_apart = absl::StrCat("an undamaged dump of ", RankNames(detail.others()),
                                       "; Xid errors of the GPU of ", RankNames(detail.ranks()));
      words.advice = {gpu_state, drain};
      words.refuted_by = kSlowWatchdog;
      break;
    case REASON_STREAM_BLOCKED:
      words.what = absl::StrCat(Pick(finding, "its GPU has", "their GPUs have"), " not started ", call);
      words.more = {{"; ", kEarlierKernel}};
      words.more.insert(words.more.end(), error.begin(), error.end());
      words.advice = {gpu_state, kKernel};
      words.refuted_by = kStart;
      break;
    case REASON_STREAM_BLOCKED_BESIDE:
      words.what = absl::StrCat(Pick(finding, "its GPU has", "their GPUs have"), " not started ", call, ", which ",
                                Pick(finding, "its", "their"),
                                " peers are in, while another of its streams waits in a later operation");
      words.rivals = {"one of the program's kernels, queued before that operation, does not finish",
                      "this GPU runs the two operations in a different order from the other GPUs"};
      words.tells_apart = "a kernel trace of this GPU; whether the job runs with NCCL_LAUNCH_ORDER_IMPLICIT=1";
      words.advice = {gpu_state, kKernel};
      words.refuted_by = kStart;
      break;
    case REASON_NO_STREAM_CAME:
      words.what = absl::StrCat(Several(finding) ? "no member's GPU" : "its GPU", " has ",
                                Several(finding) ? "" : "not ", "started ", call);
      words.more = {{"; ", kEarlierKernel}};
      words.advice = {gpu_state, kKernel};
      words.refuted_by = "a record showing that this operation started, or a long computation that finishes";
      break;
    case REASON_ERROR_IN_OPERATION:
      words.what = detail.name();
      words.more = {
          {"; ", absl::StrCat("all ", CountText(detail.of()), " ranks called ", call, ", which does not finish")}};
      words.advice = {gpu_state, drain};
      words.refuted_by = kByEnd;
      break;
    case REASON_GPU_STOPPED_AFTER:
      words.what = absl::StrCat(Pick(finding, "its GPU", "their GPUs"), " completed no operation after ", call);
      words.more = {
          {"; ", "the other members' GPUs completed later operations, and all members now wait in the same one"}};
      words.rivals = {kNetworkBetween, kGpuInside};
      words.tells_apart = kWhichGpuOrLink;
      words.advice = {gpu_state,
                      "If there are no errors, suspect the network between the members of this communicator."};
      words.refuted_by = kNotArrived;
      break;
    case REASON_FINISHED_ALONE:
      words.own_subject = false;
      words.what = absl::StrCat("completed ", call, ", which other members are still in");
      words.more = {{": ", detail.flag() ? "it most likely made a different call there, whose record is gone"
                                         : "it passed different arguments, or did not wait for the others"}};
      words.rivals = {"the network or a GPU failed inside the operation, after this rank had all the data it needed"};
      words.tells_apart = detail.flag()
                              ? "a longer record of the named rank (a larger ring); the profiler's network steps"
                              : "the arguments that this rank and the others passed; the profiler's network steps";
      words.advice = {"Compare its arguments to that call with those of the others."};
      if (detail.flag()) words.advice.push_back(kLargerRing);
      words.refuted_by = detail.flag() ? "a record showing that the rank made the same call as the others"
                                       : "the others completing the call a moment later";
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
