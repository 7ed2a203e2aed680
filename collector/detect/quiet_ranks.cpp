#include "collector/detect/quiet_ranks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "analyzer/engine/facts/gpu_wait.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

// A round without a wait ends after this time, which is enough for two samples. Each sample may take seconds.
constexpr int64_t kTwoLooks = QuietRanks::kLookEvery + 4 * kSecond;
// A wait that was observed for this long needs no more samples.
constexpr int64_t kSeenLongEnough = QuietRanks::kMostLooks * QuietRanks::kLookEvery;

// Returns the communicator that the rank used last; 0 if it used none.
uint64_t LastUsed(const DigestView& view) {
  const DigestComm* last = nullptr;
  for (const DigestComm& comm : view.comms) {
    if (comm.active && comm.total > 0 && (last == nullptr || comm.issued_ns > last->issued_ns)) last = &comm;
  }
  return last == nullptr ? 0 : last->id;
}

// Returns the frames of a stack from its wait for a GPU outwards; empty if it is not waiting.
std::vector<std::string> FromWait(const std::vector<std::string>& stack) {
  const auto wait = std::find_if(stack.begin(), stack.end(), [](const std::string& frame) {
    return GpuWaitOf(ParseFrame(frame).function()) != ring::CallKind::kNone;
  });
  return {wait, stack.end()};
}

// Returns where the process waits in the newest sample: in the thread that represents it, or else in thread `tid`.
std::vector<std::string> PlaceOf(const Process& process, int32_t tid) {
  std::vector<std::string> place = FromWait(process.stack_later.empty() ? process.stack : process.stack_later);
  for (const ThreadStack& thread : process.evidence->threads()) {
    if (place.empty() && thread.inner_tid() == tid) place = FromWait(StackTexts(thread, *process.evidence));
  }
  return place;
}

}  // namespace

void QuietRanks::AddWait(const std::vector<ring::ThreadSnapshot>& threads, const Process& process, DigestView* view) {
  const auto found = slots_.find(view->slot);
  if (found == slots_.end()) return;
  State& state = found->second;
  state.waits = false;
  if (state.opened_ns == 0 || process.evidence == nullptr || process.evidence->taken_ns() < state.opened_ns) return;
  const std::optional<ring::ThreadSnapshot> waiting = GpuWaitInStacks(threads, process);
  if (process.evidence->taken_ns() != state.looked_ns) {
    state.looked_ns = process.evidence->taken_ns();
    std::vector<std::string> place = waiting ? PlaceOf(process, waiting->tid) : std::vector<std::string>();
    if (place != state.place) {
      state.looks = 0;
      state.place_ns = state.looked_ns;
      state.place = std::move(place);
    }
    ++state.looks;
  }
  if (!waiting || state.place.empty() || state.looks < 2) return;
  state.waits = true;
  // Before the first sample, the thread may have launched other work.
  const int64_t since = std::max(waiting->wait_since_ns, state.place_ns - state.limit_ns);
  view->waits.push_back({waiting->wait, 0, 0, UINT32_MAX, since});
  if (view->blocked_since_ns != 0) return;
  view->blocked_since_ns = since;
  view->doing = waiting->wait == ring::CallKind::kLaunch ? "a kernel launch" : ring::CallName(waiting->wait);
}

std::vector<WantedLook> QuietRanks::Due(int64_t now, const std::vector<DigestView>& views, const Lateness& lateness) {
  bool all_quiet = true;
  for (const DigestView& view : views) {
    const uint64_t comm = view.alive ? LastUsed(view) : 0;
    if (comm == 0) continue;
    const int64_t moved = std::max(lateness.ProgressOf(view.slot), lateness.ActivityOf(view.slot));
    State& state = slots_[view.slot];
    if (state.moved_ns != moved) {
      state = State();
      state.moved_ns = moved;
    }
    state.limit_ns = lateness.LimitOf(comm);
    all_quiet &= now - moved >= state.limit_ns;
  }
  std::vector<WantedLook> due;
  if (!all_quiet) return due;
  for (const DigestView& view : views) {
    if (!view.alive || LastUsed(view) == 0) continue;
    State& state = slots_[view.slot];
    const bool recorded = !state.waits && (!view.waits.empty() || !view.streams.empty());
    if (recorded) continue;
    const int64_t quiet = now - state.moved_ns;
    if (state.opened_ns == 0 && quiet >= state.next_quiet_ns) state.opened_ns = now;
    if (state.opened_ns == 0) continue;
    const int64_t open = now - state.opened_ns;
    if (!state.waits && open > kTwoLooks) {
      state.opened_ns = 0;
      state.next_quiet_ns = 2 * quiet;
    } else if (open <= kSeenLongEnough) {
      due.push_back({view.slot, state.opened_ns});
    }
  }
  return due;
}

}  // namespace lockstep
