// INIT_INCOMPLETE, SPLIT_MISMATCH: communicators that were not created, or differ from those of the same kind.
// ASYNC_ERROR.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/words/commands.h"
#include "analyzer/words/reasons.h"

namespace lockstep {

std::optional<Words> CreationWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = CallText(detail.call());
  constexpr char kUniqueId[] =
      "Look at how the unique id reaches these ranks: a stale key in the store, a wrong source rank, another group's "
      "id.";
  constexpr char kCallSite[] =
      "Look at the named rank's call site: a send without its receive, or a group that only some of its members "
      "create.";
  constexpr char kPairs[] =
      "Frameworks create a communicator of two ranks at their first send or receive (PyTorch's key: \"LOW:HIGH\" "
      "rank).";
  constexpr char kOtherMember[] = "a record of the missing member's call, or a member that belongs to another job";
  Words words;
  words.refuted_by = "a record of the named ranks' call";
  switch (finding.reason()) {
    case REASON_OTHER_UNIQUE_ID:
      words.what =
          absl::StrCat("entered ", call, " with a different unique id (communicator ", detail.name(), ") from the ",
                       detail.count(), " that wait for it (communicator ", detail.other_name(), ")");
      words.refuted_by = "the two communicators being different ones by design";
      words.advice = {kUniqueId};
      break;
    case REASON_UNIQUE_IDS_DIFFER:
      words.what =
          absl::StrCat("entered ", call, " with different unique ids; the record does not show which is right");
      words.refuted_by = "the two communicators being different ones by design";
      words.advice = {kUniqueId};
      break;
    case REASON_CREATION_FAILED:
      words.what = absl::StrCat("its ", call, " returned an error, and it continued; the others still wait");
      words.advice = {"Read this rank's NCCL log (NCCL_DEBUG=WARN): it shows the error."};
      break;
    case REASON_NEVER_CAME_TO_CREATION:
      words.what = absl::StrCat("never entered ", call);
      if (detail.flag())
        absl::StrAppend(&words.what, "; ", Pick(finding, "its process is", "their processes are"), " stopped");
      words.advice = {Step(absl::StrCat("See what ", Pick(finding, "its process does", "their processes do"),
                                        ": still starting, in an exception, or elsewhere in the program?"),
                           LookCommand(finding)),
                      "Check that the launcher gave every rank the same world size, and a different rank number."};
      break;
    case REASON_CREATION_IN_CIRCLE:
      words.what = absl::StrCat("wait for each other: ", RankNames(detail.ranks()), " in ", call, ", ",
                                RankNames(detail.others()), " in a send or receive with ", RankNames(detail.ranks()),
                                " and most likely its missing member");
      words.refuted_by = kOtherMember;
      words.advice = {kCallSite, kPairs};
      break;
    case REASON_CREATION_LACKS_MEMBER:
      words.what = absl::StrCat(Pick(finding, "waits", "wait"), " in ", call, ", which ", detail.count(), " of ",
                                detail.of(), " members did not enter; whichever of ", RankNames(detail.ranks()),
                                " is missing, it waits for ", Pick(finding, "this rank", "these ranks"));
      words.refuted_by = kOtherMember;
      words.advice = {kCallSite, kPairs};
      break;
    case REASON_NOT_BACK_FROM_CREATION:
      words.what =
          absl::StrCat("did not return from ", call, ", which ", detail.count(), " other members returned from");
      words.advice = {Step("See where inside the call they are", LookCommand(finding)),
                      "Look at the network between them and their neighbors."};
      break;
    case REASON_ALL_IN_CREATION:
      words.what = absl::StrCat("all members are in ", call, " and none returns");
      words.advice = {
          "Suspect the network between these hosts: wrong interface (NCCL_SOCKET_IFNAME), firewall, unreachable host.",
          "NCCL_DEBUG=INFO shows how far each rank's set-up went."};
      break;
    case REASON_CREATION_LACKS_UNKNOWN:
      words.what = absl::StrCat(detail.count(), " of ", detail.of(), " members were not seen in ", call,
                                "; the record does not show their ranks");
      words.refuted_by = "records of the members that are missing";
      words.advice = {"Compare the intended list of members with the ranks that wait."};
      break;
    case REASON_ELSEWHERE_THAN_CREATION:
      words.what =
          absl::StrCat(Pick(finding, "waits", "wait"), " outside ", call, ", in which ", detail.count(), " wait");
      words.refuted_by = "what the named ranks wait for ending by itself";
      words.advice = {"Create communicators in the same order on all ranks."};
      break;
    case REASON_BEHIND_IN_GROUPS:
      words.what =
          absl::StrCat("created no group after the one of the whole job; ", detail.count(), " other ranks created one");
      words.refuted_by = "the named ranks belonging to no smaller group by design";
      words.advice = {"Create process groups in the same order on all ranks, with a call of new_group on each."};
      break;
    case REASON_IN_OTHER_GROUP:
    case REASON_OTHER_COLOUR:
    case REASON_OTHER_KEY:
    case REASON_OTHER_MEMBERS:
      if (finding.reason() == REASON_IN_OTHER_GROUP) {
        words.what =
            absl::StrCat(detail.flag() ? "left no data; by its size it is" : "is", " a member of ", detail.name(),
                         " (ranks ", detail.other_name(), "), not of the group of its neighbors");
      } else if (finding.reason() == REASON_OTHER_COLOUR) {
        words.what = absl::StrCat(
            "passed ", detail.name(), " in ", call,
            detail.other_name().empty() ? "" : absl::StrCat("; its neighbors passed ", detail.other_name()));
      } else if (finding.reason() == REASON_OTHER_KEY) {
        words.what = absl::StrCat("passed key ", detail.number(), " in ", call, ", which made it member ",
                                  detail.other_number(), " of ", detail.name());
      } else {
        words.what = absl::StrCat("created group ", detail.name(),
                                  " with a different list of members from the other ranks in it");
      }
      words.refuted_by = "the groups being of these sizes by design";
      words.advice = {
          "Compare how the named rank and its neighbors compute the color, key or list of ranks: rank, world size and "
          "parallel sizes from the environment.",
          "All results of these communicators are wrong, even where nothing hangs."};
      break;
    case REASON_CUDA_ERROR_REPORTED:
      words.what = absl::StrCat("NCCL reported an unhandled CUDA error on ", detail.name());
      words.refuted_by = "an earlier error on another rank";
      words.advice = {"Look for the CUDA error in the end of its error output.",
                      Step("Read the GPU's state and the Xid errors of its host", GpuCommand(finding))};
      break;
    case REASON_ERROR_REPORTED:
      words.what = absl::StrCat("NCCL reported asynchronous error ", detail.number(), " on ", detail.name());
      words.refuted_by = "an earlier error on another rank";
      words.advice = {"Read NCCL's own log (NCCL_DEBUG=WARN) of this rank; the peer it names may be the cause."};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
