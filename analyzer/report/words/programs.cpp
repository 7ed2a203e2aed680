// Ranks whose program differs from the program of ranks with the same role.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

namespace {

// Returns whether the rank made a call on another communicator instead. It may then have swapped the two calls.
bool CalledOnAnother(const Finding& finding) {
  return std::ranges::any_of(finding.evidence(), [](const Evidence& evidence) {
    return evidence.kind() == Evidence::ROLE_ISSUED && evidence.detail().has_other();
  });
}

// Returns whether the rank's next call looks like the one that it skipped, so NCCL paired it with the others' call.
bool PairedWithTheOthersCall(const Finding& finding) {
  return std::ranges::any_of(finding.evidence(), [](const Evidence& evidence) {
    const Detail& detail = evidence.detail();
    return evidence.kind() == Evidence::ROLE_ISSUED && detail.flag() && !detail.has_other() &&
           detail.has_other_name() && detail.other_name() == detail.name();
  });
}

}  // namespace

std::optional<Words> ProgramWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call()), other = CallText(detail.other());
  constexpr char kBranch[] = "Find the branch that skips this call: a condition on local data?";
  constexpr char kExtra[] = "Find the code that makes this extra call: logging? a retry?";
  constexpr char kSameSteps[] =
      "Make every rank run the same number of steps, or agree on when to stop through a collective.";
  Words words;
  words.refuted_by = kByDesign;
  switch (finding.reason()) {
    case REASON_SKIPPED:
      words.what = absl::StrCat("skipped ", call);
      words.more = WhereOthersIssued(finding);
      words.advice = {kBranch};
      if (PairedWithTheOthersCall(finding))
        words.advice.push_back(absl::StrCat(Pick(finding, "Its", "Their"), " next call was paired with the others' ",
                                            detail.call().text(), ": treat all results since then as wrong."));
      if (CalledOnAnother(finding)) {
        words.rivals = {"it makes this call later, in a different order from the others"};
        words.tells_apart = "the order of these two calls in its code";
      }
      break;
    case REASON_EXTRA:
      words.what = absl::StrCat("called an extra ", call, ", which no rank with the same role called");
      words.advice = {kExtra};
      break;
    case REASON_REORDERED:
      words.what = absl::StrCat("called ", call, " out of order");
      words.more = {{": ", absl::StrCat("at that point, ranks with the same role called ", detail.other().text(),
                                        detail.other().on().empty() ? "" : " on their own groups, for example ",
                                        detail.other().on())}};
      words.advice = {kOneOrder, kSameOrder};
      break;
    case REASON_NO_OTHER_SIDE:
      words.what = absl::StrCat("called ", call, ", which has no matching call");
      words.more = {{"; ", absl::StrCat("ranks with the same role called ", other, " at that point")}};
      words.refuted_by = "a record of a matching call on the other side";
      words.advice = {"Compare how it and its neighbors compute the peer of that call."};
      break;
    case REASON_NEW_PEER:
      words.what = absl::StrCat("called ", CallAndSite(detail.call()), ", which has no matching call");
      words.more = {
          {": ", "most likely it used the wrong peer, and other ranks wait for the call that it should have made"}};
      words.refuted_by = "a matching call later in that rank's program";
      words.advice = {"Check how the named rank computes the peer of that call."};
      break;
    case REASON_AHEAD:
      words.what = absl::StrCat(
          "called ", call,
          detail.count() == 0   ? ", which has no matching call, and no other rank is in an operation"
          : detail.count() == 1 ? ", which another member never called"
                                : absl::StrCat(", which ", CountText(detail.count()), " other members never called"));
      words.rivals = {detail.flag() ? "all other members ended a step too early"
                                    : "all other members are stuck outside NCCL, and would have made the call"};
      words.tells_apart = detail.flag() ? "the intended number of steps" : "the stacks of the other ranks";
      words.refuted_by = detail.flag() ? "a program in which the other ranks still have steps to run"
                                       : "the other ranks making that call";
      words.advice = {
          kExtra,
          "If the named rank runs the right number of steps, the others left the training loop too early, for example "
          "because their data ran out."};
      break;
    case REASON_LEFT_OUT:
      words.what = absl::StrCat("skipped ", detail.flag() ? "the other side of " : "", call, " and the calls after it");
      words.more = {{", and ", absl::StrCat(Pick(finding, "waits", "wait"), " in ", other)}};
      words.rivals = {"the named ranks call these operations in a different order from the others"};
      if (detail.count() == 0)
        words.rivals.insert(words.rivals.begin(), absl::StrCat("the named ranks skipped nothing, but added ", other,
                                                               ", which the others never call"));
      words.tells_apart = "which calls the named ranks' code makes after the operation in which they wait";
      words.refuted_by = "records of the named ranks that contain that call";
      words.advice = {"Find out why these calls were skipped: uneven data? a condition?",
                      "If no rank should make the call in which it waits, remove that call.", kSameSteps};
      break;
    case REASON_LEFT_OUT_OR_ADDED:
      words.what = absl::StrCat("wait for each other: ", RankNames(detail.ranks()), " called ", call, ", and ",
                                RankNames(detail.others()), " did not");
      words.more = {{"; ", "either some ranks added the call, or the others skipped it"}};
      words.tells_apart = "whether the program of these ranks makes that call at this place";
      words.refuted_by = "records in which all of these ranks make that call";
      words.advice = {"Find the condition around that call that differs between them.", kSameSteps};
      break;
    case REASON_ELSEWHERE_IN_CIRCLE:
      // The rank itself may wait outside NCCL, so the text does not claim that it waits in `call`.
      words.what = absl::StrCat(Pick(finding, "has", "have"), " not called ", other, ", where the others wait");
      words.more = {{"; ", absl::StrCat(Pick(finding, "it", "they"), " called ", call,
                                        " instead: an earlier call is missing or "
                                        "extra")}};
      words.refuted_by = "one of the operations completing";
      words.advice = {"Compare its calls with those of a rank with the same role.", LookStep(finding)};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
