// Ranks that left no data.
#include "absl/strings/str_cat.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> NoDataWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {
      "Check whether the process is alive, whether the recorder was loaded, and whether a dump was written.",
      "Add the missing dump and analyze again."};
  words.refuted_by = "data that shows that it had arrived";
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
      words.what = "left no data, or the part of their data that matters is lost, and all others wait for one of them";
      break;
    case REASON_NO_DATA_OTHERS_MEET:
      words.what = "others wait for another process outside NCCL, and it left no data";
      words.rivals = {"the program needs no call of the named ranks there; the others wait for something else"};
      words.tells_apart = "the key or barrier that they wait for, and the process that must set it";
      words.refuted_by = "data that shows it waiting there as well";
      words.advice = started;
      break;
    case REASON_NO_DATA_ALL_OTHERS_WAIT:
      words.what = absl::StrCat("left no data, and the ", detail.count(), " other ranks wait for peers or a GPU");
      words.rivals = {"all of them are in one operation that does not finish: a GPU or the network is at fault"};
      words.tells_apart = "its stack: whether it also waits, or is elsewhere";
      words.refuted_by = "a stack that shows it in the same wait";
      words.advice = started;
      break;
    case REASON_NO_DATA_IN_CREATION:
      words.what = absl::StrCat("not seen in ", CallText(detail.call()),
                                ", and left no data: not started, or its data is missing");
      words.refuted_by = "data that shows that it had entered";
      words.advice = started;
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
