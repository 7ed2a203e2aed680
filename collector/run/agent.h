// The agent's part: finds the rings on this host, follows their processes, and reads digests and whole rings. It makes
// no decisions. Its results are plain values, so a transport can separate it from the collector.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/util/unique_fd.h"
#include "collector/detect/digest_view.h"
#include "collector/detect/quiet_ranks.h"
#include "collector/evidence/process_look.h"
#include "collector/host/proc.h"
#include "collector/host/process_sample.h"
#include "collector/rings/mark_sampler.h"

namespace lockstep {

// How a process exited, according to the process that reaped it.
struct ProcessEnd {
  int wait_status = -1;  // as from waitpid; -1 if unknown
  int64_t mono_ns = 0;
};

// Not thread-safe: one thread owns it.
class Agent {
 public:
  Agent() = default;
  ~Agent();

  // Watches `folder` and the folders in it. Finds existing rings at once.
  absl::Status Watch(const std::string& folder);
  // Readable (poll) when a ring appeared or a process exited; then call Handle().
  int fd() const { return epoll_.get(); }
  void Handle();
  // Takes a reaper's report, before or after the ring was found.
  void Ended(pid_t pid, const ProcessEnd& end);

  // Reads the digests of all rings with a living process. Returns the CPU time used, in nanoseconds.
  int64_t Sample();
  // Reads the state letter of every live process. For those in `still` (ascending), also CPU, I/O and wait channel; CPU
  // and I/O are differences from a sample at least a second older. Forgets the samples of the others.
  void SampleStill(const std::vector<int32_t>& still, const ProcessTree& tree);
  // Returns since when samples have seen a process idle; 0 if they have not (ProcessSampler).
  int64_t IdleSince(int32_t slot) const { return rings_[static_cast<size_t>(slot)]->sampler.idle_since_ns(); }
  // Gathers stacks and other evidence (evidence.h) of these processes in the background.
  void Inspect(const std::vector<int32_t>& slots);
  // Takes only stacks.
  void Inspect(const std::vector<WantedLook>& looks);
  // Waits for evidence of these processes that is being gathered, at most `limit_ns` in total.
  void FinishInspection(const std::vector<int32_t>& slots, int64_t limit_ns);

  size_t size() const { return rings_.size(); }
  // Returns the number of rings that were read at least once.
  size_t readable() const;
  std::vector<DigestView> Views() const;
  std::vector<const ring::Snapshot*> Digests() const;  // one per slot; never null
  const Process& process(int32_t slot) const { return rings_[static_cast<size_t>(slot)]->process; }
  const ring::Snapshot& digest(int32_t slot) const { return rings_[static_cast<size_t>(slot)]->digest; }
  int32_t SlotOf(const std::string& path) const;  // -1 if unknown

  // Returns all data: whole rings (including operations that were saved before they were overwritten), or digests with
  // operations in flight.
  std::vector<RingInput> Collect(bool whole);
  // Reads these whole rings now and keeps their operations for every later Collect(true).
  void Keep(const std::vector<int32_t>& slots);

 private:
  struct Ring {
    int32_t slot = 0;
    std::string path;
    UniqueFd fd;
    UniqueFd pidfd;
    bool readable = false;
    bool followed = false;  // the search for the ring's process has finished
    bool alive = true;
    ring::Snapshot digest;
    std::optional<ring::Snapshot> last;  // the whole ring after its process exited
    std::optional<ring::Snapshot> kept;
    Process process;
    ProcessSampler sampler;
    ProcessLook look;
    std::shared_ptr<MarkTimes> marks;  // null if there are none, or none yet
    std::string error;
  };

  void Scan(const std::string& folder, int depth);
  void Open(const std::string& path);
  void Follow(Ring* ring);
  void MarkEnded(Ring* ring, const ProcessEnd& end);
  void ReadDigest(Ring* ring);
  void Inspect(int32_t slot, const LookPlan& plan);

  UniqueFd epoll_;
  UniqueFd inotify_;
  std::string root_;
  std::map<std::string, int> watched_;
  std::map<std::string, int32_t> slots_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::map<pid_t, ProcessEnd> ends_;
  MarkSampler marks_;
};

}  // namespace lockstep
