// Finds ring files on a host: in the default places (/dev/shm/lockstep-UID), in the LOCKSTEP_DIR of its processes, and
// in containers with their own mounts, through /proc/PID/root. Folders stay open from discovery on, so no ring is lost
// with a container. A separate thread does the work, because a path may be on a file system that does not respond.
//
// Everything it finds is untrusted. It follows no link out of the container, except for a link to a ring in memory
// (memory_ring.h). It accepts only regular files that only their owner may write, up to the largest ring's size. The
// numbers of folders, files and examinations are limited.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

struct RingFinderOptions {
  // Folders to watch instead of the default places (each as a LOCKSTEP_DIR). If empty, watches the default places and
  // the LOCKSTEP_DIR of visible processes.
  std::vector<std::string> folders;
  bool containers = true;           // also examine processes, not only the default places
  bool all_users = false;           // rings of all users, not only of this user
  int64_t look_ns = 2'000'000'000;  // minimum interval between scans of the processes; longer if scans cost much
  std::function<void(const std::string& path)> before_path;  // for tests: called before each access to a path
};

struct FoundRing {
  UniqueFd fd;
  std::string path;  // for messages; for a container, the path inside it
  std::string name;  // without the folder
  uid_t uid = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

struct RingFinderCounters {
  uint64_t folders = 0, containers = 0;  // current numbers
  uint64_t found = 0;
  uint64_t looks = 0;  // number of scans of all processes
  uint64_t refused_kind = 0, refused_owner = 0, refused_mode = 0, refused_size = 0, refused_many = 0;
  int64_t cpu_ns = 0;
  int64_t stuck_ns = 0;  // how long a file system has not responded, so that no rings can be found; 0 if all respond
  std::string stuck_at;  // the path that does not respond
};

class RingFinder {
 public:
  // The destructor waits a moment for the thread. If the thread hangs in a file system, it is abandoned with its data.
  static absl::StatusOr<std::unique_ptr<RingFinder>> Start(const RingFinderOptions& options);
  virtual ~RingFinder() = default;

  // Readable (poll) when a ring was found.
  virtual int fd() const = 0;
  virtual bool Next(FoundRing* out) = 0;
  virtual RingFinderCounters counters() const = 0;
  // Returns whether all rings from before the start have been found.
  virtual bool settled() const = 0;
};

}  // namespace lockstep
