// `lockstep clean`: removes rings without a writing process.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {

struct CleanOptions {
  std::string folder;        // empty for LOCKSTEP_DIR, or for the recorder's default if that is unset
  int64_t older_than_s = 0;  // only rings whose last record is at least this old
  bool dry_run = false;
  bool any_owner = false;  // for root: rings of their folder's owner, not of this user
};

struct DeadRing {
  int64_t quiet_s = 0;  // since the last record
  uint64_t bytes = 0;   // size in memory
};

struct Cleaned {
  int removed = 0, kept = 0, failed = 0;
  uint64_t bytes = 0;
  std::vector<DeadRing> dead;  // removed rings; with dry_run, the rings that would be removed
};

// Examines FOLDER/*.ring and FOLDER/*/*.ring. Never follows a link, never touches another user's file, and never
// removes the ring of a process that may be running. Prints one line per ring (nothing if `out` is null), and removes
// job folders that are then empty. Returns false if the folder cannot be used.
bool CleanRings(const CleanOptions& options, FILE* out, Cleaned* cleaned, std::string* error);

}  // namespace lockstep
