// Determines each file's rank from its name and its pg_config.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Sets Rank::host and Rank::rank from file names, because dumps do not contain ranks; -1 if a name has none. Keeps a
// rank that is already set. Files named by one rule have the rank at the same position. If a name has several numbers,
// the rank is the one that best fits the groups in pg_config, follows the word "rank" and differs between files. It may
// also consist of the host's number and a number inside the host.
void NameRanks(std::vector<FileData>* files);

// pg_config lists the groups of a dump's process. If the name has no rank, or its rank contradicts these groups, the
// file gets the only rank that is in all of them. Without such a rank, the file is removed from `files`, and a problem
// gives the reason. Lists that may number ranks within their group prove nothing. If at least as many files contradict
// their names as confirm them, and those that contradict do not each get their own rank, all names are kept.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr
