// Builds the communicators of the job from the groups in each file.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_GROUPS_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_GROUPS_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills bundle->comms and ranks_expected and every file's Rank::memberships and world_size; operation_memberships[f][u]
// is the place in Rank::memberships of file f's used group u. `files` are usable, ascending by rank, one a rank.
//
// Identity: a group is its name and its set of members, as pg_config gives them; the same name with other members is
// another group. A pg_config that lists ranks without the file's own rank counts ranks inside the group and is not
// believed, for any file. Groups that entries name and no pg_config explains get as members the ranks that have entries
// of that name and description, completed by the shape of their siblings where a rank has no dump.
//
// pg_status speaks of process-local numbers. They are joined to groups through entries of the same file; else, when all
// names are decimal, by order: PyTorch numbers groups in the order of creation on every process, by name counting all
// groups and by pg_id counting the process's own, so both ascend together, and pg_config and pg_status list the same
// groups; this is used only when the counts are equal and every pair known from entries agrees. Else by elimination of
// a single one; else by ranks whose pg_ids and descriptions are all the same and whose entries tell, if none disagrees.
// What is then not decided stays kUnknown.
void MergeGroups(std::vector<FileData>* files, Bundle* bundle,
                 std::vector<std::vector<uint32_t>>* operation_memberships);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_GROUPS_H_
