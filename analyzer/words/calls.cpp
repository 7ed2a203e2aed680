// Calls with different arguments.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> CallWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  const std::string &own = detail.name(), &theirs = detail.other_name();
  Words words;
  words.refuted_by = "records of the other members showing the same arguments";
  words.advice = {
      "Find why this call differs on the named ranks: a shape, branch or configuration that depends on local data.",
      "Results since then may be wrong even where nothing hangs."};
  switch (finding.reason()) {
    case REASON_UNLIKE_MEMBERS:
      words.what = absl::StrCat("issued ", own, " where ", detail.count(), " of ", detail.of(), " issued ", theirs,
                                ", collective ", call);
      break;
    case REASON_NO_MAJORITY:
      words.what = absl::StrCat("disagree in collective ", call, ": ", own, " against ", theirs,
                                "; the record does not show which is right");
      break;
    case REASON_UNLIKE_SIBLINGS:
      words.what = absl::StrCat("issued ", own, " against ", theirs, " in collective ", call,
                                "; ranks with the same role issued the latter");
      break;
    case REASON_UNLIKE_SIBLINGS_HERE:
      words.what = absl::StrCat("issued ", own, " where ", detail.count(), detail.count() == 1 ? " rank" : " ranks",
                                " with the same role issued ", theirs, " (", call, ")");
      words.refuted_by = kByDesign;
      break;
    case REASON_UNLIKE_PEER:
      words.what = absl::StrCat("issued ", call, ", with ", own, " against ", theirs,
                                detail.flag() ? "; ranks at the same place in the program issued the latter"
                                              : "; the record does not show which is right");
      break;
    case REASON_SPLITS_UNLIKE_PEER:
      words.what =
          absl::StrCat("issued ", call, ", with ", own, detail.flag() ? " in an all-to-all against " : " against ",
                       theirs, detail.flag() ? "" : "; the record does not show which is right");
      if (!detail.flag()) {
        words.rivals = {"the sender's split sizes are wrong", "the receiver's are"};
        words.tells_apart = "the sizes that the program intended on these two ranks before the call";
      }
      break;
    case REASON_SPLITS_DO_NOT_ADD_UP:
      words.what = absl::StrCat("in ", call, ", all members together send ", own, " elements but receive ", theirs);
      break;
    case REASON_SPLITS_UNEVEN_ALONE:
      words.what = absl::StrCat("sends ", own, " elements and receives ", theirs, " in ", call,
                                "; every other member sends as many as it receives, so the sizes do not add up");
      break;
    case REASON_CONTRADICTS_ITSELF:
      words.what = absl::StrCat("issued ", call, ", with ", own, "; expected ", theirs);
      break;
    case REASON_HASHES_DIFFER:
      words.what = absl::StrCat("issued different calls from its peers on ", detail.name(), " between collectives #",
                                detail.number(), " and #", detail.other_number(), "; their records are gone");
      words.refuted_by = "the calls in that window agreeing";
      words.advice = {"Run again with a larger ring, or under lockstep run, to catch the call.",
                      "Results since then may be wrong."};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
