// Ranks that differ by counters, which remain when the records are gone.

#include "absl/strings/str_cat.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> CountWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.refuted_by = kByDesign;
  switch (finding.reason()) {
    case REASON_COUNTED_STRANGER:
      words.what =
          "counted one send or receive with a rank that counted none with it, while all others exchange many: most "
          "likely it used the wrong peer";
      words.advice = {"Look at how the named rank computes the peers of its sends and receives.", kLargerRing};
      break;
    case REASON_COUNTED_EXCHANGES:
      words.what =
          "counted different sends and receives from the ranks with the same role, and are in an operation whose "
          "record is gone";
      words.advice = {
          "Look at the sends and receives of these ranks: one too many, one too few, or one with the wrong peer.",
          kLargerRing};
      break;
    case REASON_COUNTED_PROGRAM:
      words.what =
          "has call counts that the ranks with the same role never have: it left out or added a call whose record is "
          "gone";
      if (detail.flag()) {
        words.rivals = {"the damage to that rank's file"};
        words.tells_apart = "a new dump of that rank, or its stack";
      }
      words.advice = {"Look for a call of these ranks that depends on local data.", kLargerRing};
      break;
    case REASON_SIGNALS_MISSING:
      words.what = absl::StrCat("sent ", detail.count(), " of the ", detail.of(), " signals that ",
                                RankNames(detail.ranks()), " waits for on ", detail.name());
      words.refuted_by = "a signal that a kernel sent through the device API, which nothing records";
      words.advice = {
          "Look for the PutSignal or Signal call that this rank left out, or for a wait that asks for too many."};
      break;
    default:
      return std::nullopt;
  }
  if (detail.has_of() && finding.reason() != REASON_SIGNALS_MISSING)
    absl::StrAppend(&words.what, "; ", detail.of(), " others wait in a cycle with it");
  return words;
}

}  // namespace lockstep
