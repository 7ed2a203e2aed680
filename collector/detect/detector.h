// The collector's part of hang detection, for one restart of a job on any number of hosts. Its input is the agents'
// late reports, the merged progress of communicators, the analysis of digests, and samples of the processes that the
// analysis names. Its output is late, hung and recovered. docs/detection.md explains the rules and their figures.
//
// Pure: no clock and no I/O. Not thread-safe. All times are on the collector's own clock (monotonic, nanoseconds);
// hosts report ages. The caller does this:
//
//   heartbeat      -> progress().Apply(child, now, beat)     late report     -> Late(now, report)
//   process exited -> Ended(now, rank, kind)                 agent silent    -> HostSilent / HostBack
//   10 times a second: for (Decision& d : Tick(now)) log it; then act on Wanted(now):
//     digests -> ask every agent for a digest (one round at a time); when they are in, analyze a bundle of them, then
//                Judge(now, FindRoot(verdict, bundle, motion))
//     samples -> ask only the agents of these ranks for a digest, with process samples, no more often than every
//                sample_gap; put the answers into the bundle's ranks, then Judge(now, FindRoot(...)) as above
//   a Decision with level kHung is the declaration: gather evidence, write the incident
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/model/rank_set.h"
#include "collector/detect/ends.h"
#include "collector/detect/lateness.h"
#include "collector/detect/progress.h"
#include "collector/detect/root_finding.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Times in nanoseconds after which a root counts as hung. "The limit" is max(late_after, 8 x p99) of the communicator
// on which ranks wait.
struct DetectorLimits {
  int64_t late_after = 5'000'000'000;
  int64_t dead_settle = 1'000'000'000;  // for a dead root
  // For a root that a launcher's signal killed. Slurm gives the other ranks 30 s to exit, too.
  int64_t cancelled_after = 35'000'000'000;
  int64_t idle_after = 5'000'000'000;  // in addition to the limit: how long the root was observed without activity
  int64_t idle_after_work = 20'000'000'000;   // for a root that was active earlier in the same wait
  int64_t host_stall_after = 10'000'000'000;  // minimum for a root that sleeps outside NCCL
  // idle_seen_after and host_stall_seen_after replace idle_after and host_stall_after for a root that its host's agent
  // has seen idle for seen_idle without a gap.
  int64_t seen_idle = 5'500'000'000;
  int64_t idle_seen_after = 4'000'000'000;
  int64_t host_stall_seen_after = 9'000'000'000;
  int64_t storage_stall_after = 30'000'000'000;  // for a root in uninterruptible sleep, because file servers fail over
  int64_t gpu_stall_after = 10'000'000'000;      // minimum for a root whose GPU or collective makes no progress
  int64_t compute_after = 120'000'000'000;       // for a root that waits for its own GPU without NCCL work on it
  // For communicators with few operations, and for ranks still in init: at least at_rest_after if every process is
  // idle, otherwise warm_up.
  int64_t at_rest_after = 12'000'000'000;
  int64_t warm_up = 60'000'000'000;
  int64_t warm_up_per_rank = 10'000'000;  // and this much more for each member
  // For the first operation of a communicator, which connects its members, while all of them are in it.
  int64_t first_operation = 120'000'000'000;
  int64_t silent_after = 3'000'000'000;    // a host counts as silent after this long without a message
  int64_t lost_after = 10'000'000'000;     // for a root whose host's agent is silent
  int64_t unseen_after = 300'000'000'000;  // for a root whose activity is unknown
  // Used instead of unseen_after while others create a communicator, because the root may still be loading its model.
  int64_t unseen_init_after = 1200'000'000'000;
  int64_t watchdog = 0;                          // hung regardless of the root's activity; 0 for never
  int64_t sample_gap = 1'000'000'000;            // minimum time between two samples of a process
  int64_t least_bytes_per_second = 100'000'000;  // minimum speed of an operation with known size

  // Sets late_after, and raises the limits that would be too low for it.
  void SetLateAfter(int64_t ns) {
    late_after = ns;
    host_stall_after = std::max(host_stall_after, 2 * ns);
    gpu_stall_after = std::max(gpu_stall_after, 2 * ns);
    warm_up = std::max(warm_up, ns);
  }
};

// An agent's LateEvent with job-wide ranks; see LateReport in proto/wire.proto.
struct LateInput : LateFacts {
  Ranks waiting, missing;
  std::string host;
};

enum class Level : uint8_t { kMoving, kLate, kHung, kRecovered };
const char* LevelName(Level level);

// One decision with its figures. decision_log.h writes it as one line of JSON.
struct Decision {
  Level level = Level::kMoving;  // kMoving means not hung (yet); only Judge returns it
  int64_t at_ns = 0;
  uint64_t comm = 0;  // 0 if there is none
  std::string comm_name;
  uint64_t sequence = 0;  // 0 if unknown
  // Time without progress, to compare with the limit; for kRecovered, the duration of the stop.
  int64_t age_ns = 0;
  int64_t limit_ns = 0;
  int64_t next_limit_ns = 0;  // the limit_ns after the next sample, if that sample may lower it; 0 if not
  int64_t p99_gap_ns = 0;
  uint32_t gaps = 0;
  Ranks waiting, missing;
  FindingKind root_kind = FINDING_UNSPECIFIED;
  std::vector<int32_t> roots;
  // The next fields describe the root that was observed for the shortest time.
  uint32_t samples = 0;
  int64_t idle_ns = -1;  // observed time without activity; -1 if not sampled twice or irrelevant
  int64_t cpu_ns = -1, io_bytes = -1, sample_gap_ns = 0;  // between the last two samples of the root
  uint32_t more = 0;   // further communicators that became late in this episode, not listed individually
  std::string rule;    // "dead", "stopped", "disagreement", "host stall", "gpu stall", ...: docs/detection.md
  std::string reason;  // one clause, for users
  std::string doing;

  bool hung() const { return level == Level::kHung; }
};

// The data that the detector needs now.
struct Wish {
  bool digests = false;          // digests of every rank
  std::vector<int32_t> samples;  // only samples of these ranks
};

class Detector {
 public:
  explicit Detector(const DetectorLimits& limits) : limits_(limits) {}

  MergedProgress& progress() { return progress_; }
  const MergedProgress& progress() const { return progress_; }
  void Late(int64_t now, const LateInput& report);
  void Ended(int64_t now, int32_t rank, EndKind kind);
  // Returns when abnormal exits began to be consequences of a hang; 0 if they are not. They are if a wait had passed
  // its limit, its root was known and idle, and the first exit was not the root's own decision.
  int64_t ends_follow_ns() const { return ends_follow_ns_; }
  // Returns whether to judge the job now, before a launcher restarts it, because exits that follow a hang have just
  // begun.
  bool urgent() const { return ended_wait_ns_ != 0; }
  void HostSilent(int64_t now, const std::string& host, int64_t silent_ns);
  void HostBack(const std::string& host);
  // Call if more data is available than in the last digests.
  void GatherAgain() { gather_again_ = true; }
  // Ignores the time before `now`, because the collector or the whole job was stopped.
  void Rebase(int64_t now);

  // Returns a decision for each wait that has become late, at most kToldLates per episode; further ones are only
  // counted. When no wait is late any more, returns kRecovered (rule "late"). If the job is hung, returns kRecovered
  // when it moves again, either in the communicators that hung (rule "hung") or in new ones that its ranks created
  // (rule "restart").
  std::vector<Decision> Tick(int64_t now);
  // Returns the data that is needed now. Digests of every rank are needed when a rank becomes late, when a process
  // exits abnormally, when the named ranks have moved, and again at growing intervals. In between, samples of the roots
  // are needed.
  Wish Wanted(int64_t now) const;
  // Returns whether a wait is late, a process exited abnormally, or ranks wait after a process exited.
  bool Suspicious(int64_t now) const;
  // Decides from the analysis whether the job is hung. If so, level() becomes kHung. `all_ranks` is true if the
  // analysis used digests of every rank, not only of the roots.
  Decision Judge(int64_t now, const RootFinding& finding, bool all_ranks = true);
  // Like Judge, but does not store the answer. May be called again with better data before the verdict is published.
  Decision Consider(int64_t now, const RootFinding& finding);
  // Returns a decision if the root's communicators, or the ranks of the declared hang, have been moving again for a
  // second. `progress_ns` is the time when these ranks last made progress; INT64_MIN if unknown. A wait that ended on
  // its own was normal, so the next one may take twice as long.
  std::optional<Decision> LookForRecovery(int64_t now, int64_t progress_ns = INT64_MIN);

  Level level() const { return level_; }  // kMoving, kLate or kHung
  int64_t LimitOf(uint64_t comm) const;
  const Decision& declared() const { return declared_; }
  const RootFinding& finding() const { return finding_; }  // the finding that was judged last
  // The duration of the longest known wait; 0 if no rank waits.
  int64_t LongestWait(int64_t now) const;

  static constexpr uint32_t kToldLates = 16;

 private:
  struct LateState {
    LateInput input;                         // the first report
    int64_t since_ns = 0;                    // start of the longest reported wait
    absl::flat_hash_set<std::string> hosts;  // hosts whose agents report it and have not reported "over"
    bool merged = false;                     // the merged progress also shows that the communicator is late
    uint64_t min_then = 0;                   // issued_min at the start of the wait
  };
  // What samples of a process showed over time.
  struct Watched {
    int64_t idle_since_ns = 0;  // 0 if the root is not known to be idle
    int64_t last_sample_ns = 0;
    uint32_t samples = 0;
    bool worked = false;
  };
  bool EndFollows(int64_t now, int32_t rank, EndKind kind) const;
  void NoteSamples(int64_t now, const RootFinding& finding);
  void NoteMerged(int64_t now);
  bool Warm(uint64_t comm) const;
  // The longest normal time for an operation of this size.
  int64_t TimeForBytes(int64_t bytes) const;
  int64_t StillFor(int64_t now, const RootFinding& finding, int64_t longest) const;
  void FillLimit(uint64_t comm, Decision* decision) const;
  void FillSamples(int64_t now, const RootFinding& finding, Decision* decision) const;
  // The combined facts about all roots of a finding: a bool is true if it holds for any root. The facts from `busy` on,
  // except in_d, silent_ns and least_activity_ns, are known only for roots outside recorded calls.
  struct CombinedRoots {
    bool ended = false, stopped = false, unknown = false;
    bool cancelled = true;                      // a launcher's signal killed every root that exited
    bool compute = false, behind_nccl = false;  // waits for its GPU: for other work, or for NCCL's
    bool outside = false;                       // in no recorded call
    bool busy = false, worked = false;          // busy: now; worked: while others waited
    bool in_d = false, blind_io = false;        // in uninterruptible sleep; its I/O cannot be read
    bool serves = false, on_socket = false;     // waits for events; reads from a socket
    bool unsampled = false;
    int64_t silent_ns = 0;  // the longest silence of a root's host
    int64_t least_idle_ns = INT64_MAX, least_seen_idle_ns = INT64_MAX, least_activity_ns = INT64_MAX;
  };
  CombinedRoots Combine(int64_t now, const RootFinding& finding) const;
  Decision JudgeHostStall(const RootFinding& finding, const CombinedRoots& roots, Decision decision) const;
  Decision LateDecision(int64_t now, uint64_t comm, const LateState& late) const;
  void EndEpisode(int64_t now);
  // The hung ranks move again. Reports this once, and ends the episode.
  Decision Recovered(int64_t now, int64_t moved_ns, const char* rule, const char* reason);
  std::optional<Decision> LookForRestart(int64_t now);

  const DetectorLimits limits_;
  MergedProgress progress_;
  absl::flat_hash_map<uint64_t, LateState> late_;
  std::vector<uint64_t> fresh_;  // the part of late_ that is not reported yet
  absl::flat_hash_map<int32_t, Watched> watched_;
  absl::flat_hash_map<std::string, int64_t> silent_;  // maps a host to the start of its silence
  absl::flat_hash_set<int32_t> ended_;
  int64_t ended_badly_ns_ = 0;  // the last abnormal exit of a process; 0 if there is none, or if it was already judged
  int64_t ends_follow_ns_ = 0;
  int64_t ended_wait_ns_ = 0;  // how long the ranks behind these exits had waited; 0 if judged
  bool any_ended_badly_ = false;
  Level level_ = Level::kMoving;
  int64_t since_ns_ = 0;  // start of the current level
  Decision declared_;
  RootFinding finding_;
  bool found_ = false, gather_again_ = false;
  int64_t judge_again_ns_ = 0, gathered_ns_ = 0, refresh_ns_ = 0;
  uint32_t judged_rounds_ = 0;  // rounds of digests that were judged in this episode
  size_t ended_then_ = 0;
  int64_t moved_again_ns_ = 0, stall_began_ns_ = 0;
  // When the ranks were first seen to use a newer communicator, and when that was last checked.
  int64_t restarted_ns_ = 0, restart_looked_ns_ = 0;
  uint32_t told_ = 0, untold_ = 0;
  int64_t learned_ = 0;
  int64_t rebased_ns_ = 0, merged_looked_ns_ = 0;
};

}  // namespace lockstep
