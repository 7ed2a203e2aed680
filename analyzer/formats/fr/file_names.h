// Finds ranks and hosts in the names of Flight Recorder files. The dump itself does not contain its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fr {

// A number in the name of a file or parent folder that may be the file's rank.
struct NamedNumber {
  int32_t value = -1;
  bool after_rank = false;      // "rank_5", "rank5", "rank=5"; not "local_rank_5"
  bool in_folder = false;       // the number is in a folder's name, not in the file's
  size_t first = 0, count = 0;  // position of the number's digits in the path
};

struct FileName {
  // The path from the innermost shared folder on, with a 0 for each number and without extensions such as .pkl. Files
  // with the same shape follow one naming rule, and numbers with the same index have the same meaning in all of them.
  std::string shape;
  std::vector<NamedNumber> numbers;
};

// Returns the path up to and including its last slash.
std::string_view Folder(std::string_view path);

// `shared` is the result of SharedFolders. Only the innermost of these folders may contain the rank, after the word
// "rank".
FileName ParseFileName(std::string_view path, size_t shared);

// Returns the length of the folders that all paths share, including the last slash.
size_t SharedFolders(const std::vector<std::string>& paths);

// Returns the rank in the path of a single file: the number after the word "rank" in its name or folder, otherwise the
// last number in its name. -1 if there is none.
int32_t RankInName(std::string_view path);

// Returns the host in the file name; empty if there is none. The host is between "rank_" and the rank
// (nccl_trace_rank_node02_5), or before "_dump_" (node02_dump_5). It may also follow the rank if it begins with "node"
// or "host" (rank_5_node02.pkl).
std::string HostInName(std::string_view path, const NamedNumber& rank);

}  // namespace lockstep::fr
