// What the names of Flight Recorder files say of ranks and hosts. A dump does not hold its rank.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_FILE_NAMES_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_FILE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fr {

// A number in a file's name, or in the name of a folder above it, that may be the file's rank.
struct NamedNumber {
  int32_t value = -1;
  bool after_rank = false;      // "rank_5", "rank5", "rank=5"; not "local_rank_5"
  bool in_folder = false;       // not in the name of the file itself
  size_t first = 0, count = 0;  // its digits, in the path
};

struct FileName {
  // The path from the folder that all files share, each number in it replaced: files with the same shape are named by
  // one rule, and the numbers of one index mean the same in all of them.
  std::string shape;
  std::vector<NamedNumber> numbers;
};

// `shared`: how many bytes of the path name folders that hold all of the files. Of these the innermost alone may say
// the rank, and only after the word.
FileName ParseFileName(std::string_view path, size_t shared);

// The folders that all paths share, with the last slash.
size_t SharedFolders(const std::vector<std::string>& paths);

// Of one file alone: the number after the word "rank", else the last one of its own name; -1 where it has none.
int32_t RankInName(std::string_view path);

// The host that the file's name tells beside its rank: between "rank_" and the rank (nccl_trace_rank_node02_5), after
// it (rank_5_node02.pkl) or before "_dump_" (node02_dump_5); empty where none of these is there.
std::string HostInName(std::string_view path, const NamedNumber& rank);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_FILE_NAMES_H_
