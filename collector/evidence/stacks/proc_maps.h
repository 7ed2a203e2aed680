// Parses /proc/PID/maps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep {

struct Mapping {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  bool readable = false, executable = false;
  bool deleted = false;  // the file was unlinked
  std::string path;      // "[stack]", "[vdso]", "" for memory without a file
};

// Skips lines that are not mappings; returns at most 65536 mappings, sorted by address.
std::vector<Mapping> ParseMaps(absl::string_view text);
std::vector<Mapping> ReadMaps(pid_t pid);

// Returns the mapping that contains the address; null if none does.
const Mapping* FindMapping(const std::vector<Mapping>& maps, uint64_t address);

// An ELF file in memory: consecutive mappings of one file, starting at the beginning of the file.
struct MappedFile {
  std::string path;
  uint64_t start = 0, end = 0;  // range of all mappings of the file
  uint64_t inode = 0;
  bool deleted = false;
  bool executable = false;  // one of the file's mappings is executable
};
std::vector<MappedFile> MappedFiles(const std::vector<Mapping>& maps);

}  // namespace lockstep
