// Determines the rank of each file, from its name and its pg_config.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// A dump does not hold its rank. Files named by one rule hold it at the same place of the name: of several numbers the
// one that follows the word "rank", that fits the groups of pg_config and that no two files share. Sets Rank::rank (-1:
// the name says none) and Rank::host; a rank that is set already stays.
void NameRanks(std::vector<FileData>* files);

// pg_config lists the groups that a dump's process is in. Where these cannot be those of the rank in the file's name,
// or the name says none, the file gets the one rank that is in all of them, or is taken out of `files` where several
// are. A line of `problems` says which and why. Names stay where lists may count inside their groups, or where no more
// files agree with their names than do not and some of these have no rank of their own.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_
