// Where hosts stand - rack and switch - from a file that an administrator keeps. Two forms, told apart by content:
//   a table         one host a line: HOST RACK SWITCH, separated by commas or blanks; "-" is not known; '#' begins a
//   comment; a first
//                   line that names the columns (host, rack, switch or leaf_switch, in any order) is followed
//   topology.conf   Slurm's: SwitchName=leaf1 Nodes=node[001-032,040] ... ; lines that name Switches= only are upper
//   levels and are
//                   not used
// The file is not trusted: every size is bounded, and a line that is not understood is one problem, not the end.
#ifndef LOCKSTEP_ANALYZER_MODEL_TOPOLOGY_H_
#define LOCKSTEP_ANALYZER_MODEL_TOPOLOGY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Hosts of one file, ascending, no duplicates (the first line of a host counts). `path` is for problems.
std::vector<HostPlace> ParseTopology(std::string_view text, const std::string& path, std::vector<Problem>* problems);

// Expands Slurm's host lists: "gpu[01-03,7],login" gives gpu01 gpu02 gpu03 gpu7 login. False if it is malformed or
// names more than `limit` hosts; `hosts` then holds those parsed so far.
bool ExpandHostList(std::string_view list, size_t limit, std::vector<std::string>* hosts);

// Reads the file (at most 64 MiB). It overrides the places in the bundle's headers. NotFound, or Unavailable if it
// cannot be read; FailedPrecondition if it holds no host. Each message names the file.
absl::Status AddTopology(const std::string& path, Bundle* bundle);

// The place of a host; null if unknown. A file may use short names and the ranks full ones, or the reverse: "node7" and
// "node7.cluster.example" are the same host unless both are listed.
const HostPlace* FindPlace(const Bundle& bundle, std::string_view host);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_MODEL_TOPOLOGY_H_
