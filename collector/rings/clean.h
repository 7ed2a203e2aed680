// `lockstep clean`: removes rings without a writing process.
#ifndef LOCKSTEP_COLLECTOR_RINGS_CLEAN_H_
#define LOCKSTEP_COLLECTOR_RINGS_CLEAN_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {

struct CleanOptions {
  std::string folder;                       // empty: LOCKSTEP_DIR, else the recorder's default
  int64_t older_than_s = 0;                 // only rings without a new record for this long
  std::string incidents;                    // a folder with incidents to clean too; empty: none
  int64_t keep_s = 7 * 86400;               // of these; 0: of any age
  uint64_t keep_bytes = uint64_t{5} << 30;  // 0: however large
  bool dry_run = false;
  bool any_owner = false;  // for root: rings of the owners of their folders
};

struct DeadRing {
  int64_t quiet_s = 0;  // since the last record
  uint64_t bytes = 0;   // of memory
};

struct Cleaned {
  int removed = 0, kept = 0, failed = 0;
  uint64_t bytes = 0;
  std::vector<DeadRing> dead;  // the removed ones; with dry_run those that would be
};

// Examines FOLDER/*.ring and FOLDER/*/*.ring. Never follows a link, never touches another user's file, never removes
// the ring of a process that may be running. Prints one line a ring (`out` null: nothing), and removes job folders that
// are then empty. False if the folder cannot be used.
bool CleanRings(const CleanOptions& options, FILE* out, Cleaned* cleaned, std::string* error);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_CLEAN_H_
