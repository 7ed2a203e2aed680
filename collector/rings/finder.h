// Finds ring files of a host: in the default places (/dev/shm/lockstep-UID), in what LOCKSTEP_DIR of its processes
// says, and in containers with mounts of their own, through /proc/PID/root. Folders are held open from discovery, so a
// container that goes away takes nothing with it. A thread of its own does it: a path may lie on a file system that
// does not answer.
//
// Everything found is hostile: folders and files are opened without following links out of the container (but for a
// link to a ring in memory, memory_ring.h), only regular files of at most the largest ring's size that nobody but their
// owner may write are taken, and the numbers of folders, files and looks are bounded.
#ifndef LOCKSTEP_COLLECTOR_RINGS_FINDER_H_
#define LOCKSTEP_COLLECTOR_RINGS_FINDER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

struct RingFinderOptions {
  // Watched instead of the default places (each as a LOCKSTEP_DIR); empty: the default places, and LOCKSTEP_DIR of
  // visible processes.
  std::vector<std::string> folders;
  bool containers = true;           // examine processes; otherwise only the default places
  bool all_users = false;           // rings of every user; otherwise of our own
  int64_t look_ns = 2'000'000'000;  // minimum interval between looks at the processes; longer if they cost more
  std::function<void(const std::string& path)>
      before_path;  // for tests: called before a path of another user is touched
};

struct FoundRing {
  int fd = -1;       // the receiver must close it
  std::string path;  // for messages; inside a container the container's path
  std::string name;  // without folders
  uid_t uid = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

struct RingFinderCounters {
  uint64_t folders = 0, containers = 0;  // now
  uint64_t found = 0;
  uint64_t looks = 0;  // at every process
  uint64_t refused_kind = 0, refused_owner = 0, refused_mode = 0, refused_size = 0, refused_many = 0;
  uint64_t unwatched = 0;  // folders that are listed repeatedly, because no inotify watch was available
  int64_t cpu_ns = 0;
  int64_t stuck_ns = 0;  // how long a file system has not answered, so that no rings are found; 0: not
  std::string stuck_at;  // the path
};

class RingFinder {
 public:
  // The destructor waits a moment for the thread. A thread that hangs in a file system is left behind with its data.
  static absl::StatusOr<std::unique_ptr<RingFinder>> Start(const RingFinderOptions& options);
  virtual ~RingFinder() = default;

  // Readable (poll) when a ring was found.
  virtual int fd() const = 0;
  virtual bool Next(FoundRing* out) = 0;
  virtual RingFinderCounters counters() const = 0;
  // Rings from before the start have been found.
  virtual bool settled() const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_FINDER_H_
