// Finds the rings in a folder on this host, follows their processes, and reads digests and whole rings. Decides
// nothing: Watch evaluates the results.
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
  int wait_status = -1;  // from waitpid; -1 if unknown
  int64_t mono_ns = 0;
};

// Not thread-safe: one thread owns it.
class Agent {
 public:
  Agent() = default;
  ~Agent();

  // Watches `folder` and two levels of folders below it. Finds existing rings at once. Call once.
  absl::Status Watch(const std::string& folder);
  // Readable (poll) when a ring appeared or a process exited; then call Handle().
  int fd() const { return epoll_.get(); }
  void Handle();
  // Records an exit that the parent process reaped, before or after the ring was found.
  void Ended(pid_t pid, const ProcessEnd& end);

  // Reads the digests of all rings with a living process. Returns the CPU time used, in nanoseconds.
  int64_t Sample();
  // Reads the state letter of every live process, and for slots in `still` (ascending) CPU, I/O and wait channel. CPU
  // and I/O are differences from an earlier sample. Forgets the samples of other slots.
  void SampleStill(const std::vector<int32_t>& still, const ProcessTree& tree);
  // Returns the monotonic time from which samples have shown the process idle; 0 if it was active or not sampled twice.
  int64_t IdleSince(int32_t slot) const { return rings_[static_cast<size_t>(slot)]->sampler.idle_since_ns(); }
  // Gathers stacks and other evidence (evidence.h) of these processes in the background.
  void Inspect(const std::vector<int32_t>& slots);
  // Takes only the stacks that QuietRanks wants.
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
  int32_t SlotOf(const std::string& path) const;  // `path`: the ring's file; -1 if unknown

  // Returns every readable ring: whole, with the operations saved by Keep(), or as a digest with operations in flight.
  std::vector<RingInput> Collect(bool whole);
  // Reads these whole rings now. Every later Collect(true) adds their operations, even if overwritten since.
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
    std::optional<ring::Snapshot> kept;  // from Keep()
    Process process;
    ProcessSampler sampler;
    ProcessLook look;
    std::shared_ptr<MarkTimes> marks;  // null until the ring has GPU progress markers
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
