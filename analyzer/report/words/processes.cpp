// Processes that ended or were stopped.
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/words/commands.h"
#include "analyzer/report/words/reasons.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/util/signal_text.h"

namespace lockstep {
namespace {

// "rank 3 was killed by signal 9 (SIGKILL); ranks 4, 5 exited with status 1"; empty if all ended the same way.
std::string DifferentEnds(const Finding& finding) {
  constexpr size_t kMostWays = 4;
  struct Way {
    const Culprit* first;
    google::protobuf::RepeatedField<int32_t> ranks;
  };
  std::vector<Way> ways;
  for (const Culprit& culprit : finding.culprits()) {
    auto way = std::find_if(ways.begin(), ways.end(), [&](const Way& w) {
      return w.first->condition() == culprit.condition() && w.first->code() == culprit.code();
    });
    if (way == ways.end()) way = ways.insert(ways.end(), {&culprit, {}});
    way->ranks.Add(culprit.rank());
  }
  if (ways.size() < 2) return "";
  std::vector<std::string> texts;
  for (size_t w = 0; w < std::min(ways.size(), kMostWays); ++w) {
    const auto& [first, ranks] = ways[w];
    const char* verb = first->condition() != Culprit::KILLED ? " " : ranks.size() == 1 ? " was " : " were ";
    texts.push_back(absl::StrCat(RankNames(ranks), verb, ConditionText(*first)));
  }
  return absl::StrCat(absl::StrJoin(texts, "; "), ways.size() > kMostWays ? "; others ended in other ways" : "");
}

std::string ReadErrors(const Finding& finding) {
  return absl::StrCat("Read the end of the error output of ", RankNames(finding.culprit_ranks()), ".");
}

std::vector<std::string> ExitAdvice(const Finding& finding) {
  if (finding.detail().has_name())
    return {"Read that exception in the rank's error output.",
            "Later errors and timeouts of other ranks follow from it."};
  if (finding.detail().number() != 0) return {ReadErrors(finding)};
  return {Pick(finding, "Read the end of its output: did its data run out?",
               "Read the ends of their outputs: did their data run out?"),
          "Look for a swallowed exception.", "Make every rank run the same number of steps."};
}

constexpr char kEarlierEnd[] = "the process still running, or another rank's process having ended earlier";
std::vector<std::string> ContinueAdvice(const Finding& finding) {
  const std::string command = PidCommand(finding, "kill -CONT");
  return {absl::StrCat("Ask who stopped ", Pick(finding, "it", "them"), ": a debugger? SIGSTOP? a cgroup freezer?"),
          absl::StrCat("If nobody still needs that, resume ", RankNames(finding.culprit_ranks()), ": ",
                       command.empty() ? "`kill -CONT PID`" : command)};
}

}  // namespace

std::optional<Words> ProcessWords(const Finding& finding) {
  const Detail& detail = finding.detail();
  Words words;
  switch (finding.reason()) {
    case REASON_KILLED:
      words.what = absl::StrCat(Pick(finding, "was", "were"), " killed by signal ", SignalText(detail.number()));
      words.refuted_by = kEarlierEnd;
      if (detail.number() != SIGKILL && detail.number() != SIGBUS) {
        words.advice = {ReadErrors(finding), Step("Look for its core file", PidCommand(finding, "coredumpctl info"))};
      } else if (detail.flag()) {
        words.advice = {
            "Find out who sent the signal: scheduler, watchdog or operator.",
            RestartStep(finding, "The kernel log shows no out-of-memory kill. If it happens again, restart")};
      } else {
        words.advice = {
            Step("Read the kernel log", KernelLogCommand(finding, "oom|mce")),
            "If it shows no out-of-memory kill and no hardware error, find out who sent the signal: the scheduler? "
            "an operator?",
            RestartStep(finding, "If it happens again, restart")};
      }
      break;
    case REASON_KILLED_FOR_MEMORY:
      words.what = absl::StrCat(Pick(finding, "was", "were"), " killed by the kernel's out-of-memory killer (signal ",
                                SignalText(detail.number()), ")");
      words.refuted_by = kEarlierEnd;
      words.advice = {
          "Use less host memory (loader workers, pinned buffers) or add more.",
          Step("The kernel log shows how much memory the process had, and whether the limit was the container's or the "
               "host's",
               KernelLogCommand(finding, "oom"))};
      break;
    case REASON_EXITED:
      words.what = detail.has_name() ? absl::StrCat("died of an exception: ", detail.name())
                                     : absl::StrCat("exited with status ", detail.number());
      words.refuted_by = kEarlierEnd;
      words.advice = ExitAdvice(finding);
      break;
    case REASON_GONE:
      if (detail.flag()) {
        words.what = "exited";
        words.more = {{"; ", "the exit status is unknown"}};
        words.refuted_by = kEarlierEnd;
        words.advice = ExitAdvice(finding);
        break;
      }
      words.what = Pick(finding, "is gone", "are gone");
      // Nothing but the number of the rank is known.
      if (finding.culprits_size() > 0 && finding.culprits(0).pid() == 0) {
        words.what = Pick(finding, "has no process on its host", "have no process on their hosts");
        words.more = {{": ", Pick(finding, "it ended, or was never started", "they ended, or were never started")}};
        words.refuted_by = kEarlierEnd;
        words.advice = {Pick(finding, "Check in the launcher's log whether it was started.",
                             "Check in the launcher's log whether they were started."),
                        Step(Pick(finding, "If it was, look in the kernel log for why it ended",
                                  "If they were, look in the kernel log for why they ended"),
                             KernelLogCommand(finding, "oom|xid|segfault"))};
        break;
      }
      words.more = {
          {"; ", Pick(finding, "nothing shows how its process ended", "nothing shows how their processes ended")}};
      words.refuted_by = kEarlierEnd;
      words.advice = {ReadErrors(finding), Step("Read the kernel log", KernelLogCommand(finding, "oom|xid|segfault"))};
      break;
    case REASON_ENDED_UNSEEN:
      words.what = "ended without a clean exit";
      words.more = {{"; ", "the recording does not show why"}};
      words.rivals = {"SIGKILL from an operator, the scheduler, or the kernel (out of memory)",
                      "a crash, or the host went down", "the program called _exit(), which leaves no record"};
      words.tells_apart =
          "the exit status in the log of the launcher or scheduler; the hosts' kernel logs from that time";
      words.refuted_by = "an exit status of 0 in the launcher's log";
      words.advice = {"Look for its exit status or signal in the launcher's log.",
                      Step("Look for an out-of-memory kill", KernelLogCommand(finding, "oom")),
                      "Next time, start the job under `lockstep run` or an agent: they record how each process ends."};
      break;
    case REASON_EXITED_WHILE_OTHERS_WAIT:
      words.what = absl::StrCat("exited with status ", detail.number());
      words.rivals = {"an operation hangs on a GPU or in the network, and the process ended for another reason"};
      words.tells_apart =
          "GPU progress markers, which show whether the rank's last operations were complete when it ended";
      words.refuted_by = "a record showing that the rank's last operations were complete when it ended";
      words.advice = ExitAdvice(finding);
      break;
    case REASON_PROCESS_STOPPED:
      words.what = absl::StrCat(Pick(finding, "is", "are"), " stopped (state ", detail.name(), ")");
      words.refuted_by = kEntered;
      words.advice = ContinueAdvice(finding);
      break;
    case REASON_STOPPED_WHILE_OTHERS_WAIT:
      words.what = absl::StrCat(Pick(finding, "is", "are"), " stopped (state ", detail.name(), ")");
      words.more = {{", and ", "all other ranks wait for their GPUs"}};
      words.rivals = {"an operation hangs on a GPU or in the network, and somebody stopped the process to examine it"};
      words.tells_apart = "GPU progress markers, which show which operation each GPU is in";
      words.refuted_by = "the job remaining stuck after the process continues";
      words.advice = ContinueAdvice(finding);
      break;
    default: return std::nullopt;
  }
  // If the recording does not show how the processes ended, they have no state that distinguishes them.
  if (finding.kind() == RANK_DEAD && finding.reason() != REASON_ENDED_UNSEEN) {
    if (std::string ends = DifferentEnds(finding); !ends.empty()) {
      words.what = "ended differently";
      words.more = {{": ", std::move(ends)}};
    }
    for (const Evidence& evidence : finding.evidence()) {
      if (evidence.kind() != Evidence::LAST_CALL || Several(finding)) continue;
      // Without its number: the rank may have called ahead of the operation in which its peers wait.
      words.more.push_back(
          {"; ", absl::StrCat("its last call: ", evidence.operation().substr(0, evidence.operation().find(" #")),
                              " on ", evidence.communicator().label())});
    }
  }
  return words;
}

}  // namespace lockstep
