// Merges two readings of one ring; the memory of a reading.
#ifndef LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_
#define LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_

#include <cstddef>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// The memory of a snapshot, except texts.
size_t SnapshotBytes(const ring::Snapshot& snapshot);

// Adds to `into` those operations of `earlier` - the same ring, read before - that the ring has overwritten since.
// Operations with the same thread and index are the same; the later reading wins.
void MergeEarlierOps(const ring::Snapshot& earlier, ring::Snapshot* into);

// Adds the GPU's progress since the last reading of a dead process's ring to `last`, labelled as late.
void AddLateMarks(const ring::Snapshot& later, ring::Snapshot* last);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_
