// Watches one job without a collector: evaluates the agent's data, gathers evidence, prints the verdict, and stores the
// incident.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/common/verdict_hook.h"
#include "collector/detect/desync_watch.h"
#include "collector/detect/detector.h"
#include "collector/detect/ends.h"
#include "collector/detect/lateness.h"
#include "collector/detect/progress.h"
#include "collector/detect/quiet_ranks.h"
#include "collector/detect/root_finding.h"
#include "collector/host/reading_group.h"
#include "collector/incident/incident.h"
#include "collector/incident/index.h"
#include "collector/run/agent.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct WatchOptions {
  DetectorLimits limits;
  std::string job;
  std::vector<std::string> command;
  std::string out;         // incident folder; empty: a new name is used, and only for an incident
  int ranks_expected = 0;  // number of ranks that this process started; 0 if unknown
  bool launcher = false;   // the command itself starts the ranks
  bool quiet = false;
  bool tell = true;            // print the verdict and the incident's folder
  std::optional<gid_t> group;  // the group that may read incidents
  HookOptions hook;            // for --on-verdict; unused without a command
};

// A process that `lockstep run` started, with or without a ring.
struct StartedRank {
  int rank = -1;  // -1 if the command starts the ranks
  pid_t pid = 0;
  Process process;
  ProcessSampler sampler;
  ProcessLook look;
};

// Not thread-safe. The agent must outlive the watch.
class Watch {
 public:
  Watch(const WatchOptions& options, Agent* agent);

  // Reads and evaluates. Call at NextTick, and at once after a process exited.
  void Tick(int64_t now);
  int64_t NextTick() const { return next_tick_; }
  // Call if the watcher or the job was stopped until now.
  void Rebase(int64_t now);

  void Started(int rank, pid_t pid);
  void Ended(pid_t pid, const ProcessEnd& end);
  // Call when this program or the user starts to end the job.
  void Ending(int64_t now);

  // Returns whether a hang was declared and the job has not recovered.
  bool hung() const { return hung_; }
  // Returns the last declared verdict; VERDICT_UNSPECIFIED if there is none.
  VerdictKind declared() const { return declared_; }

  // Call once at the end of the job. If nothing was declared, prints the final message, and stores an incident if
  // needed. `unrecorded`: why there are no rings; if empty, their absence is not reported.
  void Finish(const std::string& unrecorded);

 private:
  struct Gathered {
    Bundle bundle;
    Verdict verdict;
    std::map<int32_t, int32_t> slots;  // slot of each rank's ring
    std::string folder;                // the folder for the report; empty for digests only
  };
  // Reads and analyzes whole rings or digests. `stalled`: the job has made no progress for `stalled_ns`.
  Gathered Gather(bool whole, bool stalled, int64_t stalled_ns);
  std::string IncidentFolder() const;
  // Updates the bundle's processes from later samples.
  void Refresh(Gathered* gathered);
  // Samples every process without progress.
  void SampleStill(int64_t now);
  const Process& ProcessOf(int32_t slot) const;
  // Returns the ranks that this process started and that have no ring.
  std::vector<StartedRank*> WithoutRing();
  RootFinding RootOf(int64_t now, const Gathered& gathered) const;
  void LookForDesync();
  void Detect(int64_t now, const std::vector<DigestView>& views);
  void Log(const Decision& decision);
  void Judge(int64_t now);
  void Declare(int64_t now, const RootFinding& finding, const Decision& decision);
  void LookForRecovery(int64_t now);
  // Returns when any of `slots` (all if empty) last made progress.
  int64_t LastProgress(const std::vector<int32_t>& slots) const;
  // Returns the job-wide rank; the slot itself if the ring has no rank. Slot -2 - R is rank R without a ring.
  int32_t RankOf(int32_t slot) const;
  void WriteAndTell(const Gathered& gathered, bool tell);
  std::vector<ExitRecord> Exits() const;
  size_t RanksOfNewestRestart() const;
  void TellLate(int64_t now);

  const WatchOptions options_;
  Agent* const agent_;
  Lateness lateness_;
  QuietRanks quiet_;
  HostProgress progress_;
  Detector detector_;
  DesyncWatch desync_;
  std::map<pid_t, StartedRank> started_;
  std::string host_;
  int64_t next_tick_ = 0;
  int64_t next_judgement_ = 0, next_sample_ = 0;
  // Set if whole rings did not confirm the digests' hang. Replaces digests until a rank makes progress.
  std::optional<Gathered> whole_;
  int64_t whole_progress_ = 0;  // LastProgress when whole_ was read
  int64_t ending_since_ = 0;
  int64_t sample_cost_ = 0;
  std::vector<int32_t> suspects_;
  std::vector<int32_t> slots_;  // slots in the last scan
  SharedIncidents shared_;      // outlives indexes_, which adds files to incidents
  IncidentIndexes indexes_;
  bool late_told_ = false, cause_told_ = false;
  int64_t late_since_ = 0;
  std::unique_ptr<VerdictHook> hook_;
  std::vector<std::string> decisions_;  // decisions of this episode, as JSON lines
  bool hung_ = false;
  bool ever_declared_ = false;
  VerdictKind declared_ = VERDICT_UNSPECIFIED;
  std::vector<int32_t> hung_slots_;
  size_t alive_at_declaration_ = 0;
  int incidents_ = 0;
};

}  // namespace lockstep
