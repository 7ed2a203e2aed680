// /proc/PID/maps.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROC_MAPS_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROC_MAPS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep {

struct Mapping {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  bool readable = false, writable = false, executable = false;
  bool deleted = false;  // the file was unlinked
  std::string path;      // "[stack]", "[vdso]", "" for memory without a file
};

// Skips lines that are no mappings; at most `limit` mappings. Sorted by address.
std::vector<Mapping> ParseMaps(absl::string_view text, size_t limit = 65536);
std::vector<Mapping> ReadMaps(pid_t pid);

// The mapping of the address; null: none.
const Mapping* FindMapping(const std::vector<Mapping>& maps, uint64_t address);

// An ELF file in memory: consecutive mappings of one file, the first of them from its start.
struct MappedFile {
  std::string path;
  uint64_t start = 0, end = 0;  // of all its mappings
  uint64_t inode = 0;
  bool deleted = false;
  bool executable = false;  // one of them is executable
};
std::vector<MappedFile> MappedFiles(const std::vector<Mapping>& maps);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PROC_MAPS_H_
