// Whether a file's name gives the rank that its content is of.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// A dump does not hold its rank, but its pg_config lists the groups that its process is in. Where these cannot be those
// of the rank in the file's name, the file gets the one rank that is in all of them, or is taken out of `files` where
// several are. A line of `problems` says which and why. Nothing is done where lists may count inside their groups, or
// where no more files agree with their names than do not and some of these have no rank of their own.
void CorrectRanks(std::vector<FileData>* files, std::vector<Problem>* problems);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_IDENTITY_H_
