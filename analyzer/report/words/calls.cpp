// Calls with different arguments.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

namespace {

// Returns whether the named ranks and others made their calls at the same line: then the data differ, not the branch.
bool FromOneLine(const Finding& finding) {
  std::string own;
  bool same = false;
  const auto named = [&](const CallSite& site) {
    return std::ranges::any_of(site.ranks(), [&](int32_t rank) {
      return std::ranges::find(finding.culprit_ranks(), rank) != finding.culprit_ranks().end();
    });
  };
  for (const CallSite& site : finding.call_sites())
    if (named(site)) own = site.place();
  for (const CallSite& site : finding.call_sites()) same = same || (!named(site) && site.place() == own);
  return same && !own.empty();
}

std::string SameLineStep(const Finding& finding) {
  switch (finding.kind()) {
    case MISMATCH_KIND: return "One line makes both calls: which setting or data decides there?";
    case MISMATCH_DATATYPE: return "One line makes all these calls: compare its tensors' data types.";
    case MISMATCH_COUNT: return "One line makes all these calls: compare its tensors' sizes.";
    default: return "One line makes all these calls: compare its arguments.";
  }
}

}  // namespace

std::optional<Words> CallWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  const std::string &own = detail.name(), &theirs = detail.other_name();
  constexpr char kWrongResults[] = "Treat all results since that call as wrong.";
  Words words;
  words.refuted_by = "records in which all members pass the same arguments";
  words.advice = {"Before this call, look for a branch on the rank number or on data.", kWrongResults};
  if (FromOneLine(finding)) words.advice[0] = SameLineStep(finding);
  // `own` is "count 8", or "AllReduce" if the ranks called different operations.
  const bool kinds = finding.kind() == MISMATCH_KIND;
  const char* verb = kinds ? "called " : "passed ";
  const std::string in =
      absl::StrCat(kinds || finding.operation().empty() ? "collective" : finding.operation(), " ", call);
  const std::string made = kinds ? absl::StrCat(verb, own, " ", call) : absl::StrCat(verb, own, " to ", in);
  switch (finding.reason()) {
    case REASON_UNLIKE_MEMBERS:
      words.what = absl::StrCat(made, ", where ", CountText(detail.count()), " of ", CountText(detail.of()), " ranks ",
                                verb, theirs);
      break;
    case REASON_NO_MAJORITY:
      words.what = absl::StrCat("disagree in ", in, ": ", own, " against ", theirs);
      words.more = {{"; ", "the record does not show which is right"}};
      break;
    case REASON_UNLIKE_SIBLINGS:
      words.what = absl::StrCat(made, ", where the other members and the ranks with the same role ", verb, theirs);
      break;
    case REASON_UNLIKE_SIBLINGS_HERE:
      words.what = absl::StrCat(verb, own, " where ", Counted(detail.count(), "rank", "ranks"), " with the same role ",
                                verb, theirs, ", in ", call);
      words.refuted_by = kByDesign;
      break;
    case REASON_UNLIKE_PEER:
    case REASON_SPLITS_UNLIKE_PEER: {
      const bool splits = finding.reason() == REASON_SPLITS_UNLIKE_PEER;
      words.what =
          absl::StrCat(!detail.flag() ? splits ? "disagree about split sizes of an all-to-all, in " : "disagree about "
                       : splits       ? "passed wrong split sizes to an all-to-all: "
                                      : "called ",
                       call, ": ", own, finding.kind() == MISMATCH_DATATYPE ? ", " : " elements, ", theirs);
      if (!detail.flag() || !splits)
        words.more = {{"; ", detail.flag() ? "ranks at the same place in the program agree with the other side"
                             : splits      ? "the record does not show which side has the wrong split sizes"
                                           : "the record does not show which is right"}};
      words.advice[0] = splits ? "Compare the split sizes that both sides computed before this call."
                        : finding.kind() == MISMATCH_DATATYPE
                            ? "Compare the data types of the tensors on both sides."
                            : "Compare the sizes that both sides computed before this call.";
      if (splits && !detail.flag()) {
        words.rivals = {"the sender's split sizes are wrong", "the receiver's split sizes are wrong"};
        words.tells_apart = "the split sizes that the program computed on these two ranks before the call";
      }
      break;
    }
    case REASON_SPLITS_DO_NOT_ADD_UP:
      words.own_subject = true;
      words.what = absl::StrCat("in ", call, ", all members together send ", own, " elements but receive ", theirs);
      break;
    case REASON_SPLITS_UNEVEN_ALONE:
      words.what = absl::StrCat("sends ", own, " elements but receives ", theirs, " in ", call,
                                ", where every other member sends as many elements as it receives");
      break;
    case REASON_CONTRADICTS_ITSELF:
      words.what = absl::StrCat("called ", call, " with ", own, ", where ", theirs, " was expected");
      break;
    case REASON_HASHES_DIFFER:
      words.what = absl::StrCat("made different calls from ", Pick(finding, "its", "their"), " peers on ",
                                detail.name(), " between collectives #", CountText(detail.number()), " and #",
                                CountText(detail.other_number()));
      words.more = {{"; ", "the recording no longer contains these calls"}};
      words.refuted_by = "records in which these calls are the same on all ranks";
      words.advice = {"Record these calls: use a larger ring (LOCKSTEP_RING_KIB).",
                      "Or run the job again under `lockstep run`.", kWrongResults};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
