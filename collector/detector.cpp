#include "collector/detector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "collector/say.h"

namespace lockstep {
namespace {

constexpr int64_t kGapFactor = 8;
// A communicator is warm once two operations lie behind its members.
constexpr uint64_t kWarmTotal = 3;
// Threads that only keep watch (a framework's watchdog) use a little CPU and write a line now and then.
constexpr double kIdleCpuShare = 0.05;
constexpr double kIdleBytesPerSecond = 4096;

bool Definite(FindingKind kind) {
  switch (kind) {
    case MISMATCH_KIND:
    case MISMATCH_COUNT:
    case MISMATCH_DATATYPE:
    case MISMATCH_REDUCTION:
    case MISMATCH_ROOT:
    case MISMATCH_SPLITS:
    case ORDER_INVERSION:
    case DEADLOCK_CYCLE:
    case SPLIT_MISMATCH:
    case SILENT_DESYNC:
    case ASYNC_ERROR:
      return true;
    default:
      return false;
  }
}

bool Busy(const RootView& root) {
  if (root.in_recorded_call || root.sample_gap_ns <= 0) return false;
  const double seconds = static_cast<double>(root.sample_gap_ns) / 1e9;
  if (static_cast<double>(root.cpu_ns) > kIdleCpuShare * seconds * 1e9) return true;
  return static_cast<double>(root.io_bytes) > kIdleBytesPerSecond * seconds;
}

}  // namespace

void GapHistory::Add(int64_t gap_ns) {
  gaps_[count_++ % gaps_.size()] = gap_ns;
}

int64_t GapHistory::P99() const {
  if (count_ == 0) return 0;
  std::array<int64_t, 256> sorted = gaps_;
  const size_t used = size();
  // Rounded down: one outlier, a pause that came once, sets no limit.
  const size_t at = std::max<size_t>(used * 99 / 100, 1) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at),
                   sorted.begin() + static_cast<std::ptrdiff_t>(used));
  return sorted[at];
}

void Detector::NoteGap(int64_t now, uint64_t total, int64_t issued_ns, CommState* comm) {
  if (total <= comm->total) {
    comm->quiet_ns = now;
    return;
  }
  // Between two looks a communicator may have made many steps: their mean, or the time in which looks saw none. The
  // time between the looks themselves says nothing; the watcher may have been slow. Warm-up is not what a job is like
  // later.
  if (comm->total >= kWarmTotal) {
    const int64_t from = std::max(comm->advanced_ns, rebased_ns_);
    int64_t gap = std::max<int64_t>(0, comm->quiet_ns - from);
    if (comm->issued_ns >= rebased_ns_ && issued_ns > comm->issued_ns) {
      gap = std::max(gap, (issued_ns - comm->issued_ns) / static_cast<int64_t>(total - comm->total));
    }
    comm->gaps.Add(gap);
  }
  comm->total = total;
  comm->advanced_ns = comm->quiet_ns = now;
  comm->issued_ns = issued_ns;
}

void Detector::Observe(int64_t now, const std::vector<DigestView>& ranks) {
  struct Ends {
    uint64_t highest = 0, lowest = UINT64_MAX;
    int64_t issued_ns = 0;
  };
  std::map<uint64_t, Ends> ends;
  for (const DigestView& view : ranks) {
    for (const DigestComm& comm : view.comms) {
      if (!comm.active) continue;
      Ends& end = ends[comm.id];
      end.lowest = std::min(end.lowest, comm.collectives);
      if (comm.total >= end.highest) {
        end.highest = comm.total;
        end.issued_ns = std::max(end.issued_ns, comm.issued_ns);
      }
    }
  }
  for (const auto& [id, end] : ends) NoteGap(now, end.highest, end.issued_ns, &comms_[id]);
  for (const DigestView& view : ranks) {
    RankState& state = ranks_[view.slot];
    if (!state.seen || state.view.progress_mark != view.progress_mark) state.progress_ns = now;
    state.seen = true;
    state.view = view;
    state.waiting_since = 0;
    if (!view.alive) continue;
    int64_t since = view.blocked_since_ns;
    if (view.gpu_in_flight) since = since == 0 ? state.progress_ns : std::min(since, state.progress_ns);
    for (const DigestComm& comm : view.comms) {
      // Ahead of a member: its operation is in flight, also where nothing tells what its GPU does.
      if (!comm.active || comm.collectives <= ends[comm.id].lowest || comm.issued_ns <= 0) continue;
      since = since == 0 ? comm.issued_ns : std::min(since, comm.issued_ns);
    }
    if (since != 0) state.waiting_since = std::max(since, rebased_ns_);
  }
}

void Detector::Rebase(int64_t now) {
  rebased_ns_ = now;
  for (auto& [slot, state] : ranks_) {
    state.progress_ns = now;
    if (state.waiting_since != 0) state.waiting_since = now;
  }
}

int64_t Detector::LongestWait(int64_t now, int32_t* slot, std::string* doing) const {
  int64_t longest = 0;
  for (const auto& [number, state] : ranks_) {
    if (state.waiting_since == 0) continue;
    // A rank that keeps issuing is not stuck in its oldest wait, whatever another thread of it sits in.
    const int64_t waits = now - std::max(state.waiting_since, state.progress_ns);
    if (waits <= longest) continue;
    longest = waits;
    if (slot != nullptr) *slot = number;
    if (doing != nullptr) *doing = state.view.doing;
  }
  return longest;
}

bool Detector::Suspicious(int64_t now) const {
  const int64_t longest = LongestWait(now, nullptr, nullptr);
  if (longest >= limits_.late_after) return true;
  const bool ended =
      std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return !entry.second.view.alive; });
  return ended && longest >= limits_.dead_settle;
}

int64_t Detector::LastProgress(const std::vector<int32_t>& slots) const {
  int64_t last = 0;
  for (const auto& [slot, state] : ranks_) {
    if (slots.empty() || std::find(slots.begin(), slots.end(), slot) != slots.end()) {
      last = std::max(last, state.progress_ns);
    }
  }
  return last;
}

int64_t Detector::LimitOf(uint64_t comm) const {
  int64_t limit = std::max(limits_.late_after, learned_);
  if (const auto found = comms_.find(comm); found != comms_.end()) {
    limit = std::max(limit, kGapFactor * found->second.gaps.P99());
  }
  return limit;
}

bool Detector::Warm(uint64_t comm) const {
  const auto found = comms_.find(comm);
  return found != comms_.end() && found->second.total >= kWarmTotal;
}

void Detector::Recovered(int64_t stalled_ns) {
  learned_ = std::max(learned_, 2 * stalled_ns);
}

Decision Detector::Judge(int64_t now, const RootFinding& finding) const {
  Decision decision;
  const int64_t longest = LongestWait(now, nullptr, nullptr);
  decision.stalled_ns = std::min(longest, now - LastProgress(finding.involved));
  decision.limit_ns = LimitOf(finding.comm);
  const auto say = [&decision](bool hung, std::string reason) {
    decision.hung = hung;
    decision.reason = std::move(reason);
    return decision;
  };
  if (longest == 0) return say(false, "nobody waits");
  if (longest >= limits_.hang_after) {
    decision.limit_ns = limits_.hang_after;
    return say(true, absl::StrCat("a wait passed the limit of ", DurationText(limits_.hang_after)));
  }
  if (finding.kind == FINDING_UNSPECIFIED) return say(false, "no root was found");

  bool ended = false, stopped = false, busy = false, outside = false, unsampled = false;
  for (const RootView& root : finding.roots) {
    ended |= root.ended;
    stopped |= root.stopped;
    if (root.ended || root.stopped) continue;
    busy |= Busy(root);
    outside |= !root.in_recorded_call;
    unsampled |= !root.in_recorded_call && root.sample_gap_ns < limits_.sample_gap;
  }
  if (ended) {
    decision.limit_ns = limits_.dead_settle;
    return say(decision.stalled_ns >= limits_.dead_settle, "its process has ended");
  }
  if (stopped) return say(decision.stalled_ns >= decision.limit_ns, "its process is stopped");
  if (Definite(finding.kind)) return say(decision.stalled_ns >= decision.limit_ns, "the ranks disagree");

  const bool init = finding.kind == INIT_INCOMPLETE || std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
                      return entry.second.view.in_init && entry.second.waiting_since != 0;
                    });
  if (init || (finding.comm != 0 && !Warm(finding.comm))) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.warm_up);
  }
  if (finding.kind == GPU_STALL || finding.kind == COLLECTIVE_STUCK) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.gpu_stall_after);
    return say(decision.stalled_ns >= decision.limit_ns, "the GPU stands still");
  }
  if (outside || finding.kind == RANK_NO_DATA) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.host_stall_after);
    if (busy) return say(false, "the root is busy outside NCCL");
    if (unsampled) return say(false, "the root was not sampled twice yet");
  }
  return say(decision.stalled_ns >= decision.limit_ns, "the root is blocked and does not move");
}

}  // namespace lockstep
