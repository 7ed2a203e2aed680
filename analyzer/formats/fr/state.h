// Determines the progress of a file's operations and groups from the entries' states and pg_status together.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// Fills Rank::only_active, start_recorded, records_lost, every Op's state and batch marks, and UsedGroup::progress.
// `entries_included` is true if the dump has a list of entries, possibly empty.
void DecideStates(const std::vector<RawOp>& raw, bool entries_included, FileData* file);

// Returns a group's progress according to its pg_status alone. PyTorch writes the number of the last operation there,
// collective or point-to-point; `p2p` shows which.
Progress FromStatus(const GroupStatus& status, bool p2p, bool start_recorded);

// Returns which of the two counters a number belongs to: 1 collectives, 2 point-to-point, 0 undecided. `collectives`
// and `p2ps` are the last numbers of each kind, or kUnknown.
int NearerCounter(int64_t number, int64_t collectives, int64_t p2ps);

// Returns the pg_status line for `group`; null if there is none or it is ambiguous.
const GroupStatus* StatusOf(const FileData& file, const UsedGroup& group);

}  // namespace lockstep::fr
