// Ranks whose counters differ. Counters remain after the records are overwritten.

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> CountWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.refuted_by = kByDesign;
  switch (finding.reason()) {
    case REASON_COUNTED_PROGRAM:
      words.what = "made more or fewer calls than ranks with the same role ever make";
      words.more = {{": ", absl::StrCat(Pick(finding, "it", "they"),
                                        " skipped or added a call that the recording no longer contains")}};
      if (detail.flag()) {
        words.rivals = {"the rank's file is damaged, so its counters are wrong"};
        words.tells_apart = "a new dump of that rank, or its stack";
      }
      words.advice = {"Look for a call in the program that depends on local data.", kLargerRing};
      break;
    case REASON_SIGNALS_MISSING:
      words.what = absl::StrCat("sent ", CountText(detail.count()), " of the ", CountText(detail.of()),
                                " signals that ", RankNames(detail.ranks()), " waits for on ", detail.name());
      words.refuted_by = "a signal that a kernel sent through the device API, whose calls are not recorded";
      words.advice = {"Look for a PutSignal or Signal call that this rank skipped.",
                      "Or look for a WaitSignal that waits for too many signals."};
      break;
    default: return std::nullopt;
  }
  if (detail.has_of() && finding.reason() != REASON_SIGNALS_MISSING)
    words.more.push_back({"; ", absl::StrCat(Counted(detail.of(), "other rank waits", "other ranks wait"),
                                             " in a cycle with ", Pick(finding, "it", "them"))});
  return words;
}

}  // namespace lockstep
