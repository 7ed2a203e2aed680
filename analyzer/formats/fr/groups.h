// Builds the communicators of the job from the groups in each file.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills bundle->comms and ranks_expected, and every file's Rank::memberships and world_size.
// operation_memberships[f][u] is the index in Rank::memberships of used group u of file f. `files` are usable,
// ascending by rank, one for each rank.
//
// Identity: a group is identified by its name and its set of members in pg_config; the same name with other members is
// another group. If a pg_config lists ranks without the file's own rank, it counts ranks inside the group, and is
// ignored for all files. For groups that entries name and no pg_config contains, the members are the ranks that have
// entries with that name and description. If a rank has no dump, the shape of similar groups completes them.
//
// pg_status uses process-local numbers. They are matched to groups through entries of the same file. If there are none
// and all names are decimal, they are matched by order. PyTorch numbers groups in the order of creation on every
// process: names count all groups, and pg_ids count the process's own. So both ascend together, and pg_config and
// pg_status list the same groups. This is used only if the counts are equal and every pair known from entries agrees.
// Otherwise a single remaining group is matched by elimination, or by ranks with the same pg_ids and descriptions whose
// entries show the match, if none disagrees. Everything else stays kUnknown.
void MergeGroups(std::vector<FileData>* files, Bundle* bundle,
                 std::vector<std::vector<uint32_t>>* operation_memberships);

}  // namespace lockstep::fr
