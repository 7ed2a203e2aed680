// Late or hung: the rules that docs/detection.md lists.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/util/time_text.h"
#include "collector/common/say.h"
#include "collector/detect/detector.h"
#include "collector/host/process_sample.h"

namespace lockstep {
namespace {

// Digests of 24,576 ranks are seconds old when their verdict is there.
int64_t AsOf(int64_t now, const RootFinding& finding) {
  return finding.as_of_ns > 0 ? std::min(now, finding.as_of_ns) : now;
}

bool Busy(const RootView& root) {
  return AtWork(root.sample_gap_ns, root.cpu_ns, root.io_bytes);
}

}  // namespace

void Detector::NoteSamples(int64_t now, const RootFinding& finding) {
  for (const RootView& root : finding.roots) {
    if (!root.known || root.ended || root.sample_gap_ns < limits_.sample_gap) {
      // Earlier observations no longer count.
      if (root.known && root.sample_gap_ns == 0) watched_.erase(root.rank);
      continue;
    }
    // What was idle at the latest moment at which this can have been seen: a rank that worked while its answer was
    // awaited must not count as idle for that time.
    const int64_t at = std::min(now, AsOf(now, finding) + root.after_ns);
    Watched& watched = watched_[root.rank];
    if (watched.last_sample_ns == 0 || at - watched.last_sample_ns >= limits_.sample_gap / 2) {
      ++watched.samples;
      watched.last_sample_ns = at;
    }
    // Inside a recorded call or a wait for its GPU it may spin: that is no work.
    if (!root.in_recorded_call && Busy(root)) {
      watched.worked = true;
      watched.idle_since_ns = 0;
    } else if (watched.idle_since_ns == 0) {
      watched.idle_since_ns = at - std::max(root.sample_gap_ns, root.idle_ns);
    } else if (root.idle_ns > 0) {
      watched.idle_since_ns = std::min(watched.idle_since_ns, at - root.idle_ns);
    }
    // Between two waits a process is alive, however little CPU it takes.
    if (watched.idle_since_ns != 0 && root.activity_age_ns >= 0) {
      watched.idle_since_ns = std::max(watched.idle_since_ns, at - root.activity_age_ns);
    }
  }
}

// A launcher, or a watchdog, ends ranks that have waited too long: the wait explains the end. A root that crashes or
// gives up ends the wait itself.
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
  const auto say = [&decision](bool hung, const char* rule, std::string reason) {
    decision.level = hung ? Level::kHung : Level::kMoving;
    decision.rule = rule;
    decision.reason = std::move(reason);
    return decision;
  };
  // Hung once nothing has moved for at least this long.
  const auto after = [&](int64_t least, const char* rule, std::string reason) {
    decision.limit_ns = std::max(decision.limit_ns, least);
    return say(decision.age_ns >= decision.limit_ns, rule, std::move(reason));
  };

  if (longest <= 0) return say(false, "nobody waits", "no rank waits");
  if (limits_.watchdog > 0 && longest >= limits_.watchdog) {
    decision.limit_ns = limits_.watchdog;
    decision.age_ns = longest;
    return say(true, "watchdog", absl::StrCat("a wait passed the limit of ", DurationText(limits_.watchdog)));
  }
  // The shortest time after which a GPU or a collective that makes no progress counts as hung.
  const auto least_for_gpu = [&] {
    return std::max(limits_.gpu_stall_after, LimitOf(finding.comm) + limits_.idle_after);
  };
  if (finding.kind == FINDING_UNSPECIFIED && finding.blocked_ns >= 0) {
    decision.age_ns = std::min(decision.age_ns, finding.blocked_ns);
    int64_t least = limits_.gpu_stall_after;
    for (const auto& [comm, late] : late_) {
      // The first steps tell nothing of how long a step computes.
      least = std::max({least, LimitOf(comm) + limits_.idle_after, Warm(comm) ? 0 : limits_.warm_up});
    }
    return after(least, "gpu stall", "every rank waits for its GPU, behind operations of NCCL");
  }
  if (finding.kind == FINDING_UNSPECIFIED) {
    // All that is not seen, where every process waits in a recorded call, is a GPU's own work.
    const bool all_wait = finding.rest_ns == INT64_MAX;
    return after(all_wait ? limits_.compute_after : limits_.unseen_after, "unseen", "no root was found");
  }

  bool ended = false, cancelled = true, stopped = false, busy = false, outside = false, unknown = false,
       blind_io = false, in_d = false;
  bool compute = false, behind_nccl = false, serves = false, on_socket = false, unsampled = false, worked = false;
  int64_t silent = 0, least_idle = INT64_MAX, least_activity = INT64_MAX, least_seen_idle = INT64_MAX;
  for (const RootView& root : finding.roots) {
    ended |= root.ended;
    cancelled &= !root.ended || root.cancelled;
    stopped |= root.stopped;
    silent = std::max(silent, root.silent_ns);
    unknown |= !root.known;
    if (root.ended || root.stopped || !root.known) continue;
    compute |= root.waits_for_compute;
    behind_nccl |= root.behind_nccl;
    in_d |= root.uninterruptible;
    if (root.activity_age_ns >= 0) least_activity = std::min(least_activity, root.activity_age_ns);
    if (root.in_recorded_call) continue;
    outside = true;
    serves |= root.event_loop;
    on_socket |= root.on_socket;
    busy |= Busy(root);
    blind_io |= root.sample_gap_ns > 0 && root.io_bytes < 0;
    const auto watched = watched_.find(root.rank);
    unsampled |= watched == watched_.end();
    const bool idle = watched != watched_.end() && watched->second.idle_since_ns != 0;
    least_idle = std::min(least_idle, idle ? AsOf(now, finding) - watched->second.idle_since_ns : 0);
    worked |= watched != watched_.end() && watched->second.worked;
    // By its own host's agent, without a gap: nothing between two of the collector's samples can have been missed.
    const int64_t since_activity = root.activity_age_ns >= 0 ? root.activity_age_ns : INT64_MAX;
    least_seen_idle = std::min({least_seen_idle, root.idle_ns, since_activity});
  }
  if (ended && cancelled) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.cancelled_after);
    return say(finding.waited_ns > 0 && decision.age_ns >= decision.limit_ns, "cancelled",
               "a launcher's signal has ended its process");
  }
  if (ended) {
    decision.limit_ns = limits_.dead_settle;
    return say(decision.age_ns >= limits_.dead_settle, "dead", "its process has ended");
  }
  if (silent >= limits_.silent_after) {
    decision.limit_ns = std::max(decision.limit_ns, limits_.lost_after);
    return say(silent >= limits_.lost_after && decision.age_ns >= decision.limit_ns, "lost host",
               absl::StrCat("nothing has been heard of its host for ", DurationText(silent)));
  }
  if (stopped) return after(0, "stopped", "its process is stopped");
  if (FindingFactsOf(finding.kind).definite) return after(0, "disagreement", "the ranks disagree");

  const bool init = finding.kind == INIT_INCOMPLETE || finding.in_init;
  const int64_t for_size = limits_.warm_up_per_rank * std::max(0, finding.comm_size);
  if (unknown || finding.kind == RANK_NO_DATA || finding.roots.empty()) {
    return after(init ? limits_.unseen_init_after : limits_.unseen_after, "unseen",
                 "nothing is known of the root's process");
  }
  // Nothing was learned yet: the activity of all ranks decides. A rank that reads from a socket may wait for another's
  // work.
  if (init || (finding.comm != 0 && !Warm(finding.comm))) {
    const bool rests = finding.rest_ns >= limits_.seen_idle && !on_socket && (outside || !init);
    decision.limit_ns = std::max(decision.limit_ns, rests ? limits_.at_rest_after : limits_.warm_up + for_size);
  }
  if (compute || behind_nccl) decision.age_ns = std::min(decision.age_ns, least_activity);
  if (compute) return after(limits_.compute_after, "compute", "its GPU does not finish what is not NCCL's");
  if (finding.kind == GPU_STALL || finding.kind == COLLECTIVE_STUCK) {
    const bool collective = finding.kind == COLLECTIVE_STUCK;
    if (collective && finding.first_operation) {
      decision.limit_ns = std::max(decision.limit_ns, limits_.first_operation + for_size);
    }
    int64_t least = least_for_gpu();
    if (collective && finding.bytes > 0 && limits_.least_bytes_per_second > 0) {
      // Twice through the slowest link: what an all-reduce moves.
      least = std::max(least, static_cast<int64_t>(2e9 * static_cast<double>(finding.bytes) /
                                                   static_cast<double>(limits_.least_bytes_per_second)));
    }
    if (finding.network_age_ns >= 0) decision.age_ns = std::min(decision.age_ns, finding.network_age_ns);
    return after(least, collective ? "collective stuck" : "gpu stall", "the GPU makes no progress");
  }
  if (behind_nccl) return after(least_for_gpu(), "gpu stall", "the GPU makes no progress");
  if (!outside) return after(0, init ? "init" : "blocked", "the root is blocked and does not move");

  int64_t least = std::max(limits_.host_stall_after, LimitOf(finding.comm) + limits_.idle_after);
  if (least_seen_idle >= limits_.seen_idle && !worked) {
    least = std::max(limits_.host_stall_seen_after, LimitOf(finding.comm) + limits_.idle_seen_after);
  }
  if (in_d) least = std::max(least, limits_.storage_stall_after);
  if (blind_io) least = std::max(least, limits_.unseen_after);
  if (!worked && !in_d && !blind_io) {
    decision.next_limit_ns =
        std::max({decision.limit_ns, limits_.host_stall_seen_after, LimitOf(finding.comm) + limits_.idle_seen_after});
  }
  decision.limit_ns = std::max(decision.limit_ns, least);
  const char* rule = in_d ? "storage stall" : "host stall";
  if (busy) return say(false, rule, "the root is busy outside NCCL");
  if (serves) return say(false, rule, "the root waits for events from outside, like a server without requests");
  if (unsampled) return after(limits_.unseen_after, "unseen", "the root was not sampled twice");
  // A rank that was active while others waited may only pause: files are written in bursts.
  const bool watched = least_idle >= (worked ? limits_.idle_after_work : limits_.idle_after) - limits_.sample_gap;
  return say(watched && decision.age_ns >= decision.limit_ns, rule, "the root is blocked and does not move");
}

}  // namespace lockstep
