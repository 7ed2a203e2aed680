// Ranks that differ by counters, which remain when the records are gone.

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> CountWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.refuted_by = kByDesign;
  switch (finding.reason()) {
    case REASON_COUNTED_STRANGER:
      words.what =
          "made one send or receive with a rank that made none with it, while all other pairs made many: most likely "
          "it "
          "used the wrong peer";
      words.advice = {"Look at how the named rank computes the peers of its sends and receives.", kLargerRing};
      break;
    case REASON_COUNTED_EXCHANGES:
      words.what =
          "made other numbers of sends and receives than the ranks with the same role, and are in an operation whose "
          "record is gone";
      words.advice = {
          "Look in the program of these ranks for a send or receive too many, one too few, or one with the wrong peer.",
          kLargerRing};
      break;
    case REASON_COUNTED_PROGRAM:
      words.what = Pick(finding,
                        "made numbers of calls that ranks with the same role never make: it left out or added a call "
                        "whose record is gone",
                        "made numbers of calls that ranks with the same role never make: they left out or added a call "
                        "whose record is gone");
      if (detail.flag()) {
        words.rivals = {"the rank's file is damaged, and its counters are wrong"};
        words.tells_apart = "a new dump of that rank, or its stack";
      }
      words.advice = {"Look in the program for a call that depends on local data.", kLargerRing};
      break;
    case REASON_SIGNALS_MISSING:
      words.what = absl::StrCat("sent ", CountText(detail.count()), " of the ", CountText(detail.of()),
                                " signals that ", RankNames(detail.ranks()), " waits for on ", detail.name());
      words.refuted_by = "a signal that a kernel sent through the device API, which nothing records";
      words.advice = {
          "Look for a PutSignal or Signal call that this rank left out, or for a WaitSignal that asks for too many."};
      break;
    default: return std::nullopt;
  }
  if (detail.has_of() && finding.reason() != REASON_SIGNALS_MISSING)
    absl::StrAppend(&words.what, "; ", Counted(detail.of(), "other rank waits", "other ranks wait"),
                    " in a cycle with ", Pick(finding, "it", "them"));
  return words;
}

}  // namespace lockstep
