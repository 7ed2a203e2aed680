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

// pg_config lists the groups that a dump's process is in. If the name has no rank, or a rank that these groups
// contradict, the file gets the only rank that is in all of them. If several ranks are in all of them, the file is
// removed from `files`. A line of `problems` names the file and the reason. Names are kept if lists may count ranks
// inside their groups. They are also kept if most files contradict their names and some of these have no unique rank.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr
