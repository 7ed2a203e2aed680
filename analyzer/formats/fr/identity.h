// Determines each file's rank from its name and its pg_config.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// A dump does not contain its rank, so the rank comes from the file name. Files named by one rule have it at the same
// position. If a name has several numbers, the rank is one that follows the word "rank", fits the groups in pg_config,
// and differs between all files. Sets Rank::host and Rank::rank (-1 if the name has none); keeps a rank that is already
// set.
void NameRanks(std::vector<FileData>* files);

// pg_config lists the groups of a dump's process. If the name has no rank, or its rank contradicts these groups, the
// file gets the only rank that is in all of them. If several ranks are, the file is removed from `files`, and a line in
// `problems` names it and the reason. Names are kept if lists may contain numbers inside their groups. They are also
// kept if most files contradict their names, and some of those have no unique rank.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr
