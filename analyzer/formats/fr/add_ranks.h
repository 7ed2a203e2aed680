// Converts the data of files into the ranks of a bundle.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/older.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// Gets the calls of each file that were left out although members disagree on them (older.h), and adds them to the
// files.
using ReadAgain = std::function<void(const std::vector<std::vector<CallRange>>&, std::vector<FileData>*)>;

// Fills the empty bundle's ranks, communicators and string tables. `files` are usable, one for each rank, ascending by
// rank. The files' problems are added to `problems`. `read_again` may be empty if nothing was left out of the files.
void AddRanks(std::vector<FileData> files, const ReadAgain& read_again, Bundle* bundle, std::vector<Problem>* problems);

}  // namespace lockstep::fr
