// Reasons why a job is slow.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/numbers.h"
#include "analyzer/words/commands.h"
#include "analyzer/words/reasons.h"

namespace lockstep {
namespace {

// ", and the others wait 2.5 ms for it in each step".
std::string OthersWait(const Finding& finding) {
  return absl::StrCat(", and the others wait ", Milliseconds(finding.detail().duration_ns()), " for ",
                      Pick(finding, "it", "them"),
                      finding.detail().flag() ? " in each step" : " over the recorded time");
}

}  // namespace

std::optional<Words> SlowWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {Step("Compare clocks, power and temperature of the named GPUs with their neighbors",
                       HostCommand(finding, "nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE")),
                  "Look for other work on the host, and for data or shapes that only these ranks have."};
  words.refuted_by = "the ranks with the same role having less work by design";
  switch (finding.reason()) {
    case REASON_SLOW_WORK:
      words.what = absl::StrCat(Pick(finding, "its", "their"), " own work between operations takes ",
                                Percent(finding.slowdown() - 1), " longer than on ranks with the same role",
                                OthersWait(finding));
      break;
    case REASON_SLOW_BY_HABIT: {
      const std::string later = Milliseconds(detail.other_duration_ns());
      words.what = Several(finding) ? absl::StrCat(
                                          "their own work makes them arrive at their group's operations later than "
                                          "others, the latest often by ",
                                          later, " or more")
                                    : absl::StrCat(
                                          "its own work makes it arrive at its group's operations later than the "
                                          "others, often by ",
                                          later, " or more");
      absl::StrAppend(&words.what, OthersWait(finding));
      break;
    }
    case REASON_LATE_IN_TURNS:
      words.what =
          absl::StrCat("are occasionally late, a different one each time: in ", detail.count(), " of ", detail.of(),
                       " steps one or more of them took longer than usual, by ", Milliseconds(detail.duration_ns()),
                       " a step on average; what they share is ", detail.name());
      words.tells_apart =
          "the profiler or stacks of the late rank while it is late: which of them is held up, and in what";
      words.refuted_by = "delays on other ranks that are as long and as frequent";
      words.advice = {absl::StrCat("Look for what runs on ", detail.name(),
                                   " besides the job: daemons, another job's data, monitoring."),
                      "Compare its interrupts, page faults and power with its neighbors'."};
      break;
    case REASON_SLOW_TRANSFERS:
      words.what = absl::StrCat(
          "transfers are slow: ", CallText(detail.call()), " takes ", absl::StrFormat("%.1f", finding.slowdown()),
          detail.flag() ? " times what it took before" : " times what comparable transfers take",
          detail.has_count() ? absl::StrCat(" in ", detail.count(), " of ", detail.of(), " operations") : "",
          ", although all members have arrived; this points to ", detail.name());
      words.refuted_by = "the slow communicators moving more data than comparable ones by design";
      words.advice = {
          Step("Read link errors, speed and width of the network ports (ibstat, ethtool -S, nvidia-smi nvlink -e)",
               HostCommand(finding, "'ibstat; nvidia-smi nvlink -e'")),
          "Run nccl-tests between the named hosts and between others, and compare."};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
