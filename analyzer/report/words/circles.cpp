// Ranks that wait for each other.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/evidence.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {

std::optional<Words> CircleWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  constexpr char kImplicitOrder[] = "Set NCCL_LAUNCH_ORDER_IMPLICIT=1 (NCCL 2.26 and newer).";
  constexpr char kCompletes[] = "a record showing that one of these operations completed";
  constexpr char kOneOrderRuns[] =
      "a record showing that one of these operations completed, or that all of these GPUs run them in the same order";
  Words words;
  words.refuted_by = kCompletes;
  switch (finding.reason()) {
    case REASON_ORDERS_DIFFER:
      words.what = "called the same operations in different orders and wait for each other";
      words.advice = {kOneOrder, kSameOrder};
      break;
    case REASON_OUT_OF_ORDER:
      words.what = absl::StrCat("called the same operations in a different order from ", CountText(detail.count()),
                                " of ", CountText(detail.of()), " ranks");
      words.more = {{", and ", "all wait for each other"}};
      words.advice = {kOneOrder, kSameOrder};
      break;
    case REASON_GPU_ORDERS_DIFFER:
      words.what = "called the same operations on several streams, and their GPUs run them in different orders";
      words.more = {{": ", "each GPU waits for the other"}};
      words.rivals = {"one of the program's own kernels blocks a stream on one of these GPUs"};
      words.tells_apart =
          "whether the job runs with NCCL_LAUNCH_ORDER_IMPLICIT=1, or with all operations on one stream; whether "
          "stream priorities and CUDA_DEVICE_MAX_CONNECTIONS are the same on all ranks; a kernel trace of one of the "
          "GPUs";
      words.refuted_by = kOneOrderRuns;
      words.advice = {kImplicitOrder, kOneStream,
                      "Give the streams the same priority, and check CUDA_DEVICE_MAX_CONNECTIONS: few connections make "
                      "streams share a queue.",
                      "Where the order matters, make one stream wait for the other with a CUDA event."};
      break;
    case REASON_TWO_STREAMS_STUCK:
      words.what = "are in two operations on different streams, and neither finishes";
      words.more = {{": ", absl::StrCat(CallText(detail.call()), ", and ", CallText(detail.other()))},
                    {"; ", "all other members are in both; their GPUs may run the two in different orders"}};
      words.rivals = {"the network between the members of both failed", kGpuInside};
      words.tells_apart =
          "whether the job runs with NCCL_LAUNCH_ORDER_IMPLICIT=1, or with both on one stream; stream priorities and "
          "CUDA_DEVICE_MAX_CONNECTIONS of the ranks; kernel events of the profiler; link and Xid errors of the hosts";
      words.refuted_by = kOneOrderRuns;
      words.advice = {
          kImplicitOrder, kOneStream,
          "Check these hosts for link and Xid errors: if there are any, they are more likely to be the cause."};
      break;
    case REASON_SENDS_FACE_EACH_OTHER:
      words.what = "wait for each other in sends: each must receive before the other's send completes";
      words.advice = {"Put the sends and receives of a pair into one NCCL group."};
      break;
    case REASON_CIRCLE:
      if (detail.count() > 1) {
        words.what = absl::StrCat("wait for each other in a cycle over ", CountText(detail.count()), " communicators");
        words.more = {{": ", detail.name()}};
        words.advice = {
            kOneOrder,
            "Issue them in one order, from one stream or in one group, or set NCCL_LAUNCH_ORDER_IMPLICIT=1."};
      } else {
        words.what = "wait for each other in a cycle";
        words.advice = {"Compare their calls: one is missing, extra or out of order."};
      }
      break;
    default: return std::nullopt;
  }
  // Adds the calls that one of the ranks waits in.
  const auto waits = std::find_if(finding.evidence().begin(), finding.evidence().end(), [](const Evidence& evidence) {
    return evidence.kind() == Evidence::WAITS_IN || evidence.kind() == Evidence::GPU_AT;
  });
  if (waits != finding.evidence().end()) words.more.push_back({"; ", EvidenceText(*waits), /*repeated=*/true});
  return words;
}

}  // namespace lockstep
