// INIT_INCOMPLETE, SPLIT_MISMATCH, ASYNC_ERROR: communicators that were not created or differ from others of their
// kind, and errors that NCCL reported.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> CreationWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  const std::vector<std::string> unique_id = {
      "Check how the unique id reaches these ranks.",
      "It may come from a stale key in the store, a wrong source rank or another group."};
  constexpr char kTwoByDesign[] = "a program that creates two communicators here by design";
  Words words;
  words.refuted_by = "a record showing that the named ranks made that call";
  switch (finding.reason()) {
    case REASON_OTHER_UNIQUE_ID:
      words.what = absl::StrCat("called ", call, " with a different unique id (communicator ", detail.name(),
                                ") than the ", Counted(detail.count(), "rank that waits", "ranks that wait"), " for ",
                                Pick(finding, "it", "them"), " (communicator ", detail.other_name(), ")");
      words.refuted_by = kTwoByDesign;
      words.advice = unique_id;
      break;
    case REASON_UNIQUE_IDS_DIFFER:
      words.what = absl::StrCat("called ", call, " with different unique ids");
      words.more = {{"; ", "the record does not show which is right"}};
      words.refuted_by = kTwoByDesign;
      words.advice = unique_id;
      break;
    case REASON_CREATION_FAILED:
      words.what = absl::StrCat("got an error from ", call, " and continued");
      words.more = {{"; ", "the other members are still waiting"}};
      words.advice = {"Read this rank's NCCL log (NCCL_DEBUG=WARN) for the error."};
      break;
    case REASON_NEVER_CAME_TO_CREATION:
      words.what = absl::StrCat("never called ", call);
      if (detail.flag()) words.more = {{"; ", Pick(finding, "its process is stopped", "their processes are stopped")}};
      words.advice = {LookStep(finding),
                      !finding.place().empty()
                          ? "Find out what keeps the process there."
                          : "Check that the launcher gave every rank the same world size and its own rank number."};
      break;
    case REASON_NOT_BACK_FROM_CREATION:
      words.what = absl::StrCat(Pick(finding, "has", "have"), " not returned from ", call, ", although ",
                                Counted(detail.count(), "other member has", "other members have"));
      words.advice = {LookStep(finding), "Look at the network between the named ranks and the other members."};
      break;
    case REASON_ALL_IN_CREATION:
      words.own_subject = true;
      words.what = absl::StrCat("all members are in ", call, " and none returns");
      words.advice = {"Check the network between these hosts, and NCCL_SOCKET_IFNAME.",
                      "Run with NCCL_DEBUG=INFO: the log shows how far each rank got in the set-up."};
      break;
    case REASON_CREATION_LACKS_UNKNOWN:
      if (finding.culprit_ranks_size() > 0) {
        const bool one = finding.culprit_ranks_size() == 1, alone = detail.others_size() == 1;
        words.own_subject = true;
        words.what = absl::StrCat(one ? "" : absl::StrCat(CountText(detail.count()), " of "),
                                  RankNames(finding.culprit_ranks()), " never called ", call);
        words.more = {{"; ", absl::StrCat(RankNames(detail.others()), alone ? " waits there" : " wait there",
                                          ", and all other ranks wait for ", alone ? "it" : "them")}};
        words.refuted_by = "a rank that can still make the call";
        words.advice = {"Find the rank that should also create this communicator."};
        break;
      }
      words.own_subject = true;
      words.what = absl::StrCat("no record shows that ", CountText(detail.count()), " of ", CountText(detail.of()),
                                " ranks called ", call);
      words.more = {{"; ", "the record does not show which ranks"}};
      words.refuted_by = "records of the missing members";
      words.advice = {"Compare the ranks that wait with the list of ranks that should be members."};
      break;
    case REASON_ELSEWHERE_THAN_CREATION:
      words.what = absl::StrCat(Pick(finding, "waits", "wait"), " elsewhere, while ",
                                Counted(detail.count(), "member waits", "members wait"), " in ", call);
      words.refuted_by = "the named ranks continuing on their own";
      words.advice = {"Create communicators in the same order on all ranks."};
      break;
    case REASON_BEHIND_IN_GROUPS:
      words.what = absl::StrCat("created no group besides the one of all ranks, although ",
                                Counted(detail.count(), "other rank", "other ranks"), " did");
      words.refuted_by = "a program in which the named ranks belong to no smaller group by design";
      words.advice = {"Call new_group on every rank, member or not, in the same order."};
      break;
    case REASON_IN_OTHER_GROUP:
    case REASON_OTHER_COLOUR:
    case REASON_OTHER_MEMBERS:
      if (finding.reason() == REASON_IN_OTHER_GROUP) {
        words.what = absl::StrCat(detail.flag() ? Pick(finding, "left no data; judging by the group sizes, it ",
                                                       "left no data; judging by the group sizes, they ")
                                                : "",
                                  Pick(finding, "is a member of ", "are members of "), detail.name(), " instead of ",
                                  Pick(finding, "its", "their"), " neighbors' group");
        words.more = {{"; ", absl::StrCat(detail.name(), " has ranks ", detail.other_name())}};
      } else if (finding.reason() == REASON_OTHER_COLOUR) {
        words.what =
            absl::StrCat("passed ", detail.name(), " in ", call,
                         detail.other_name().empty() ? "" : ", where its neighbors passed ", detail.other_name());
      } else {
        words.what =
            absl::StrCat("created group ", detail.name(), " with a different list of members than its other ranks did");
      }
      words.refuted_by = "a program in which the groups have these members by design";
      words.advice = {"Compare its color, key or list of ranks with its neighbors'.",
                      "Treat all results of these communicators as wrong, even where nothing hangs."};
      break;
    case REASON_CUDA_ERROR_REPORTED:
      words.own_subject = true;
      words.what = absl::StrCat("NCCL reported an unhandled CUDA error on ", detail.name());
      words.refuted_by = "an earlier error on another rank";
      words.advice = {"Look for the CUDA error at the end of the rank's error output.", GpuStep(finding)};
      break;
    case REASON_ERROR_REPORTED:
      words.own_subject = true;
      words.what = absl::StrCat("NCCL reported asynchronous error ", detail.number(), " on ", detail.name());
      words.refuted_by = "an earlier error on another rank";
      words.advice = {"Read NCCL's log of this rank (NCCL_DEBUG=WARN).",
                      "The peer that the log names may be the cause."};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
