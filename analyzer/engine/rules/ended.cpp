// Processes that ended well, or are stopped, while all others wait, where nothing is recorded of what the GPUs did:
// every call was made by everybody, so that no operation shows for whom they wait.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

std::vector<Cause> Causes::FromEndsUnderWaits(const std::vector<Cause>& known, int64_t late_after_ns) const {
  if (!known.empty()) return {};
  std::vector<int32_t> ended, stopped;
  size_t waiting = 0;
  int64_t least = INT64_MAX;
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    const RankView& view = model_.ranks[r];
    if (rank.process.life == Life::kExited && rank.process.exit_code == 0) {
      if (!rank.process.consequence) ended.push_back(static_cast<int32_t>(r));
      continue;
    }
    if (view.host == HostState::kStopped) {
      stopped.push_back(static_cast<int32_t>(r));
      continue;
    }
    const bool waits = view.host == HostState::kInWait && view.thread != nullptr && view.thread->wait_since_ns > 0 &&
                       rank.captured_ns > 0 && rank.gpu_marks == ring::GpuMarks::kOff;
    if (!waits) return {};
    ++waiting;
    least = std::min(least, rank.captured_ns - view.thread->wait_since_ns);
  }
  if (!stopped.empty() && ended.empty() && stopped.size() < waiting && least >= late_after_ns) {
    Cause c;
    c.kind = HOST_STALL;
    c.ranks = stopped;
    c.confidence = stopped.size() == 1 ? 0.85 : 0.7;
    c.what = Say(Clause("its process is", "their processes are"), " stopped (state ",
                 bundle_.ranks[static_cast<size_t>(stopped[0])].process.state, "), and all others wait for their GPUs");
    c.evidence.push_back({absl::StrFormat("all %d other ranks have waited for their GPUs for %.0f s or more, and make "
                                          "no further call; GPU marks are off, so that "
                                          "for whom is not recorded",
                                          waiting, static_cast<double>(least) / 1e9),
                          {}});
    for (int32_t r : stopped) AddHostEvidence(r, &c);
    c.alternatives.push_back(
        "an operation does not end on a GPU or in the network, and somebody stopped the process to look at it");
    c.may_be_network = true;
    c.tells_apart = "GPU marks: what each GPU is in";
    c.advice = {"Find who stopped it (a debugger, SIGSTOP, a job manager) and continue it: kill -CONT PID."};
    c.refuted_by = "the job standing still after it was continued";
    return {c};
  }
  // Where many have ended, the job ends, and the others may be as good as done.
  if (ended.empty() || ended.size() >= waiting || least < late_after_ns) return {};
  Cause c = DeathCause(ended[0]);
  c.ranks = ended;
  c.confidence = ended.size() == 1 ? 0.8 : 0.6;
  c.evidence.push_back(
      {absl::StrFormat("all %d other ranks have waited for their GPUs for %.0f s or more, and make no further call. "
                       "What a process left on its "
                       "GPU ends with it; GPU marks are off, so whether its last operations were done is not recorded",
                       waiting, static_cast<double>(least) / 1e9),
       {}});
  c.alternatives.push_back(
      "an operation does not end on a GPU or in the network, and the process ended for reasons of its own");
  c.may_be_network = true;
  c.tells_apart = "GPU marks: whether its last operations were done when it ended";
  c.refuted_by = "its last operations having been done when it ended";
  return {c};
}

}  // namespace lockstep
