#include "analyzer/engine/blind.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"

namespace lockstep {

bool IsBlind(const Rank& rank) {
  const bool stopped =
      rank.recorder_state == ring::RecorderState::kStopped || rank.recorder_state == ring::RecorderState::kReplaced;
  const bool died =
      rank.process.life == Life::kKilled || (rank.process.life == Life::kExited && rank.process.exit_code != 0);
  return stopped && !died;
}

namespace {

std::string StoppedText(const Rank& rank) {
  std::string at;
  if (rank.stopped_ns > 0) at = UtcText(rank.stopped_ns + rank.real_minus_mono_ns, " at %Y-%m-%d %H:%M:%S UTC");
  return absl::StrCat("recording stopped", at,
                      " (reason: ", rank.stop_reason.empty() ? "not recorded" : rank.stop_reason, "); what rank ",
                      rank.rank, " did afterwards is unknown");
}

}  // namespace

Bundle WithoutBlindRanks(const Bundle& bundle) {
  Bundle seen = bundle;
  seen.ranks_expected = std::max(bundle.ranks_expected, static_cast<int32_t>(bundle.ranks.size()));
  for (const Rank& rank : bundle.ranks) {
    if (IsBlind(rank))
      seen.problems.push_back(
          {.path = rank.path, .text = StoppedText(rank), .rank = rank.rank, .stopped = true, .like = "stopped"});
  }
  std::erase_if(seen.ranks, IsBlind);
  return seen;
}

}  // namespace lockstep
