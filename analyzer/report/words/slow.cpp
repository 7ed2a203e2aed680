// Reasons why a job is slow.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/util/numbers.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

// ", and the others wait 2.5 ms for it in each step".
std::vector<Clause> OthersWait(const Finding& finding) {
  return {{", and ", absl::StrCat("the others wait ", Milliseconds(finding.detail().duration_ns()), " for ",
                                  Pick(finding, "it", "them"),
                                  finding.detail().flag() ? " in each step" : " during the recording")}};
}

}  // namespace

std::optional<Words> SlowWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  words.advice = {
      Step(Pick(finding, "Compare it with its neighbors", "Compare with their neighbors"),
           HostCommand(finding, "nvidia-smi dmon -c 1"), "Compare clocks, power and temperature with the neighbors'"),
      Step("If clocks are low, find out why", HostCommand(finding, "nvidia-smi -q -d PERFORMANCE")),
      Pick(finding, "Look for other work on the host, and for data or shapes that only this rank has.",
           "Look for other work on the hosts, and for data or shapes that only these ranks have.")};
  words.refuted_by = "a program in which the ranks with the same role have less work by design";
  switch (finding.reason()) {
    case REASON_SLOW_WORK:
      words.what = absl::StrCat(Pick(finding, "takes ", "take "), absl::StrFormat("%.2f", finding.slowdown()),
                                " times as long between operations as ranks with the same role");
      words.more = {{": ",
                     absl::StrCat(DurationText(finding.cost_ns_per_step()),
                                  detail.flag() ? " lost in each step" : " lost during the recording"),
                     /*repeated=*/true}};
      break;
    case REASON_SLOW_BY_HABIT: {
      const std::string later = Milliseconds(detail.other_duration_ns());
      words.what = Several(finding) ? absl::StrCat(
                                          "arrive at their groups' operations later than others because of their own "
                                          "work, the latest often by ",
                                          later, " or more")
                                    : absl::StrCat(
                                          "arrives at its group's operations later than the others because of its own "
                                          "work, often by ",
                                          later, " or more");
      words.more = OthersWait(finding);
      break;
    }
    case REASON_LATE_IN_TURNS:
      words.what = "are sometimes late, a different rank each time";
      words.more = {{": ", absl::StrCat("in ", CountText(detail.count()), " of ", CountText(detail.of()),
                                        " steps one or more of them took longer than usual, by ",
                                        Milliseconds(detail.duration_ns()), " per step on average")},
                    {"; ", absl::StrCat("they share ", detail.name())}};
      words.tells_apart = "the profiler, or stacks of a rank taken while it is late, which show what delays it";
      words.refuted_by = "equally long and frequent delays on other ranks";
      words.advice = {
          absl::StrCat("Look for other work on ", detail.name(), ": daemons? another job?"),
          absl::StrCat("Compare interrupts, page faults and power there with the neighbors of ", detail.name(), ".")};
      break;
    case REASON_SLOW_TRANSFERS:
      words.own_subject = true;
      words.what = absl::StrCat(
          "transfers are slow: ", CallText(detail.call()), " takes ", absl::StrFormat("%.1f", finding.slowdown()),
          detail.flag() ? " times what it took before" : " times what comparable transfers take",
          detail.has_count()
              ? absl::StrCat(" in ", CountText(detail.count()), " of ", CountText(detail.of()), " operations")
              : "");
      words.more = {{", ", "measured from the arrival of the last member"},
                    {"; ", absl::StrCat("this points to ", detail.name())}};
      words.refuted_by = "a program in which the slow communicators move more data by design";
      words.advice = {Step("Check the ports", HostCommand(finding, "'ibstat; nvidia-smi nvlink -e'"),
                           "Check the network ports (ibstat, nvidia-smi nvlink -e)"),
                      "Compare their errors, speed and width with those of other hosts (ethtool -S for Ethernet).",
                      "Run nccl-tests between the named hosts and between others, and compare."};
      break;
    default: return std::nullopt;
  }
  return words;
}

}  // namespace lockstep
