// Ranks that left no data.
#include "absl/strings/str_cat.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> NoDataWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {"Look at it by hand: is the process alive, was the recorder loaded, was a dump written?",
                  "Add the missing dump and analyze again."};
  words.refuted_by = "its data showing that it had arrived";
  const std::vector<std::string> started = {
      "Check that this rank was started and is alive: scheduler, launcher log, its own error output.",
      "A process that never called NCCL leaves no ring."};
  switch (finding.reason()) {
    case REASON_NO_DATA:
      words.what = "left no data";
      break;
    case REASON_RECORDING_STOPPED:
      words.what = absl::StrCat(detail.flag() ? "others wait for it, and its " : "", detail.name());
      break;
    case REASON_NO_DATA_OTHERS_WAIT:
      words.what =
          Pick(finding, "others wait for it, and it left no data", "others wait for them, and they left no data");
      break;
    case REASON_DATA_LOST_OTHERS_WAIT:
      words.what = Pick(finding, "others wait for it, and the part of its data that would show why is lost",
                        "others wait for them, and the part of their data that would show why is lost");
      break;
    case REASON_NO_DATA_OR_LOST:
      words.what = "left no data, or lost the part of it that matters, and all others wait for one of them";
      break;
    case REASON_NO_DATA_OTHERS_MEET:
      words.what = "others wait for another process outside NCCL, and it left no data";
      words.rivals = {"the program needs no call of the named ranks there, and what the others wait for is elsewhere"};
      words.tells_apart = "which key or barrier they wait for, and which process sets it";
      words.refuted_by = "its data showing that it waits there as well";
      words.advice = started;
      break;
    case REASON_NO_DATA_IN_CREATION:
      words.what = absl::StrCat("not seen in ", CallText(detail.call()),
                                ", and left no data: not started, or its data is missing");
      words.refuted_by = "its data showing that it had entered";
      words.advice = started;
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
