// Operations that all members entered and none finishes.
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/words/commands.h"
#include "analyzer/words/evidence.h"
#include "analyzer/words/reasons.h"

namespace lockstep {
namespace {

// The network step that waits longest; null: none is known.
const Evidence* FirstStep(const Finding& finding) {
  for (const Evidence& evidence : finding.evidence()) {
    if (evidence.kind() == Evidence::NETWORK_STEP) return &evidence;
  }
  return nullptr;
}

}  // namespace

std::optional<Words> StuckWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = detail.has_call() ? CallText(detail.call()) : "its operation";
  const bool gpus = !finding.cpu_only();
  const char* link_errors = gpus ? "xid|nvlink|mlx5|link is down" : "mlx5|link is down";
  constexpr char kBetween[] = "the network between these ranks";
  constexpr char kInside[] = "the GPU of one of them, inside the operation";
  constexpr char kDecides[] =
      "full GPU marks (which GPU did not start), the profiler (which network steps stopped), Xid and link errors of "
      "their hosts";
  Words words;
  if (gpus) words.rivals = {kBetween, kInside};
  words.tells_apart = gpus ? kDecides : "link errors of their hosts";
  words.refuted_by = "a member that had not arrived";
  words.advice = {gpus
                      ? "Suspect the network between these ranks, or one of their GPUs: the record does not show which."
                      : "Suspect the network between these ranks.",
                  Step(gpus ? "Read link and Xid errors on their hosts" : "Read link errors on their hosts",
                       KernelLogCommand(finding, link_errors))};
  switch (finding.reason()) {
    case REASON_ALL_IN:
      words.what = absl::StrCat("all members entered ", call, ", and none finishes it");
      if (detail.count() > 0) {
        absl::StrAppend(&words.what, "; data does not arrive on ", detail.count(), " links between them");
      } else if (const Evidence* step = FirstStep(finding); step != nullptr) {
        absl::StrAppend(&words.what, "; the longest wait: ", EvidenceText(*step));
      }
      break;
    case REASON_SOME_FINISHED:
      words.what = absl::StrCat(finding.culprit_ranks_size() == 1 ? "is" : "are", " still in ", call, ", which ",
                                RankNames(detail.others()), " finished");
      words.refuted_by = "the record of a named rank being older than the others'";
      break;
    case REASON_ALL_SEEN_IN:
      words.what = absl::StrCat("all members that left data entered ", call, ", and none finishes it");
      words.refuted_by = "a member without data that had not arrived";
      words.advice = {"Add the dumps of the ranks without data and analyze again: the others may wait for one of them.",
                      "Otherwise suspect the network between these ranks, or one of their GPUs."};
      break;
    case REASON_LINK_DEAD:
      words.what = absl::StrCat("what rank ", detail.ranks(0), " sends to rank ", detail.ranks(1), " in ", call,
                                ", does not arrive");
      if (const Evidence* step = FirstStep(finding); step != nullptr)
        absl::StrAppend(&words.what, ": ", NetworkStepText(*step));
      words.rivals = {"the network between these two ranks", "one of their network adapters"};
      words.tells_apart = "counters and errors of the two hosts' network ports";
      words.refuted_by = "a step of that channel that advances";
      words.advice = {Step("Look at the network ports of both hosts, and the switches between them",
                           HostCommand(finding, "ibstat")),
                      "Run a bandwidth test between these two hosts alone."};
      break;
    case REASON_STUCK_SIBLINGS:
      words.what =
          "are stuck in several communicators of the same kind: all members of each entered, and none finishes";
      if (!detail.name().empty()) {
        words.what = absl::StrCat("are in ", detail.count(),
                                  " operations that do not end on different communicators, which all members entered; "
                                  "they have in common ",
                                  detail.name());
        words.rivals = {"several links or GPUs at once", kBetween, kInside};
        words.advice = {"Read the state and error counters of the ports there, and of the switch.",
                        RestartStep(finding, "If a part is broken, restart")};
      }
      break;
    case REASON_WRONG_PEER:
      words.what = absl::StrCat("is in ", call,
                                ", and neither record holds anything else between the two: most likely it used the "
                                "wrong peer, and another rank waits for what it should have done instead");
      words.rivals = {"the network between these two ranks, or one of their GPUs inside the operation"};
      words.tells_apart = "the program of both sides at that place; longer records";
      words.refuted_by = "the other side's program having a matching call";
      words.advice = {"Look at how the named rank computes the peer of that call."};
      break;
    case REASON_RECORDS_GONE:
    case REASON_RECORDS_GONE_PAIR:
      if (finding.reason() == REASON_RECORDS_GONE_PAIR) {
        words.what = absl::StrCat("are in a send or receive with each other on ", detail.name(),
                                  " that does not end; its record is gone");
      } else {
        words.what = "are in operations whose records are gone, and no other rank holds up the rest";
      }
      words.rivals = {"any of the named ranks, or what lies between them"};
      words.tells_apart = "a longer record (a larger ring), or a dump taken earlier";
      words.refuted_by = "a record of the operation that they are in";
      words.advice = {"Look at these ranks by hand: stacks of their processes, errors of their GPUs.", kLargerRing};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
