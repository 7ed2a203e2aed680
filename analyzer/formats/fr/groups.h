// Builds the job's communicators from the groups in each file.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills bundle->comms, ranks_expected, and every file's Rank::memberships and world_size. operation_memberships[f][u]
// is the index in Rank::memberships of used group u in file f. `files` contains only usable files, one for each rank,
// in ascending order.
//
// A group is identified by its name and its set of members in pg_config. If a file's list of a group does not contain
// the file's rank, the list may contain ranks inside the group, so the lists of all files for this group are ignored.
// If entries refer to a group that is in no pg_config, its members are the ranks that have entries with this name and
// description. If a rank has no dump, the shape of similar groups completes the members.
//
// pg_status uses process-local numbers (pg_ids), which are matched to groups through entries of the same file. Without
// such entries, decimal names are matched by order: PyTorch numbers groups in the order of creation, so names and
// pg_ids ascend together. The order counts only if pg_config and pg_status list equally many groups, and every pair
// known from entries agrees. Otherwise a single remaining group is matched by elimination, or groups are matched
// through entries of other ranks with the same pg_ids and descriptions, if none disagree. Everything else remains
// kUnknown.
void MergeGroups(std::vector<FileData>* files, Bundle* bundle,
                 std::vector<std::vector<uint32_t>>* operation_memberships);

}  // namespace lockstep::fr
