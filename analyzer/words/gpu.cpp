// GPUs that are stuck by themselves, and members that alone are done.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/words/commands.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> GpuWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  const std::string gpu_state = Step("Read the GPU's state and the Xid errors of its host", GpuCommand(finding));
  const std::string drain = RestartStep(finding, "If the GPU is broken, restart");
  constexpr char kKernel[] = "Look for a kernel or host callback that never ends on this GPU, ahead of the collective.";
  constexpr char kStart[] = "a recorded start of that operation on that GPU";
  const std::string error = detail.name().empty() ? "" : absl::StrCat("; ", detail.name());
  Words words;
  switch (finding.reason()) {
    case REASON_GPU_ERROR:
      words.what = absl::StrCat(Pick(finding, "its GPU reported an error and has completed",
                                     "their GPUs reported an error and have completed"),
                                " nothing since", call.empty() ? "" : absl::StrCat(", first ", call), error);
      words.advice = {"Read the end of its error output.", gpu_state,
                      RestartStep(finding, "If it is a hardware error, restart")};
      words.refuted_by = "the error being a consequence of the job's end";
      break;
    case REASON_GPU_BEHIND:
      words.what = absl::StrCat(Pick(finding, "its GPU", "their GPUs"), " never completed ", call, ", which ",
                                Pick(finding, "its", "their"), " peers completed", error);
      words.advice = {gpu_state, drain};
      words.refuted_by = "the rank's own watchdog being slow to notice completions";
      break;
    case REASON_GPU_OR_OTHER_CALL:
      words.what = absl::StrCat(
          "disagree about ", call,
          ": unfinished on one, counted as finished by the other, whose damaged file does not contain the call", error);
      words.rivals = {absl::StrCat("the GPU of ", RankNames(detail.ranks()), " is stuck"),
                      absl::StrCat("a different call of ", RankNames(detail.others()), " with that number")};
      words.tells_apart = absl::StrCat("an undamaged dump of ", RankNames(detail.others()),
                                       "; Xid errors of the GPU of ", RankNames(detail.ranks()));
      words.advice = {gpu_state, drain};
      words.refuted_by = "the rank's own watchdog being slow to notice completions";
      break;
    case REASON_STREAM_BLOCKED:
      words.what = absl::StrCat(Pick(finding, "its GPU has", "their GPUs have"), " not started ", call,
                                ": a kernel queued before it does not finish", error);
      words.advice = {kKernel, gpu_state};
      words.refuted_by = kStart;
      break;
    case REASON_STREAM_BLOCKED_BESIDE:
      words.what = absl::StrCat(Pick(finding, "its GPU has", "their GPUs have"), " not started ", call, ", which ",
                                Pick(finding, "its", "their"),
                                " peers are in, while another of its streams waits in a later operation");
      words.rivals = {"non-NCCL work ahead of it on that stream does not end",
                      "the GPU runs the two operations in the opposite order of the other GPUs"};
      words.tells_apart = "a kernel trace of this GPU; the job running with NCCL_LAUNCH_ORDER_IMPLICIT=1";
      words.advice = {kKernel, gpu_state};
      words.refuted_by = kStart;
      break;
    case REASON_NO_STREAM_CAME:
      words.what =
          absl::StrCat(Several(finding) ? "no member's GPU" : "its GPU", " has ", Several(finding) ? "" : "not ",
                       "started ", call, ": a kernel queued before it does not finish");
      words.advice = {"Look for a kernel or host callback that never ends on these GPUs, ahead of the collective.",
                      Step("Read the GPUs' state and the Xid errors", GpuCommand(finding))};
      words.refuted_by = "a recorded start of that operation, or a long computation that ends";
      break;
    case REASON_ERROR_IN_OPERATION:
      words.what =
          absl::StrCat(detail.name(), "; ", call, ", which all ", detail.of(), " members entered, does not end");
      words.advice = {gpu_state, drain};
      words.refuted_by = "the error being a consequence of the job's end";
      break;
    case REASON_GPU_STOPPED_AFTER:
      words.what = absl::StrCat(Pick(finding, "its GPU", "their GPUs"), " completed nothing that was issued after ",
                                call, "; the GPUs of the other members did, and all wait in it");
      words.rivals = {"the network between these ranks", "the GPU of one of them, inside the operation"};
      words.tells_apart =
          "full GPU marks (which GPU did not start), the profiler (which network steps stopped), Xid and link errors "
          "of their hosts";
      words.advice = {gpu_state,
                      "If there are no errors, suspect the network between the members of this communicator."};
      words.refuted_by = "a member that had not arrived";
      break;
    case REASON_FINISHED_ALONE:
      words.what = absl::StrCat("alone completed ", call, ", which other members are still in: ",
                                detail.flag() ? "its call there, whose record is gone, was most likely a different one"
                                              : "it passed different arguments, or did not wait for them");
      words.rivals = {"the network or a GPU inside the operation, after this rank had all that it needed"};
      words.tells_apart = detail.flag()
                              ? "a longer record of the named rank (a larger ring); the profiler's network steps"
                              : "the arguments that this rank and the others passed; the profiler's network steps";
      words.advice = {"Compare what this rank and the others pass to that call: size, datatype, operation."};
      if (detail.flag()) words.advice.push_back(kLargerRing);
      words.refuted_by = detail.flag() ? "that rank's record of the call being the same as the others'"
                                       : "the others completing the call a moment later";
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
