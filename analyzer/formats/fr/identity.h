// Determines the rank of each file, from its name and its pg_config.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// A dump does not contain its rank, so the rank comes from the file's name. In files that are named by one rule, it is
// at the same place of the name. If a name has several numbers, the rank is the number that follows the word "rank",
// fits the groups of pg_config, and differs between all files. Sets Rank::rank (-1 if the name has none) and
// Rank::host; a rank that is already set stays.
void NameRanks(std::vector<FileData>* files);

// pg_config lists the groups that a dump's process is in. If these cannot be the groups of the rank in the file's name,
// or the name has no rank, the file gets the only rank that is in all of them. If several ranks are, the file is
// removed from `files`. A line of `problems` names the file and the reason. Names are kept if lists may count ranks
// inside their groups, or if the files that agree with their names are not a majority and some of the others have no
// unique rank.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr
