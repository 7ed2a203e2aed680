// Converts the data of files into the ranks of a bundle.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Fills the empty bundle's ranks, communicators and string tables. `files` are usable, one for each rank, ascending by
// rank. The files' problems are added to `problems`.
void AddRanks(std::vector<FileData> files, Bundle* bundle, std::vector<Problem>* problems);

}  // namespace lockstep::fr
