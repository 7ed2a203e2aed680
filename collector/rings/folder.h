// The private folder that the job's rings lie in while `lockstep run` lives.
#ifndef LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_
#define LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

struct RingFolder {
  std::string path;  // absolute, mode 0700
  int lock_fd = -1;  // holds the lock that says "in use"; close-on-exec. Closing it (everywhere) gives the folder up.
};

// Makes a folder under `wanted` (the user's LOCKSTEP_DIR) or, when that is empty, under /dev/shm, else under TMPDIR or
// /tmp where that is a tmpfs too: a ring on a disk would make training wait for write-back. Of these the first with
// room for a ring, else the first: then rings go into memory of their processes, and only links into the folder. Also
// removes folders of runs that were killed together with their keeper. Fails with what was tried when no place will do.
absl::StatusOr<RingFolder> MakeRingFolder(const std::string& wanted);

// What a parent must be.
struct ParentNeeds {
  bool tmpfs = false, room = false;
};
// Under this parent. For tests.
absl::StatusOr<RingFolder> MakeRingFolderUnder(const std::string& parent, const ParentNeeds& needs);

// Removes a folder made by MakeRingFolder and everything in it, never following a link.
void RemoveRingFolder(const std::string& path);

// Removes abandoned run folders (nobody holds their lock) of this user under `parent`, older than `min_age_seconds`.
int SweepRingFolders(const std::string& parent, int min_age_seconds);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_FOLDER_H_
