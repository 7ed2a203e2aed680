// The ranks of this host, for the agent's session: their rings, their processes, and what exited processes left behind.
// Keeps every ring's descriptor open from discovery on. When a process exits abnormally, first saves its ring. Keeps
// jobs and their restarts separate. Answers requests for digests, evidence and full data.
//
// One thread owns this object. Slow work (stacks, whole rings) has its own threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/agent/host_workshop.h"
#include "collector/agent/source.h"
#include "collector/agent/spool.h"
#include "collector/agent/user_share.h"
#include "collector/common/namesakes.h"
#include "collector/host/proc.h"
#include "collector/host/process_sample.h"
#include "collector/rings/finder.h"
#include "collector/rings/mark_sampler.h"
#include "collector/rings/process.h"

namespace lockstep {

struct HostSourceOptions : WorkshopOptions {
  size_t most_rings_of_user = 1024;
  size_t most_bytes_of_user = size_t{128} << 20;  // maximum size of the data kept from one user's rings
  std::function<void(const std::string&)> log;
};

struct HostSourceCounters {
  uint64_t rings = 0, jobs = 0, live = 0;  // current values
  uint64_t refused = 0, unreadable = 0, changed = 0, duplicates = 0;
  uint64_t ended = 0, ended_badly = 0, saved = 0;
  uint64_t digests = 0, dumps = 0, dumps_failed = 0, evidence = 0;
  int64_t look_cpu_ns = 0;  // total of all scans
  MarkSamplerCounters marks;
};

class HostSource final : public AgentSource {
 public:
  // `spool` must outlive this object. Takes over rings that an earlier agent saved, if their job is still running.
  static absl::StatusOr<std::unique_ptr<HostSource>> Make(const HostSourceOptions& options, Spool* spool);
  ~HostSource() override;

  // Takes ownership of the descriptor. Ignores known rings, and rings beyond the limits.
  void Adopt(FoundRing ring);
  // Readable (poll) when a process has exited. Call Handle() at once.
  int ends_fd() const;
  // Readable when evidence is ready. The session's Tick() fetches it.
  int work_fd() const;
  void Handle();
  HostSourceCounters counters() const;

  void Look(int64_t mono_ns) override;
  size_t jobs() const override { return shown_.size(); }
  const JobIdentity& job(size_t index) const override;
  absl::Span<const RankSight> ranks(size_t index) const override;
  void Inspect(size_t index, const std::vector<WantedLook>& looks) override;
  bool NextEnded(ProcessEnded* out) override;
  void TellAgain() override;
  void FillDigest(const CollectRequest& request, Digest* out) override;
  void Gather(const CollectRequest& request) override;
  bool NextEvidence(HostEvidence* out) override;

 private:
  struct Job;
  struct Ring;
  struct User {
    UserShare share;
    uint64_t next_ring = 0;  // where the next scan begins
    size_t bytes = 0;
    bool too_much = false;  // the user's rings exceed the limit, and this was logged
  };

  HostSource(const HostSourceOptions& options, Spool* spool);
  void AdoptSaved();
  bool Read(Ring* ring, bool in_flight = false);
  void SampleMarks(Ring* ring);
  bool LookAt(int64_t mono_ns, bool sample, Ring* ring);
  void Identify(Ring* ring);
  void Sort(Ring* ring);
  Job* JobOf(const std::string& base, int life);
  void Follow(Ring* ring);
  void MarkEnded(Ring* ring, const SeenEnd* end);
  void Save(Ring* ring);
  void LookAtUser(int64_t mono_ns, bool sample, const std::vector<Ring*>& rings, User* user,
                  std::vector<uint64_t>* gone);
  void FillDigestOf(const CollectRequest& request, const std::vector<Ring*>& rings, Digest* out);
  void ShowJobs(int64_t mono_ns);
  void ShowRanks(Job* job, const std::vector<Ring*>& rings);
  void Remove(uint64_t key);
  std::vector<Ring*> RingsOf(const CollectRequest& request);
  void Log(const std::string& line) const;

  const HostSourceOptions options_;
  const int64_t began_ns_;  // CLOCK_MONOTONIC
  Spool* const spool_;
  std::unique_ptr<EndWatcher> ends_;
  std::unique_ptr<HostWorkshop> workshop_;
  MarkSampler marks_;
  std::map<uint64_t, std::unique_ptr<Ring>> rings_;   // indexed by Ring::key, in order of discovery
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // indexed by serialized identity
  // Indexed by the serialized job identity without JobIdentity.life. Each ring is one sender, named by its key.
  std::map<std::string, Namesakes> namesakes_;
  std::vector<Job*> shown_;
  std::map<uid_t, User> users_;
  uint64_t next_key_ = 0;
  int64_t looked_ns_ = 0, sampled_ns_ = 0;
  std::optional<ProcessTree> tree_;  // processes of the current scan, if it samples any
  HostSourceCounters counters_;
};

}  // namespace lockstep
