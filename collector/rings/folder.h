// The private folder for the job's rings during `lockstep run`.
#ifndef LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_
#define LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

struct RingFolder {
  std::string path;  // absolute, mode 0700
  int lock_fd = -1;  // holds the lock "in use"; close-on-exec. Closing all copies releases the folder.
};

// Creates a folder under `wanted` (the user's LOCKSTEP_DIR), or if that is empty under /dev/shm, else under TMPDIR or
// /tmp if that is a tmpfs too: a ring on a disk would make training wait for write-back. Takes the first with room for
// a ring, else the first: rings then go into memory of their processes, and only links into the folder. Also removes
// folders of runs that were killed with their keeper. Fails with the places that were tried.
absl::StatusOr<RingFolder> MakeRingFolder(const std::string& wanted);

// The requirements for a parent.
struct ParentNeeds {
  bool tmpfs = false, room = false;
};
// Under this parent. For tests.
absl::StatusOr<RingFolder> MakeRingFolderUnder(const std::string& parent, const ParentNeeds& needs);

// Removes a folder made by MakeRingFolder and everything in it, never following a link.
void RemoveRingFolder(const std::string& path);

// Removes abandoned run folders (without a lock holder) of this user under `parent`, older than `min_age_seconds`.
int SweepRingFolders(const std::string& parent, int min_age_seconds);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_
