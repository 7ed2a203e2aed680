// The positions of hosts (rack and switch), from a file that an administrator maintains. There are two formats,
// distinguished by content:
// - A table has one line for each host: HOST RACK SWITCH, separated by commas or blanks; "-" means unknown; '#'
// begins a comment. A first line may name the columns (host, rack, switch or leaf_switch) in any order.
// - Slurm's topology.conf: SwitchName=leaf1 Nodes=node[001-032,040] ... Lines that name only Switches= are upper
// levels and are ignored.
// The file is untrusted: every size is bounded. An invalid line becomes a problem, and reading continues.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Returns the hosts of one file, ascending, without duplicates (a host's first line counts). Problems name `path`.
std::vector<HostPlace> ParseTopology(std::string_view text, const std::string& path, std::vector<Problem>* problems);

// Expands Slurm's host lists: "gpu[01-03,7],login" gives gpu01 gpu02 gpu03 gpu7 login. Appends to `hosts` until it has
// `limit` entries. Returns false if more hosts follow, or if an element is malformed or does not fit; elements that are
// valid and fit are still appended.
bool ExpandHostList(std::string_view list, size_t limit, std::vector<std::string>* hosts);

// Reads the file (at most 64 MiB). The racks and switches in it override those of dump headers. Returns the errors of
// ReadWholeFile, or FailedPrecondition if it contains no host; the bundle is then unchanged. Each message names the
// file.
absl::Status AddTopology(const std::string& path, Bundle* bundle);

// Returns the position of a host; null if unknown or ambiguous. A file may use short names and the ranks full names, or
// vice versa: "node7" and "node7.cluster.example" are the same host unless both are listed.
const HostPlace* FindPlace(const Bundle& bundle, std::string_view host);

}  // namespace lockstep
