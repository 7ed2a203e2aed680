// Handles rings of processes whose end was not observed.
#include <algorithm>

#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/finding_kinds.h"

namespace lockstep {
namespace {

// Returns whether it is unknown when the data was taken. Either the process has ended, or it was recorded on another
// boot or host, or the data is a framework's dump whose file lost its time.
bool NobodySaw(const Rank& rank) {
  if (rank.source == Source::kFlightRecorder) return rank.captured_ns == 0 && !rank.only_active;
  return EndUnseen(rank) ||
         (rank.source == Source::kRing && rank.process.life == Life::kUnknown && rank.captured_ns == 0);
}

// Returns the last sign of the process in its record, by the wall clock.
int64_t LastSign(const Rank& rank) {
  int64_t last = 0;
  for (const Op& op : rank.ops) last = std::max({last, op.enter_ns, op.return_ns});
  for (const ring::ThreadSnapshot& thread : rank.threads)
    last = std::max({last, thread.since_ns, thread.wait_since_ns, thread.group_since_ns, thread.last_call_ns});
  return last + rank.real_minus_mono_ns;
}

// If only a period of watching the processes shows whether the job moves, returns its length; otherwise 0.
int64_t WatchedFor(const Bundle& bundle) {
  if (!OnlyProcessesKnown(bundle) || !ProcessesLookedAt(bundle)) return 0;
  int64_t longest = 0;
  for (const Rank& rank : bundle.ranks) longest = std::max(longest, rank.process.sample_gap_ns);
  return longest;
}

}  // namespace

void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes) {
  const int64_t watched = WatchedFor(bundle);
  if (causes->empty() || bundle.known_stalled || (watched == 0 && !std::ranges::all_of(bundle.ranks, NobodySaw)))
    return;
  int64_t last = 0;
  for (const Rank& rank : bundle.ranks) last = std::max(last, LastSign(rank));
  for (Cause& c : *causes) {
    // A stopped process does not continue on its own.
    if (!FindingFactsOf(c.kind).rests_on_flight || (watched > 0 && c.reason == REASON_PROCESS_STOPPED)) continue;
    if (c.op != nullptr && c.op_rank >= 0 && c.op->enter_ns > 0 &&
        last - (c.op->enter_ns + bundle.ranks[c.op_rank].real_minus_mono_ns) >= late_after_ns) {
      continue;
    }
    c.Doubt(GRADE_WEAK);
    Detail* rival = c.AddRival(Rival::JOB_MOVED);
    if (watched > 0) rival->set_duration_ns(watched);
  }
}

}  // namespace lockstep
