// The private folder for the job's rings during `lockstep run`.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct RingFolder {
  std::string path;  // absolute, mode 0700
  int lock_fd = -1;  // holds the "in use" lock; close-on-exec. Closing all copies releases the folder.
};

// Creates a folder under `wanted` (the user's LOCKSTEP_DIR). If that is empty, tries /dev/shm, TMPDIR and /tmp, each
// only if it is a tmpfs: with a ring on a disk, training would wait for write-back. Uses the first parent with space
// for a ring. If none has space, uses the first parent; each process then keeps its ring in its own memory, and the
// folder contains only links. Also removes the folders of runs that were killed together with their keeper. Fails with
// a list of the parents that were tried.
absl::StatusOr<RingFolder> MakeRingFolder(const std::string& wanted);

// What a parent folder must provide.
struct ParentNeeds {
  bool tmpfs = false, room = false;
};
// Creates the folder under this parent, for tests.
absl::StatusOr<RingFolder> MakeRingFolderUnder(const std::string& parent, const ParentNeeds& needs);

// Removes a folder made by MakeRingFolder and everything in it, without following links.
void RemoveRingFolder(const std::string& path);

// Removes run folders of this user under `parent` that are older than `min_age_seconds` and not locked. Returns how
// many.
int SweepRingFolders(const std::string& parent, int min_age_seconds);

}  // namespace lockstep
