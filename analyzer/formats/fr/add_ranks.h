// Turns the data read of each rank into the ranks of a bundle.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_ADD_RANKS_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_ADD_RANKS_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills the empty bundle's ranks, communicators and tables of texts. `files` are usable, ascending by rank, one a rank.
// Problems of the files go to `problems`.
void AddRanks(std::vector<FileData> files, Bundle* bundle, std::vector<Problem>* problems);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_ADD_RANKS_H_
