// What makes a job slow.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/time_text.h"
#include "analyzer/words/reasons.h"

namespace lockstep {
namespace {

std::string Milliseconds(int64_t ns) {
  return absl::StrFormat("%.1f ms", static_cast<double>(ns) / 1e6);
}

// ", and the others wait 2.5 ms for it in each step".
std::string OthersWait(const Finding& finding) {
  return absl::StrCat(", and the others wait ", Milliseconds(finding.detail().duration_ns()), " for ",
                      Pick(finding, "it", "them"),
                      finding.detail().flag() ? " in each step" : " over what was recorded");
}

}  // namespace

std::optional<Words> SlowWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {
      "Compare clocks, power and temperature of the named GPUs with their neighbours (nvidia-smi -q -d "
      "CLOCK,POWER,TEMPERATURE,PERFORMANCE).",
      "Look for other work on the host, and for data or shapes that only these ranks have."};
  words.refuted_by = "the ranks with the same role having less work by design";
  switch (finding.reason()) {
    case REASON_SLOW_WORK:
      words.what = absl::StrCat(Pick(finding, "is slow: its", "are slow: their"), " own work between operations takes ",
                                absl::StrFormat("%.0f %%", (finding.slowdown() - 1) * 100), " longer than ",
                                Pick(finding, "its", "their"), " siblings'", OthersWait(finding));
      break;
    case REASON_SLOW_BY_HABIT: {
      const std::string later = Milliseconds(detail.other_duration_ns());
      words.what = Several(finding)
                       ? absl::StrCat(
                             "are slow: their own work makes them arrive at their group's operations later than "
                             "others, the latest often by ",
                             later, " and more")
                       : absl::StrCat(
                             "is slow: its own work makes it arrive at its group's operations later than the "
                             "others, often by ",
                             later, " and more");
      absl::StrAppend(&words.what, OthersWait(finding));
      break;
    }
    case REASON_LATE_IN_TURNS:
      words.what =
          absl::StrCat("are late now and then, another one each time: in ", detail.count(), " of ", detail.of(),
                       " steps one of them or more took longer than usual, by ", Milliseconds(detail.duration_ns()),
                       " a step over all; what they share is ", detail.name());
      words.tells_apart =
          "the profiler or stacks of the late rank while it is late: which of them is held up, and in what";
      words.refuted_by = "delays of the same size on other ranks as often";
      words.advice = {absl::StrCat("Look for what runs on ", detail.name(),
                                   " beside the job: daemons, another job's data, monitoring."),
                      "Compare its interrupts, page faults and power with its neighbours'."};
      break;
    case REASON_SLOW_TRANSFERS:
      words.what = absl::StrCat(
          "transfers are slow: ", CallText(detail.call()), " takes ", absl::StrFormat("%.1f", finding.slowdown()),
          detail.flag() ? " times what it took before"
                        : absl::StrCat(" times what ", Pick(finding, "its", "their"), " siblings take"),
          detail.has_count() ? absl::StrCat(" in ", detail.count(), " of ", detail.of(), " operations") : "",
          " although all members have arrived; it points to ", detail.name());
      words.refuted_by = "the slow communicators moving more than their siblings by design";
      words.advice = {
          "Read link errors, speed and width of the named ranks' network ports (ibstat, ethtool -S, nvidia-smi nvlink "
          "-e).",
          "Run nccl-tests between the named hosts and between others, and compare."};
      break;
    default:
      return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
