// Operations that all members entered and none finishes.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/evidence.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {
namespace {

// The network step with the longest wait; null if there is none.
const Evidence* FirstStep(const Finding& finding) {
  for (const Evidence& evidence : finding.evidence()) {
    if (evidence.kind() == Evidence::NETWORK_STEP) return &evidence;
  }
  return nullptr;
}

bool MayBeTheOrder(const Finding& finding) {
  return std::ranges::any_of(finding.rivals(), [](const Rival& rival) { return rival.kind() == Rival::GPU_ORDER; });
}

}  // namespace

std::optional<Words> StuckWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  const std::string call = detail.has_call() ? CallText(detail.call()) : "its operation";
  const bool gpus = !finding.cpu_only();
  const char* link_errors = gpus ? "xid|link|mlx5" : "link|mlx5";
  Words words;
  if (gpus) words.rivals = {kNetworkBetween, kGpuInside};
  words.tells_apart = gpus ? kWhichGpuOrLink : "link errors of the hosts";
  words.refuted_by = kNotArrived;
  words.advice = {Step("Check links", KernelLogCommand(finding, link_errors),
                       gpus ? "Look for link and Xid errors in the kernel logs of the hosts"
                            : "Look for link errors in the kernel logs of the hosts"),
                  gpus
                      ? MayBeTheOrder(finding)
                            ? "The record does not show whether it is the network, a GPU or the order of calls: "
                              "NCCL_LAUNCH_ORDER_IMPLICIT=1 (NCCL 2.26 and newer) tests the order."
                            : "Suspect the network between these ranks, or one of their GPUs: the record does not show "
                              "which."
                      : "Suspect the network between these ranks."};
  std::set<std::string> hosts;
  for (const Culprit& culprit : finding.culprits()) hosts.insert(culprit.host());
  if (!gpus && hosts.size() == 1 && !hosts.begin()->empty())
    words.advice = {"Compare the peer, root, group and size that these ranks pass."};
  switch (finding.reason()) {
    case REASON_ALL_IN:
      words.own_subject = true;
      words.what = absl::StrCat(call, " does not finish, although ",
                                detail.flag() ? "both sides called it" : "all members called it");
      if (detail.count() > 0) {
        words.more = {{"; ", absl::StrCat("data does not arrive on ", Counted(detail.count(), "link", "links"),
                                          " between them")}};
      } else if (const Evidence* step = FirstStep(finding); step != nullptr) {
        words.more = {{"; ", absl::StrCat("the longest wait: ", EvidenceText(*step))}};
      }
      break;
    case REASON_SOME_FINISHED:
      words.what = absl::StrCat(Pick(finding, "is", "are"), " still in ", call, ", which ", RankNames(detail.others()),
                                " finished");
      words.refuted_by = "a named rank's record being older than the other ranks' records";
      break;
    case REASON_ALL_SEEN_IN:
      words.own_subject = true;
      words.what = absl::StrCat("all members that left data called ", call, ", and none finishes it");
      words.refuted_by = "a record showing that a member without data never called the operation";
      words.advice = {"Add the data of the missing ranks and analyze again.", "The others may wait for one of them.",
                      "Otherwise suspect the network between these ranks, or one of their GPUs."};
      break;
    case REASON_LINK_DEAD:
      words.own_subject = true;
      words.what = absl::StrCat("data that rank ", detail.ranks(0), " sends to rank ", detail.ranks(1), " in ", call,
                                " does not arrive");
      if (const Evidence* step = FirstStep(finding); step != nullptr) words.more = {{": ", NetworkStepText(*step)}};
      words.rivals = {"the network between these two ranks failed", "a network adapter of one of the two failed"};
      words.tells_apart = "counters and errors of the two hosts' network ports";
      words.refuted_by = "a later step on that channel";
      words.advice = {Step("Check both ports", HostCommand(finding, "ibstat"), "Check the network ports of both hosts"),
                      "Check the switches between the hosts.", "Run a bandwidth test between these two hosts alone."};
      break;
    case REASON_STUCK_SIBLINGS:
      words.what = "are stuck in several communicators of the same kind";
      words.more = {{": ", "all members of each called the operation, and none finishes it"}};
      if (!detail.name().empty()) {
        words.what = absl::StrCat("are stuck in ", CountText(detail.count()),
                                  " operations on different communicators, although all members called them");
        words.more = {{"; ", absl::StrCat("they share ", detail.name())}};
        words.rivals = {"several links or GPUs failed at once", kNetworkBetween, kGpuInside};
        words.advice = {"Read the error counters of the shared ports and of the switch.",
                        RestartStep(finding, "If a part is broken, restart")};
      }
      break;
    case REASON_WRONG_PEER:
      words.what = absl::StrCat("is in ", call, ", the only recorded call between these two ranks");
      words.more = {
          {": ", "most likely it used the wrong peer, and another rank waits for the call that it should have made"}};
      words.rivals = {kNetworkBetween, kGpuInside};
      words.tells_apart = "both ranks' program at that place; longer records";
      words.refuted_by = "a matching call in the other rank's program";
      words.advice = {"Check how the named rank computes the peer of that call."};
      break;
    case REASON_RECORDS_GONE:
    case REASON_RECORDS_GONE_PAIR:
      if (finding.reason() == REASON_RECORDS_GONE_PAIR) {
        words.what =
            absl::StrCat("are in a send or receive with each other on ", detail.name(), " that does not finish");
        words.more = {{"; ", "the recording no longer contains it"}};
      } else {
        words.what = absl::StrCat(Pick(finding, "is", "are"), " in operations missing from the recording");
        words.more = {{", and ", "the data shows no other rank that delays the job"}};
      }
      words.rivals = {"any of the named ranks, or the network between them, may be at fault"};
      words.tells_apart = "a longer record (a larger ring), or a dump taken earlier";
      words.refuted_by = "a record of the operations that these ranks are in";
      words.advice = {gpus ? GpuStep(finding) : LookStep(finding), kLargerRing};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
