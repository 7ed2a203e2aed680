// Finds ranks whose counts of calls differ from those of ranks with the same role. Counters outlive the records of the
// calls. So they still show which rank made an extra call, skipped one, or called another peer.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Returns indexes into Model::ranks, ascending: ranks with counts that never occur in the program of the ranks with
// their role, at the capture or before one of their newest `recent` - 1 recorded calls. The counts of one program only
// grow, so of any two places in it, one is earlier. A rank that is ahead in one communicator and behind in another
// skipped or added a call. So did a rank with counts between those of two consecutive recorded places. Judges only
// roles with at least three ranks. Names none of a role if more than two of its ranks, or at least half of them, have
// such counts, or if the ranks that they are compared with differ themselves.
std::vector<int32_t> FindOtherPrograms(const Model& model, size_t recent);

// Returns whether the send or receive is the only recorded call between the rank and its peer, although both exchange
// with others. Dumps of active operations do not show that. A framework has no counters by peer, so only its records
// are examined.
bool MeetNowhereElse(const Model& model, int32_t rank_index, const Op& op);

// Returns whether a rank's send or receive in flight without counterpart was meant for another member, which waits for
// such a call of this rank. Either of two facts is enough. First, the peer and that member both issued a collective
// that the rank issued after the call. Second, the peer itself waits (`peer_waits`), and the two ranks have only this
// call for each other, although both exchanged with others.
bool TookTheWrongPeer(const Model& model, int32_t rank_index, const Op& op, bool peer_waits);

}  // namespace lockstep
