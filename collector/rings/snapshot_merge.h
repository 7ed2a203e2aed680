// Joins what was read of one ring at two times; what it takes.
#ifndef LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_
#define LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_

#include <cstddef>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// Memory that it takes, but for texts.
size_t SnapshotBytes(const ring::Snapshot& snapshot);

// Adds to `into` the operations of `earlier` - the same ring, read before - that the ring has overwritten since. An
// operation is the same when its thread and its index in it are; the later reading of it is kept.
void MergeEarlierOps(const ring::Snapshot& earlier, ring::Snapshot* into);

// What the GPU has reached since a dead process's ring was read for the last time: into `last`, labelled as late.
void AddLateMarks(const ring::Snapshot& later, ring::Snapshot* last);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_SNAPSHOT_MERGE_H_
