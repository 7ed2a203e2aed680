// Decides between late and hung, by the rules in docs/detection.md.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/util/time_text.h"
#include "collector/detect/detector.h"
#include "collector/host/process_sample.h"

namespace lockstep {
namespace {

// Returns the time to which the finding applies. Digests of many thousand ranks are seconds old when their verdict is
// ready.
int64_t AsOf(int64_t now, const RootFinding& finding) {
  return finding.as_of_ns > 0 ? std::min(now, finding.as_of_ns) : now;
}

bool Busy(const RootView& root) { return AtWork(root.sample_gap_ns, root.cpu_ns, root.io_bytes); }

Decision Say(Decision& decision, bool hung, const char* rule, std::string reason) {
  decision.level = hung ? Level::kHung : Level::kMoving;
  decision.rule = rule;
  decision.reason = std::move(reason);
  return std::move(decision);
}

// Hung once nothing has moved for `least` and for the limit of the decision.
Decision After(Decision& decision, int64_t least, const char* rule, std::string reason) {
  decision.limit_ns = std::max(decision.limit_ns, least);
  return Say(decision, decision.age_ns >= decision.limit_ns, rule, std::move(reason));
}

}  // namespace

void Detector::NoteSamples(int64_t now, const RootFinding& finding) {
  for (const RootView& root : finding.roots) {
    if (!root.known || root.ended || root.sample_gap_ns < limits_.sample_gap) {
      // Observations from before the rank's last progress do not count.
      if (root.known && root.sample_gap_ns == 0) watched_.erase(root.rank);
      continue;
    }
    // The latest time at which the rank may have been observed idle. A rank that worked while its answer was in transit
    // must not count as idle for that time.
    const int64_t at = std::min(now, AsOf(now, finding) + root.after_ns);
    Watched& watched = watched_[root.rank];
    if (watched.last_sample_ns == 0 || at - watched.last_sample_ns >= limits_.sample_gap / 2) {
      ++watched.samples;
      watched.last_sample_ns = at;
    }
    // Inside a recorded call or a wait for its GPU, a process may spin, which is not work.
    if (!root.in_recorded_call && Busy(root)) {
      watched.worked = true;
      watched.idle_since_ns = 0;
    } else if (watched.idle_since_ns == 0) {
      watched.idle_since_ns = at - std::max(root.sample_gap_ns, root.idle_ns);
    } else if (root.idle_ns > 0) {
      watched.idle_since_ns = std::min(watched.idle_since_ns, at - root.idle_ns);
    }
    // A process between two waits is active, no matter how little CPU time it uses.
    if (watched.idle_since_ns != 0 && root.activity_age_ns >= 0) {
      watched.idle_since_ns = std::max(watched.idle_since_ns, at - root.activity_age_ns);
    }
  }
}

// Returns whether the wait explains the exit: a launcher or a watchdog kills ranks that waited too long. A crash is
// never explained by the wait, and a root's exit only if the root was killed.
bool Detector::EndFollows(int64_t now, int32_t rank, EndKind kind) const {
  if (level_ != Level::kLate || !found_ || finding_.roots.empty() || kind == EndKind::kCrashed) return false;
  if (StillFor(now, finding_, LongestWait(now)) < LimitOf(finding_.comm)) return false;
  for (const RootView& root : finding_.roots) {
    const auto watched = watched_.find(root.rank);
    const bool rests = root.idle_ns > 0 || (watched != watched_.end() && watched->second.idle_since_ns != 0);
    if (root.ended || !root.known || (!root.in_recorded_call && !root.stopped && !rests)) return false;
    if (root.rank == rank && kind != EndKind::kKilled) return false;
  }
  return true;
}

int64_t Detector::StillFor(int64_t now, const RootFinding& finding, int64_t longest) const {
  int64_t still = longest;
  if (finding.still_ns >= 0) still = std::min(still, finding.still_ns);
  for (const uint64_t comm : finding.comms) {
    const MergedComm* merged = progress_.Find(comm);
    if (merged != nullptr && merged->moved_ns > 0) still = std::min(still, now - merged->moved_ns);
  }
  if (rebased_ns_ > 0) still = std::min(still, now - rebased_ns_);
  return std::max<int64_t>(0, still);
}

void Detector::FillSamples(int64_t now, const RootFinding& finding, Decision* decision) const {
  bool first = true;
  for (const RootView& root : finding.roots) {
    decision->roots.push_back(root.rank);
    if (root.ended || !root.known) continue;
    const auto found = watched_.find(root.rank);
    const bool sampled = found != watched_.end();
    const bool idles = sampled && found->second.idle_since_ns != 0;
    const int64_t idle =
        idles ? std::max<int64_t>(0, AsOf(now, finding) - found->second.idle_since_ns) : (sampled ? 0 : -1);
    if (!first && idle >= decision->idle_ns) continue;
    first = false;
    decision->idle_ns = idle;
    decision->samples = sampled ? found->second.samples : 0;
    decision->cpu_ns = root.cpu_ns;
    decision->io_bytes = root.io_bytes;
    decision->sample_gap_ns = root.sample_gap_ns;
  }
}

Detector::CombinedRoots Detector::Combine(int64_t now, const RootFinding& finding) const {
  CombinedRoots out;
  for (const RootView& root : finding.roots) {
    out.ended |= root.ended;
    out.cancelled &= !root.ended || root.cancelled;
    out.stopped |= root.stopped;
    out.silent_ns = std::max(out.silent_ns, root.silent_ns);
    out.unknown |= !root.known;
    if (root.ended || root.stopped || !root.known) continue;
    out.compute |= root.waits_for_compute;
    out.behind_nccl |= root.behind_nccl;
    out.in_d |= root.uninterruptible;
    if (root.activity_age_ns >= 0) out.least_activity_ns = std::min(out.least_activity_ns, root.activity_age_ns);
    if (root.in_recorded_call) continue;
    out.outside = true;
    out.serves |= root.event_loop;
    out.on_socket |= root.on_socket;
    out.busy |= Busy(root);
    out.blind_io |= root.sample_gap_ns > 0 && root.io_bytes < 0;
    const auto watched = watched_.find(root.rank);
    out.unsampled |= watched == watched_.end();
    const bool idle = watched != watched_.end() && watched->second.idle_since_ns != 0;
    out.least_idle_ns = std::min(out.least_idle_ns, idle ? AsOf(now, finding) - watched->second.idle_since_ns : 0);
    out.worked |= watched != watched_.end() && watched->second.worked;
    // The host's own agent observed the process without gaps, so no activity was missed between two of the collector's
    // samples.
    const int64_t since_activity = root.activity_age_ns >= 0 ? root.activity_age_ns : INT64_MAX;
    out.least_seen_idle_ns = std::min({out.least_seen_idle_ns, root.idle_ns, since_activity});
  }
  return out;
}

// At least one root is outside recorded calls, and no root waits for a GPU.
Decision Detector::JudgeHostStall(const RootFinding& finding, const CombinedRoots& roots, Decision decision) const {
  int64_t least = std::max(limits_.host_stall_after, LimitOf(finding.comm) + limits_.idle_after);
  if (roots.least_seen_idle_ns >= limits_.seen_idle && !roots.worked) {
    least = std::max(limits_.host_stall_seen_after, LimitOf(finding.comm) + limits_.idle_seen_after);
  }
  if (roots.in_d) least = std::max(least, limits_.storage_stall_after);
  if (roots.blind_io) least = std::max(least, limits_.unseen_after);
  if (!roots.worked && !roots.in_d && !roots.blind_io) {
    decision.next_limit_ns =
        std::max({decision.limit_ns, limits_.host_stall_seen_after, LimitOf(finding.comm) + limits_.idle_seen_after});
  }
  decision.limit_ns = std::max(decision.limit_ns, least);
  const char* rule = roots.in_d ? "storage stall" : "host stall";
  if (roots.busy) return Say(decision, false, rule, "the root is busy outside NCCL");
  if (roots.serves)
    return Say(decision, false, rule, "the root waits for outside events, like a server without requests");
  if (roots.unsampled) return After(decision, limits_.unseen_after, "unseen", "the root was not sampled twice");
  // A rank that was active while others waited may only be pausing, because programs write files in bursts.
  const bool watched =
      roots.least_idle_ns >= (roots.worked ? limits_.idle_after_work : limits_.idle_after) - limits_.sample_gap;
  return Say(decision, watched && decision.age_ns >= decision.limit_ns, rule, "the root is blocked and does not move");
}

int64_t Detector::TimeForBytes(int64_t bytes) const {
  if (limits_.least_bytes_per_second <= 0) return 0;
  // The data crosses the slowest link twice, as in an all-reduce.
  return static_cast<int64_t>(2e9 * static_cast<double>(bytes) / static_cast<double>(limits_.least_bytes_per_second));
}

Decision Detector::Consider(int64_t now, const RootFinding& finding) {
  NoteSamples(now, finding);
  Decision decision;
  decision.at_ns = now;
  FillLimit(finding.comm, &decision);
  decision.limit_ns = std::max(decision.limit_ns, learned_);
  decision.sequence = finding.sequence;
  decision.root_kind = finding.kind;
  decision.more = untold_;
  FillSamples(now, finding, &decision);
  if (const auto late = late_.find(finding.comm); late != late_.end()) {
    decision.waiting = late->second.input.waiting;
    decision.doing = late->second.input.doing;
  }
  decision.missing = progress_.Missing(finding.comm);
  const int64_t longest = std::max({finding.waited_ns, LongestWait(now), ended_wait_ns_});
  decision.age_ns = StillFor(now, finding, longest);
  if (longest <= 0) return Say(decision, false, "no rank waits", "no rank waits");
  if (limits_.watchdog > 0 && longest >= limits_.watchdog) {
    decision.limit_ns = limits_.watchdog;
    decision.age_ns = longest;
    return Say(decision, true, "watchdog", absl::StrCat("a wait passed the limit of ", DurationText(limits_.watchdog)));
  }
  // The shortest time after which a GPU or a collective that makes no progress counts as hung.
  const auto least_for_gpu = [&] {
    return std::max(limits_.gpu_stall_after, LimitOf(finding.comm) + limits_.idle_after);
  };
  if (finding.kind == FINDING_UNSPECIFIED && finding.blocked_ns >= 0) {
    decision.age_ns = std::min(decision.age_ns, finding.blocked_ns);
    // One graph launch may be a whole step, and the first steps do not show how long a step takes. Without graphs, the
    // full launch queue limits the GPU's other work.
    const int64_t cold = finding.graphs ? limits_.warm_up : limits_.at_rest_after;
    int64_t least = std::max(limits_.gpu_stall_after, TimeForBytes(finding.bytes));
    for (const auto& [comm, late] : late_) {
      least = std::max({least, LimitOf(comm) + limits_.idle_after, Warm(comm) ? 0 : cold});
    }
    return After(decision, least, "gpu stall", "every rank waits for its GPU, which has NCCL operations in flight");
  }
  if (finding.kind == FINDING_UNSPECIFIED) {
    // If every process waits in a recorded call, only the GPU's own work is unobserved.
    const bool all_wait = finding.rest_ns == INT64_MAX;
    return After(decision, all_wait ? limits_.compute_after : limits_.unseen_after, "unseen", "no root was found");
  }

  const CombinedRoots roots = Combine(now, finding);
  if (roots.ended && roots.cancelled) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.cancelled_after);
    return Say(decision, finding.waited_ns > 0 && decision.age_ns >= decision.limit_ns, "cancelled",
               "a launcher's signal has ended its process");
  }
  if (roots.ended) {
    decision.limit_ns = limits_.dead_settle;
    return Say(decision, decision.age_ns >= limits_.dead_settle, "dead", "its process has ended");
  }
  if (roots.silent_ns >= limits_.silent_after) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.lost_after);
    return Say(decision, roots.silent_ns >= limits_.lost_after && decision.age_ns >= decision.limit_ns, "lost host",
               absl::StrCat("its host has been silent for ", DurationText(roots.silent_ns)));
  }
  if (roots.stopped) return After(decision, 0, "stopped", "its process is stopped");
  if (FindingFactsOf(finding.kind).definite) return After(decision, 0, "disagreement", "the ranks disagree");

  const bool init = finding.kind == INIT_INCOMPLETE || finding.in_init;
  const int64_t for_size = limits_.warm_up_per_rank * std::max(0, finding.comm_size);
  if (roots.unknown || finding.kind == RANK_NO_DATA || finding.roots.empty()) {
    return After(decision, init ? limits_.unseen_init_after : limits_.unseen_after, "unseen",
                 "the state of the root's process is unknown");
  }
  // Until gaps are learned, the activity of all ranks decides. A rank that reads from a socket may be waiting for
  // another process's work.
  if (init || (finding.comm != 0 && !Warm(finding.comm))) {
    const bool rests = finding.rest_ns >= limits_.seen_idle && !roots.on_socket && (roots.outside || !init);
    decision.limit_ns = std::max(decision.limit_ns, rests ? limits_.at_rest_after : limits_.warm_up + for_size);
  }
  if (roots.compute || roots.behind_nccl) decision.age_ns = std::min(decision.age_ns, roots.least_activity_ns);
  if (roots.compute) return After(decision, limits_.compute_after, "compute", "its GPU is not finishing non-NCCL work");
  if (finding.kind == GPU_STALL || finding.kind == COLLECTIVE_STUCK) {
    const bool collective = finding.kind == COLLECTIVE_STUCK;
    if (collective && finding.first_operation) {
      decision.limit_ns = std::max(decision.limit_ns, limits_.first_operation + for_size);
    }
    const int64_t least = std::max(least_for_gpu(), collective ? TimeForBytes(finding.bytes) : 0);
    if (finding.network_age_ns >= 0) decision.age_ns = std::min(decision.age_ns, finding.network_age_ns);
    return After(decision, least, collective ? "collective stuck" : "gpu stall", "the GPU makes no progress");
  }
  if (roots.behind_nccl) return After(decision, least_for_gpu(), "gpu stall", "the GPU makes no progress");
  if (!roots.outside) return After(decision, 0, init ? "init" : "blocked", "the root is blocked and does not move");

  return JudgeHostStall(finding, roots, std::move(decision));
}

}  // namespace lockstep
