// Converts each rank's data into the ranks of a bundle.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills the empty bundle's ranks, communicators and tables of texts. `files` are usable, ascending by rank, one for
// each rank. Problems of the files are added to `problems`.
void AddRanks(std::vector<FileData> files, Bundle* bundle, std::vector<Problem>* problems);

}  // namespace lockstep::fr
