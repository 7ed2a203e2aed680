// Ranks that left no data.
#include "absl/strings/str_cat.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> NoDataWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {Pick(finding, "Check whether its process is alive, and why it left no data.",
                       "Check whether they are alive, and why they left no data."),
                  "Add the missing dump and analyze again."};
  words.refuted_by = "data showing that the rank arrived";
  const std::vector<std::string> started = {Pick(finding, "Check in the launcher's log whether it was started.",
                                                 "Check in the launcher's log whether they were started."),
                                            "A process that never called NCCL leaves no ring."};
  switch (finding.reason()) {
    case REASON_NO_DATA: words.what = "left no data"; break;
    case REASON_RECORDING_STOPPED:
      words.what = absl::StrCat(detail.flag() ? "other ranks wait for it; " : "", detail.name());
      words.own_subject = true;
      break;
    case REASON_NO_DATA_OTHERS_WAIT:
      // The number of waiting ranks follows, if it is known.
      words.what = finding.victim_count() > 0 ? "left no data"
                                              : Pick(finding, "left no data, and other ranks wait for it",
                                                     "left no data, and other ranks wait for them");
      words.rivals = {absl::StrCat(Pick(finding, "it", "they"), " made these calls too, and ",
                                   finding.cpu_only() ? "" : "a GPU or ", "the network does not finish them")};
      words.tells_apart = Pick(finding, "the missing data of that rank", "the missing data of those ranks");
      break;
    case REASON_DATA_LOST_OTHERS_WAIT:
      words.what = Pick(finding, "lost the part of its data that would show why other ranks wait for it",
                        "lost the part of their data that would show why other ranks wait for them");
      break;
    case REASON_NO_DATA_OTHERS_MEET:
      words.what = "left no data, and the other ranks wait for another process outside NCCL";
      words.rivals = {"the others wait for something else, in which the named ranks take no part"};
      words.tells_apart = "the key or barrier that the other ranks wait for, and the process that must set it";
      words.refuted_by = "data showing the rank in the same wait";
      words.advice = started;
      break;
    case REASON_NO_DATA_ALL_OTHERS_WAIT:
      words.what =
          absl::StrCat("left no data, and the ", CountText(detail.count()), " other ranks wait for peers or a GPU");
      words.rivals = {"all ranks are in one operation that does not finish, because of a GPU or the network"};
      words.tells_apart = "the stack of the rank without data, which shows whether it is in the same wait";
      words.refuted_by = "a stack showing the rank in the same wait";
      words.advice = started;
      break;
    case REASON_NO_DATA_IN_CREATION:
      words.what = absl::StrCat("left no data, and nothing shows that ", Pick(finding, "it", "they"), " called ",
                                CallText(detail.call()));
      words.more = {{": ", absl::StrCat(Pick(finding, "it was", "they were"), " not started, or the data is missing")}};
      words.refuted_by = "data showing that the rank called it";
      words.advice = started;
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
